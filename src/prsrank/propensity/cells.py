"""A click log folded into counts per (query, doc, position)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array

from prsrank.clicks.evidence import DocCells
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.hashing import id_keys, joined_keys
from prsrank.logs.array_checks import check_indices
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.bootstrap import UnitSums, query_keys, units_of
from prsrank.ragged import list_of_row, offsets_of
from prsrank.types import Floats, Longs

Columns = tuple[Longs, Longs, Floats, Floats]
"""The doc of each cell, its position, impressions and clicks."""


@dataclass(frozen=True, eq=False)
class Cells(DocCells):
    """How often each doc was shown and clicked at each position, doc after doc.

    Attributes:
        positions: 1-based position of each cell, rising within a doc.
        query_key: key of each doc's query (docs).
        doc_key: key of each doc, of its query and its own id (docs).
        depth: the last position that is kept.
    """

    per_cell: ClassVar[tuple[str, ...]] = (*DocCells.per_cell, "positions")
    per_doc: ClassVar[tuple[str, ...]] = ("query_key", "doc_key")

    positions: Longs
    query_key: Longs
    doc_key: Longs
    depth: int

    def __post_init__(self) -> None:
        # the kernels of harvest and EM index by position without looking
        low, high = self.positions.min(initial=1), self.positions.max(initial=1)
        if low < 1 or high > max(self.depth, 1) or len(self.positions) != self.offsets[-1]:
            raise InputError(f"cells at positions {low} to {high} of 1 to {self.depth}")

    @property
    def clicks_at(self) -> Longs:
        """Number of clicks at each position, index 0 being position 1."""
        counts = np.bincount(self.positions - 1, self.clicked, self.depth)
        return counts.round().astype(np.int64)

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


def count_cells(
    log: ClickLog, dataset: RankingDataset | None = None, *, depth: int | None = None
) -> Cells:
    """Fold a log into counts per (doc, position).

    Args:
        log: the clicks; the queries and docs must be in the data set, if one is given.
        dataset: whose docs the cells are of; default: the log's own. A doc that was never shown
            has no cells.
        depth: positions below this one do not count; default: all.

    >>> log = ClickLog.from_frame({
    ...     "query_id": np.array([7, 7, 7, 7]), "session_id": np.array([1, 1, 2, 2]),
    ...     "doc_id": np.array([0, 1, 1, 0]), "position": np.array([1, 2, 1, 2]),
    ...     "click": np.array([True, False, True, True])})
    >>> lists = RankingDataset(np.eye(3), np.array([0, 3]), query_ids=np.array([7]))
    >>> cells = count_cells(log, lists)
    >>> cells.offsets.tolist(), cells.positions.tolist(), cells.clicked.tolist()
    ([0, 2, 4, 4], [1, 2, 1, 2], [1.0, 1.0, 1.0, 0.0])
    """
    docs, positions, shown, clicked = count_columns(log, dataset)
    last = log.max_position if depth is None else depth
    there = positions <= last
    if dataset is None:
        queries = np.repeat(query_keys(log), np.diff(log.doc_offsets))
        docs_keys = joined_keys(queries, id_keys(log.doc_ids))
    else:
        queries, docs_keys = keys_of_docs(dataset)
    return Cells(
        offsets_of(np.bincount(docs[there], minlength=len(queries))),
        *(shown[there], clicked[there], positions[there], queries, docs_keys, last),
    )


def keys_of_docs(dataset: RankingDataset) -> tuple[Longs, Longs]:
    """Return the key of each doc's query, and of each doc, of a data set."""
    queries = np.repeat(id_keys(dataset.query_ids), dataset.list_lengths)
    return queries, joined_keys(queries, id_keys(dataset.doc_names))


def count_columns(
    log: ClickLog, dataset: RankingDataset | None = None, keys: npt.ArrayLike | None = None
) -> Columns:
    """Fold a log into the columns of its cells, by doc and position.

    Its cost is that of one pass over the rankings' slots, however many sessions there were.

    Args:
        log: the clicks.
        dataset: whose docs are meant; default: the log's own.
        keys: what takes the place of the position, one whole number of at least 1 per slot:
            that of a propensity and position, say.
    """
    check_indices(log)
    rows = log.ranking_docs if dataset is None else log.doc_rows(dataset)[log.ranking_docs]
    docs = int(log.doc_offsets[-1]) if dataset is None else dataset.docs
    columns = np.asarray(log.ranking_positions if keys is None else keys)
    parts = log.slot_statistics()
    there = parts[0] > 0
    at, shape = (rows[there], columns[there]), (docs, int(columns.max(initial=0)) + 1)
    # a sparse matrix sums the entries of a cell, and puts those of a doc in order
    shown, clicked = (
        coo_array((part[there].astype(np.float64), at), shape=shape).tocsr() for part in parts
    )
    cell_docs = list_of_row(shown.indptr.astype(np.int64))
    return cell_docs, shown.indices.astype(np.int64), shown.data, clicked.data


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
