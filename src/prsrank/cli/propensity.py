"""The command `prsrank propensity`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from prsrank.cli.inputs import LogInputs
from prsrank.cli.options import Json, Where, show, working
from prsrank.errors import InputError
from prsrank.propensity.context import estimate_by_context
from prsrank.propensity.curve import Propensities
from prsrank.propensity.curve_of import KnownPropensity, parse_propensity
from prsrank.propensity.estimators import estimator
from prsrank.report.numbers import fixed_text, range_text

if TYPE_CHECKING:
    from prsrank.propensity.counted_clicks import SampledClicks
    from prsrank.propensity.tempering import Tempering

_SHOWN = 20


def propensity(
    inputs: LogInputs,
    where: Where,
    method: list[str],
    shape: str | None = None,
    context: str | None = None,
    out: Path | None = None,
    plot: Path | None = None,
    json: Json = False,
) -> None:
    r"""Estimate the observation propensity of each position from a click log.

    With features (--data, --features, or columns that the mapping names) the clicks then judge
    each curve: which power of it they look like. Exit code 1: the log does not identify the curve.

    Args:
        method (NAME): power:ETA, p_k = (1/k)^ETA; or {estimators}. Given several times: all are
            plotted, the first is the result.
        shape: Fit the curve to a shape: {shapes}.
        context (COLUMN): A curve for each value of a column.
        out (FILE): Write the curve as JSON, for train.
        plot (FILE): Draw it: .html, .png or .svg.

    \b
    Examples:
      prsrank propensity log.parquet --method randomised --out propensity.json
      prsrank propensity log.parquet --method harvest --method regression-em --plot curves.png
      prsrank propensity log.parquet --method power:2 --features features.parquet
    """
    estimators = {name: _estimator(name, shape) for name in method}
    estimates, sampled = _estimated(inputs, estimators, context, where)
    checks: dict[str, Tempering | None] = {}
    if sampled is not None:
        from prsrank.propensity.tempering import temper_sampled

        with working("checking by the clicks"):
            checks = {name: temper_sampled(each, sampled) for name, each in estimates.items()}
    result = estimates[method[0]]
    # a curve of nothing is not written: what would read it could only fail
    if out is not None and not result.verdict.unknown:
        result.save(out)
    named = {}
    for name, estimate in estimates.items():
        named[name] = estimate
        for value, of_value in estimate.contexts.items():
            named[f"{name}, {context} {value}"] = of_value
    drawn = {name: each for name, each in named.items() if not each.verdict.unknown}
    if plot is not None and drawn:
        from prsrank.report.propensity_figure import plot_propensities

        plot_propensities(drawn, plot)
    lines = [line for name, each in named.items() for line in _lines(name, each, checks.get(name))]
    check = checks.get(method[0])
    judged = {} if check is None else {"check": check.to_json_dict()}
    show(lines, result.to_json_dict() | judged, json=json)
    if result.verdict.unknown:
        raise typer.Exit(1)


def _estimator(name: str, shape: str | None) -> Any:
    """Return the estimator of a name, which fits its curve to a shape if one is named."""
    power: Any = parse_propensity(name) if name.startswith("power:") else None
    chosen: Any = estimator(name) if power is None else KnownPropensity(eta=power.eta)
    if shape is None:
        return chosen
    if not hasattr(chosen, "shape"):
        raise InputError(f"the method {name} takes no shape")
    return replace(chosen, shape=shape)


def _estimated(
    inputs: LogInputs, estimators: dict[str, Any], context: str | None, where: Where
) -> "tuple[dict[str, Propensities], SampledClicks | None]":
    """Return each method's curve, and the clicks on docs with features that judge it, if any."""
    lists = inputs.dataset("train")
    if lists is None and context is None:
        return _by_sessions(inputs, estimators, where)
    if where.spark:
        raise InputError("--data and --context do not run on Spark")
    clicks = inputs.clicks(*([] if context is None else [context]))
    with working(f"estimating: {', '.join(estimators)}"):
        if context is not None:
            return {
                name: estimate_by_context(clicks, method, context, dataset=lists)
                for name, method in estimators.items()
            }, None
        curves = {name: m.estimate(clicks, dataset=lists) for name, m in estimators.items()}
    from prsrank.fit.log import PiecedLog  # all that trains and evaluates

    assert lists is not None  # noqa: S101 - or there is a context
    return curves, _sampled(PiecedLog.of([clicks], lists).covered())


def _by_sessions(
    inputs: LogInputs, estimators: dict[str, Any], where: Where
) -> "tuple[dict[str, Propensities], SampledClicks | None]":
    """Estimate from sessions alone, wherever and in however many pieces they lie."""
    table = inputs.table
    with where.engine() as engine, inputs.opened(engine) as source:
        with working(f"reading {inputs.path}"):
            pieces = engine.sessions(source)
        with working(f"estimating: {', '.join(estimators)}"):
            curves = {name: method.estimate_pieces(pieces) for name, method in estimators.items()}
        if table is None and (where.spark or not source.features):
            return curves, None
        with working(f"reading {inputs.path}"):
            # features of a doc may change between sessions, which then have lists of their own
            mapping = replace(inputs.meaning(), lists="session")
            return curves, _sampled(engine.load(source, mapping=mapping, table=table))


def _sampled(log: Any) -> "SampledClicks":
    from prsrank.propensity.counted_clicks import DOCS_FOR_JUDGING

    sampled: SampledClicks = log.counted(DOCS_FOR_JUDGING)
    return sampled


def _lines(name: str, curve: Propensities, check: "Tempering | None") -> Iterator[str]:
    yield f"{name}: {curve.verdict}"
    if curve.verdict.unknown:
        return
    yield "position  propensity        95 % interval      clicks"
    for k in range(min(curve.positions, _SHOWN)):
        p = fixed_text(curve.propensity[k]) if np.isfinite(curve.propensity[k]) else "-"
        interval = range_text(curve.low[k], curve.high[k])
        yield f"{k + 1:>8}  {p:>10}  {interval:>20}  {curve.clicks[k]:>10,}"
    if curve.positions > _SHOWN:
        yield f"     ... and {curve.positions - _SHOWN} more (--json shows all)"
    if check is not None:
        yield f"{name}: {check.sentence}"
