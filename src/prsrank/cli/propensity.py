"""The command `prsrank propensity`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prsrank.cli.inputs import LogInputs
from prsrank.cli.options import Json, Where
from prsrank.cli.output import show, working
from prsrank.errors import InputError
from prsrank.propensity.context import estimate_by_context
from prsrank.propensity.curve import Propensities
from prsrank.propensity.curve_of import parse_propensity
from prsrank.propensity.estimators import estimator
from prsrank.report.numbers import fixed_text
from prsrank.types import Estimator

if TYPE_CHECKING:
    from prsrank.fit.log import PiecedLog
    from prsrank.propensity.tempering import Tempering

_SHOWN = 20


@dataclass(frozen=True)
class _Curve:
    """What is estimated, and how."""

    method: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="power:ETA, p_k = (1/k)^ETA; or {estimators}. Given several times: all are plotted, "
            "the first is the result.",
        ),
    ]
    shape: str | None = typer.Option(None, help="Fit the curve to a shape: {shapes}.")
    context: str | None = typer.Option(
        None, metavar="COLUMN", help="A curve for each value of a column."
    )

    def estimator(self, name: str) -> Estimator:
        """Return the estimator with these settings."""
        chosen: Any = estimator("known" if name.startswith("power:") else name)
        if name.startswith("power:"):
            curve: Any = parse_propensity(name)
            chosen = replace(chosen, eta=curve.eta)
        if self.shape is not None:
            if "shape" not in {field.name for field in fields(chosen)}:
                raise InputError(f"the method {name} takes no shape")
            chosen = replace(chosen, shape=self.shape)
        changed: Estimator = chosen
        return changed


def propensity(
    inputs: LogInputs,
    curve: _Curve,
    where: Where,
    out: Path | None = typer.Option(
        None, metavar="FILE", help="Write the curve as JSON, for train."
    ),
    plot: Path | None = typer.Option(None, metavar="FILE", help="Draw it: .html, .png or .svg."),
    json: Json = False,
) -> None:
    r"""Estimate the observation propensity of each position from a click log.

    With features (--data, --features, or columns that the mapping names) the clicks then judge
    each curve: which power of it they look like. Exit code 1: the log does not identify the curve.

    \b
    Examples:
      prsrank propensity log.parquet --method randomised --out propensity.json
      prsrank propensity log.parquet --method harvest --method regression-em --plot curves.png
      prsrank propensity log.parquet --method power:2 --features features.parquet
    """
    estimates = _estimates(inputs, curve, where)
    result, check = estimates[curve.method[0]]
    # a curve of nothing is not written: what would read it could only fail
    if out is not None and not result.verdict.unknown:
        result.save(out)
    named = dict(_named(estimates, curve.context))
    drawn = {name: drawn for name, (drawn, _) in named.items() if not drawn.verdict.unknown}
    if plot is not None and drawn:
        from prsrank.report.propensity_figure import plot_propensities

        plot_propensities(drawn, plot)
    lines = [line for name, estimate in named.items() for line in _lines(name, *estimate)]
    judged = {} if check is None else {"check": check.to_json_dict()}
    show(lines, result.to_json_dict() | judged, json=json)
    if result.verdict.unknown:
        raise typer.Exit(1)


_Estimate = tuple[Propensities, "Tempering | None"]


def _named(estimates: dict[str, _Estimate], context: str | None) -> Iterator[tuple[str, _Estimate]]:
    """Yield the curves by the names to show: each method's, and then those of its contexts."""
    for name, (curve, check) in estimates.items():
        yield name, (curve, check)
        for value, own in curve.contexts.items():
            yield f"{name}, {context} {value}", (own, None)


def _estimates(inputs: LogInputs, asked: _Curve, where: Where) -> dict[str, _Estimate]:
    """Return each method's curve, and what the clicks say of it."""
    estimators = {name: asked.estimator(name) for name in asked.method}
    context, lists = asked.context, inputs.dataset("train")
    if lists is None and context is None:
        return _by_sessions(inputs, estimators, where)
    if where.spark:
        raise InputError("--data and --context do not run on Spark")
    clicks = inputs.clicks(None if context is None else [context])
    with working(f"estimating: {', '.join(estimators)}"):
        if context is not None:
            by_value = partial(estimate_by_context, clicks, context=context, dataset=lists)
            return {name: (by_value(method), None) for name, method in estimators.items()}
        curves = {name: m.estimate(clicks, dataset=lists) for name, m in estimators.items()}
    if lists is None:
        return _checked(curves, None)
    from prsrank.fit.log import PiecedLog  # all that trains and evaluates

    return _checked(curves, PiecedLog.of([clicks], lists).covered())


def _by_sessions(
    inputs: LogInputs, estimators: dict[str, Estimator], where: Where
) -> dict[str, _Estimate]:
    """Estimate from sessions alone, wherever and in however many pieces they lie."""
    table = inputs.table
    with where.engine() as engine, inputs.opened(engine) as source:
        with working(f"reading {inputs.path}"):
            pieces = engine.sessions(source)
        with working(f"estimating: {', '.join(estimators)}"):
            curves = {name: method.estimate_pieces(pieces) for name, method in estimators.items()}
        log = None
        if table is not None or (source.features and not where.spark):
            with working(f"reading {inputs.path}"):
                # features of a doc may change between sessions, which then have lists of their own
                by = "query" if table is not None else "session"
                log = engine.load(source, mapping=inputs.meaning(), table=table, lists=by)
        return _checked(curves, log)


def _checked(curves: dict[str, Propensities], log: "PiecedLog | None") -> dict[str, _Estimate]:
    """Let the clicks of sessions with lists judge each curve, if there are any."""
    if log is None:
        return {name: (curve, None) for name, curve in curves.items()}
    from prsrank.propensity.counted_clicks import DOCS_FOR_JUDGING
    from prsrank.propensity.tempering import temper_sampled

    with working("checking by the clicks"):
        sampled = log.counted(DOCS_FOR_JUDGING)
        return {name: (curve, temper_sampled(curve, sampled)) for name, curve in curves.items()}


def _lines(name: str, curve: Propensities, check: "Tempering | None") -> Iterator[str]:
    yield f"{name}: {curve.verdict}"
    if curve.verdict.unknown:
        return
    yield "position  propensity        95 % interval      clicks"
    for k in range(min(curve.positions, _SHOWN)):
        p, low, high = (_number(x[k]) for x in (curve.propensity, curve.low, curve.high))
        interval = f"{low:>9} to {high:>7}" if "-" not in (low, high) else f"{'no interval':>20}"
        yield f"{k + 1:>8}  {p:>10}  {interval}  {curve.clicks[k]:>10,}"
    if curve.positions > _SHOWN:
        yield f"     ... and {curve.positions - _SHOWN} more (--json shows all)"
    if check is not None:
        yield f"{name}: {check.sentence}"


def _number(value: float) -> str:
    return fixed_text(value) if math.isfinite(value) else "-"
