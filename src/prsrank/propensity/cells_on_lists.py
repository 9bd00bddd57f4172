"""Counts per (doc, position) over the rows of a data set, and how those of parts add up."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.units import id_keys, joined_keys
from prsrank.propensity.cells import Cells
from prsrank.types import Floats, Longs


def count_on_lists(
    log: ClickLog, dataset: RankingDataset, *, keys: npt.ArrayLike | None = None
) -> Cells:
    """Fold a log into counts per (row of the data set, position).

    Args:
        log: the clicks; its queries and docs must be in the data set.
        dataset: the lists. A doc that was never shown has no cells.
        keys: what takes the place of the position, one whole number of at least 1 per slot:
            the number of a context and position, say, or of a propensity.

    >>> log = ClickLog.from_frame({
    ...     "query_id": np.array([7, 7, 7, 7]), "session_id": np.array([1, 1, 2, 2]),
    ...     "doc_id": np.array([0, 1, 1, 0]), "position": np.array([1, 2, 1, 2]),
    ...     "click": np.array([True, False, True, True])})
    >>> lists = RankingDataset(np.eye(3), np.array([0, 3]), query_ids=np.array([7]))
    >>> cells = count_on_lists(log, lists)
    >>> cells.offsets.tolist(), cells.positions.tolist(), cells.clicked.tolist()
    ([0, 2, 4, 4], [1, 2, 1, 2], [1.0, 1.0, 1.0, 0.0])
    """
    rows = log.doc_rows(dataset)[log.ranking_docs]
    places: Longs = np.asarray(log.ranking_positions if keys is None else keys, np.int64)
    shown, clicked = log.slot_statistics()
    there = shown > 0
    queries = np.repeat(id_keys(dataset.query_ids), dataset.list_lengths)
    return _summed(
        rows[there],
        places[there],
        shown[there].astype(np.float64),
        clicked[there].astype(np.float64),
        (queries, joined_keys(queries, id_keys(dataset.doc_names))),
        int(places.max(initial=1)),
    )


def merge_cells(parts: Sequence[Cells]) -> Cells:
    """Return the counts of several parts of a log over the same docs: their exact sums.

    Whole numbers add up exactly in float64 below 2^53, so neither the cut nor the order of the
    parts matters.
    """
    if not parts:
        raise InputError("there are no counts to merge")
    first = parts[0]
    if any(not np.array_equal(part.doc_key, first.doc_key) for part in parts):
        raise InputError("only counts over the same docs can be merged")
    docs, positions, shown, clicked = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("cell_docs", "positions", "shown", "clicked")
    )
    depth = max(part.depth for part in parts)
    return _summed(docs, positions, shown, clicked, (first.query_key, first.doc_key), depth)


def shift_positions(cells: Cells, by: int) -> Cells:
    """Return the cells with `by` added to every position: for keys of contexts."""
    return replace(cells, positions=cells.positions + by, depth=cells.depth + by)


def _summed(
    docs: Longs,
    positions: Longs,
    shown: Floats,
    clicked: Floats,
    keys: tuple[Longs, Longs],
    depth: int,
) -> Cells:
    """Add up the cells of equal doc and position; `keys` are those of each doc's query and itself."""
    key = docs * (depth + 1) + positions
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])[: len(key)])
    offsets = np.searchsorted(key[starts], np.arange(len(keys[0]) + 1) * (depth + 1))
    sums = [np.add.reduceat(part[order], starts) if len(key) else part for part in (shown, clicked)]
    return Cells(
        offsets.astype(np.int64), key[starts] % (depth + 1), sums[0], sums[1], *keys, depth
    )
