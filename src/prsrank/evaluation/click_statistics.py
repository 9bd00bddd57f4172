r"""What a click log says of any new ranking of the docs it showed, summed up before scoring.

A counterfactual estimate needs of each clicked doc its weight $w = a / \max(p, \tau)$, with
a = 1 unless the log weighs its clicks, and its rank under the new scores *among the docs that
were shown with it*. That rank is the same in all sessions that show the same docs of a query, in
whatever order: such docs form a *pool*. So sessions fold into one summed weight per clicked doc
of a pool, and scoring costs as much for a billion sessions as for one of each pool.
"""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning, InputError
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.log_on_lists import LogOnLists, PropensitySource
from prsrank.ragged import ragged_rows
from prsrank.sorting import longest_list, sort_with_index
from prsrank.threads import for_each_piece
from prsrank.types import Floats, Longs, Marks
from prsrank.weighting import WEIGHTINGS, ips_weights

# Up to this many clicked docs of a pool, counting the docs above each beats sorting the pool.
_FEW_CLICKED = 256


class Pools(NamedTuple):
    """Sets of docs that were shown together, and those of them that were clicked.

    Kernels take it as it is.

    Attributes:
        docs: number of docs that a ranker scores.
        offsets: where each pool's docs begin, and the end (pools + 1).
        rows: row in the data set of each doc.
        clicked_offsets: where each pool's clicked docs begin, and the end (pools + 1).
        clicked: row in its pool of each clicked doc.
    """

    docs: int
    offsets: Longs
    rows: Longs
    clicked_offsets: Longs
    clicked: Longs

    @property
    def lengths(self) -> Longs:
        """Number of docs of the pool of each clicked doc."""
        return np.repeat(np.diff(self.offsets), np.diff(self.clicked_offsets))

    @property
    def longest(self) -> int:
        """Number of docs of the largest pool."""
        return int(np.diff(self.offsets).max(initial=0))

    def expected_values(
        self, rank_values: Floats, scores: npt.ArrayLike, *, threads: int | None = None
    ) -> Floats:
        r"""Return for each clicked doc the value of its rank under the scores.

        A doc with a docs above it and t docs of its score, itself among them, has the value
        $\frac{1}{t} \sum_{r=a+1}^{a+t} v_r$: the expectation over all orders of the tied.

        Args:
            rank_values: the value $v_r$ of rank r = 1, 2, ... (at least `longest`).
            scores: score of each doc of the data set, flat.
            threads: default: all cores.
        """
        values = checked_scores(scores, self.docs)
        # running sums: the mean value of any run of ranks is one difference
        sums = np.concatenate([[0.0], np.cumsum(rank_values)])
        out = np.empty(len(self.clicked))
        for_each_piece(
            lambda first, last: _expected_kernel(first, last, self, values, sums, out),
            self.offsets,
            threads=threads,
        )
        return out


@dataclass(frozen=True, eq=False)
class ClickStatistics:
    """The clicked slots of a log, each with its weight and its doc in a pool.

    A slot is a doc of a ranking at its position (in one context, where propensities depend on one), and
    where the log weighs its clicks, one weight of a click there. Only slots with a click are
    kept.

    Attributes:
        log: the click log.
        pools: the pools with clicks.
        actions: a of each slot.
        weights: a / max(p, tau) of each slot.
        free_weights: a / p of each slot.
        clicked_doc: index into the clicked docs of `pools` of each slot.
        shown_rank: rank of each slot in its ranking (gaps between positions do not count).
        position: position at which each slot was shown.
        query: index into the log's queries of each slot.
        row: row in the data set of each slot's doc.
        showing: code of each slot's context, where propensities depend on one, else 0.
        shown_share: share of the lists' docs that a session shows, on average.
        unseen_share: share of the shown docs whose propensity is 0.
    """

    log: ClickLog
    pools: Pools
    actions: Floats
    weights: Floats
    free_weights: Floats
    clicked_doc: Longs
    shown_rank: Longs
    position: Longs
    query: Longs
    row: Longs
    showing: Longs
    shown_share: float
    unseen_share: float
    _click_slot: Longs

    @classmethod
    def of_log(
        cls,
        log: ClickLog,
        dataset: RankingDataset | None,
        propensities: PropensitySource,
        *,
        tau: float = 0.0,
        context: str | None = None,
    ) -> "ClickStatistics":
        """Lay a log over a data set; see `prsrank.evaluation.counterfactual` for the arguments."""
        data = log_docs(log) if dataset is None else dataset
        laid = LogOnLists(log, data, propensities, WEIGHTINGS["ips"], context)
        showing = log.session_ranking.astype(np.int64)
        if context is not None:
            showing += log.contexts[context].codes * np.int64(log.rankings)
        clicked_at = np.repeat(laid.shown.slot_offsets[showing], log.session_clicks) + log.clicks
        slots, actions, click_slot = _distinct_slots(clicked_at, log.click_weights)
        # a context repeats the slots of all rankings: without it they are those of the log
        index = slots % len(log.ranking_docs)
        rows = data.offsets[laid.list_of_slot] + laid.shown.slot_rows
        pools, clicked_doc = pools_of(log, rows[: len(log.ranking_docs)], index, data.docs)
        ranking = np.searchsorted(log.ranking_offsets, index, side="right") - 1
        return cls(
            log=log,
            pools=pools,
            actions=actions,
            weights=actions * _weights(laid.propensities[slots], tau),
            free_weights=actions / laid.propensities[slots],
            clicked_doc=clicked_doc,
            shown_rank=index - log.ranking_offsets[ranking] + 1,
            position=log.ranking_positions[index].astype(np.int64),
            query=log.ranking_query[ranking].astype(np.int64),
            row=rows[index],
            showing=slots // max(len(log.ranking_docs), 1),
            shown_share=_shown_share(log, data.list_lengths[laid.list_of_slot]),
            unseen_share=float((laid.propensities == 0).mean()),
            _click_slot=click_slot,
        )

    def counts(self, sessions: Marks | None = None) -> tuple[Longs, Longs]:
        """Return the clicks of each slot and the sessions of each query.

        Args:
            sessions: count these sessions only (a mask); default all.
        """
        chosen = np.ones(self.log.sessions, bool) if sessions is None else sessions
        counted = self._click_slot[np.repeat(chosen, self.log.session_clicks)]
        queries = self.log.ranking_query[self.log.session_ranking[chosen]]
        return (
            np.bincount(counted, minlength=len(self.weights)),
            np.bincount(queries, minlength=self.log.queries),
        )


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


def _weights(propensities: Floats, tau: float) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # given once, for the log
        return ips_weights(propensities, 1.0, tau=tau)


def _shown_share(log: ClickLog, list_lengths: Longs) -> float:
    """Return the docs that sessions showed / the docs of their lists (length given per slot)."""
    shown = np.diff(log.ranking_offsets)
    whole = np.zeros(log.rankings, np.int64)
    # a ranking without docs has no slot that would tell its list
    whole[shown > 0] = list_lengths[log.ranking_offsets[:-1][shown > 0]]
    sessions = np.bincount(log.session_ranking, minlength=log.rankings)
    return float(sessions @ shown) / float(sessions @ whole)


def log_docs(log: ClickLog) -> RankingDataset:
    """Return the docs of a log as a data set without features, for scores per doc of the log."""
    return RankingDataset(
        np.empty((len(log.doc_ids), 0), np.float32),
        log.doc_offsets,
        query_ids=log.query_ids,
        doc_ids=log.doc_ids,
    )


def checked_scores(scores: npt.ArrayLike, docs: int) -> Floats:
    """Return scores as float64 after checking that there is a number for each doc."""
    try:
        values = np.ascontiguousarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("scores must be numbers in one flat array") from None
    if values.shape != (docs,):
        raise InputError(f"scores have shape {values.shape}, but there are {docs} docs")
    if docs and np.isnan(values.min()):
        raise InputError(f"the score of doc {int(np.isnan(values).argmax())} is NaN")
    return values


def pools_of(log: ClickLog, rows: Longs, clicked: Longs, docs: int) -> tuple[Pools, Longs]:
    """Return the pools that hold clicked slots, and each clicked slot's clicked doc."""
    # sorted by hash, rankings of the same docs are neighbours: one pass finds the pools
    used = np.unique(np.searchsorted(log.ranking_offsets, clicked, side="right") - 1)
    order = used[np.argsort(_set_hashes(rows, log.ranking_offsets, used), kind="stable")]
    entries = np.full(len(rows), -1, np.int64)
    starts, first_slots = _pool_kernel(log.ranking_offsets, rows, order, docs, entries)
    marked = np.zeros(starts[-1], bool)
    marked[entries[clicked]] = True
    numbers = np.cumsum(marked) - 1
    of_pool = np.searchsorted(starts, np.flatnonzero(marked), side="right") - 1
    pools = Pools(
        docs=docs,
        offsets=starts,
        rows=rows[first_slots],
        clicked_offsets=np.searchsorted(of_pool, np.arange(len(starts))),
        clicked=np.flatnonzero(marked) - starts[of_pool],
    )
    return pools, numbers[entries[clicked]]


def _set_hashes(rows: Longs, offsets: Longs, rankings: Longs) -> npt.NDArray[np.uint64]:
    """Return for each ranking a number that is the same whatever the order of its docs."""
    slots, _ = ragged_rows(offsets, rankings)
    mixed = (rows[slots].astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    # a sum has no order; mixed before, other docs hardly ever give the same
    lengths = offsets[rankings + 1] - offsets[rankings]
    return np.add.reduceat(mixed, np.cumsum(lengths) - lengths)


@njit(cache=True, nogil=True)
def _pool_kernel(offsets: Longs, rows: Longs, order: Longs, docs: int, entries: Longs):  # type: ignore[no-untyped-def]
    """Join neighbours in `order` that show the same docs; number the docs of each pool.

    Equal docs are checked, not only hashed. Returns where each pool begins, and the slot of
    each of its docs.
    """
    pool_of_row, entry_of_row = np.full(docs, -1), np.empty(docs, np.int64)
    total = 0
    for ranking in order:
        total += offsets[ranking + 1] - offsets[ranking]
    starts, slots = np.zeros(len(order) + 1, np.int64), np.empty(total, np.int64)
    pools = end = 0
    for ranking in order:
        first, last = offsets[ranking], offsets[ranking + 1]
        same = pools > 0 and starts[pools] - starts[pools - 1] == last - first
        for slot in range(first, last):
            if not same:
                break
            same = pool_of_row[rows[slot]] == pools - 1
        if not same:
            for slot in range(first, last):
                pool_of_row[rows[slot]], entry_of_row[rows[slot]] = pools, end
                slots[end] = slot
                end += 1
            pools += 1
            starts[pools] = end
        for slot in range(first, last):
            entries[slot] = entry_of_row[rows[slot]]
    return starts[: pools + 1].copy(), slots[:end].copy()


@njit(cache=True, nogil=True)
def _number_below(ordered: Floats, value: float, or_equal: bool) -> int:
    """Return what np.searchsorted does, which takes numba half a second to compile."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) >> 1
        if ordered[middle] < value or (or_equal and ordered[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _expected_kernel(
    first: int, last: int, pools: Pools, scores: Floats, sums: Floats, out: Floats
) -> None:
    _, offsets, rows, clicked_offsets, clicked = pools
    local = np.empty(longest_list(first, last, offsets))
    for pool in range(first, last):
        start, length = offsets[pool], offsets[pool + 1] - offsets[pool]
        begin, end = clicked_offsets[pool], clicked_offsets[pool + 1]
        for j in range(length):
            local[j] = scores[rows[start + j]]
        ranked = local[:length]
        # ties count by their expectation, so only the docs above and beside matter, not an order
        if end - begin > _FEW_CLICKED:
            ordered, _ = sort_with_index(ranked)
            for i in range(begin, end):
                score = local[clicked[i]]
                above = length - _number_below(ordered, score, True)
                below = _number_below(ordered, score, False)
                out[i] = (sums[length - below] - sums[above]) / (length - below - above)
            continue
        for i in range(begin, end):
            score = local[clicked[i]]
            above = tied = 0
            for j in range(length):
                above += ranked[j] > score
                tied += ranked[j] == score
            out[i] = (sums[above + tied] - sums[above]) / tied
