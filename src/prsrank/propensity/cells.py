"""A click log folded into counts per (query, doc, position)."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from prsrank.errors import InputError
from prsrank.hashing import id_keys, joined_keys
from prsrank.logs.array_checks import check_indices
from prsrank.logs.click_log import ClickLog
from prsrank.logs.units import UnitSums, query_keys, units_of
from prsrank.sorting import rows_by_group, sort_with_index
from prsrank.types import Floats, Longs, Marks


@dataclass(frozen=True, eq=False)
class Cells:
    """How often each doc was shown and clicked at each position, doc after doc.

    Attributes:
        offsets: where each doc's cells begin, and the end (docs + 1).
        positions: 1-based position of each cell, rising within a doc.
        shown: number of sessions with the doc at the position.
        clicked: number of those with a click on it.
        query_key: key of each doc's query (docs).
        doc_key: key of each doc, of its query and its own id (docs).
        depth: the last position that is kept.
    """

    offsets: Longs
    positions: Longs
    shown: Floats
    clicked: Floats
    query_key: Longs
    doc_key: Longs
    depth: int

    def __post_init__(self) -> None:
        # the kernels of harvest and EM index by position without looking
        low, high = self.positions.min(initial=1), self.positions.max(initial=1)
        if low < 1 or high > max(self.depth, 1) or len(self.positions) != self.offsets[-1]:
            raise InputError(f"cells at positions {low} to {high} of 1 to {self.depth}")

    @property
    def docs(self) -> int:
        """Number of (query, doc) pairs."""
        return len(self.offsets) - 1

    @property
    def cell_docs(self) -> Longs:
        """The doc of each cell."""
        return np.repeat(np.arange(self.docs), np.diff(self.offsets))

    @property
    def clicks_at(self) -> Longs:
        """Number of clicks at each position, index 0 being position 1."""
        counts = np.bincount(self.positions - 1, self.clicked, self.depth)
        return counts.round().astype(np.int64)

    def keep_docs(self, keep: Marks) -> "Cells":
        """Return the cells of some of the docs."""
        chosen = keep[self.cell_docs]
        lengths = np.diff(self.offsets)[keep]
        return Cells(
            np.concatenate([[0], np.cumsum(lengths)]),
            self.positions[chosen],
            self.shown[chosen],
            self.clicked[chosen],
            self.query_key[keep],
            self.doc_key[keep],
            self.depth,
        )

    def unit_keys(self, queries: int) -> Longs:
        """Return the unit of resampling of each doc: its query, or itself if queries are few.

        Docs of one query share sessions, so a query is the honest unit; but a handful of
        queries cannot show how much chance there is between them.

        Args:
            queries: how many queries the whole log has docs of.
        """
        return self.query_key if queries >= ENOUGH_QUERIES else self.doc_key


ENOUGH_QUERIES = 40
"""From so many queries on, queries are the units of resampling; below, docs."""


def count_cells(log: ClickLog, *, depth: int | None = None) -> Cells:
    """Fold a log into counts per (query, doc, position), up to position `depth`.

    Its cost is that of one pass over the rankings' slots, however many sessions there were.
    """
    last = log.max_position if depth is None else depth
    shown, clicked = log.slot_statistics()
    docs = int(log.doc_offsets[-1])
    check_indices(log)
    starts, order = rows_by_group(log.ranking_docs, docs)
    offsets, positions, at_shown, at_clicked = _count_kernel(
        starts, order, log.ranking_positions, shown, clicked, last
    )
    queries = np.repeat(query_keys(log), np.diff(log.doc_offsets))
    docs_keys = joined_keys(queries, id_keys(log.doc_ids))
    return Cells(offsets, positions, at_shown, at_clicked, queries, docs_keys, last)


def queries_of(cells: Cells) -> UnitSums:
    """Return the clicks of each query, or group of queries, at each position (units x positions)."""
    keys, unit = units_of(cells.query_key)
    cell = unit[cells.cell_docs] * cells.depth + cells.positions - 1
    clicks = np.bincount(cell, cells.clicked, len(keys) * cells.depth)
    values = clicks.reshape(len(keys), cells.depth).astype(np.float64)
    return UnitSums(keys, np.arange(cells.depth), values)


def carriers_of(queries: UnitSums) -> Longs:
    """Return how many queries have clicks at each position."""
    return np.asarray((queries.values > 0).sum(axis=0))


@njit(cache=True, nogil=True)
def _count_kernel(starts, order, slot_positions, shown, clicked, depth):  # type: ignore[no-untyped-def]
    docs = len(starts) - 1
    at_shown = np.zeros(depth + 1)
    at_clicked = np.zeros(depth + 1)
    touched = np.empty(depth + 1, np.int64)
    offsets = np.zeros(docs + 1, np.int64)
    room = 0
    # a doc has no more cells than slots, nor than positions
    for doc in range(docs):
        room += min(starts[doc + 1] - starts[doc], depth)
    positions = np.empty(room, np.int64)
    out_shown = np.empty(room)
    out_clicked = np.empty(room)
    filled = 0
    for doc in range(docs):
        count = 0
        for i in range(starts[doc], starts[doc + 1]):
            slot = order[i]
            k = slot_positions[slot]
            if k > depth or shown[slot] == 0:
                continue
            # only touched positions are cleared below: a doc has few, the log has many
            if at_shown[k] == 0:
                touched[count] = k
                count += 1
            at_shown[k] += shown[slot]
            at_clicked[k] += clicked[slot]
        found, _ = sort_with_index(touched[:count])
        for k in found:
            positions[filled] = k
            out_shown[filled] = at_shown[k]
            out_clicked[filled] = at_clicked[k]
            at_shown[k] = 0
            at_clicked[k] = 0
            filled += 1
        offsets[doc + 1] = filled
    return offsets, positions[:filled], out_shown[:filled], out_clicked[:filled]
