"""Counts per (doc, position) over the rows of a data set."""

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.hashing import id_keys, joined_keys
from prsrank.logs.click_log import ClickLog
from prsrank.logs.row_rules import MAX_POSITION
from prsrank.propensity.cells import Cells
from prsrank.ragged import offsets_of
from prsrank.types import Floats, Longs

Columns = tuple[Longs, Longs, Floats, Floats]
"""The doc of each cell, its position, impressions and clicks."""


def count_on_lists(log: ClickLog, dataset: RankingDataset, *, depth: int = MAX_POSITION) -> Cells:
    """Fold a log into counts per (row of the data set, position).

    Args:
        log: the clicks; its queries and docs must be in the data set.
        dataset: the lists. A doc that was never shown has no cells.
        depth: positions below this one do not count.

    >>> log = ClickLog.from_frame({
    ...     "query_id": np.array([7, 7, 7, 7]), "session_id": np.array([1, 1, 2, 2]),
    ...     "doc_id": np.array([0, 1, 1, 0]), "position": np.array([1, 2, 1, 2]),
    ...     "click": np.array([True, False, True, True])})
    >>> lists = RankingDataset(np.eye(3), np.array([0, 3]), query_ids=np.array([7]))
    >>> cells = count_on_lists(log, lists)
    >>> cells.offsets.tolist(), cells.positions.tolist(), cells.clicked.tolist()
    ([0, 2, 4, 4], [1, 2, 1, 2], [1.0, 1.0, 1.0, 0.0])
    """
    docs, positions, shown, clicked = count_columns(log, dataset)
    there = positions <= depth
    return cells_of(dataset, docs[there], positions[there], shown[there], clicked[there])


def count_columns(
    log: ClickLog, dataset: RankingDataset, keys: npt.ArrayLike | None = None
) -> Columns:
    """Fold a log into the columns of its cells, by doc and position.

    Args:
        log: the clicks.
        dataset: the lists.
        keys: what takes the place of the position, one whole number of at least 1 per slot:
            that of a propensity and position, say.
    """
    positions: Longs = np.asarray(log.ranking_positions if keys is None else keys, np.int64)
    shown, clicked = log.slot_statistics()
    there = shown > 0
    depth = int(positions.max(initial=1))
    key = (log.doc_rows(dataset)[log.ranking_docs] * (depth + 1) + positions)[there]
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])[: len(key)])
    docs, positions = np.divmod(key[starts], depth + 1)
    n, c = (part[there][order].astype(np.float64) for part in (shown, clicked))
    if not len(key):
        return docs, positions, n, c
    return docs, positions, np.add.reduceat(n, starts), np.add.reduceat(c, starts)


def cells_of(
    dataset: RankingDataset, docs: Longs, positions: Longs, shown: Floats, clicked: Floats
) -> Cells:
    """Return cells over the rows of a data set from columns that are in the order of its docs."""
    queries = np.repeat(id_keys(dataset.query_ids), dataset.list_lengths)
    return Cells(
        offsets_of(np.bincount(docs, minlength=dataset.docs)),
        positions,
        shown,
        clicked,
        queries,
        joined_keys(queries, id_keys(dataset.doc_names)),
        int(positions.max(initial=1)),
    )
