"""The command `prsrank propensity`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from prsrank.cli.arguments import Json, Seed, print_json, working
from prsrank.cli.log_inputs import FoldInputs
from prsrank.cli.log_options import Spark, find_runner
from prsrank.errors import InputError
from prsrank.fit.engine import EngineLog
from prsrank.fit.local import LocalLog
from prsrank.logs.pieces import Extent, LocalPieces
from prsrank.propensity.context import estimate_by_context
from prsrank.propensity.curve import MOST_POSITIONS, Propensities, covering
from prsrank.propensity.estimators import estimator
from prsrank.propensity.sampled_clicks import DOCS_FOR_JUDGING
from prsrank.propensity.tempering import Tempering, temper_sampled
from prsrank.report.numbers import fixed_text
from prsrank.report.propensity_figure import plot_propensities
from prsrank.types import Estimator

_SHOWN = 20
_SETTINGS = ("positions", "shape", "eta")


@dataclass(frozen=True)
class _Curve:
    """What is estimated, and how."""

    method: Annotated[
        list[str],
        typer.Option(
            help="{estimators}. Given several times: all are plotted, the first is the result."
        ),
    ]
    positions: int | None = typer.Option(
        None,
        min=1,
        max=MOST_POSITIONS,
        help="Estimate positions 1 to this one; default all, 2,000 at most.",
    )
    shape: str | None = typer.Option(None, help="Fit the curve to a shape: {shapes}.")
    eta: float = typer.Option(1.0, help="For the method known: p_k = (1/k)^eta.")
    context: str | None = typer.Option(
        None, metavar="COLUMN", help="A curve for each value of a column."
    )

    cover: bool = typer.Option(
        False,
        "--cover",
        help="Give a position without an estimate, or with one of few clicks, that of the position "
        "above, as fit does.",
    )

    def covered(self, curves: dict[str, Propensities], depth: int) -> dict[str, Propensities]:
        """Return curves that know all positions, if that is asked for, where they are known."""
        return {
            name: covering(curve, depth) if self.cover and not curve.verdict.unknown else curve
            for name, curve in curves.items()
        }

    def estimator(self, name: str) -> "Estimator":
        """Return the estimator with these settings, as far as it takes them."""
        chosen: Any = estimator(name)
        own = {field.name for field in fields(chosen)}
        known = {name: getattr(self, name) for name in _SETTINGS if name in own}
        if self.shape is not None and "shape" not in known:
            raise InputError(f"the method {name} takes no shape")
        changed: Estimator = replace(chosen, **known)
        return changed


def propensity(
    inputs: FoldInputs,
    curve: _Curve,
    out: Path | None = typer.Option(
        None, metavar="FILE", help="Write the curve as JSON, for train."
    ),
    plot: Path | None = typer.Option(None, metavar="FILE", help="Draw it: .html, .png or .svg."),
    spark: Spark = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    r"""Estimate the observation propensity of each position from a click log.

    With features (--data, --features, or columns that the mapping names) the clicks then judge
    each curve: which power of it they look like. Exit code 1: the log does not identify the curve.

    \b
    Examples:
      prsrank propensity log.parquet --method randomised --out propensity.json
      prsrank propensity log.parquet --method harvest --method regression-em --plot curves.png
      prsrank propensity log.parquet --method known --eta 2 --features features.parquet
    """
    estimates = _estimates(inputs, curve, spark, seed)
    result, check = estimates[curve.method[0]]
    # a curve of nothing is not written: what would read it could only fail
    if out is not None and not result.verdict.unknown:
        result.save(out)
    named = dict(_named(estimates, curve.context))
    drawn = {name: drawn for name, (drawn, _) in named.items() if not drawn.verdict.unknown}
    if plot is not None and drawn:
        plot_propensities(drawn, plot)
    if json:
        judged = {} if check is None else {"check": check.to_json_dict()}
        print_json(result.to_json_dict() | judged)
    else:
        for name, estimate in named.items():
            _show(name, *estimate)
    if result.verdict.unknown:
        raise typer.Exit(1)


_Estimate = tuple[Propensities, Tempering | None]


def _named(estimates: dict[str, _Estimate], context: str | None) -> Iterator[tuple[str, _Estimate]]:
    """Yield the curves by the names to show: each method's, and then those of its contexts."""
    for name, (curve, check) in estimates.items():
        yield name, (curve, check)
        for value, own in curve.contexts.items():
            yield f"{name}, {context} {value}", (own, None)


def _estimates(
    inputs: FoldInputs, asked: _Curve, spark: str | None, seed: int
) -> dict[str, _Estimate]:
    """Return each method's curve, and what the clicks say of it."""
    estimators = {name: asked.estimator(name) for name in asked.method}
    context, lists = asked.context, inputs.dataset("train")
    if lists is None and context is None:
        return _by_sessions(inputs, asked, estimators, spark, seed)
    if spark is not None:
        raise InputError("--data and --context do not run on Spark")
    clicks = inputs.clicks(None if context is None else [context])
    with working(f"estimating: {', '.join(estimators)}"):
        if context is not None:
            by_value = partial(estimate_by_context, clicks, dataset=lists, seed=seed)
            return {
                name: (by_value(one, context=context), None) for name, one in estimators.items()
            }
        curves = {
            n: one.estimate(clicks, dataset=lists, seed=seed) for n, one in estimators.items()
        }
        curves = asked.covered(curves, clicks.max_position)
    log = None if lists is None else LocalLog(LocalPieces([clicks]), lists).covered()
    return _checked(curves, log, seed)


def _by_sessions(
    inputs: FoldInputs,
    asked: _Curve,
    estimators: dict[str, Estimator],
    spark: str | None,
    seed: int,
) -> dict[str, _Estimate]:
    """Estimate from sessions alone, wherever and in however many pieces they lie."""
    table = inputs.table
    with find_runner(spark) as runner, inputs.opened(runner) as source:
        with working(f"reading {inputs.path}"):
            pieces = runner.sessions(source)
        with working(f"estimating: {', '.join(estimators)}"):
            curves = {n: one.estimate_pieces(pieces, seed=seed) for n, one in estimators.items()}
            if asked.cover:
                curves = asked.covered(curves, pieces.total(Extent.of).depth)
        log = None
        if table is not None or (source.features and spark is None):
            with working(f"reading {inputs.path}"):
                # features of a doc may change between sessions, which then have lists of their own
                by = "query" if table is not None else "session"
                log = runner.load(source, mapping=inputs.meaning(), table=table, lists=by)
        return _checked(curves, log, seed)


def _checked(
    curves: dict[str, Propensities], log: EngineLog | None, seed: int
) -> dict[str, _Estimate]:
    """Let the clicks of sessions with lists judge each curve, if there are any."""
    if log is None:
        return {name: (curve, None) for name, curve in curves.items()}
    with working("checking by the clicks"):
        sampled = log.counted(DOCS_FOR_JUDGING)
        return {
            name: (curve, temper_sampled(curve, sampled, seed=seed))
            for name, curve in curves.items()
        }


def _show(name: str, curve: "Propensities", check: Tempering | None) -> None:
    typer.echo(f"{name}: {curve.verdict}")
    if curve.verdict.unknown:
        return
    typer.echo("position  propensity        95 % interval      clicks")
    for k in range(min(curve.positions, _SHOWN)):
        p, low, high = (_number(x[k]) for x in (curve.propensity, curve.low, curve.high))
        interval = f"{low:>9} to {high:>7}" if "-" not in (low, high) else f"{'no interval':>20}"
        typer.echo(f"{k + 1:>8}  {p:>10}  {interval}  {curve.clicks[k]:>10,}")
    if curve.positions > _SHOWN:
        typer.echo(f"     ... and {curve.positions - _SHOWN} more (--json shows all)")
    if check is not None:
        typer.echo(f"{name}: {check.sentence}")


def _number(value: float) -> str:
    return fixed_text(value) if math.isfinite(value) else "-"
