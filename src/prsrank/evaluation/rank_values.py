"""What counterfactual metrics count: the value of a doc's new rank among the docs shown with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.errors import InputError, nearest_name
from prsrank.logs.click_log import ClickLog
from prsrank.ragged import list_of_row, ragged_rows
from prsrank.sorting import longest_list
from prsrank.threads import for_each_piece
from prsrank.types import Floats, Longs


class Pools(NamedTuple):
    """Sets of docs that were shown together, and those of them that count.

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
        values = _checked_scores(scores, self.docs)
        # running sums: the mean value of any run of ranks is one difference
        sums = np.concatenate([[0.0], np.cumsum(rank_values)])
        out = np.empty(len(self.clicked))
        for_each_piece(
            lambda first, last: _expected_kernel(first, last, self, values, sums, out),
            self.offsets,
            threads=threads,
        )
        return out


@dataclass(frozen=True)
class RankValue:
    """What a counterfactual metric counts.

    Attributes:
        value: the value of each rank.
        higher_is_better: whether a ranker should have a higher estimate.
        takes_cutoff: whether the name may end in "@k".
        per_doc_shown: whether values are divided by the number of docs shown.
        self_normalised: whether the estimate is always divided by the sum of weights.
        cutoff: ranks below this one count 0; None for all.
    """

    value: Callable[[Floats], Floats]
    higher_is_better: bool
    takes_cutoff: bool = False
    per_doc_shown: bool = False
    self_normalised: bool = False
    cutoff: int | None = None

    def of_ranks(self, ranks: int) -> Floats:
        """Return the value of ranks 1 to `ranks`."""
        values = self.value(np.arange(1.0, ranks + 1))
        values[self.cutoff or ranks :] = 0.0
        return values

    def divisors(self, lengths: Longs) -> Longs:
        """Return by what the values of docs shown among so many are divided."""
        return lengths if self.per_doc_shown else np.ones_like(lengths)

    def of_pools(
        self, pools: Pools, scores: npt.ArrayLike, *, threads: int | None = None
    ) -> Floats:
        """Return the value of each clicked doc's rank under the scores."""
        expected = pools.expected_values(self.of_ranks(pools.longest), scores, threads=threads)
        return np.asarray(expected / self.divisors(pools.lengths))


COUNTERFACTUAL_METRICS: Mapping[str, RankValue] = MappingProxyType(
    {
        "dcg": RankValue(lambda r: 1 / np.log2(1 + r), True, takes_cutoff=True),
        "wmrr": RankValue(lambda r: 1 / r, True, self_normalised=True),
        "arp": RankValue(lambda r: r - 1, False, per_doc_shown=True),
        "arp_mean_rank": RankValue(lambda r: r, False, self_normalised=True),
    }
)


def find_rank_value(metric: str) -> RankValue:
    """Return the entry of `COUNTERFACTUAL_METRICS` that a name means, such as "dcg@10".

    >>> find_rank_value("dcg@2").of_ranks(3).round(3).tolist()
    [1.0, 0.631, 0.0]
    """
    base, at, cutoff = metric.partition("@")
    if base not in COUNTERFACTUAL_METRICS:
        hint = nearest_name(base, COUNTERFACTUAL_METRICS)
        raise InputError(f"clicks give no estimate of '{metric}'{hint}")
    form = COUNTERFACTUAL_METRICS[base]
    if not at:
        return form
    if not form.takes_cutoff:
        raise InputError(f"metric '{metric}': {base} takes no cut-off; write '{base}'")
    if not (cutoff.isdecimal() and int(cutoff) > 0):
        raise InputError(f"metric '{metric}': the cut-off must be a whole number above 0")
    return replace(form, cutoff=int(cutoff))


def _checked_scores(scores: npt.ArrayLike, docs: int) -> Floats:
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
    """Return the pools that hold clicked slots, and each clicked slot's clicked doc.

    Args:
        log: the click log.
        rows: row in the data set of each slot's doc.
        clicked: the slots that count.
        docs: number of docs of the data set.
    """
    ranking_of_slot = np.searchsorted(log.ranking_offsets, clicked, side="right") - 1
    used, index = np.unique(ranking_of_slot, return_inverse=True)
    hashes = _set_hashes(rows, log.ranking_offsets, used)
    _, first, pool = np.unique(hashes, return_index=True, return_inverse=True)
    slots, starts = ragged_rows(log.ranking_offsets, used[first])
    # a doc is found in its pool by a number of both
    numbers = list_of_row(starts) * docs + rows[slots]
    order = np.argsort(numbers)
    entry = order[np.searchsorted(numbers[order], pool[index] * docs + rows[clicked])]
    marked = np.zeros(starts[-1], bool)
    marked[entry] = True
    entries = np.flatnonzero(marked)
    of_pool = np.searchsorted(starts, entries, side="right") - 1
    pools = Pools(
        docs=docs,
        offsets=starts,
        rows=rows[slots],
        clicked_offsets=np.searchsorted(of_pool, np.arange(len(starts))),
        clicked=entries - starts[of_pool],
    )
    return pools, (np.cumsum(marked) - 1)[entry]


def _set_hashes(rows: Longs, offsets: Longs, rankings: Longs) -> npt.NDArray[np.uint64]:
    """Return for each ranking 64 bits that are the same whatever the order of its docs."""
    slots, _ = ragged_rows(offsets, rankings)
    mixed = (rows[slots].astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    # a sum has no order; mixed before, other docs do not give the same
    lengths = offsets[rankings + 1] - offsets[rankings]
    return np.add.reduceat(mixed, np.cumsum(lengths) - lengths)


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
        # ties count by their expectation, so only the docs above and beside matter, not an order:
        # counting them beats sorting up to 2,000 docs, and more are hardly ever shown at once
        for i in range(begin, end):
            score = local[clicked[i]]
            above = tied = 0
            for j in range(length):
                above += local[j] > score
                tied += local[j] == score
            out[i] = (sums[above + tied] - sums[above]) / tied
