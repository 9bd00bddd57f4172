"""Evaluations on held-out clicks: all estimators together, and whether to trust them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.click_sums import ClickSums, sum_clicks
from prsrank.evaluation.counterfactual import evaluation_of_sums
from prsrank.evaluation.query_bootstrap import Sampling
from prsrank.evaluation.results import LOGGED, CounterfactualEvaluation
from prsrank.evaluation.warnings import estimate_warnings
from prsrank.logs.click_log import LogOrFrame, as_click_log
from prsrank.logs.coverage import covered_log
from prsrank.notebook import Chart, Columns, Shown
from prsrank.propensity.curve import PropensityCurve

CLIPPED = "clipped"
DEFAULT_TAU = 0.05
DEFAULT_METRICS = ("dcg@10", "wmrr", "arp")


@dataclass(frozen=True, repr=False)
class LogEvaluation(Shown):
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
    wmrr "snips") with propensities raised to at least `tau`: less variance, some bias.
    Sessions that show docs which the data set lacks are left out and counted.

    Args:
        log: held-out sessions, or a frame of them.
        dataset: the lists, with the features of the log's docs.
        propensities: a curve, or None for the propensities in the log.
        rankers: scores of each doc of the data set, by ranker.
        against: with which to compare each ranker: "logged", another's name, or several.
        metrics: as for `sum_clicks`.
        tau: clip of the clipped estimates; 0 leaves them out.
        context: context column: its values are parts, and may have curves of their own.
        trained_on: name of a ranker that was trained on this log, for the warning.
        sampling: how intervals are bootstrapped.
    """
    log = as_click_log(log)
    used = covered_log(log, dataset)

    summed = partial(sum_clicks, used, dataset, propensities, rankers)
    sums = partial(summed, metrics=metrics, context=context, by=context)
    return evaluation_of(
        sums(),
        sums(tau=tau) if tau > 0 else None,
        propensities,
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
    against: str | Sequence[str] = LOGGED,
    left_out: int = 0,
    trained_on: str | None = None,
    **sampling: Unpack[Sampling],
) -> LogEvaluation:
    """Return what `evaluate_on_log` does, from sums without a clip and with one."""
    found = evaluation_of_sums(free, against=against, **sampling)
    if clipped is not None:
        cut = evaluation_of_sums(clipped, against=against, estimators=["ips"], **sampling)
        found = _joined(found, cut)
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
