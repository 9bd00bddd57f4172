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
    if not _has_robust(found):
        yield f"dr: {_NO_ROBUST}"
    yield from (f"warning: {warning}" for warning in result.warnings)


def _has_robust(found: CounterfactualEvaluation) -> bool:
    return any(one.estimator == DOUBLY_ROBUST for one in found.estimates)


def _percent(found: CounterfactualEvaluation) -> str:
    return f"{100 * found.confidence:g} %"


def _estimate_line(one: Estimate) -> str:
    return (
        f"{one.metric:<10}{one.estimator:<11}{one.ranker:<20}{one.value:>9.4f}  "
        f"{range_text(one.low, one.high)}"
    )


def _shown_differences(found: CounterfactualEvaluation) -> list[Difference]:
    """Return all differences over all clicks, and those of parts by one estimator."""
    first = {d.metric: d.estimator for d in reversed(found.differences)}
    return [d for d in found.differences if d.part == ALL or d.estimator == first[d.metric]]


def _difference_line(one: Difference) -> str:
    relative = f" ({one.relative:+.1%})" if math.isfinite(one.relative) else ""
    return (
        f"{one.metric:<10}{one.estimator:<11}{one.part:<20}{one.ranker} - {one.against}: "
        f"{fixed_text(one.difference, '+.4f')}{relative}, "
        f"{range_text(one.low, one.high, '+.4f')}, p {one.p_value:.3f}"
    )


def report_section(result: LogEvaluation) -> Part:
    """Return the evaluation as a section of the HTML report, a plain dict."""
    found = result.evaluation
    return section(
        "counterfactual",
        "Estimated gain",
        text=[
            "What the rankers would have earned on the sessions of a held-out log, had they ranked "
            "the docs that were shown. Clicks are weighted by 1 / propensity; the doubly robust "
            "estimate "
            + ("corrects relevance from features by them" if _has_robust(found) else _NO_ROBUST)
            + ". Intervals are bootstrapped over queries, and know how uncertain an estimated "
            "curve is."
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
        caption=f"With {_percent(found)} intervals, for all clicks and for parts of them.",
        alt=f"Estimated differences in {metric} between rankers, with intervals",
    )


def gain_figure(found: CounterfactualEvaluation, chosen: str, base: str, metric: str) -> Part:
    """Return what all rankers gain over the baseline, and the chosen one over the others.

    Args:
        found: the evaluation, over all clicks.
        chosen: name of the ranker that is shipped.
        base: name of the baseline.
        metric: the metric.
    """
    kind = found.narrowest
    others = [name for name in found.rankers if name not in (chosen, base, LOGGED)]
    gains = [found.difference(n, metric, against=base, estimator=kind) for n in (chosen, *others)]
    leads = [found.difference(chosen, metric, against=n, estimator=kind) for n in others]
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
        caption=f"Estimator: {ESTIMATORS[kind]}, with {_percent(found)} intervals. An interval "
        "to the right of the dashed line is a gain that the clicks show.",
        alt=f"Gain in {metric} of {chosen} and other rankers over {base}, with intervals",
    )


def _named(rows: Sequence[Difference], name: str) -> list[Part]:
    """Return a series for each difference, called by one of its two rankers."""
    return [
        series(getattr(d, name), [(getattr(d, name), d.difference, d.low, d.high)]) for d in rows
    ]


def _estimate_table(found: CounterfactualEvaluation) -> Part:
    rows = [
        [e.ranker, e.metric, ESTIMATORS[e.estimator]]
        + [plain_number(v) for v in (e.value, e.low, e.high)]
        for e in found.estimates
        if e.part == ALL
    ]
    columns = ["ranker", "metric", "estimator", "estimate", "low", "high"]
    caption = f"Values with {_percent(found)} intervals; clipped at tau = {found.tau:g}."
    return table("estimates", "Estimates over all clicks", columns, rows, caption=caption)


def _difference_table(found: CounterfactualEvaluation) -> Part:
    rows = [
        [d.part, d.metric, ESTIMATORS[d.estimator], d.ranker, d.against]
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
