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
from prsrank.propensity.curve import Propensities, covering
from prsrank.propensity.curve_of import KnownPropensity, parse_propensity
from prsrank.propensity.estimators import estimator
from prsrank.report.numbers import fixed_text, range_text

if TYPE_CHECKING:
    from prsrank.data.dataset import RankingDataset
    from prsrank.pairs.click_choice import ClickChoice
    from prsrank.propensity.counted_clicks import SampledClicks
    from prsrank.propensity.tempering import Tempering

    _Estimated = tuple[dict[str, Propensities], SampledClicks | None, ClickChoice | None]

_SHOWN = 20
_ASSUMED = "click model: position-based, taken for granted: neither features nor a log in memory"
_DOCS_FOR_MODELS = 300_000


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
    estimates, sampled, choice = _estimated(inputs, estimators, context, where)
    checks: dict[str, Tempering | None] = {}
    if sampled is not None:
        from prsrank.propensity.tempering import temper_sampled

        with working("checking by the clicks"):
            checks = {name: temper_sampled(each, sampled) for name, each in estimates.items()}
        for name, check in checks.items():
            if check is not None:
                estimates[name] = check.left(estimates[name])
    result = estimates[method[0]]
    models = [] if choice is None else choice.perplexities()
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

        plot_propensities(drawn, plot, models=models)
    sentence = _ASSUMED if choice is None else choice.sentence
    lines = [
        *([] if result.verdict.unknown else [sentence]),
        *(line for name, each in named.items() for line in _lines(name, each, checks.get(name))),
        *_model_lines(models),
    ]
    check = checks.get(method[0])
    judged: dict[str, Any] = {"click_model": sentence, "click_models": models}
    if check is not None:
        judged["check"] = check.to_json_dict()
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
) -> "_Estimated":
    """Return each method's curve, the clicks on docs with features that judge it, and a click model."""
    lists = inputs.dataset("train")
    if lists is None and context is None:
        return _by_sessions(inputs, estimators, where)
    if where.spark:
        raise InputError("--data and --context do not run on Spark")
    clicks = inputs.clicks(*([] if context is None else [context]))
    with working(f"estimating: {', '.join(estimators)}"):
        if context is not None:
            return (
                {
                    name: estimate_by_context(clicks, method, context, dataset=lists)
                    for name, method in estimators.items()
                },
                None,
                None,
            )
        curves = {name: m.estimate(clicks, dataset=lists) for name, m in estimators.items()}
    from prsrank.fit.log import PiecedLog  # all that trains and evaluates

    assert lists is not None  # noqa: S101 - or there is a context
    log = PiecedLog.of([clicks], lists).covered()
    return curves, _sampled(log), _compared(log.taught, log.lists, curves)


def _by_sessions(inputs: LogInputs, estimators: dict[str, Any], where: Where) -> "_Estimated":
    """Estimate from sessions alone, wherever and in however many pieces they lie."""
    table = inputs.table
    with where.engine() as engine, inputs.opened(engine) as source:
        with working(f"reading {inputs.path}"):
            pieces = engine.sessions(source)
        with working(f"estimating: {', '.join(estimators)}"):
            curves = {name: method.estimate_pieces(pieces) for name, method in estimators.items()}
        if table is None and (where.spark or not source.features):
            return curves, None, _compared_without_features(pieces, curves)
        with working(f"reading {inputs.path}"):
            # features of a doc may change between sessions, which then have lists of their own
            mapping = replace(inputs.meaning(), lists="session")
            log = engine.load(source, mapping=mapping, table=table)
            some = replace(log, share=min(1.0, _DOCS_FOR_MODELS / max(log.sessions.docs(), 1)))
            return curves, _sampled(log), _compared(some.taught, some.lists, curves)


def _compared(
    log: Any, lists: "RankingDataset", curves: dict[str, Propensities]
) -> "ClickChoice | None":
    """Let whole sessions say which click model they show, by the first curve; None without one."""
    from prsrank.pairs.doc_clicks import DocClicks
    from prsrank.pairs.posterior import posterior_of_clicks
    from prsrank.propensity.tempering import JUDGE

    first = next(iter(curves.values()))
    if first.verdict.unknown:
        return None
    with working("comparing click models"):
        curve = covering(first, first.positions)
        clicks = DocClicks.of(log, lists, curve)
        if not clicks.counted.cells.clicked.any():
            return None
        return posterior_of_clicks(clicks, lists, prior=JUDGE, every_model=True).choice


def _compared_without_features(
    pieces: Any, curves: dict[str, Propensities]
) -> "ClickChoice | None":
    from prsrank.evaluation.judgements import lists_by_position

    if getattr(pieces, "held", 0) != 1:
        return None
    (log,) = pieces
    return _compared([log], lists_by_position(log), curves)


def _sampled(log: Any) -> "SampledClicks":
    from prsrank.propensity.counted_clicks import DOCS_FOR_JUDGING

    sampled: SampledClicks = log.counted(DOCS_FOR_JUDGING)
    return sampled


def _model_lines(models: list[dict[str, Any]]) -> Iterator[str]:
    if models:
        yield "click model     log-likelihood of an impression  perplexity  at position 1, 2, ..."
    for row in sorted(models, key=lambda row: -row["log_likelihood"]):
        each = " ".join(fixed_text(value, ".3f") for value in row["by_position"])
        likelihood, perplexity = row["log_likelihood"], row["perplexity"]
        yield f"{row['click_model']:<14}  {likelihood:>31.4f}  {perplexity:>10.4f}  {each}"


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
