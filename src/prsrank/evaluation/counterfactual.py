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

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.click_statistics import ClickStatistics
from prsrank.evaluation.rank_values import find_rank_value
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.log_on_lists import PropensitySource

ESTIMATORS = ("ips", "snips")


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
        check_estimators([estimator])
        check_clicks(len(log.clicks), log.sessions)
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


def check_clicks(clicks: int, sessions: int) -> None:
    """Raise an InputError where there is nothing to estimate from."""
    if not clicks:
        raise InputError(f"the log has no clicks in {sessions} sessions to estimate from")


def check_estimators(estimators: Sequence[str]) -> None:
    """Raise an InputError for what is not in ESTIMATORS."""
    for name in estimators:
        if name not in ESTIMATORS:
            raise InputError(f"estimator must be one of {', '.join(ESTIMATORS)}, not '{name}'")
