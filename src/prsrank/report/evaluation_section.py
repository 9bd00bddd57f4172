"""An evaluation on held-out clicks as text, and as a section of the report."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from prsrank.evaluation.log_evaluation import LogEvaluation
from prsrank.evaluation.results import (
    ALL,
    CLIPPED,
    DOUBLY_ROBUST,
    LOGGED,
    CounterfactualEvaluation,
    Difference,
    Estimate,
)
from prsrank.notebook.vega_lite import plain_number
from prsrank.report.numbers import fixed_text, range_text
from prsrank.report.parts import Part, figure, section, series, table

ESTIMATORS = {
    "ips": "inverse propensity",
    "snips": "self-normalised",
    CLIPPED: "clipped",
    DOUBLY_ROBUST: "doubly robust",
}
"""Estimators as a page calls them: "ips" is a ranker there."""

_NO_ROBUST = (
    "is left out, for this engine does not learn relevance from the features of held-out docs"
)


def report_lines(result: LogEvaluation) -> Iterator[str]:
    """Yield the lines of a plain text report; warnings last."""
    evaluation = result.evaluation
    whole = evaluation.diagnostics[0]
    yield (
        f"{whole.sessions:,} sessions of {whole.queries:,} queries, {whole.clicks:,} clicks worth "
        f"{whole.effective_clicks:,.0f} of equal weight; the heaviest 1 % hold "
        f"{whole.heaviest_share:.0%} of the weight"
    )
    yield ""
    yield f"{'metric':<10}{'estimator':<11}{'ranker':<20}{'estimate':>9}  {_percent(evaluation)} interval"
    for estimate in evaluation.estimates:
        if estimate.part == ALL:
            yield _estimate_line(estimate)
    yield ""
    yield f"{'metric':<10}{'estimator':<11}{'clicks':<20}difference, {_percent(evaluation)} interval, p"
    for difference in _shown_differences(evaluation):
        yield _difference_line(difference)
    if evaluation.tau:
        yield ""
        yield (
            f"clipped: tau {evaluation.tau:g} clips {whole.clipped_clicks:.1%} of the clicks and takes "
            f"away {whole.cut_weight:.1%} of the weight (bias)"
        )
    if not _has_robust(evaluation):
        yield f"dr: {_NO_ROBUST}"
    yield from (f"warning: {warning}" for warning in result.warnings)


def _has_robust(evaluation: CounterfactualEvaluation) -> bool:
    return any(estimate.estimator == DOUBLY_ROBUST for estimate in evaluation.estimates)


def _percent(evaluation: CounterfactualEvaluation) -> str:
    return f"{100 * evaluation.confidence:g} %"


def _estimate_line(estimate: Estimate) -> str:
    return (
        f"{estimate.metric:<10}{estimate.estimator:<11}{estimate.ranker:<20}{estimate.value:>9.4f}  "
        f"{range_text(estimate.low, estimate.high)}"
    )


def _shown_differences(evaluation: CounterfactualEvaluation) -> list[Difference]:
    """Return all differences over all clicks, and those of parts by one estimator."""
    first = {d.metric: d.estimator for d in reversed(evaluation.differences)}
    return [d for d in evaluation.differences if d.part == ALL or d.estimator == first[d.metric]]


def _difference_line(difference: Difference) -> str:
    relative = f" ({difference.relative:+.1%})" if math.isfinite(difference.relative) else ""
    return (
        f"{difference.metric:<10}{difference.estimator:<11}{difference.part:<20}{difference.ranker} - {difference.against}: "
        f"{fixed_text(difference.difference, '+.4f')}{relative}, "
        f"{range_text(difference.low, difference.high, '+.4f')}, p {difference.p_value:.3f}"
    )


def report_section(result: LogEvaluation) -> Part:
    """Return the evaluation as a section of the HTML report, a plain dict."""
    evaluation = result.evaluation
    return section(
        "counterfactual",
        "Estimated gain",
        text=[
            "What the rankers would have earned on the sessions of a held-out log, had they ranked "
            "the docs that were shown. Clicks are weighted by 1 / propensity; the doubly robust "
            "estimate "
            + (
                "corrects relevance from features by them"
                if _has_robust(evaluation)
                else _NO_ROBUST
            )
            + ". Intervals are bootstrapped over queries, and know how uncertain an estimated "
            "curve is."
        ],
        figures=[_gain_figure(evaluation, evaluation.estimates[0].metric)],
        tables=[_estimate_table(evaluation), _difference_table(evaluation)],
        details=[_weight_details(result)],
        notes=list(result.warnings),
    )


def _gain_figure(evaluation: CounterfactualEvaluation, metric: str) -> Part:
    shown = [d for d in evaluation.differences if d.metric == metric and d.estimator != CLIPPED]
    first = shown[0].estimator if shown else ""
    pairs: dict[str, dict[str, list[Difference]]] = {}
    for difference in (d for d in shown if d.estimator == first):
        pairs.setdefault(difference.against, {}).setdefault(difference.ranker, []).append(
            difference
        )
    panels = {
        f"against {against}": [
            series(name, [(d.part, d.difference, d.low, d.high) for d in rows])
            for name, rows in by_ranker.items()
        ]
        for against, by_ranker in pairs.items()
    }
    return figure(
        "estimated-gain",
        f"Estimated difference in {metric}, {ESTIMATORS[first]}",
        ("clicks", f"difference in {metric}"),
        panels,
        kind="intervals",
        scale="ordinal",
        caption=f"With {_percent(evaluation)} intervals, for all clicks and for parts of them.",
        alt=f"Estimated differences in {metric} between rankers, with intervals",
    )


def gain_figure(evaluation: CounterfactualEvaluation, chosen: str, base: str, metric: str) -> Part:
    """Return what all rankers gain over the baseline, and the chosen one over the others.

    Args:
        evaluation: the evaluation, over all clicks.
        chosen: name of the ranker that is shipped.
        base: name of the baseline.
        metric: the metric.
    """
    kind = evaluation.narrowest
    others = [name for name in evaluation.rankers if name not in (chosen, base, LOGGED)]
    gains = [
        evaluation.difference(n, metric, against=base, estimator=kind) for n in (chosen, *others)
    ]
    leads = [evaluation.difference(chosen, metric, against=n, estimator=kind) for n in others]
    panels = {f"Each ranker less {base}": _named(gains, "ranker")}
    if leads:
        panels[f"{chosen} less the others"] = _named(leads, "against")
    return figure(
        "gain",
        f"Estimated gain in {metric} on held-out clicks",
        ("", f"difference in {metric}"),
        panels,
        kind="intervals",
        scale="ordinal",
        caption=f"Estimator: {ESTIMATORS[kind]}, with {_percent(evaluation)} intervals. An interval "
        "to the right of the dashed line is a gain that the clicks show.",
        alt=f"Gain in {metric} of {chosen} and other rankers over {base}, with intervals",
    )


def _named(rows: Sequence[Difference], name: str) -> list[Part]:
    """Return a series for each difference, called by one of its two rankers."""
    return [
        series(getattr(d, name), [(getattr(d, name), d.difference, d.low, d.high)]) for d in rows
    ]


def _estimate_table(evaluation: CounterfactualEvaluation) -> Part:
    rows = [
        [e.ranker, e.metric, ESTIMATORS[e.estimator]]
        + [plain_number(v) for v in (e.value, e.low, e.high)]
        for e in evaluation.estimates
        if e.part == ALL
    ]
    columns = ["ranker", "metric", "estimator", "estimate", "low", "high"]
    caption = f"Values with {_percent(evaluation)} intervals; clipped at tau = {evaluation.tau:g}."
    return table("estimates", "Estimates over all clicks", columns, rows, caption=caption)


def _difference_table(evaluation: CounterfactualEvaluation) -> Part:
    rows = [
        [d.part, d.metric, ESTIMATORS[d.estimator], d.ranker, d.against]
        + [plain_number(v) for v in (d.difference, d.low, d.high, d.relative, d.p_value)]
        for d in evaluation.differences
    ]
    columns = [
        *("clicks", "metric", "estimator", "ranker", "against"),
        *("difference", "low", "high", "relative", "p"),
    ]
    caption = "Paired over queries; p is two-sided."
    return table("differences", "Differences, by clicks", columns, rows, caption=caption)


def _weight_details(result: LogEvaluation) -> Part:
    whole = result.evaluation.diagnostics[0]
    rows: list[list[Any]] = [
        ["sessions", whole.sessions],
        ["sessions left out", result.left_out],
        ["queries", whole.queries],
        ["clicks", whole.clicks],
        ["effective clicks", round(whole.effective_clicks, 1)],
        ["effective queries", round(whole.effective_queries, 1)],
        ["weight of the heaviest 1 % of clicks", f"{whole.heaviest_share:.1%}"],
        ["largest weight", round(whole.largest_weight, 3)],
        ["clipped clicks", f"{whole.clipped_clicks:.1%}"],
        ["weight taken away by the clip", f"{whole.cut_weight:.1%}"],
    ]
    return {"title": "Weights of the clicks", "rows": rows}
