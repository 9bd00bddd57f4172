"""Evaluations on held-out clicks: all estimators together, and whether to trust them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.counterfactual import check_clicks
from prsrank.evaluation.doc_sums import DEFAULT_TAU as DEFAULT_TAU
from prsrank.evaluation.doc_sums import Regression
from prsrank.evaluation.log_sums import DEFAULT_METRICS as DEFAULT_METRICS
from prsrank.evaluation.log_sums import LogSums, PartSums, sum_log
from prsrank.evaluation.query_bootstrap import (
    SAMPLING,
    CurveDoubt,
    CurveMoves,
    Sampling,
    ratio_intervals,
)
from prsrank.evaluation.rank_values import find_rank_value
from prsrank.evaluation.results import LOGGED, CounterfactualEvaluation, Difference, Estimate
from prsrank.evaluation.weight_diagnostics import estimate_warnings
from prsrank.logs.click_log import LogOrFrame, as_click_log
from prsrank.logs.features import covered_log
from prsrank.logs.pieces import LocalPieces, LocalSessions
from prsrank.notebook import Chart, Columns, Shown
from prsrank.propensity.curve import PropensityCurve
from prsrank.threads import one_blas_thread
from prsrank.types import Floats

# Differences below this, relative to the values, are rounding.
_ROUNDING = 1e-12


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

    "ips" and "snips" as in `prsrank.evaluation.counterfactual`, without clip; "clipped" is "ips"
    (for wmrr "snips") with propensities raised to at least `tau`: less variance, some bias. "dr",
    doubly robust, fills in what the clip takes away by relevance from the features (see
    `prsrank.evaluation.doc_sums`). Intervals know how uncertain an estimated curve is.
    Sessions that show docs which the data set lacks are left out and counted.

    Args:
        log: held-out sessions, or a frame of them.
        dataset: the lists, with the features of the log's docs.
        propensities: a curve, or None for the propensities in the log.
        rankers: scores of each doc of the data set, by ranker.
        against: with which to compare each ranker: "logged", another's name, or several.
        metrics: names of the table of `prsrank.evaluation.counterfactual`.
        tau: clip of the clipped and doubly robust estimates; 0 leaves the clipped ones out.
        context: context column: its values are parts, and may have curves of their own.
        trained_on: name of a ranker that was trained on this log, for the warning.
        sampling: how intervals are bootstrapped.
    """
    log = as_click_log(log)
    used = covered_log(log, dataset)
    pieces = LocalSessions(LocalPieces([used]), dataset, whole=True)
    regression = Regression.of_pieces(pieces, propensities, tau=tau, context=context)
    sums = sum_log(
        used,
        dataset,
        propensities,
        rankers,
        metrics=metrics,
        tau=tau,
        regression=regression.on(dataset),
        context=context,
    )
    return evaluation_of(
        sums,
        propensities,
        against=against,
        left_out=log.sessions - used.sessions,
        trained_on=trained_on,
        **sampling,
    )


@one_blas_thread()
def evaluation_of(
    sums: LogSums,
    propensities: PropensityCurve | None,
    *,
    against: str | Sequence[str] = LOGGED,
    left_out: int = 0,
    trained_on: str | None = None,
    **sampling: Unpack[Sampling],
) -> LogEvaluation:
    """Return what `evaluate_on_log` does, from sums over a log or over all pieces of one.

    Parts: all clicks; those at position 1 ("clicked at top") and the others, which under
    "ips" add up to all for dcg and arp; and the sessions of each value of a context column.
    Intervals are bootstrapped over queries (see `prsrank.evaluation.query_bootstrap`).

    Args:
        sums: what `sum_log` made of held-out sessions, whoever summed up.
        propensities: the curve that the sums were weighed with.
        against: with which to compare each ranker: "logged", another's name, or several.
        left_out: sessions that the sums leave out, for want of features.
        trained_on: name of a ranker that was trained on this log, for the warning.
        sampling: how intervals are bootstrapped.

    Raises:
        InputError: if there are no clicks, or no such ranker.

    >>> from prsrank.logs.click_log import ClickLog
    >>> from prsrank.propensity.curve import PowerLaw
    >>> log = ClickLog.from_frame({
    ...     "query_id": np.repeat(np.arange(50), 2), "session_id": np.repeat(np.arange(50), 2),
    ...     "doc_id": np.tile([3, 4], 50), "position": np.tile([1, 2], 50),
    ...     "click": np.tile([False, True, True, False, False, True], 17)[:100]})
    >>> sums = sum_log(log, None, PowerLaw(1), {"new": np.tile([0, 1], 50)}, metrics=["dcg"])
    >>> gain = evaluation_of(sums, PowerLaw(1)).evaluation.difference("new", "dcg")
    >>> round(gain.difference, 3), gain.p_value < 0.01  # (33 * 2 - 17) (1 - 1 / log2(3)) / 50
    (0.362, True)
    """
    pairs = _pairs(sums.rankers, against)
    check_clicks(int(sums.clicked.sum()), sums.sessions)
    settings: Sampling = {**SAMPLING, **sampling}
    doubt = CurveDoubt.of_curve(propensities)
    estimates: list[Estimate] = []
    differences: list[Difference] = []
    for part, estimator, divisor, metrics in _estimated(sums):
        rows = iter(_intervals(part, divisor, _Columns(metrics, pairs), doubt, settings))
        for metric in metrics:
            label = part.part, sums.metrics[metric], estimator
            values = []
            for name in sums.rankers:
                value, low, high, _ = next(rows)
                values.append(value)
                estimates.append(Estimate(*label, name, value, low, high))
            for ranker, other in pairs:
                gain, low, high, p = next(rows)
                lift = gain / values[other] if values[other] else float("nan")
                names = sums.rankers[ranker], sums.rankers[other]
                differences.append(Difference(*label, *names, gain, low, high, p, lift))
    diagnostics = tuple(spread.diagnostics() for spread in sums.spreads)
    evaluation = CounterfactualEvaluation(
        tuple(estimates), tuple(differences), diagnostics, tau=sums.tau, **settings
    )
    warnings = estimate_warnings(
        diagnostics[0], sums.clicked, propensities, left_out=left_out, trained_on=trained_on
    )
    return LogEvaluation(evaluation, warnings, left_out)


def _pairs(rankers: Sequence[str], against: str | Sequence[str]) -> list[tuple[int, int]]:
    """Return which rankers are compared with which others, by their indices."""
    if LOGGED in rankers[1:]:
        raise InputError(f"'{LOGGED}' names the rankings as shown: call the ranker otherwise")
    others = [against] if isinstance(against, str) else list(against)
    for name in others:
        if name not in rankers:
            raise InputError(f"no ranker '{name}' to compare with: there are {', '.join(rankers)}")
    return [
        (ranker, rankers.index(name))
        for name in others
        for ranker in range(1, len(rankers))
        if rankers[ranker] != name
    ]


def _estimated(sums: LogSums) -> Iterator[tuple[PartSums, str, str, list[int]]]:
    """Yield sums with the name of their estimator, that of its divisor, and the metrics it estimates.

    "ips" divides by sessions, "snips" by weights: as every self-normalised metric does.
    """
    ratios = [find_rank_value(metric).self_normalised for metric in sums.metrics]
    for part in sums.parts:
        for divisor in ("ips", "snips"):
            metrics = [
                metric
                for metric, is_ratio in enumerate(ratios)
                if is_ratio == (divisor == "snips") or (divisor == "snips" and not part.kind)
            ]
            if metrics:
                yield part, part.kind or divisor, divisor, metrics


class _Columns(NamedTuple):
    """Columns of sums: of each chosen metric those of the rankers, then of the pairs compared."""

    metrics: list[int]
    pairs: list[tuple[int, int]]

    def of(self, sums: Floats) -> Floats:
        """Lay out sums (rows x metrics x rankers) as columns."""
        columns = []
        for metric in self.metrics:
            by_ranker = sums[:, metric].T
            columns += [*by_ranker, *(_less(by_ranker[a], by_ranker[b]) for a, b in self.pairs)]
        return np.stack(columns, axis=1)


def _less(values: Floats, others: Floats) -> Floats:
    difference = values - others
    # two rankers that rank alike differ by rounding: no gain, and no significant one
    least = _ROUNDING * np.maximum(np.abs(values), np.abs(others))
    difference[np.abs(difference) <= least] = 0.0
    return difference


def _intervals(
    part: PartSums, divisor: str, columns: _Columns, doubt: CurveDoubt, sampling: Sampling
) -> list[list[float]]:
    """Return value, ends and p-value of the ratio of each column to sessions, or to weights."""
    by_sessions = divisor == "ips"
    moves = CurveMoves(
        doubt,
        columns.of(part.moves[:, :-1].reshape(-1, *part.values.shape[1:])),
        np.zeros(len(part.moves)) if by_sessions else part.moves[:, -1],
    )
    # queries without a session in this part have no say in its intervals
    there = part.sessions > 0
    divisors = part.sessions if by_sessions else part.weights
    intervals = ratio_intervals(columns.of(part.values[there]), divisors[there], moves, **sampling)
    rows: list[list[float]] = np.stack(intervals, axis=1).tolist()
    return rows
