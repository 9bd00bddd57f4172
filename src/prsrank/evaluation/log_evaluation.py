"""Evaluations on held-out clicks for people: all estimators together, as text or report section."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.click_sums import ClickSums, sum_clicks
from prsrank.evaluation.counterfactual import evaluation_of_sums
from prsrank.evaluation.results import (
    ALL,
    LOGGED,
    CounterfactualEvaluation,
    Difference,
    Estimate,
)
from prsrank.evaluation.warnings import estimate_warnings
from prsrank.logs.click_log import ClickLog
from prsrank.logs.coverage import covered_sessions
from prsrank.propensity.curve import PropensityCurve

CLIPPED = "clipped"
DEFAULT_TAU = 0.05
DEFAULT_METRICS = ("dcg@10", "wmrr", "arp")


@dataclass(frozen=True)
class LogEvaluation:
    """Estimates from a held-out log and whether they can be trusted.

    Attributes:
        evaluation: estimates by "ips", "snips" and "clipped"; diagnostics of the unclipped
            weights, with what the clip would take away.
        warnings: why the estimates cannot be trusted; empty if they can.
        left_out: sessions that show docs which the data set does not have.
    """

    evaluation: CounterfactualEvaluation
    warnings: tuple[str, ...]
    left_out: int

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts; a number that is not finite becomes None."""
        return self.evaluation.to_json_dict() | {
            "warnings": list(self.warnings),
            "left_out_sessions": self.left_out,
        }


def evaluate_on_log(
    log: ClickLog,
    dataset: RankingDataset,
    propensities: PropensityCurve | None,
    rankers: Mapping[str, npt.ArrayLike],
    *,
    against: str | Sequence[str] = LOGGED,
    metrics: Sequence[str] = DEFAULT_METRICS,
    tau: float = DEFAULT_TAU,
    context: str | None = None,
    trained_on: str | None = None,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> LogEvaluation:
    """Estimate metrics of rankers by all estimators, and say whether to trust them.

    "ips" and "snips" as in `evaluate_counterfactual`, without clip; "clipped" is "ips" (for
    wmrr "snips") with propensities raised to at least `tau`: less variance, some bias.
    Sessions that show docs which the data set lacks are left out and counted.

    Args:
        log: held-out sessions.
        dataset: the lists, with the features of the log's docs.
        propensities: a curve, or None for the propensities in the log.
        rankers: scores of each doc of the data set, by ranker.
        against: with which to compare each ranker: "logged", another's name, or several.
        metrics: as for `evaluate_counterfactual`.
        tau: clip of the clipped estimates; 0 leaves them out.
        context: context column: its values are parts, and may have curves of their own.
        trained_on: name of a ranker that was trained on this log, for the warning.
        samples: number of bootstrap samples.
        seed: their seed.
        confidence: share of the intervals.
    """
    covered = covered_sessions(log, dataset)
    if not covered.any():
        log.doc_rows(dataset)  # says which query or doc is missing
        raise InputError("the log has no sessions")
    used = log if covered.all() else log.select(covered)

    def sums(clip: float) -> ClickSums:
        options = {"context": context, "by": context, "tau": clip}
        return sum_clicks(used, dataset, propensities, rankers, metrics=metrics, **options)  # type: ignore[arg-type]

    return evaluation_of(
        sums(0.0),
        sums(tau) if tau > 0 else None,
        propensities,
        against=against,
        left_out=log.sessions - used.sessions,
        trained_on=trained_on,
        samples=samples,
        seed=seed,
        confidence=confidence,
    )


def evaluation_of(
    free: ClickSums,
    clipped: ClickSums | None,
    propensities: PropensityCurve | None,
    *,
    against: str | Sequence[str] = LOGGED,
    left_out: int = 0,
    trained_on: str | None = None,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> LogEvaluation:
    """Return what `evaluate_on_log` does, from sums without a clip and with one."""
    options: dict[str, Any] = {
        "against": against,
        "samples": samples,
        "seed": seed,
        "confidence": confidence,
    }
    found = evaluation_of_sums(free, **options)
    if clipped is not None:
        found = _joined(found, evaluation_of_sums(clipped, estimators=["ips"], **options))
    warnings = estimate_warnings(
        found.diagnostics[0], free, propensities, left_out=left_out, trained_on=trained_on
    )
    return LogEvaluation(found, warnings, left_out)


def _joined(
    free: CounterfactualEvaluation, clipped: CounterfactualEvaluation
) -> CounterfactualEvaluation:
    cut = zip(free.diagnostics, clipped.diagnostics, strict=True)
    return replace(
        free,
        estimates=free.estimates + tuple(replace(e, estimator=CLIPPED) for e in clipped.estimates),
        differences=free.differences
        + tuple(replace(d, estimator=CLIPPED) for d in clipped.differences),
        diagnostics=tuple(
            replace(d, clipped_clicks=c.clipped_clicks, cut_weight=c.cut_weight) for d, c in cut
        ),
        tau=clipped.tau,
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


def report_section(result: LogEvaluation, *, title: str = "Estimated gain") -> dict[str, Any]:
    """Return the evaluation as a section of the HTML report, a plain dict."""
    found = result.evaluation
    return {
        "id": "counterfactual",
        "title": title,
        "claim": None,
        "verdict": None,
        "text": [
            "What the rankers would have earned on the sessions of a held-out log, had they ranked "
            "the docs that were shown. Clicks are weighted by 1 / propensity; intervals are "
            "bootstrapped over queries."
        ],
        "figures": [_gain_figure(found, metric) for metric in _metrics(found)[:1]],
        "tables": [_estimate_table(found), _difference_table(found)],
        "details": [_weight_details(result)],
        "notes": list(result.warnings),
    }


def _metrics(found: CounterfactualEvaluation) -> list[str]:
    return list(dict.fromkeys(one.metric for one in found.estimates))


def _gain_figure(found: CounterfactualEvaluation, metric: str) -> dict[str, Any]:
    shown = [d for d in found.differences if d.metric == metric and d.estimator != CLIPPED]
    first = shown[0].estimator if shown else ""
    panels = []
    for against in dict.fromkeys(d.against for d in shown):
        of_ranker: dict[str, list[Difference]] = {}
        for one in shown:
            if one.against == against and one.estimator == first:
                of_ranker.setdefault(one.ranker, []).append(one)
        panels.append(
            {
                "title": f"against {against}",
                "series": [_series(name, rows) for name, rows in of_ranker.items()],
            }
        )
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


def _series(name: str, rows: Sequence[Difference]) -> dict[str, Any]:
    return {
        "name": name,
        "x": [one.part for one in rows],
        "y": [_number(one.difference) for one in rows],
        "low": [_number(one.low) for one in rows],
        "high": [_number(one.high) for one in rows],
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _estimate_table(found: CounterfactualEvaluation) -> dict[str, Any]:
    return {
        "id": "estimates",
        "title": "Estimates over all clicks",
        "caption": f"Values with {_percent(found)} intervals; clipped at tau = {found.tau:g}.",
        "columns": ["metric", "estimator", "ranker", "estimate", "low", "high"],
        "rows": [
            [e.metric, e.estimator, e.ranker, *map(_number, (e.value, e.low, e.high))]
            for e in found.estimates
            if e.part == ALL
        ],
    }


def _difference_table(found: CounterfactualEvaluation) -> dict[str, Any]:
    return {
        "id": "differences",
        "title": "Differences, by clicks",
        "caption": "Paired over queries; p is two-sided.",
        "columns": [
            "clicks",
            "metric",
            "estimator",
            "ranker",
            "against",
            "difference",
            "low",
            "high",
            "relative",
            "p",
        ],
        "rows": [
            [d.part, d.metric, d.estimator, d.ranker, d.against]
            + [_number(v) for v in (d.difference, d.low, d.high, d.relative, d.p_value)]
            for d in found.differences
        ],
    }


def _weight_details(result: LogEvaluation) -> dict[str, Any]:
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
