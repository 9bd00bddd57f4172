"""Weighted pairs of docs: all that a pairwise ranker needs to know of clicks or labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog, LogOrFrame, as_click_log
from prsrank.logs.pieces import SessionPieces, Sessions
from prsrank.pairs.fold import PairDraft, SessionConstant, fold_labels, fold_log
from prsrank.pairs.fold_kernels import LARGEST
from prsrank.pairs.log_on_lists import LogOnLists, PropensitySource
from prsrank.pairs.weighted_pairs import (
    PairDiagnostics,
    PairRows,
    WeightedPairs,
    check_sum_of_weights,
)
from prsrank.ragged import list_of_row, offsets_of, ragged_rows
from prsrank.types import Floats, IdArray, Ints, Longs, Marks, Reals
from prsrank.weighting import WeightFunction, Weighting, find_weighting

_PIECES_AT_ONCE = 2


@dataclass(frozen=True, eq=False)
class PairSet(WeightedPairs):
    r"""Per winner (a clicked, or relevant, doc) one dense row of weights over its list.

    Row v holds the weights W_ij of winner i = `winner_row[v]` of list q = `winner_list[v]`
    against every doc j of that list: `weights[weight_offsets[v]:weight_offsets[v + 1]]`.
    A weight of 0 is no pair. All sessions of a list are folded into it, exactly:
    $W_{ij} = \sum_s [c_i = 1][c_j = 0] w_{ij}(s)$ over the sessions s, so loss and gradient equal
    those of the single sessions and cost the same for any number of clicks.

    Attributes:
        offsets: offsets of the data set's lists (lists + 1).
        query_ids: the data set's query ids.
        winner_offsets: where each list's winners begin, and the end (lists + 1).
        winner_row: row in its list of each winner, rising within a list (winners).
        weights: the rows, one behind the other; float64 or float32.
        totals: per list five sums over the pairs of single sessions (for `diagnostics`).
        normalise: which session constant the weights hold: None, "ndcg" or "arp".
        truncation: the rank k of IDCG@k, if the constant has one.

    >>> data = RankingDataset(np.eye(3), np.array([0, 3]), labels=np.array([0, 1, 0]))
    >>> pairs = PairSet.from_labels(data)
    >>> pairs.winner_list.tolist(), pairs.winner_row.tolist(), pairs.weights.tolist()
    ([0], [1], [1.0, 0.0, 1.0])
    """

    offsets: Longs
    query_ids: IdArray
    winner_offsets: Longs
    winner_row: Ints
    weights: Floats | Reals
    totals: Floats
    normalise: str | None = None
    truncation: int | None = None
    _arrays = ("weights",)

    def __post_init__(self) -> None:
        if len(self.weights) != self.weight_offsets[-1]:
            raise InputError(
                f"{len(self.weights)} weights where the winners need {self.weight_offsets[-1]}"
            )
        if self.weights.min(initial=0.0) < 0:
            raise InputError("the weights of pairs must be finite and at least 0")
        check_sum_of_weights(self.weight_sum)
        for name in ("winner_offsets", "winner_row", "weights", "totals"):
            array = np.ascontiguousarray(getattr(self, name)).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def winners(self) -> int:
        """Number of winners."""
        return len(self.winner_row)

    @cached_property
    def winner_list(self) -> Longs:
        """List of each winner."""
        return list_of_row(self.winner_offsets)

    @cached_property
    def weight_offsets(self) -> Longs:
        """Where each winner's row begins in `weights`, and the end (winners + 1)."""
        lengths = np.diff(self.offsets)[self.winner_list]
        return offsets_of(lengths)

    @cached_property
    def work_offsets(self) -> Longs:
        """Where each list's rows begin in `weights`, and the end (lists + 1)."""
        return self.weight_offsets[self.winner_offsets]

    @cached_property
    def for_kernels(self) -> PairRows:
        """The pairs as kernels take them."""
        winners = self.winner_offsets, self.winner_row
        return PairRows(self.offsets, *winners, self.work_offsets, self.weights)

    @property
    def weight_sum(self) -> float:
        """Sum of all weights."""
        return float(self.weights.sum(dtype=np.float64))

    @property
    def paired_lists(self) -> Marks:
        """Lists with a winner."""
        return np.diff(self.winner_offsets) > 0

    def row(self, winner: int) -> npt.NDArray:
        """Return the weights of one winner against each doc of its list."""
        return self.weights[self.weight_offsets[winner] : self.weight_offsets[winner + 1]]

    def keep_lists(self, chosen: Marks) -> "PairSet":
        """Return the pairs of some of the lists, which must hold all winners."""
        return replace(
            self,
            offsets=offsets_of(np.diff(self.offsets)[chosen]),
            query_ids=self.query_ids[chosen],
            winner_offsets=np.append(self.winner_offsets[:-1][chosen], self.winners),
            totals=self.totals[chosen],
        )

    @classmethod
    def from_log(
        cls,
        log: LogOrFrame,
        dataset: RankingDataset,
        propensities: PropensitySource = None,
        weighting: str | Weighting | WeightFunction = "prs",
        *,
        parameters: Mapping[str, float] | None = None,
        normalise: str | None = None,
        truncation: int | None = None,
        context: str | None = None,
        dtype: npt.DTypeLike = np.float64,
        threads: int | None = None,
    ) -> "PairSet":
        r"""Fold all sessions of a log: $W_{ij} = \sum_s k_s a_i(s) [c_i = 1][c_j = 0] w_{ij}(s)$.

        The weight $a_i$ of the click is 1 unless the log weighs its clicks.

        Args:
            log: the clicks, or a frame of them; its queries and docs must be in the data set.
            dataset: the lists.
            propensities: a curve, that is anything with `at(positions, context=...)`; or one
                value per slot of the log; None takes the log's own.
            weighting: a name from `WEIGHTINGS`, a Weighting, or a function
                `(p_clicked, p_non_clicked) -> weights`. "labels" leaves the clicks aside.
            parameters: parameters of the weighting, such as {"gamma": 1.0}.
            normalise: the session constant k_s. None: 1. "ndcg": 1 / IDCG of the session's
                number of clicks. "arp": 1 / the list's length.
            truncation: IDCG is that of the top `truncation` ranks.
            context: a context column of the log, whose value the curve is asked with.
            dtype: of the weights, float64 or float32; the sums are float64 either way.
            threads: default: the cores this process may use. No effect on the result.

        Raises:
            InputError: if a click has propensity 0, a query or doc is not in the data set, or
                the weighting needs what is not there.
        """
        chosen = find_weighting(weighting, parameters)
        if chosen.of_relevance:
            raise InputError(f"{chosen.name} pairs are no sum over sessions: see prsrank.posterior")
        if chosen.against == "labels":
            return cls.from_labels(
                dataset, normalise=normalise, truncation=truncation, dtype=dtype, threads=threads
            )
        constant = SessionConstant(normalise, truncation)
        log = as_click_log(log)
        placed = LogOnLists(log, dataset, propensities, chosen, context)
        draft = fold_log(log, dataset, placed, chosen, constant, threads)
        return finished_pairs(draft, dataset.query_ids, constant, dtype)

    @classmethod
    def from_labels(
        cls,
        dataset: RankingDataset,
        *,
        graded: bool = False,
        normalise: str | None = None,
        truncation: int | None = None,
        dtype: npt.DTypeLike = np.float64,
        threads: int | None = None,
    ) -> "PairSet":
        r"""Full information: $W_{ij} = k_q \max(0, g_i - g_j)$ for all docs of a list.

        Args:
            dataset: lists with labels.
            graded: the gain g is 2^label - 1 instead of the relevance, 0 or 1.
            normalise: k_q. None: 1. "ndcg": 1 / IDCG of the list. "arp": 1 / its length.
            truncation: IDCG is that of the top `truncation` ranks.
            dtype: of the weights, float64 or float32.
            threads: default: the cores this process may use.
        """
        constant = SessionConstant(normalise, truncation)
        draft = fold_labels(dataset, graded, constant, threads)
        return finished_pairs(draft, dataset.query_ids, constant, dtype)

    @classmethod
    def merge(
        cls,
        sets: Sequence["PairSet"],
        weights: Sequence[float] | None = None,
        *,
        dtype: npt.DTypeLike = np.float64,
    ) -> "PairSet":
        """Add sets over the same data set, each times its weight (default 1).

        Clicks can so be joined with judgements, or the partial sets of several machines.
        """
        if not sets:
            raise InputError("there are no sets of pairs to merge")
        scales = [1.0] * len(sets) if weights is None else [float(w) for w in weights]
        if len(scales) != len(sets) or not all(np.isfinite(w) and w >= 0 for w in scales):
            raise InputError("merging needs one finite weight of at least 0 per set of pairs")
        first = sets[0]
        for part in sets[1:]:
            if not np.array_equal(part.offsets, first.offsets):
                raise InputError("only sets of pairs over the same lists can be merged")
            if (part.normalise, part.truncation) != (first.normalise, first.truncation):
                raise InputError("only sets of pairs with the same normalisation can be merged")
        parts = [(np.arange(first.lists), part) for part in sets]
        return _added(parts, scales, first, dtype)

    def to_catboost(self) -> tuple[Longs, Floats]:
        """Return (winner, loser) rows of the data set and weights, as CatBoost's `PairLogit` takes.

        >>> data = RankingDataset(np.eye(3), np.array([0, 3]), labels=np.array([0, 1, 0]))
        >>> PairSet.from_labels(data).to_catboost()[0].tolist()
        [[1, 0], [1, 2]]
        """
        lengths = np.diff(self.weight_offsets)
        begin = self.offsets[self.winner_list]
        winners = np.repeat(begin + self.winner_row, lengths)
        losers = np.arange(len(self.weights)) + np.repeat(begin - self.weight_offsets[:-1], lengths)
        there = np.flatnonzero(self.weights)
        rows = np.stack([winners[there], losers[there]], axis=1)
        return rows, self.weights[there].astype(np.float64)

    def diagnostics(self) -> PairDiagnostics:
        """Count and sum up the pairs."""
        distinct = int(np.count_nonzero(self.weights))
        return PairDiagnostics.of(self.totals, winners=self.winners, distinct=distinct)


def finished_pairs(
    draft: PairDraft,
    query_ids: IdArray,
    constant: SessionConstant,
    dtype: npt.DTypeLike = np.float64,
) -> PairSet:
    """Return a draft as a set of pairs with weights of a precision."""
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise InputError(f"weights are float64 or float32, not {np.dtype(dtype)}")
    return PairSet(
        offsets=draft.offsets,
        query_ids=query_ids,
        winner_offsets=draft.winner_offsets,
        winner_row=draft.winner_row,
        weights=draft.weights.astype(dtype, copy=False),
        totals=draft.totals,
        normalise=constant.normalise,
        truncation=constant.truncation,
    )


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
        (place.lists[numbers], pairs)
        for place, (numbers, pairs) in pieces.each(folded, threads=_PIECES_AT_ONCE)
    ]
    return _added(parts, [1.0] * len(parts), pieces.lists, parts[0][1].weights.dtype)


def _added(
    parts: list[tuple[Longs, PairSet]],
    scales: Sequence[float],
    lists: RankingDataset | PairSet,
    dtype: npt.DTypeLike,
) -> PairSet:
    """Add up sets of pairs, each of some of the lists and times its scale; they are used up."""
    constant = SessionConstant(parts[0][1].normalise, parts[0][1].truncation)
    offsets, won = lists.offsets, np.zeros(lists.docs, bool)
    for numbers, part in parts:
        won[offsets[numbers[part.winner_list]] + part.winner_row] = True
    draft = PairDraft.of(offsets, won)
    row_starts = offsets_of(np.diff(offsets)[list_of_row(draft.winner_offsets)])
    for scale in scales:
        numbers, part = parts.pop(0)
        of_winners = numbers[part.winner_list]
        winners = draft.winner_of_doc[offsets[of_winners] + part.winner_row]
        entries, _ = ragged_rows(row_starts, draft.winner_offsets[of_winners] + winners)
        draft.weights[entries] += scale * part.weights
        totals = draft.totals[numbers]
        largest = np.maximum(totals[:, LARGEST], scale * part.totals[:, LARGEST])
        totals += part.totals * np.array([scale > 0, scale, scale**2, 0, scale > 0])
        totals[:, LARGEST] = largest
        draft.totals[numbers] = totals
    return finished_pairs(draft, lists.query_ids, constant, dtype)
