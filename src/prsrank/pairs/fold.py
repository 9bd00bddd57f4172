"""Folding sessions, or labels, into one weight per ordered pair of docs of a list."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.fold_kernels import (
    IRRELEVANT,
    NON_CLICKED,
    OTHERS,
    fold_kernel,
    label_kernel,
    weighted_fold_kernel,
)
from prsrank.pairs.log_on_lists import LogOnLists, WeightRows
from prsrank.ragged import list_of_row, offsets_of
from prsrank.threads import for_each_piece
from prsrank.types import Floats, Ints, Longs, Marks
from prsrank.weighting import Weighting

AGAINST = {"non-clicked": NON_CLICKED, "others": OTHERS, "irrelevant": IRRELEVANT}
NORMALISATIONS = (None, "ndcg", "arp")

# Rows of weights of so many entries in all are held at once where slots share none.
_ENTRIES_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class SessionConstant:
    """The constant k of a session (or a labelled list) that multiplies all its pairs.

    Attributes:
        normalise: None for k = 1; "ndcg" for 1 / IDCG; "arp" for 1 / the list's length.
        truncation: IDCG is that of the top `truncation` ranks; None for all.

    >>> SessionConstant("ndcg").of_clicks(2).round(4).tolist()
    [0.0, 1.0, 0.6131]
    """

    normalise: str | None = None
    truncation: int | None = None

    def __post_init__(self) -> None:
        if self.normalise not in NORMALISATIONS:
            raise InputError(f"normalise must be None, 'ndcg' or 'arp', not {self.normalise!r}")
        if self.truncation is not None and self.truncation < 1:
            raise InputError(f"truncation must be at least 1, not {self.truncation}")

    def of_clicks(self, most: int) -> Floats:
        """Return the constants of sessions with 0 to `most` clicks (the list apart)."""
        if self.normalise != "ndcg":
            return np.ones(most + 1)
        ideal = np.concatenate([[np.inf], np.cumsum(self._discounts(most))])
        return np.asarray(1 / ideal)

    def of_lists(self, lengths: Longs) -> Floats:
        """Return the factor of each list."""
        if self.normalise == "arp":
            return np.asarray(1 / np.maximum(lengths, 1))
        return np.ones(len(lengths))

    def of_gains(self, gains: Floats, offsets: Longs) -> Floats:
        """Return the constant of each list with known gains; 0 where no gain is above 0."""
        if self.normalise != "ndcg":
            return self.of_lists(np.diff(offsets))
        list_of_doc = list_of_row(offsets)
        order = np.lexsort((-gains, list_of_doc))
        index = np.arange(len(gains)) - offsets[list_of_doc]
        discounts = self._discounts(int(np.diff(offsets).max(initial=0)))
        ideal = np.bincount(list_of_doc, gains[order] * discounts[index], len(offsets) - 1)
        return np.divide(1.0, ideal, out=np.zeros(len(ideal)), where=ideal > 0)

    def _discounts(self, ranks: int) -> Floats:
        discounts = 1 / np.log2(np.arange(2, ranks + 2))
        discounts[self.truncation :] *= self.truncation is None
        return np.asarray(discounts)


class PairDraft(NamedTuple):
    """Rows of weights in the making: one per winner, all 0 at first. Kernels take it as it is.

    Attributes:
        offsets: offsets of the data set's lists.
        winner_offsets: where each list's winners begin (lists + 1).
        winner_row: row in its list of each winner.
        winner_of_doc: number within its list of each winner; -1 for the other docs.
        weight_starts: where each list's rows begin in `weights` (lists + 1).
        weights: float64.
        totals: per list, sums over the pairs of single sessions.
    """

    offsets: Longs
    winner_offsets: Longs
    winner_row: Ints
    winner_of_doc: Ints
    weight_starts: Longs
    weights: Floats
    totals: Floats

    @classmethod
    def of(cls, offsets: Longs, won: Marks) -> "PairDraft":
        """Make room for the docs that won."""
        winners = np.flatnonzero(won)
        winner_list = np.searchsorted(offsets, winners, side="right") - 1
        winner_offsets = offsets_of(won)[offsets]
        winner_row = (winners - offsets[winner_list]).astype(np.int32)
        winner_of_doc = np.full(len(won), -1, np.int32)
        winner_of_doc[winners] = np.arange(len(winners)) - winner_offsets[winner_list]
        starts = offsets_of(np.diff(winner_offsets) * np.diff(offsets))
        weights, totals = np.zeros(starts[-1]), np.zeros((len(offsets) - 1, 5))
        return cls(offsets, winner_offsets, winner_row, winner_of_doc, starts, weights, totals)


def fold_log(
    log: ClickLog,
    dataset: RankingDataset,
    placed: LogOnLists,
    weighting: Weighting,
    constant: SessionConstant,
    threads: int | None,
) -> PairDraft:
    """Fold the sessions of a log into rows of weights."""
    won = np.zeros(dataset.docs, bool)
    clicked = placed.shown.slot_clicked > 0
    slot_docs = dataset.offsets[placed.list_of_slot] + placed.shown.slot_rows
    won[slot_docs[clicked]] = True
    draft = PairDraft.of(dataset.offsets, won)
    kernel = _fold_kernel(log, dataset, placed, constant, clicked)
    work = _work(placed, draft)

    def fold(rows: WeightRows, begin: int, end: int) -> None:
        for_each_piece(
            lambda a, b: kernel(begin + a, begin + b, rows, AGAINST[weighting.against], draft),
            work[begin : end + 1],
            threads=threads,
        )

    shared = placed.shared_rows(weighting)
    if shared is not None:
        fold(shared, 0, dataset.lists)
        return draft
    sizes = placed.row_sizes(dataset.lists)
    begin = 0
    while begin < dataset.lists:
        end = int(np.searchsorted(sizes, sizes[begin] + _ENTRIES_AT_ONCE, side="right")) - 1
        end = min(max(end, begin + 1), dataset.lists)
        fold(placed.own_rows(weighting, begin, end), begin, end)
        begin = end
    return draft


def _fold_kernel(
    log: ClickLog,
    dataset: RankingDataset,
    placed: LogOnLists,
    constant: SessionConstant,
    clicked: Marks,
) -> Callable[..., None]:
    """Return the kernel for a log: by counts, or by single sessions where clicks have weights."""
    shown, relevance = placed.shown, placed.relevance
    factors = constant.of_lists(dataset.list_lengths)
    if log.click_weights is not None:
        constants = constant.of_clicks(int(log.session_clicks.max(initial=0)))
        return lambda a, b, rows, against, draft: weighted_fold_kernel(
            a, b, shown, rows, against, relevance, constants, factors, draft
        )
    units, unit = session_units(log, placed, constant)
    clicked_before = offsets_of(clicked)
    most = int(np.diff(clicked_before[shown.slot_offsets]).max(initial=1))
    return lambda a, b, rows, against, draft: fold_kernel(
        a, b, shown, rows, against, relevance, units, unit * factors, most, draft
    )


def fold_labels(
    dataset: RankingDataset, graded: bool, constant: SessionConstant, threads: int | None
) -> PairDraft:
    """Turn labels into rows of weights max(0, gain_i - gain_j)."""
    if dataset.labels is None:
        raise InputError("this data set has no labels")
    gains: Floats = np.asarray(dataset.labels if graded else dataset.relevance, np.float64)
    if graded:
        gains = np.exp2(gains) - 1
    list_of_doc = list_of_row(dataset.offsets)
    lowest = np.full(dataset.lists, np.inf)
    np.minimum.at(lowest, list_of_doc, gains)
    draft = PairDraft.of(dataset.offsets, gains > lowest[list_of_doc])
    factors = constant.of_gains(gains, dataset.offsets)
    for_each_piece(
        lambda a, b: label_kernel(a, b, gains, factors, draft),
        draft.weight_starts,
        threads=threads,
    )
    return draft


def session_units(
    log: ClickLog, placed: LogOnLists, constant: SessionConstant
) -> tuple[Longs, float]:
    """Return the session constants as whole numbers of a unit, and the unit's value.

    The unit is the smallest power of 2 at which no sum over a showing's sessions overflows.
    """
    constants = constant.of_clicks(int(log.session_clicks.max(initial=0)))
    if constant.normalise != "ndcg":
        return constants.astype(np.int64), 1.0
    busiest = int(np.diff(placed.shown.session_offsets).max(initial=1))
    unit = 2.0 ** (busiest.bit_length() - 62)
    return np.rint(constants / unit).astype(np.int64), unit


def _work(placed: LogOnLists, draft: PairDraft) -> Longs:
    """Return a measure of the work up to each list: its sessions and its weights."""
    shown = placed.shown
    sessions = np.diff(shown.session_offsets)[shown.by_list]
    before = offsets_of(sessions)
    return before[shown.list_offsets] * 8 + draft.weight_starts
