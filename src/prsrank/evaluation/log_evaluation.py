"""Evaluations on held-out clicks: all estimators together, and whether to trust them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.click_sums import ClickSums, sum_clicks
from prsrank.evaluation.counterfactual import evaluation_of_sums
from prsrank.evaluation.curve_doubt import CurveDoubt
from prsrank.evaluation.doc_sums import Regression, sum_docs
from prsrank.evaluation.query_bootstrap import Sampling
from prsrank.evaluation.results import (
    CLIPPED,
    DOUBLY_ROBUST,
    LOGGED,
    CounterfactualEvaluation,
)
from prsrank.evaluation.warnings import estimate_warnings
from prsrank.logs.click_log import LogOrFrame, as_click_log
from prsrank.logs.coverage import covered_log
from prsrank.notebook import Chart, Columns, Shown
from prsrank.propensity.curve import PropensityCurve

DEFAULT_TAU = 0.05
DEFAULT_METRICS = ("dcg@10", "wmrr", "arp")


@dataclass(frozen=True, repr=False)
class LogEvaluation(Shown):
    """Estimates from a held-out log and whether they can be trusted.

    Attributes:
        evaluation: estimates by "ips", "snips", "clipped" and "dr"; diagnostics of the
            unclipped weights, with what the clip would take away.
        warnings: why the estimates cannot be trusted; empty if they can.
        left_out: sessions that show docs which the data set does not have.
    """

    evaluation: CounterfactualEvaluation
    warnings: tuple[str, ...]
    left_out: int

    def _line(self) -> str:
        return "; ".join([self.evaluation._line(), *self.warnings])

    def _table(self) -> Columns:
        return self.evaluation._table()

    def _chart(self) -> Chart:
        return self.evaluation._chart()

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts; a number that is not finite becomes None."""
        return self.evaluation.to_json_dict() | {
            "warnings": list(self.warnings),
            "left_out_sessions": self.left_out,
        }


def evaluate_on_log(
    log: LogOrFrame,
    dataset: RankingDataset,
    propensities: PropensityCurve | None,
    rankers: Mapping[str, npt.ArrayLike],
    *,
    against: str | Sequence[str] = LOGGED,
    metrics: Sequence[str] = DEFAULT_METRICS,
    tau: float = DEFAULT_TAU,
    context: str | None = None,
    trained_on: str | None = None,
    **sampling: Unpack[Sampling],
) -> LogEvaluation:
    """Estimate metrics of rankers by all estimators, and say whether to trust them.

    "ips" and "snips" as in `evaluation_of_sums`, without clip; "clipped" is "ips" (for
    wmrr "snips") with propensities raised to at least `tau`: less variance, some bias. "dr",
    doubly robust, fills in what the clip takes away by relevance from the features (see
    `prsrank.evaluation.doc_sums`). Intervals know how uncertain an estimated curve is.
    Sessions that show docs which the data set lacks are left out and counted.

    Args:
        log: held-out sessions, or a frame of them.
        dataset: the lists, with the features of the log's docs.
        propensities: a curve, or None for the propensities in the log.
        rankers: scores of each doc of the data set, by ranker.
        against: with which to compare each ranker: "logged", another's name, or several.
        metrics: as for `sum_clicks`.
        tau: clip of the clipped and doubly robust estimates; 0 leaves the clipped ones out.
        context: context column: its values are parts, and may have curves of their own.
        trained_on: name of a ranker that was trained on this log, for the warning.
        sampling: how intervals are bootstrapped.
    """
    log = as_click_log(log)
    used = covered_log(log, dataset)

    summed = partial(sum_clicks, used, dataset, propensities, rankers)
    sums = partial(summed, metrics=metrics, context=context, by=context)
    regression = Regression.of_logs([used], dataset, propensities, tau=tau, context=context)
    return evaluation_of(
        sums(),
        sums(tau=tau) if tau > 0 else None,
        propensities,
        docs=sum_docs(
            used, dataset, propensities, rankers, regression, metrics=metrics, context=context
        ),
        against=against,
        left_out=log.sessions - used.sessions,
        trained_on=trained_on,
        **sampling,
    )


def evaluation_of(
    free: ClickSums,
    clipped: ClickSums | None,
    propensities: PropensityCurve | None,
    *,
    docs: ClickSums | None = None,
    against: str | Sequence[str] = LOGGED,
    left_out: int = 0,
    trained_on: str | None = None,
    **sampling: Unpack[Sampling],
) -> LogEvaluation:
    """Return what `evaluate_on_log` does, from sums without a clip and with one, and over docs."""
    judged = partial(
        evaluation_of_sums, against=against, doubt=CurveDoubt.of_curve(propensities), **sampling
    )
    found = judged(free)
    if clipped is not None:
        cut = judged(clipped, estimators=["ips"])
        found = _with_clip(_joined(found, cut, CLIPPED), cut)
    if docs is not None:
        found = _joined(found, judged(docs, estimators=["ips"]), DOUBLY_ROBUST)
    warnings = estimate_warnings(
        found.diagnostics[0], free, propensities, left_out=left_out, trained_on=trained_on
    )
    return LogEvaluation(found, warnings, left_out)


def _joined(
    found: CounterfactualEvaluation, more: CounterfactualEvaluation, estimator: str
) -> CounterfactualEvaluation:
    """Return the results of both, those of the second under the name of their estimator."""
    return replace(
        found,
        estimates=found.estimates + tuple(replace(e, estimator=estimator) for e in more.estimates),
        differences=found.differences
        + tuple(replace(d, estimator=estimator) for d in more.differences),
    )


def _with_clip(
    found: CounterfactualEvaluation, clipped: CounterfactualEvaluation
) -> CounterfactualEvaluation:
    """Return diagnostics that say what the clip takes away."""
    diagnostics = tuple(
        replace(d, clipped_clicks=c.clipped_clicks, cut_weight=c.cut_weight)
        for d, c in zip(found.diagnostics, clipped.diagnostics, strict=True)
    )
    return replace(found, diagnostics=diagnostics, tau=clipped.tau)
