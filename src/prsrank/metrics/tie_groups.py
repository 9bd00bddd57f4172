"""The docs of lists in the order of their scores, cut into groups of equal score."""

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.ragged import list_of_row
from prsrank.sorting import sort_with_index
from prsrank.threads import for_each_piece
from prsrank.types import Floats, Longs

_INSERTED = 128
"""Up to this depth inserting into sorted scores is faster than a sort of the list."""


class RankedDocs:
    """The docs of each list by falling score, and the tie groups that they form.

    Groups that lie below rank `depth` are left out.

    Attributes:
        values: label, gain or relevance of each doc.
        lists: its list.
        ranks: its 0-based rank, which tied docs share out among them.
        group: number of its tie group.
        list_of_group: the list of each group.
        above: s, the docs before each group in its list.
        sizes: n, its docs.
    """

    def __init__(
        self, values: Floats, scores: Floats, offsets: Longs, *, depth: int | None = None
    ) -> None:
        depth = len(values) if depth is None else depth
        ordered, begins = np.empty(len(values)), np.full(len(values), depth)
        inputs = offsets, values, scores, depth, ordered, begins
        for_each_piece(lambda a, b: sort_kernel(a, b, *inputs), offsets)
        kept = np.flatnonzero(begins < depth)
        self.values = ordered[kept]
        self.lists = list_of_row(offsets)[kept]
        self.ranks = kept - offsets[self.lists]
        first = self.ranks == begins[kept]
        self.group = np.cumsum(first) - 1
        self.list_of_group, self.above = self.lists[first], self.ranks[first]
        self.sizes = np.bincount(self.group)
        self._number_of_lists = len(offsets) - 1

    def by_group(self, of_docs: npt.NDArray) -> Floats:
        """Add up a value of each doc over its group."""
        return np.asarray(np.bincount(self.group, of_docs, len(self.sizes)), np.float64)

    def by_list(self, of_groups: npt.NDArray) -> Floats:
        """Add up a value of each group over its list."""
        sums = np.bincount(self.list_of_group, of_groups, self._number_of_lists)
        return np.asarray(sums, np.float64)


@njit(cache=True, nogil=True)
def sort_kernel(first, last, offsets, values, scores, depth, ordered, begins):  # type: ignore[no-untyped-def]
    """Put the values of each list in the order of its scores; say at which rank each tie begins.

    Docs whose score is not among the first `depth` are left out.
    """
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        s = scores[start:stop]
        rows = np.flatnonzero(s >= _lowest_of_top(s, depth))
        keys, order = sort_with_index(-s[rows])
        begin = 0
        for rank in range(len(rows)):
            if keys[rank] != keys[begin]:
                begin = rank
            begins[start + rank] = begin
            ordered[start + rank] = values[start + rows[order[rank]]]


@njit(cache=True, nogil=True)
def _lowest_of_top(scores, depth):  # type: ignore[no-untyped-def]
    """Return the score of rank `depth`, or where a sort of all is as fast minus infinity."""
    if depth >= len(scores) or depth > _INSERTED:
        return -np.inf
    top = np.full(depth, -np.inf)
    for score in scores:
        if score > top[-1]:
            j = depth - 1
            while j > 0 and top[j - 1] < score:
                top[j] = top[j - 1]
                j -= 1
            top[j] = score
    return top[-1]
