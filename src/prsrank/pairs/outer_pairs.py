"""Pairs whose weights are the outer product of two vectors per list: memory linear in the docs."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.pairs.fold import PairDraft, SessionConstant
from prsrank.pairs.fold_kernels import LARGEST, PAIRS, SQUARES, SUM
from prsrank.pairs.pair_set import PairSet
from prsrank.types import Floats, IdArray, Longs, Marks, Reals


@dataclass(frozen=True, eq=False)
class OuterPairs:
    r"""Every ordered pair of docs of a list, $W_{ij} = u_i v_j$ for $i \ne j$.

    With u the probability that a doc is clicked once seen, times the list's constant, and v that
    it is not, W is the expected weight of the pair in a session that shows all docs. Pairwise
    rankers take it as they take a `PairSet`; nothing ever holds the matrix.

    Attributes:
        offsets: offsets of the data set's lists (lists + 1).
        query_ids: the data set's query ids.
        winning: u, one value of at least 0 per doc.
        losing: v, likewise.
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

    def __post_init__(self) -> None:
        for name in ("winning", "losing"):
            values = np.ascontiguousarray(getattr(self, name)).view()
            if values.shape != (self.offsets[-1],):
                raise InputError(f"{values.shape} values for {self.offsets[-1]} docs")
            if not np.all((values >= 0) & np.isfinite(values)):
                raise InputError("the weights of pairs must be finite and at least 0")
            values.flags.writeable = False
            object.__setattr__(self, name, values)

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
        )

    @property
    def lists(self) -> int:
        """Number of lists of the data set."""
        return len(self.offsets) - 1

    @property
    def docs(self) -> int:
        """Number of docs of the data set."""
        return int(self.offsets[-1])

    @property
    def work_offsets(self) -> Longs:
        """Number of pairs before each list, and of all (lists + 1): how work is shared out."""
        return np.concatenate([[0], np.cumsum(np.diff(self.offsets) ** 2)]).astype(np.int64)

    @property
    def weight_sums(self) -> Floats:
        r"""Sum of the weights of each list, $\sum u \sum v - \sum u v$."""
        u, v = self.winning.astype(np.float64), self.losing.astype(np.float64)
        owner = np.repeat(np.arange(self.lists), np.diff(self.offsets))
        win, lose, both = (np.bincount(owner, x, self.lists) for x in (u, v, u * v))
        # a list of one doc has no pair: its difference may be off 0 by rounding
        return np.where(np.diff(self.offsets) > 1, np.maximum(win * lose - both, 0.0), 0.0)

    def astype(self, dtype: npt.DTypeLike) -> "OuterPairs":
        """Return the set with vectors of another precision."""
        return replace(
            self,
            winning=self.winning.astype(dtype, copy=False),
            losing=self.losing.astype(dtype, copy=False),
        )

    def keep_lists(self, chosen: Marks) -> "OuterPairs":
        """Return the pairs of some of the lists."""
        lengths = np.diff(self.offsets)
        docs = np.repeat(chosen, lengths)
        return replace(
            self,
            offsets=np.concatenate([[0], np.cumsum(lengths[chosen])]).astype(np.int64),
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
            weights = np.outer(self.winning[begin:end][won], self.losing[begin:end])
            weights[np.arange(len(won)), won] = 0.0
            draft.weights[draft.weight_starts[q] : draft.weight_starts[q + 1]] = weights.ravel()
            draft.totals[q, PAIRS] = np.count_nonzero(weights)
            draft.totals[q, SUM] = weights.sum()
            draft.totals[q, SQUARES] = (weights**2).sum()
            draft.totals[q, LARGEST] = weights.max(initial=0.0)
        return PairSet(
            offsets=self.offsets,
            query_ids=self.query_ids,
            winner_offsets=draft.winner_offsets,
            winner_row=draft.winner_row,
            weights=draft.weights.astype(dtype, copy=False),
            totals=draft.totals,
            normalise=self.normalise,
            truncation=self.truncation,
        )
