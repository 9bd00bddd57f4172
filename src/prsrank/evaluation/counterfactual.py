r"""How good would another ranking have been? Estimates from held-out clicks.

A click on doc i, shown where the propensity is $p_i$, weighs $w_i = a_i / \max(p_i, \tau)$, with
$a_i = 1$ unless the log weighs its clicks (a purchase more than a click, say); a new
ranker would have put the doc at rank $r_i$ *among the docs of that session*, which are the same
for every ranker: docs that were not shown have no clicks to judge them by. With N sessions:

| metric        | value v of rank r                     | estimate                                |
| ------------- | ------------------------------------- | --------------------------------------- |
| dcg, dcg@k    | 1 / log2(1 + r); 0 below rank k       | sum of w v over all clicks / N          |
| arp           | (r - 1) / number of docs shown        | sum of w v over all clicks / N          |
| wmrr          | 1 / r                                 | sum of w v / sum of w                   |
| arp_mean_rank | r                                     | sum of w v / sum of w                   |

Estimator "ips" is the table as it stands. Without clip (tau = 0), with true propensities and
clicks on every observed relevant doc and no other, its dcg and arp are unbiased: they expect
the mean over sessions of the sum of v over the list's relevant docs (0 for a list without
any). Noise adds the same sum over irrelevant docs, times their share of false clicks.
Propensities that are known up to a factor only (p_1 = 1 by convention) change the estimate by
that factor, but no ratio of two rankers.

Estimator "snips", self-normalised, divides every metric by the sum of w instead of N: the value
per relevant doc. What the sum of w would be on average is not known without labels, so it
cannot be turned back into a value per session. It is consistent, not unbiased; factors cancel;
and a ratio of two rankers is the same by both estimators. wmrr and arp_mean_rank are
self-normalised by definition.

Docs of equal score count by the expectation over all their orders.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.click_statistics import ClickStatistics
from prsrank.evaluation.click_sums import ClickSums
from prsrank.evaluation.curve_doubt import CurveDoubt
from prsrank.evaluation.query_bootstrap import (
    SAMPLING,
    CurveMoves,
    RatioIntervals,
    Sampling,
    ratio_intervals,
)
from prsrank.evaluation.rank_values import RankValue, find_rank_value
from prsrank.evaluation.results import (
    LOGGED,
    CounterfactualEvaluation,
    Difference,
    Estimate,
)
from prsrank.evaluation.weight_diagnostics import diagnostics_of_sums
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.log_on_lists import PropensitySource
from prsrank.threads import one_blas_thread
from prsrank.types import Floats

ESTIMATORS = ("ips", "snips")

# Differences below this, relative to the values, are rounding.
_ROUNDING = 1e-12


class CounterfactualMetric:
    """An estimate of one metric, prepared so that scoring a ranker costs milliseconds.

    Args:
        log: held-out sessions.
        dataset: the lists that rankers score; None for scores per doc of the log.
        propensities: as for `PairSet.from_log`: a curve with `at(positions)`, one number per
            shown doc, or None for those in the log.
        metric: a name of the module's table, with a cut-off where it takes one: "dcg@10".
        estimator: "ips" or "snips".
        tau: propensities are raised to at least this, so weights are at most 1 / tau; this
            trades bias for variance. 0 is no clip.
        context: context column whose values have curves of their own.

    Attributes:
        higher_is_better: whether a ranker should have a higher value.
        sessions: number of sessions.
        clicks: number of clicks.

    >>> from prsrank.propensity.curve import PowerLaw
    >>> log = ClickLog.from_frame({
    ...     "query_id": np.array([7, 7, 7, 7]), "session_id": np.array([1, 1, 2, 2]),
    ...     "doc_id": np.array([30, 40, 30, 40]), "position": np.array([1, 2, 1, 2]),
    ...     "click": np.array([True, False, False, True])})
    >>> metric = CounterfactualMetric(log, None, PowerLaw(1), metric="dcg@1")
    >>> metric([0.9, 0.1]), metric([0.1, 0.9]), metric([0.5, 0.5])
    (0.5, 1.0, 0.75)
    """

    def __init__(
        self,
        log: ClickLog,
        dataset: RankingDataset | None,
        propensities: PropensitySource = None,
        *,
        metric: str = "dcg@10",
        estimator: str = "ips",
        tau: float = 0.0,
        context: str | None = None,
    ) -> None:
        form = find_rank_value(metric)
        _check_estimators([estimator])
        _check_clicks(len(log.clicks), log.sessions)
        statistics = ClickStatistics.of_log(log, dataset, propensities, tau=tau, context=context)
        clicks, sessions = statistics.counts()
        pools, weights = statistics.pools, statistics.weights * clicks
        ratio = form.self_normalised or estimator == "snips"
        self.name = metric
        self.higher_is_better = form.higher_is_better
        self.sessions, self.clicks = int(sessions.sum()), int(clicks.sum())
        self._pools = pools
        self._rank_values = form.of_ranks(pools.longest)
        # summed before any scoring, so that a call costs the same for any number of sessions
        summed = np.bincount(statistics.clicked_doc, weights, len(pools.clicked))
        self._weights = summed / form.divisors(pools.lengths)
        self._total = float(weights.sum() if ratio else sessions.sum())

    def __call__(self, scores: npt.ArrayLike, *, threads: int | None = None) -> float:
        """Return the estimate for a ranker.

        Args:
            scores: score of each doc of the data set (or of the log), flat; higher is better.
            threads: default: all cores. The value does not depend on it.
        """
        total, divisor = self.sums(scores, threads=threads)
        return total / divisor

    def sums(self, scores: npt.ArrayLike, *, threads: int | None = None) -> tuple[float, float]:
        """Return what the estimate is the ratio of; both are sums over sessions."""
        values = self._pools.expected_values(self._rank_values, scores, threads=threads)
        return float((self._weights * values).sum()), self._total


@one_blas_thread()
def evaluation_of_sums(
    sums: ClickSums,
    *,
    against: str | Sequence[str] = LOGGED,
    estimators: Sequence[str] = ESTIMATORS,
    doubt: CurveDoubt | None = None,
    **sampling: Unpack[Sampling],
) -> CounterfactualEvaluation:
    """Estimate metrics of new rankers and of the logged ranking, and compare them.

    Parts: all clicks; those at position 1 ("clicked at top") and the others, which under
    "ips" add up to all for dcg and arp; and the sessions of each value of a context column.
    Intervals are bootstrapped over queries (see `prsrank.evaluation.query_bootstrap`).

    Args:
        sums: what `sum_clicks` made of held-out sessions, whoever summed up.
        against: with which to compare each ranker: "logged", another's name, or several.
        estimators: "ips", "snips" or both.
        doubt: about the curve that the sums were weighed with; default: it is known.
        sampling: how intervals are bootstrapped.

    Raises:
        InputError: if there are no clicks, or no such ranker or estimator.

    >>> from prsrank.evaluation.click_sums import sum_clicks
    >>> from prsrank.propensity.curve import PowerLaw
    >>> log = ClickLog.from_frame({
    ...     "query_id": np.repeat(np.arange(50), 2), "session_id": np.repeat(np.arange(50), 2),
    ...     "doc_id": np.tile([3, 4], 50), "position": np.tile([1, 2], 50),
    ...     "click": np.tile([False, True, True, False, False, True], 17)[:100]})
    >>> rankers = {"new": np.tile([0, 1], 50)}
    >>> result = evaluation_of_sums(sum_clicks(log, None, PowerLaw(1), rankers, metrics=["dcg"]))
    >>> gain = result.difference("new", "dcg")
    >>> round(gain.difference, 3), gain.p_value < 0.01  # (33 * 2 - 17) (1 - 1 / log2(3)) / 50
    (0.362, True)
    """
    comparison = _Comparison.of(list(sums.rankers[1:]), against, sums.metrics, estimators)
    _check_clicks(int(sums.position_clicks.sum()), sums.sessions)
    settings: Sampling = {**SAMPLING, **sampling}
    about = doubt or CurveDoubt()
    drawn = about.draws(settings["samples"], settings["seed"])
    estimates: list[Estimate] = []
    differences: list[Difference] = []
    for part in sums.parts:
        # queries without a session in this part have no say in its intervals
        there = part.sessions > 0
        divisors = {"ips": part.sessions[there], "snips": part.weights[there]}
        moved = {"ips": np.zeros(len(part.moves)), "snips": part.moves[:, -1]}
        by_entry = part.moves[:, :-1].reshape(-1, *part.values.shape[1:])
        for estimator, chosen in comparison.estimates().items():
            columns, moves = (
                np.stack(
                    [c for m in chosen for c in comparison.columns(list(sums[:, m].T))], axis=1
                )
                for sums in (part.values[there], by_entry)
            )
            curve = CurveMoves(about, moves, moved[estimator], drawn)
            found = ratio_intervals(columns, divisors[estimator], curve, **sampling)
            more = comparison.results(part.part, estimator, chosen, found)
            estimates += more[0]
            differences += more[1]
    return CounterfactualEvaluation(
        tuple(estimates),
        tuple(differences),
        tuple(diagnostics_of_sums(part.part, part.spread) for part in sums.parts),
        tau=sums.tau,
        **settings,
    )


@dataclass(frozen=True)
class _Comparison:
    """Which rankers are measured by what, and which are compared."""

    names: list[str]
    pairs: list[tuple[str, str]]
    forms: dict[str, RankValue]
    estimators: list[str]

    @classmethod
    def of(
        cls,
        rankers: list[str],
        against: str | Sequence[str],
        metrics: Sequence[str],
        estimators: Sequence[str],
    ) -> "_Comparison":
        if LOGGED in rankers:
            raise InputError(f"'{LOGGED}' names the rankings as shown: call the ranker otherwise")
        names = [LOGGED, *rankers]
        others = [against] if isinstance(against, str) else list(against)
        for name in others:
            if name not in names:
                raise InputError(
                    f"no ranker '{name}' to compare with: there are {', '.join(names)}"
                )
        _check_estimators(estimators)
        pairs = [(one, other) for other in others for one in rankers if one != other]
        return cls(names, pairs, {m: find_rank_value(m) for m in metrics}, list(estimators))

    def estimates(self) -> dict[str, list[int]]:
        """Return the indices of the metrics that each estimator estimates."""
        chosen: dict[str, list[int]] = {"ips": [], "snips": []}
        for m, form in enumerate(self.forms.values()):
            if "ips" in self.estimators and not form.self_normalised:
                chosen["ips"].append(m)
            if "snips" in self.estimators or form.self_normalised:
                chosen["snips"].append(m)
        return {estimator: found for estimator, found in chosen.items() if found}

    def columns(self, sums: list[Floats]) -> list[Floats]:
        """Return the sums of each ranker, then the difference of each pair."""
        of_name = dict(zip(self.names, sums, strict=True))
        return [*sums, *(_less(of_name[one], of_name[other]) for one, other in self.pairs)]

    def results(
        self, part: str, estimator: str, chosen: list[int], found: RatioIntervals
    ) -> tuple[list[Estimate], list[Difference]]:
        """Name what `columns` of the chosen metrics became."""
        estimates, differences = [], []
        table = np.stack([found.values, found.low, found.high, found.p_values], axis=1)
        rows = iter(table.tolist())
        for metric in (list(self.forms)[m] for m in chosen):
            values = {}
            for name in self.names:
                values[name], low, high, _ = next(rows)
                estimates.append(Estimate(part, metric, estimator, name, values[name], low, high))
            for one, other in self.pairs:
                gain, low, high, p = next(rows)
                lift = gain / values[other] if values[other] else float("nan")
                differences.append(
                    Difference(part, metric, estimator, one, other, gain, low, high, p, lift)
                )
        return estimates, differences


def _less(one: Floats, other: Floats) -> Floats:
    difference = one - other
    # two rankers that rank alike differ by rounding: no gain, and no significant one
    difference[np.abs(difference) <= _ROUNDING * np.maximum(np.abs(one), np.abs(other))] = 0.0
    return difference


def _check_clicks(clicks: int, sessions: int) -> None:
    if not clicks:
        raise InputError(f"the log has no clicks in {sessions} sessions to estimate from")


def _check_estimators(estimators: Sequence[str]) -> None:
    for name in estimators:
        if name not in ESTIMATORS:
            raise InputError(f"estimator must be one of {', '.join(ESTIMATORS)}, not '{name}'")
