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
)
from prsrank.report.numbers import fixed_text, range_text
from prsrank.report.parts import Part, figure, section, series, table

ESTIMATORS = {
    "ips": "inverse propensity",
    "snips": "self-normalised",
    CLIPPED: "clipped",
    DOUBLY_ROBUST: "doubly robust",
}
"""Estimators as a page calls them: "ips" is a ranker there."""


def report_lines(result: LogEvaluation) -> Iterator[str]:
    """Yield the lines of a plain text report; warnings last."""
    evaluation = result.evaluation
    whole, percent = evaluation.diagnostics[0], _percent(evaluation)
    yield (
        f"{whole.sessions:,} sessions of {whole.queries:,} queries, {whole.clicks:,} clicks worth "
        f"{whole.effective_clicks:,.0f} of equal weight; the heaviest 1 % hold "
        f"{whole.heaviest_share:.0%} of the weight"
    )
    yield ""
    yield f"{'metric':<10}{'estimator':<11}{'ranker':<20}{'estimate':>9}  {percent} interval"
    for e in evaluation.estimates:
        if e.part == ALL:
            yield (
                f"{e.metric:<10}{e.estimator:<11}{e.ranker:<20}{e.value:>9.4f}  "
                f"{range_text(e.low, e.high)}"
            )
    yield ""
    yield f"{'metric':<10}{'estimator':<11}{'clicks':<20}difference, {percent} interval, p"
    first = {d.metric: d.estimator for d in reversed(evaluation.differences)}
    for d in evaluation.differences:
        if d.part == ALL or d.estimator == first[d.metric]:  # parts by one estimator
            relative = f" ({d.relative:+.1%})" if math.isfinite(d.relative) else ""
            yield (
                f"{d.metric:<10}{d.estimator:<11}{d.part:<20}{d.ranker} - {d.against}: "
                f"{fixed_text(d.difference, '+.4f')}{relative}, "
                f"{range_text(d.low, d.high, '+.4f')}, p {d.p_value:.3f}"
            )
    if evaluation.tau:
        yield ""
        yield (
            f"clipped: tau {evaluation.tau:g} clips {whole.clipped_clicks:.1%} of the clicks and takes "
            f"away {whole.cut_weight:.1%} of the weight (bias)"
        )
    yield from (f"warning: {warning}" for warning in result.warnings)


def _percent(evaluation: CounterfactualEvaluation) -> str:
    return f"{100 * evaluation.confidence:g} %"


def report_section(result: LogEvaluation) -> Part:
    """Return the evaluation as a section of the HTML report, a plain dict."""
    evaluation = result.evaluation
    return section(
        "counterfactual",
        "Estimated gain",
        text=[
            "What the rankers would have earned on the sessions of a held-out log, had they ranked "
            "the docs that were shown. Clicks are weighted by 1 / propensity; the doubly robust "
            "estimate corrects relevance from features by them. Intervals are bootstrapped over "
            "queries, and know how uncertain an estimated curve is."
        ],
        figures=[_parts_figure(evaluation)],
        tables=[_estimate_table(evaluation), _difference_table(evaluation)],
        details=[_weight_details(result)],
        notes=list(result.warnings),
    )


def _parts_figure(evaluation: CounterfactualEvaluation) -> Part:
    """Return the differences over all clicks and over parts, in the first metric."""
    metric = evaluation.estimates[0].metric
    shown = [d for d in evaluation.differences if d.metric == metric and d.estimator != CLIPPED]
    first = shown[0].estimator if shown else ""
    panels: dict[str, dict[str, list[Difference]]] = {}
    for d in shown:
        if d.estimator == first:
            panels.setdefault(f"against {d.against}", {}).setdefault(d.ranker, []).append(d)
    drawn = {
        title: [
            series(ranker, [(d.part, d.difference, d.low, d.high) for d in rows])
            for ranker, rows in by_ranker.items()
        ]
        for title, by_ranker in panels.items()
    }
    title = f"Estimated difference in {metric}, {ESTIMATORS[first]}"
    caption = f"With {_percent(evaluation)} intervals, for all clicks and for parts of them."
    return _intervals(
        "estimated-gain", title, ("clicks", f"difference in {metric}"), drawn, caption
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

    def less(ranker: str, against: str, name: str) -> Part:
        d = evaluation.difference(ranker, metric, against=against, estimator=kind)
        return series(name, [(name, d.difference, d.low, d.high)])

    panels = {f"Each ranker less {base}": [less(name, base, name) for name in (chosen, *others)]}
    if others:
        panels[f"{chosen} less the others"] = [less(chosen, name, name) for name in others]
    caption = (
        f"Estimator: {ESTIMATORS[kind]}, with {_percent(evaluation)} intervals. An interval to the "
        "right of the dashed line is a gain that the clicks show."
    )
    title = f"Estimated gain in {metric} on held-out clicks"
    return _intervals("gain", title, ("", f"difference in {metric}"), panels, caption)


def _intervals(
    name: str, title: str, axes: tuple[str, str], panels: dict[str, list[Part]], caption: str
) -> Part:
    kind, scale = "intervals", "ordinal"
    return figure(name, title, axes, panels, kind=kind, scale=scale, caption=caption)


def _estimate_table(evaluation: CounterfactualEvaluation) -> Part:
    rows = [
        (e.ranker, e.metric, ESTIMATORS[e.estimator], e.value, e.low, e.high)
        for e in evaluation.estimates
        if e.part == ALL
    ]
    columns = ["ranker", "metric", "estimator", "estimate", "low", "high"]
    caption = f"Values with {_percent(evaluation)} intervals; clipped at tau = {evaluation.tau:g}."
    return table("estimates", "Estimates over all clicks", columns, rows, caption=caption)


def _difference_table(evaluation: CounterfactualEvaluation) -> Part:
    rows = [
        (
            *(d.part, d.metric, ESTIMATORS[d.estimator], d.ranker, d.against),
            *(d.difference, d.low, d.high, d.relative, d.p_value),
        )
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
    rows: Sequence[Sequence[Any]] = [
        ["sessions left out", result.left_out],
        ["clicks", whole.clicks],
        ["effective clicks", round(whole.effective_clicks, 1)],
        ["effective queries", round(whole.effective_queries, 1)],
        ["weight of the heaviest 1 % of clicks", f"{whole.heaviest_share:.1%}"],
        ["largest weight", round(whole.largest_weight, 3)],
        ["clipped clicks", f"{whole.clipped_clicks:.1%}"],
        ["weight taken away by the clip", f"{whole.cut_weight:.1%}"],
    ]
    return {"title": "Weights of the clicks", "rows": rows}
