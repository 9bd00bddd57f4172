"""What all sets of weighted pairs share, and how kernels run over their lists."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

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


class WeightedPairs(ABC):
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

    @property
    def lists(self) -> int:
        """Number of lists of the data set."""
        return len(self.offsets) - 1

    @property
    def docs(self) -> int:
        """Number of docs of the data set."""
        return int(self.offsets[-1])

    @property
    @abstractmethod
    def weight_sum(self) -> float:
        """Sum of all weights."""

    @property
    @abstractmethod
    def paired_lists(self) -> Marks:
        """Which lists may have a pair of weight above 0 (lists)."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that the weights take."""

    @cached_property
    @abstractmethod
    def for_kernels(self) -> PairRows | PairVectors:
        """The pairs as kernels take them."""

    @cached_property
    @abstractmethod
    def work_offsets(self) -> Longs:
        """Entries that a kernel visits before each list, and in all: how work is shared out."""

    @abstractmethod
    def diagnostics(self, *, heaviest: int = 5) -> "PairDiagnostics":
        """Count and sum up the pairs; name the `heaviest` lists."""

    @abstractmethod
    def astype(self, dtype: npt.DTypeLike) -> Self:
        """Return the set with weights of another precision (float32 halves the memory)."""

    @abstractmethod
    def keep_lists(self, chosen: Marks) -> Self:
        """Return the pairs of some of the lists."""


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
        pairs: "WeightedPairs",
        per_list: npt.NDArray,
        *,
        winners: int,
        distinct: int,
        heaviest: int,
    ) -> "PairDiagnostics":
        """Sum up the totals of a set of pairs; `per_list` has the folded weight of each list."""
        sums = pairs.totals.sum(axis=0)
        count, total, squares = sums[PAIRS], sums[SUM], sums[SQUARES]
        mean = total / count if count else 0.0
        spread = max(squares / count - mean**2, 0.0) if count else 0.0
        order = np.argsort(-per_list, kind="stable")[:heaviest]
        order = order[per_list[order] > 0]
        queries, shares = pairs.query_ids[order], per_list[order] / per_list.sum()
        return cls(
            lists=int(np.count_nonzero(pairs.totals[:, PAIRS])),
            winners=winners,
            pairs=int(count),
            distinct_pairs=distinct,
            weight_sum=float(total),
            weight_mean=float(mean),
            weight_sd=float(np.sqrt(spread)),
            weight_max=float(pairs.totals[:, LARGEST].max(initial=0.0)),
            effective_sample_size=float(total**2 / squares) if squares else 0.0,
            clipped_share=float(sums[CLIPPED] / count) if count else 0.0,
            heaviest_lists=tuple(zip(queries.tolist(), shares.tolist(), strict=True)),
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
