"""What all sets of weighted pairs share, and how kernels run over their lists."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.notebook import Chart, Columns, Shown
from prsrank.pairs.fold_kernels import CLIPPED, LARGEST, PAIRS, SQUARES, SUM
from prsrank.threads import for_each_piece
from prsrank.types import Floats, IdArray, Ints, Longs, Marks

# LightGBM and the neural rankers hold gradients, which are sums of weights, in float32.
_MOST_WEIGHT = float(np.finfo(np.float32).max)


class PairRows(NamedTuple):
    """A `PairSet` as kernels take it: for each winner a row of weights over its list's docs.

    Attributes:
        offsets: where each list's docs begin, and the end.
        winner_offsets: where each list's winners begin, and the end.
        winner_row: row in its list of each winner.
        starts: where each list's weights begin, and the end.
        weights: the rows, one after the other.
    """

    offsets: Longs
    winner_offsets: Longs
    winner_row: Ints
    starts: Longs
    weights: npt.NDArray


class PairVectors(NamedTuple):
    """`OuterPairs` as kernels take them.

    Attributes:
        offsets: where each list's docs begin, and the end.
        winning: u of each doc.
        losing: v of each doc.
        one_way: how far pairs count one way only.
    """

    offsets: Longs
    winning: npt.NDArray
    losing: npt.NDArray
    one_way: float


class WeightedPairs(Protocol):
    """Weighted pairs of the docs of lists: a `PairSet`, or `OuterPairs`.

    Attributes:
        offsets: offsets of the data set's lists (lists + 1).
        query_ids: the data set's query ids.
        normalise: which constant of a session or list the weights hold: None, "ndcg" or "arp".
        truncation: the rank k of IDCG@k, if the constant has one.
        totals: per list five sums over its pairs (lists x 5); columns as in `fold_kernels`.
    """

    offsets: Longs
    query_ids: IdArray
    normalise: str | None
    truncation: int | None
    totals: Floats
    _arrays: ClassVar[tuple[str, ...]]
    """Names of the arrays that hold the weights."""

    @property
    def for_kernels(self) -> PairRows | PairVectors:
        """The pairs as kernels take them."""

    @property
    def work_offsets(self) -> Longs:
        """Entries that a kernel visits before each list, and in all: how work is shared out."""

    @property
    def weight_sum(self) -> float:
        """Sum of all weights."""

    @property
    def paired_lists(self) -> Marks:
        """Which lists may have a pair of weight above 0 (lists)."""

    def keep_lists(self, chosen: Marks) -> Self:
        """Return the pairs of some of the lists, which must hold all winners."""

    def diagnostics(self) -> "PairDiagnostics":
        """Count and sum up the pairs."""

    @property
    def lists(self) -> int:
        """Number of lists of the data set."""
        return len(self.offsets) - 1

    @property
    def docs(self) -> int:
        """Number of docs of the data set."""
        return int(self.offsets[-1])

    @property
    def nbytes(self) -> int:
        """Bytes that the weights take."""
        return sum(getattr(self, name).nbytes for name in self._arrays)

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """Return the set with weights of another precision (float32 halves the memory)."""
        arrays = {name: getattr(self, name).astype(dtype, copy=False) for name in self._arrays}
        return replace(self, **arrays)  # type: ignore[type-var]


def run_over_lists(
    kernel: Callable[..., None], pairs: WeightedPairs, *arguments: Any, threads: int | None
) -> None:
    """Call kernel(first, last, pairs.for_kernels, *arguments) for pieces of about equal work."""
    inputs = pairs.for_kernels
    for_each_piece(
        lambda a, b: kernel(a, b, inputs, *arguments), pairs.work_offsets, threads=threads
    )


@dataclass(frozen=True, repr=False)
class PairDiagnostics(Shown):
    """What a set of pairs is made of. A pair is one of a single session, before folding.

    Attributes:
        lists: lists with at least one pair.
        winners: clicked (or relevant) docs.
        pairs: pairs of weight above 0 in single sessions.
        distinct_pairs: ordered pairs of docs of weight above 0 after folding.
        weight_mean: mean of the weights of the pairs, without session constants.
        weight_max: the largest of them.
        effective_sample_size: (sum w)^2 / sum w^2; equal weights give the number of pairs.
        clipped_share: share of the pairs whose weight was clipped.
    """

    lists: int
    winners: int
    pairs: int
    distinct_pairs: int
    weight_mean: float
    weight_max: float
    effective_sample_size: float
    clipped_share: float

    def _line(self) -> str:
        return (
            f"{self.pairs:,} pairs ({self.distinct_pairs:,} distinct) of {self.lists:,} lists, "
            f"effective sample size {self.effective_sample_size:,.0f}, "
            f"{self.clipped_share:.1%} clipped"
        )

    def _table(self) -> Columns:
        return {"measure": list(vars(self)), "value": list(vars(self).values())}

    def _chart(self) -> Chart:
        counts = (self.distinct_pairs, self.pairs, self.effective_sample_size)
        names = ["distinct pairs", "pairs", "effective sample size"]
        return Chart("bars", {"pairs": names, "number": list(counts)}, "pairs", "number")

    @classmethod
    def of(cls, totals: Floats, *, winners: int, distinct: int) -> "PairDiagnostics":
        """Sum up the totals of a set of pairs."""
        sums = totals.sum(axis=0)
        count, total, squares = sums[PAIRS], sums[SUM], sums[SQUARES]
        return cls(
            lists=int(np.count_nonzero(totals[:, PAIRS])),
            winners=winners,
            pairs=int(count),
            distinct_pairs=distinct,
            weight_mean=float(total / count) if count else 0.0,
            weight_max=float(totals[:, LARGEST].max(initial=0.0)),
            effective_sample_size=float(total**2 / squares) if squares else 0.0,
            clipped_share=float(sums[CLIPPED] / count) if count else 0.0,
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
