"""Weighted pairs of docs: all that a pairwise ranker needs to know of clicks or labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import LogOrFrame, as_click_log
from prsrank.notebook import Chart, Columns, Shown
from prsrank.pairs.fold import PairDraft, SessionConstant, fold_labels, fold_log
from prsrank.pairs.fold_kernels import CLIPPED, LARGEST, PAIRS, SQUARES, SUM, add_rows_kernel
from prsrank.pairs.log_on_lists import LogOnLists, PropensitySource
from prsrank.pairs.pair_rows import run_over_lists
from prsrank.ragged import list_of_row, offsets_of
from prsrank.types import Floats, IdArray, Ints, Longs, Reals
from prsrank.weighting import WeightFunction, Weighting, find_weighting

# LightGBM and the neural rankers hold gradients, which are sums of weights, in float32.
_MOST_WEIGHT = float(np.finfo(np.float32).max)


@dataclass(frozen=True, repr=False)
class PairDiagnostics(Shown):
    """What a set of pairs is made of. A pair is one of a single session, before folding.

    Attributes:
        lists: lists with at least one pair.
        winners: clicked (or relevant) docs.
        pairs: pairs of weight above 0 in single sessions.
        distinct_pairs: ordered pairs of docs of weight above 0 after folding.
        weight_sum: sum of the weights of the pairs, without session constants.
        weight_mean: their mean.
        weight_sd: their standard deviation.
        weight_max: the largest of them.
        effective_sample_size: (sum w)^2 / sum w^2; equal weights give the number of pairs.
        clipped_share: share of the pairs whose weight was clipped.
        heaviest_lists: query id and share of the folded weight of the heaviest lists.
    """

    lists: int
    winners: int
    pairs: int
    distinct_pairs: int
    weight_sum: float
    weight_mean: float
    weight_sd: float
    weight_max: float
    effective_sample_size: float
    clipped_share: float
    heaviest_lists: tuple[tuple[int | str, float], ...]

    def _line(self) -> str:
        return (
            f"{self.pairs:,} pairs ({self.distinct_pairs:,} distinct) of {self.lists:,} lists, "
            f"effective sample size {self.effective_sample_size:,.0f}, "
            f"{self.clipped_share:.1%} clipped"
        )

    def _table(self) -> Columns:
        numbers = {name: value for name, value in vars(self).items() if name != "heaviest_lists"}
        return {"measure": list(numbers), "value": list(numbers.values())}

    def _chart(self) -> Chart:
        queries = [str(query) for query, _ in self.heaviest_lists]
        shares = [share for _, share in self.heaviest_lists]
        return Chart(
            "bars",
            {"query": queries, "share of the weight": shares},
            "query",
            "share of the weight",
        )

    @classmethod
    def of(
        cls,
        totals: Floats,
        per_list: npt.NDArray[np.number],
        query_ids: IdArray,
        winners: int,
        distinct: int,
        heaviest: int,
    ) -> "PairDiagnostics":
        """Sum up the totals of lists; `per_list` has their folded weights."""
        sums = totals.sum(axis=0)
        pairs, total, squares = sums[PAIRS], sums[SUM], sums[SQUARES]
        mean = total / pairs if pairs else 0.0
        spread = max(squares / pairs - mean**2, 0.0) if pairs else 0.0
        order = np.argsort(-per_list, kind="stable")[:heaviest]
        order = order[per_list[order] > 0]
        whole = per_list.sum()
        return cls(
            lists=int(np.count_nonzero(totals[:, PAIRS])),
            winners=winners,
            pairs=int(pairs),
            distinct_pairs=distinct,
            weight_sum=float(total),
            weight_mean=float(mean),
            weight_sd=float(np.sqrt(spread)),
            weight_max=float(totals[:, LARGEST].max(initial=0.0)),
            effective_sample_size=float(total**2 / squares) if squares else 0.0,
            clipped_share=float(sums[CLIPPED] / pairs) if pairs else 0.0,
            heaviest_lists=tuple(
                zip(query_ids[order].tolist(), (per_list[order] / whole).tolist(), strict=True)
            ),
        )


@dataclass(frozen=True, eq=False)
class PairSet:
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

    def __post_init__(self) -> None:
        if len(self.weights) != self.weight_offsets[-1]:
            raise InputError(
                f"{len(self.weights)} weights where the winners need {self.weight_offsets[-1]}"
            )
        check_sum_of_weights(float(self.weights.sum(dtype=np.float64)))
        for name in ("winner_offsets", "winner_row", "weights", "totals"):
            array = np.ascontiguousarray(getattr(self, name)).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def lists(self) -> int:
        """Number of lists of the data set."""
        return len(self.offsets) - 1

    @property
    def docs(self) -> int:
        """Number of docs of the data set."""
        return int(self.offsets[-1])

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
    def list_weight_offsets(self) -> Longs:
        """Where each list's rows begin in `weights`, and the end (lists + 1)."""
        return self.weight_offsets[self.winner_offsets]

    def row(self, winner: int) -> npt.NDArray:
        """Return the weights of one winner against each doc of its list."""
        return self.weights[self.weight_offsets[winner] : self.weight_offsets[winner + 1]]

    def astype(self, dtype: npt.DTypeLike) -> "PairSet":
        """Return the set with weights of another precision (float32 halves the memory)."""
        return replace(self, weights=self.weights.astype(dtype, copy=False))

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
        threads: int | None = None,
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
        won = np.zeros(first.docs, bool)
        for part in sets:
            won[part.offsets[part.winner_list] + part.winner_row] = True
        draft = PairDraft.of(first.offsets, won)
        for part, scale in zip(sets, scales, strict=True):
            _add(draft, part, scale, threads)
        constant = SessionConstant(first.normalise, first.truncation)
        return finished_pairs(draft, first.query_ids, constant, dtype)

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

    def diagnostics(self, *, heaviest: int = 5) -> PairDiagnostics:
        """Count and sum up the pairs; name the `heaviest` lists."""
        per_list = np.bincount(list_of_row(self.list_weight_offsets), self.weights, self.lists)
        distinct = int(np.count_nonzero(self.weights))
        return PairDiagnostics.of(
            self.totals, per_list, self.query_ids, self.winners, distinct, heaviest
        )


def check_sum_of_weights(total: float) -> None:
    """Raise an InputError for weights whose sums overflow: a ranker would learn nothing from them.

    >>> check_sum_of_weights(1e39)
    Traceback (most recent call last):
    prsrank.errors.InputError: the weights of the pairs add up to 1e+39, and rankers hold numbers up to 3.4e+38: check for propensities near 0, and weights of clicks
    """
    if not total <= _MOST_WEIGHT:
        raise InputError(
            f"the weights of the pairs add up to {total:.2g}, and rankers hold numbers up to "
            f"{_MOST_WEIGHT:.2g}: check for propensities near 0, and weights of clicks"
        )


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


def _add(draft: PairDraft, part: PairSet, scale: float, threads: int | None) -> None:
    """Add the rows and totals of a set of pairs, times `scale`, to a draft."""
    run_over_lists(add_rows_kernel, part, scale, draft, threads=threads)
    largest = np.maximum(draft.totals[:, LARGEST], scale * part.totals[:, LARGEST])
    draft.totals[:] += part.totals * np.array([scale > 0, scale, scale**2, 0, scale > 0])
    draft.totals[:, LARGEST] = largest
