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

An estimate needs of each clicked doc its weight and its rank under the new scores. That rank is the
same in all sessions that show the same docs of a query, in whatever order: such docs form a *pool*.
So sessions fold into one summed weight per clicked doc of a pool, and scoring costs as much for a
billion sessions as for one of each pool.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning, InputError
from prsrank.evaluation.rank_values import Pools, find_rank_value, pools_of
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.log_on_lists import LogOnLists, PropensitySource
from prsrank.ragged import list_of_row
from prsrank.types import Floats, Longs, Marks
from prsrank.weighting import WEIGHTINGS, ips_weights


@dataclass(frozen=True, eq=False)
class ClickStatistics:
    """The slots of a log over the docs of a data set, and the clicks on them.

    A slot is a doc of a ranking at its position. In each context where propensities depend on one, and
    for each weight of a click where the log weighs its clicks, a clicked slot counts by itself.

    Attributes:
        log: the click log.
        context: the context column, if propensities depend on one.
        tau: the clip of the weights.
        row: row in the data set of each slot's doc (slots).
        propensities: of each slot, in each context (contexts x slots).
        listed: docs of the list that each ranking shows, or shows a part of (rankings).
        pools: the docs that were shown together: those clicked, or every one of them.
        pool_doc: index into the clicked docs of `pools` of each slot; -1 for those not asked for.
        slot: the slot of each clicked one.
        showing: code of its context; 0 where propensities depend on none.
        actions: its a.
    """

    log: ClickLog
    context: str | None
    tau: float
    row: Longs
    propensities: Floats
    listed: Longs
    pools: Pools
    pool_doc: Longs
    slot: Longs
    showing: Longs
    actions: Floats
    _clicked_slot: Longs

    @classmethod
    def of_log(
        cls,
        log: ClickLog,
        dataset: RankingDataset | None,
        propensities: PropensitySource,
        *,
        tau: float = 0.0,
        context: str | None = None,
        every_doc: bool = False,
    ) -> "ClickStatistics":
        """Lay a log over a data set.

        Args:
            log: as for `CounterfactualMetric`, like others.
            dataset: the lists, or None for the docs of the log.
            propensities: where clicks were likely.
            tau: clip of the weights.
            context: context column whose values have curves of their own.
            every_doc: whether docs without a click count in `pools`, too.
        """
        data = _log_docs(log) if dataset is None else dataset
        laid = LogOnLists(log, data, propensities, WEIGHTINGS["ips"], context)
        slots = len(log.ranking_docs)
        contexts = 1 if context is None else len(log.contexts[context].values)
        showing = log.session_ranking.astype(np.int64)
        if context is not None:
            showing += log.contexts[context].codes * np.int64(log.rankings)
        clicked_at = np.repeat(laid.shown.slot_offsets[showing], log.session_clicks) + log.clicks
        clicked, actions, clicked_slot = _distinct_slots(clicked_at, log.click_weights)
        # a context repeats the slots of all rankings: without it they are those of the log
        slot = clicked % max(slots, 1)
        row = log.doc_rows(data)[log.ranking_docs]
        counted = np.arange(slots) if every_doc else slot
        pools, numbers = pools_of(log, row, counted, data.docs)
        pool_doc = np.full(slots, -1, np.int64)
        pool_doc[counted] = numbers
        return cls(
            log=log,
            context=context,
            tau=tau,
            row=row,
            propensities=laid.propensities.reshape(contexts, slots),
            listed=_listed(log, data.list_lengths[laid.list_of_slot]),
            pools=pools,
            pool_doc=pool_doc,
            slot=slot,
            showing=clicked // max(slots, 1),
            actions=actions,
            _clicked_slot=clicked_slot,
        )

    @property
    def free_weights(self) -> Floats:
        """The weight a / p of each clicked slot."""
        return np.asarray(self.actions / self.propensities[self.showing, self.slot])

    @property
    def weights(self) -> Floats:
        r"""The weight $a / \max(p, \tau)$ of each clicked slot."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # given once, for the log
            return np.asarray(
                self.actions
                * ips_weights(self.propensities[self.showing, self.slot], 1.0, tau=self.tau)
            )

    @property
    def clipped(self) -> Marks:
        """Whether the clip changes the weight of each clicked slot."""
        return np.asarray(self.weights < (1 - 1e-12) * self.free_weights)

    @property
    def clicked_doc(self) -> Longs:
        """Index into the clicked docs of `pools` of each clicked slot."""
        return self.pool_doc[self.slot]

    @property
    def position(self) -> Longs:
        """Position at which each clicked slot was shown."""
        return self.log.ranking_positions[self.slot].astype(np.int64)

    @property
    def slot_query(self) -> Longs:
        """Index into the log's queries of each slot, clicked or not."""
        return self.log.ranking_query[list_of_row(self.log.ranking_offsets)].astype(np.int64)

    @property
    def query(self) -> Longs:
        """Index into the log's queries of each clicked slot."""
        return self.slot_query[self.slot]

    def counts(self, sessions: Marks | None = None) -> tuple[Longs, Longs]:
        """Return the clicks of each clicked slot and the sessions of each query.

        Args:
            sessions: count these sessions only (a mask); default all.
        """
        chosen = np.ones(self.log.sessions, bool) if sessions is None else sessions
        counted = self._clicked_slot[np.repeat(chosen, self.log.session_clicks)]
        queries = self.log.ranking_query[self.log.session_ranking[chosen]]
        return (
            np.bincount(counted, minlength=len(self.slot)),
            np.bincount(queries, minlength=self.log.queries),
        )

    def times_shown(self, sessions: Marks) -> Floats:
        """Return how many of the sessions show each slot, in each context (contexts x slots)."""
        log, contexts = self.log, len(self.propensities)
        code = 0 if self.context is None else log.contexts[self.context].codes
        showing = log.session_ranking + code * np.int64(log.rankings)
        counts = np.bincount(showing[sessions], minlength=contexts * log.rankings)
        by_ranking = counts.reshape(contexts, log.rankings)
        return by_ranking[:, list_of_row(log.ranking_offsets)].astype(np.float64)


class CounterfactualMetric:
    """An estimate of one metric, prepared so that scoring a ranker costs milliseconds.

    Args:
        log: held-out sessions.
        dataset: the lists that rankers score; None for scores per doc of the log.
        propensities: as for `PairSet.from_log`: a curve with `at(positions)`, one number per
            shown doc, or None for those in the log.
        metric: a name of the module's table, with a cut-off where it takes one: "dcg@10".
        tau: propensities are raised to at least this, so weights are at most 1 / tau; this
            trades bias for variance. 0 is no clip.
        context: context column whose values have curves of their own.

    Attributes:
        higher_is_better: whether a ranker should have a higher value.

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
        tau: float = 0.0,
        context: str | None = None,
    ) -> None:
        form = find_rank_value(metric)
        check_clicks(len(log.clicks), log.sessions)
        statistics = ClickStatistics.of_log(log, dataset, propensities, tau=tau, context=context)
        clicks, sessions = statistics.counts()
        pools, weights = statistics.pools, statistics.weights * clicks
        self.higher_is_better = form.higher_is_better
        self._pools = pools
        self._rank_values = form.of_ranks(pools.longest)
        # summed before any scoring, so that a call costs the same for any number of sessions
        summed = np.bincount(statistics.clicked_doc, weights, len(pools.clicked))
        self._weights = summed / form.divisors(pools.lengths)
        self._total = float((weights if form.self_normalised else sessions).sum())

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


def _distinct_slots(clicked_at: Longs, weights: Floats | None) -> tuple[Longs, Floats, Longs]:
    """Return the distinct (slot, weight) of clicks: slots, weights, and which each click is."""
    if weights is None:
        # marking instead of sorting: there are far more clicks than slots
        marked = np.zeros(clicked_at.max(initial=-1) + 1, bool)
        marked[clicked_at] = True
        slots = np.flatnonzero(marked)
        return slots, np.ones(len(slots)), (np.cumsum(marked) - 1)[clicked_at]
    actions, codes = np.unique(weights, return_inverse=True)
    keys, click_slot = np.unique(clicked_at * len(actions) + codes, return_inverse=True)
    return keys // len(actions), actions[keys % len(actions)], click_slot


def _listed(log: ClickLog, list_lengths: Longs) -> Longs:
    """Return the length of the list of each ranking, given that of each slot."""
    lengths = np.zeros(log.rankings, np.int64)
    # a ranking without docs has no slot that would tell its list
    filled = np.diff(log.ranking_offsets) > 0
    lengths[filled] = list_lengths[log.ranking_offsets[:-1][filled]]
    return lengths


def _log_docs(log: ClickLog) -> RankingDataset:
    """Return the docs of a log as a data set without features, for scores per doc of the log."""
    return RankingDataset(
        np.empty((len(log.doc_ids), 0), np.float32),
        log.doc_offsets,
        query_ids=log.query_ids,
        doc_ids=log.doc_ids,
    )
