"""An evaluation on held-out clicks as text, and as a section of the report."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from prsrank.evaluation.log_evaluation import CLIPPED, LogEvaluation
from prsrank.evaluation.results import ALL, CounterfactualEvaluation, Difference, Estimate
from prsrank.report.numbers import plain_number
from prsrank.report.parts import Part, section, series, table


def report_lines(result: LogEvaluation) -> Iterator[str]:
    """Yield the lines of a plain text report; warnings last."""
    found = result.evaluation
    whole = found.diagnostics[0]
    yield (
        f"{whole.sessions:,} sessions of {whole.queries:,} queries, {whole.clicks:,} clicks worth "
        f"{whole.effective_clicks:,.0f} of equal weight; the heaviest 1 % hold "
        f"{whole.heaviest_share:.0%} of the weight"
    )
    yield ""
    yield f"{'metric':<10}{'estimator':<11}{'ranker':<20}{'estimate':>9}  {_percent(found)} interval"
    for one in found.estimates:
        if one.part == ALL:
            yield _estimate_line(one)
    yield ""
    yield f"{'metric':<10}{'estimator':<11}{'clicks':<20}difference, {_percent(found)} interval, p"
    for difference in _shown_differences(found):
        yield _difference_line(difference)
    if found.tau:
        yield ""
        yield (
            f"clipped: tau {found.tau:g} clips {whole.clipped_clicks:.1%} of the clicks and takes "
            f"away {whole.cut_weight:.1%} of the weight (bias)"
        )
    yield from (f"warning: {warning}" for warning in result.warnings)


def _percent(found: CounterfactualEvaluation) -> str:
    return f"{100 * found.confidence:g} %"


def _estimate_line(one: Estimate) -> str:
    return (
        f"{one.metric:<10}{one.estimator:<11}{one.ranker:<20}{one.value:>9.4f}  "
        f"{one.low:.4f} to {one.high:.4f}"
    )


def _shown_differences(found: CounterfactualEvaluation) -> list[Difference]:
    """Return all differences over all clicks, and those of parts by one estimator."""
    first = {d.metric: d.estimator for d in reversed(found.differences)}
    return [d for d in found.differences if d.part == ALL or d.estimator == first[d.metric]]


def _difference_line(one: Difference) -> str:
    relative = f" ({one.relative:+.1%})" if math.isfinite(one.relative) else ""
    return (
        f"{one.metric:<10}{one.estimator:<11}{one.part:<20}{one.ranker} - {one.against}: "
        f"{one.difference:+.4f}{relative}, {one.low:+.4f} to {one.high:+.4f}, p {one.p_value:.3f}"
    )


def report_section(result: LogEvaluation, *, title: str = "Estimated gain") -> Part:
    """Return the evaluation as a section of the HTML report, a plain dict."""
    found = result.evaluation
    return section(
        "counterfactual",
        title,
        text=[
            "What the rankers would have earned on the sessions of a held-out log, had they ranked "
            "the docs that were shown. Clicks are weighted by 1 / propensity; intervals are "
            "bootstrapped over queries."
        ],
        figures=[_gain_figure(found, found.estimates[0].metric)],
        tables=[_estimate_table(found), _difference_table(found)],
        details=[_weight_details(result)],
        notes=list(result.warnings),
    )


def _gain_figure(found: CounterfactualEvaluation, metric: str) -> Part:
    shown = [d for d in found.differences if d.metric == metric and d.estimator != CLIPPED]
    first = shown[0].estimator if shown else ""
    pairs: dict[str, dict[str, list[Difference]]] = {}
    for one in (d for d in shown if d.estimator == first):
        pairs.setdefault(one.against, {}).setdefault(one.ranker, []).append(one)
    panels = [
        {
            "title": f"against {against}",
            "series": [_series(name, rows) for name, rows in by_ranker.items()],
        }
        for against, by_ranker in pairs.items()
    ]
    return {
        "id": "estimated-gain",
        "title": f"Estimated difference in {metric} ({first})",
        "caption": f"With {_percent(found)} intervals, for all clicks and for parts of them.",
        "alt": f"Estimated differences in {metric} between rankers, with intervals",
        "x": {"title": "clicks", "scale": "ordinal"},
        "y": {"title": f"difference in {metric}", "zero": True},
        "kind": "intervals",
        "panels": panels,
    }


def _series(name: str, rows: Sequence[Difference]) -> Part:
    y, low, high = (
        [plain_number(getattr(one, key)) for one in rows] for key in ("difference", "low", "high")
    )
    return series(name, [one.part for one in rows], y, low, high)


def _estimate_table(found: CounterfactualEvaluation) -> Part:
    rows = [
        [e.metric, e.estimator, e.ranker, *map(plain_number, (e.value, e.low, e.high))]
        for e in found.estimates
        if e.part == ALL
    ]
    columns = ["metric", "estimator", "ranker", "estimate", "low", "high"]
    caption = f"Values with {_percent(found)} intervals; clipped at tau = {found.tau:g}."
    return table("estimates", "Estimates over all clicks", columns, rows, caption=caption)


def _difference_table(found: CounterfactualEvaluation) -> Part:
    rows = [
        [d.part, d.metric, d.estimator, d.ranker, d.against]
        + [plain_number(v) for v in (d.difference, d.low, d.high, d.relative, d.p_value)]
        for d in found.differences
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
