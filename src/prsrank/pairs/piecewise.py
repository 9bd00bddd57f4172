"""Pairs of a log in pieces: each piece is folded on its own lists, then all are put side by side."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import indices_of
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.pair_set import PairSet
from prsrank.ragged import offsets_of, ragged_rows
from prsrank.threads import map_in_order, thread_count
from prsrank.types import Longs

_Own = tuple[Longs, RankingDataset]
_OWN: WeakKeyDictionary[ClickLog, WeakKeyDictionary[RankingDataset, _Own]] = WeakKeyDictionary()


def fold_pieces(
    pieces: Iterable[ClickLog],
    dataset: RankingDataset,
    fold: Callable[[ClickLog, RankingDataset], PairSet],
) -> PairSet:
    """Fold a log in pieces that have no list in common.

    Args:
        pieces: the log.
        dataset: the lists.
        fold: folds one piece; of several, each is given its own lists alone, without features.
    """
    logs = iter(pieces)
    first, second = next(logs), next(logs, None)
    if second is None:
        return fold(first, dataset)
    bare = replace(dataset, features=np.zeros((dataset.docs, 0), np.float32), feature_names=())

    def folded(log: ClickLog) -> tuple[Longs, PairSet]:
        known = _OWN.setdefault(log, WeakKeyDictionary())
        if dataset not in known:  # pieces in memory are folded again for every weighting
            known[dataset] = _own_lists(log, dataset, bare)
        lists, own = known[dataset]
        return lists, fold(log, own)

    each = map_in_order(folded, chain((first, second), logs), threads=min(2, thread_count()))
    return _side_by_side(list(each), dataset)


def _own_lists(log: ClickLog, dataset: RankingDataset, bare: RankingDataset) -> _Own:
    lists = np.sort(indices_of(log.query_ids, dataset.query_ids))
    if lists.min(initial=0) < 0:
        log.doc_rows(dataset)  # says which query it is
    return lists, bare.select(lists)


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
