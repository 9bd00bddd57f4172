"""Pairs whose weights are the outer product of two vectors per list: memory linear in the docs."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.pairs.fold import PairDraft, SessionConstant
from prsrank.pairs.fold_kernels import CLIPPED, LARGEST, PAIRS, SQUARES, SUM
from prsrank.pairs.pair_set import PairSet, finished_pairs
from prsrank.pairs.weighted_pairs import (
    PairDiagnostics,
    PairVectors,
    WeightedPairs,
    check_sum_of_weights,
)
from prsrank.ragged import list_of_row, offsets_of
from prsrank.types import Floats, IdArray, Longs, Marks, Reals


@dataclass(frozen=True, eq=False)
class OuterPairs(WeightedPairs):
    r"""Every ordered pair of docs of a list, $W_{ij} = u_i v_j$ for $i \ne j$.

    With u the probability that a doc is clicked once seen, times the list's constant, and v that
    it is not, W is the expected weight of the pair in a session that shows all docs. Pairwise
    rankers take it as they take a `PairSet`; nothing ever holds the matrix.

    What the two directions of a pair share asks for no order, but draws the scores of the two docs
    together. `one_way` leaves that part of it out:
    $W_{ij} = u_i v_j - c \min(u_i v_j, u_j v_i)$, and with c = 1 every pair counts in one
    direction, by $\max(0, u_i v_j - u_j v_i)$.

    Attributes:
        offsets: offsets of the data set's lists (lists + 1).
        query_ids: the data set's query ids.
        winning: u, one value of at least 0 per doc.
        losing: v, likewise.
        one_way: c, from 0 to 1.
        normalise: which constant of the list u holds: None, "ndcg" or "arp".
        truncation: the rank k of IDCG@k, if the constant has one.

    >>> data = RankingDataset(np.eye(2), np.array([0, 2]))
    >>> pairs = OuterPairs.from_relevance(data, [0.5, 0.25])
    >>> pairs.dense().weights.reshape(2, 2).tolist()  # .5 (1 - .25) and .25 (1 - .5)
    [[0.0, 0.375], [0.125, 0.0]]
    """

    offsets: Longs
    query_ids: IdArray
    winning: Floats | Reals
    losing: Floats | Reals
    normalise: str | None = None
    truncation: int | None = None
    one_way: float = 0.0
    _arrays = ("winning", "losing")

    def __post_init__(self) -> None:
        if not 0 <= self.one_way <= 1:
            raise InputError(f"one_way must be from 0 to 1, not {self.one_way}")
        for name in ("winning", "losing"):
            values = np.ascontiguousarray(getattr(self, name)).view()
            if values.shape != (self.offsets[-1],):
                raise InputError(f"{values.shape} values for {self.offsets[-1]} docs")
            if not np.all((values >= 0) & np.isfinite(values)):
                raise InputError("the weights of pairs must be finite and at least 0")
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        won = float(self.winning.sum(dtype=np.float64))
        check_sum_of_weights(won * float(self.losing.max(initial=0.0)))

    @classmethod
    def from_relevance(
        cls,
        dataset: RankingDataset,
        theta: npt.ArrayLike,
        *,
        action_weights: npt.ArrayLike | None = None,
        list_weights: npt.ArrayLike | None = None,
        normalise: str | None = None,
        truncation: int | None = None,
        dtype: npt.DTypeLike = np.float64,
        one_way: float = 0.0,
    ) -> "OuterPairs":
        r"""Return $W_{ij} = k_q \omega_i \theta_i (1 - \theta_j)$ for all docs of a list q.

        Args:
            dataset: the lists.
            theta: probability of a click on each doc once seen, from 0 to 1.
            action_weights: $\omega$, what a click on each doc is worth; default 1.
            list_weights: how much each list counts; default 1. A list of weight 0 has no pairs.
            normalise: $k_q$. None: 1. "ndcg": 1 / IDCG of the gains $\omega \theta$. "arp": 1 /
                the list's length.
            truncation: IDCG is that of the top `truncation` ranks.
            dtype: float64 or float32.
            one_way: how far each pair counts in one direction only, from 0 to 1.
        """
        chance = np.asarray(theta, np.float64)
        if chance.shape != (dataset.docs,) or not np.all((chance >= 0) & (chance <= 1)):
            raise InputError(f"theta must be {dataset.docs} values from 0 to 1")
        gains = chance if action_weights is None else chance * np.asarray(action_weights)
        factors = SessionConstant(normalise, truncation).of_gains(gains, dataset.offsets)
        if list_weights is not None:
            factors = factors * np.asarray(list_weights, np.float64)
        return cls(
            dataset.offsets,
            dataset.query_ids,
            (gains * np.repeat(factors, dataset.list_lengths)).astype(dtype),
            (1 - chance).astype(dtype),
            normalise,
            truncation,
            one_way,
        )

    @cached_property
    def work_offsets(self) -> Longs:
        """Number of pairs before each list, and of all (lists + 1)."""
        return offsets_of(np.diff(self.offsets) ** 2)

    @cached_property
    def for_kernels(self) -> PairVectors:
        """The pairs as kernels take them."""
        return PairVectors(self.offsets, self.winning, self.losing, float(self.one_way))

    @cached_property
    def totals(self) -> Floats:  # type: ignore[override]  # a set of rows is given them
        """As `PairSet.totals`: of each list the pairs, their sum, squares and largest (lists x 5)."""
        out = np.zeros((self.lists, CLIPPED + 1))
        u, v = self.winning.astype(np.float64), self.losing.astype(np.float64)
        _totals_kernel(self.offsets, u, v, float(self.one_way), out)
        if not self.one_way:  # a closed form rounds less than a sum over all pairs
            owner, several = list_of_row(self.offsets), np.diff(self.offsets) > 1
            win, lose, both = (np.bincount(owner, x, self.lists) for x in (u, v, u * v))
            out[:, SUM] = np.where(several, np.maximum(win * lose - both, 0.0), 0.0)
        return out

    @property
    def weight_sum(self) -> float:
        """Sum of all weights."""
        return float(self.totals[:, SUM].sum())

    @property
    def paired_lists(self) -> Marks:
        """Lists with a pair."""
        return np.asarray(self.totals[:, SUM] > 0)

    def diagnostics(self) -> PairDiagnostics:
        """Count and sum up the pairs, list constants included."""
        paired = self.totals[list_of_row(self.offsets), PAIRS] > 0
        winners = int(np.count_nonzero(paired & (self.winning > 0)))
        distinct = int(self.totals[:, PAIRS].sum())
        return PairDiagnostics.of(self.totals, winners=winners, distinct=distinct)

    def keep_lists(self, chosen: Marks) -> "OuterPairs":
        """Return the pairs of some of the lists."""
        lengths = np.diff(self.offsets)
        docs = np.repeat(chosen, lengths)
        return replace(
            self,
            offsets=offsets_of(lengths[chosen]),
            query_ids=self.query_ids[chosen],
            winning=self.winning[docs],
            losing=self.losing[docs],
        )

    def dense(self, dtype: npt.DTypeLike = np.float64) -> PairSet:
        """Return the same weights as rows: n^2 numbers for a list of n docs."""
        lengths = np.diff(self.offsets)
        many = np.repeat(lengths > 1, lengths)
        draft = PairDraft.of(self.offsets, (self.winning > 0) & many)
        rows = zip(draft.winner_offsets[:-1], draft.winner_offsets[1:], strict=True)
        for q, (first, last) in enumerate(rows):
            begin, end = self.offsets[q], self.offsets[q + 1]
            won = draft.winner_row[first:last]
            u, v = self.winning[begin:end], self.losing[begin:end]
            weights = np.outer(u[won], v)
            if self.one_way:
                weights -= self.one_way * np.minimum(weights, np.outer(v[won], u))
            weights[np.arange(len(won)), won] = 0.0
            draft.weights[draft.weight_starts[q] : draft.weight_starts[q + 1]] = weights.ravel()
        draft.totals[:] = self.totals
        constant = SessionConstant(self.normalise, self.truncation)
        return finished_pairs(draft, self.query_ids, constant, dtype)


@njit(cache=True, nogil=True)
def apart(forward, backward, one_way):  # type: ignore[no-untyped-def]
    """Return the weights of a pair's two directions less what they share, as far as `one_way`."""
    shared = one_way * min(forward, backward)
    return forward - shared, backward - shared


@njit(cache=True, nogil=True)
def _totals_kernel(offsets: Longs, u: Floats, v: Floats, one_way: float, out: Floats) -> None:
    for q in range(len(offsets) - 1):
        for i in range(offsets[q], offsets[q + 1]):
            for j in range(offsets[q], offsets[q + 1]):
                weight, _ = apart(u[i] * v[j], u[j] * v[i], one_way)
                if i != j and weight > 0:
                    out[q, PAIRS] += 1
                    out[q, SUM] += weight
                    out[q, SQUARES] += weight * weight
                    out[q, LARGEST] = max(out[q, LARGEST], weight)
