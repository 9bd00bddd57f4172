"""Pairs of a log in pieces: each piece is folded on its own lists, then all are put side by side."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log import ClickLog
from prsrank.logs.session_pieces import SessionPieces, Sessions
from prsrank.pairs.pair_set import PairSet
from prsrank.ragged import offsets_of, ragged_rows
from prsrank.types import Longs

_AT_ONCE = 2


def fold_pieces(
    pieces: SessionPieces, fold: Callable[[ClickLog, RankingDataset], PairSet]
) -> PairSet:
    """Fold a log in pieces that have no list in common.

    Args:
        pieces: the log.
        fold: folds one piece on its own lists; of several, these have no features.
    """
    if pieces.only is not None:
        return fold(pieces.only.log, pieces.lists)

    def folded(piece: Sessions) -> tuple[Longs, PairSet]:
        numbers, own = piece.own
        return numbers, fold(piece.log, own)

    parts = [
        (place.list_numbers(numbers), pairs)
        for place, (numbers, pairs) in pieces.each(folded, threads=_AT_ONCE)
    ]
    return _side_by_side(parts, pieces.lists)


def _side_by_side(parts: list[tuple[Longs, PairSet]], dataset: RankingDataset) -> PairSet:
    """Return one set of sets that each have other lists of a data set; they are used up."""
    counts = np.zeros(dataset.lists, np.int64)
    for lists, part in parts:
        counts[lists] = np.diff(part.winner_offsets)
    winner_offsets, weight_offsets = offsets_of(counts), offsets_of(counts * dataset.list_lengths)
    any_part = parts[0][1]
    winner_row = np.empty(winner_offsets[-1], np.int32)
    weights = np.empty(weight_offsets[-1], any_part.weights.dtype)
    totals = np.zeros((dataset.lists, any_part.totals.shape[1]))
    while parts:
        lists, part = parts.pop()
        winner_row[ragged_rows(winner_offsets, lists)[0]] = part.winner_row
        weights[ragged_rows(weight_offsets, lists)[0]] = part.weights
        totals[lists] = part.totals
    return replace(
        any_part,
        offsets=dataset.offsets,
        query_ids=dataset.query_ids,
        winner_offsets=winner_offsets,
        winner_row=winner_row,
        weights=weights,
        totals=totals,
    )
