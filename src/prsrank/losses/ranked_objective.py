"""What all lambda objectives share: current ranks, ties, truncation, and the arrays they fill."""
# mypy: allow-untyped-defs, allow-untyped-calls

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.errors import InputError
from prsrank.hashing import STEP, mixed, text_hashes
from prsrank.losses.logistic import REORDER, checked_scores
from prsrank.ragged import list_of_row, row_in_list
from prsrank.sorting import sort_with_index
from prsrank.types import Floats, IdArray, Ints, Longs, Reals

Gradients = tuple[Reals, Reals]

# up to this length, ranks by comparing all docs are faster than by sorting
LONGEST_COMPARED = 1000

# of LightGBM's normalisation: what a distance of scores is raised by, before it divides
LEAST_GAP = 0.01

DISCOUNTS: dict[str, Callable[[Floats], Floats]] = {
    "ndcg": lambda ranks: np.asarray(1 / np.log2(1 + ranks)),
    "arp": lambda ranks: ranks,
}
"""D of ranks, by the metric: when two docs swap, it changes by |D(r_i) - D(r_j)|."""


class Ranking(NamedTuple):
    """How an objective ranks the docs of its lists. Kernels take it as it is.

    Attributes:
        sigma: steepness of the logistic function.
        top: only pairs with a doc in so many ranks from the top count.
        longest: docs of the longest list.
        ties: rows of each list in the order in which docs of equal score rank.
        gap: with `norm` LEAST_GAP, else None, for which kernels are compiled apart.
    """

    sigma: float
    top: int
    longest: int
    ties: Ints
    gap: float | None


class RankedObjective(ABC):
    r"""Gradient and second derivative by the scores, from the ranks that these give.

    Docs of equal score rank in an order drawn from a hash of seed, query id and row. The order
    of the rows will not do: in a log that is often the shown order, and before the first tree,
    when all scores tie, it would bring the position bias back in. Once scores differ the
    hash has no effect.

    With `norm`, as in LightGBM's `lambdarank_norm`, each $|\Delta Z_{ij}|$ is divided by
    $0.01 + |s_i - s_j|$, unless all scores of the list are equal; and what the docs of a list
    then have is multiplied by $\log_2(1 + S) / S$, where $S = 2 \sum_{ij} |\lambda_{ij}|$.

    Args:
        lists: what has the `offsets` and `query_ids` of the lists.
        metric: Z, one of `metrics`.
        sigma: steepness of the logistic function.
        truncation: only pairs with at least one doc in the top `truncation` ranks count, as
            with LightGBM's `lambdarank_truncation_level` (whose IDCG is cut there too: give
            pairs the same `truncation`). None: all pairs.
        seed: of the order of ties.
        norm: normalise lambdas, as above.
        threads: default: the cores this process may use. No effect on the result.

    Attributes:
        metrics: the metrics that it is for.
        of: what it is of, in words.
    """

    metrics: ClassVar[Iterable[str]] = tuple(DISCOUNTS)
    of: ClassVar[str] = "pairs"

    def __init__(
        self,
        lists: Any,
        *,
        metric: str,
        sigma: float = 1.0,
        truncation: int | None = None,
        seed: int = 0,
        norm: bool = False,
        threads: int | None = None,
    ) -> None:
        if metric not in self.metrics:
            kinds = " and ".join(self.metrics)
            raise InputError(f"lambda gradients of {self.of} are for {kinds}, not {metric!r}")
        if truncation is not None and truncation < 1:
            raise InputError(f"truncation must be at least 1, not {truncation}")
        if not (sigma > 0 and np.isfinite(sigma)):
            raise InputError(f"sigma must be finite and above 0, not {sigma}")
        longest = int(np.diff(lists.offsets).max(initial=0))
        self.ranking = Ranking(
            float(sigma),
            longest if truncation is None else truncation,
            longest,
            tie_order(lists.offsets, lists.query_ids, seed),
            LEAST_GAP if norm else None,
        )
        self.threads = threads
        self._offsets = lists.offsets

    def __call__(self, scores: npt.ArrayLike) -> Gradients:
        """Return gradient and second derivative by the score of each doc."""
        return self._derivatives(scores, np.float32)

    def exact(self, scores: npt.ArrayLike) -> tuple[Floats, ...]:
        """Return the same in float64."""
        return self._derivatives(scores, np.float64)

    def _derivatives(
        self, scores: npt.ArrayLike, dtype: npt.DTypeLike
    ) -> tuple[npt.NDArray, npt.NDArray]:
        lengths = np.diff(self._offsets)
        docs, sums = int(self._offsets[-1]), np.zeros(len(lengths))
        gradient, hessian = np.zeros(docs, dtype), np.zeros(docs, dtype)
        self._write(checked_scores(scores, docs), gradient, hessian, sums)
        if self.ranking.gap is not None:
            sums *= self.ranking.sigma
            shares = np.divide(np.log2(1 + sums), sums, out=np.ones(len(sums)), where=sums > 0)
            of_doc = np.repeat(shares, lengths).astype(dtype)
            gradient *= of_doc
            hessian *= of_doc
        return gradient, hessian

    @abstractmethod
    def _write(
        self, scores: Floats, gradient: npt.NDArray, hessian: npt.NDArray, sums: Floats
    ) -> None:
        """Set the gradient and the second derivative; with `norm` of each list S / sigma."""


@njit(cache=True, nogil=True)
def gap_of_list(scores, gap):
    """Return what distances of this list's scores are raised by: where all are equal, to 1."""
    if gap is None:
        return None
    return gap if scores.max() > scores.min() else 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def over_gap(change, a, b, gap):
    """Return a change of Z, divided by how far apart two scores are where that is asked for."""
    if gap is None:
        return change
    return change / (gap + abs(a - b))


@njit(cache=True, nogil=True, fastmath=REORDER)
def plus_if_normed(total, value, gap):
    """Return total + value, in any order as `plus`; without `norm` the total, which costs nothing."""
    if gap is None:
        return total
    return total + value


def tie_order(offsets: Longs, query_ids: IdArray, seed: int) -> Ints:
    """Return the rows of each list in the order in which docs of equal score rank.

    The order depends on the seed, the list's query id and the rows, and on no other list.

    >>> tie_order(np.array([0, 4]), np.array([7]), seed=0).tolist()
    [1, 2, 0, 3]
    """
    list_of_doc, rows = list_of_row(offsets), row_in_list(offsets)
    whole = query_ids.dtype.kind == "i"
    queries = query_ids.astype(np.uint64) if whole else text_hashes(list(map(str, query_ids)))
    key = mixed((queries ^ mixed(np.array([seed % 2**63], np.uint64) + STEP)) + STEP)
    # the hash of a row, not the row: the order of a log is often the order that was shown
    order = np.lexsort((mixed(key[list_of_doc] + rows.astype(np.uint64) + STEP), list_of_doc))
    return rows[order].astype(np.int32)


class RankRoom(NamedTuple):
    """Room in which the docs of one list after the other are ranked.

    Attributes:
        keys: scores in the order of ties, filled up to whole vectors.
        taken: how many docs have each rank already.
        ranks: 0-based rank of each row.
    """

    keys: Floats
    taken: Ints
    ranks: Ints


@njit(cache=True, nogil=True)
def rank_room(longest):
    """Return room for lists of up to so many docs."""
    return RankRoom(
        np.empty(whole_vectors(longest)), np.empty(longest, np.int32), np.empty(longest, np.int32)
    )


@njit(cache=True, nogil=True)
def whole_vectors(length):
    """Return the least multiple of 32 that is at least `length`."""
    return (length + 31) // 32 * 32


@njit(cache=True, nogil=True, error_model="numpy")
def rank_list(scores, ties, room):
    """Set `room.ranks` to the 0-based rank of each row of one list."""
    length, keys, taken, ranks = len(scores), room.keys, room.taken, room.ranks
    for a in range(length):
        keys[a] = scores[ties[a]]
    if length > LONGEST_COMPARED:
        _, order = sort_with_index(-keys[:length])
        for r in range(length):
            ranks[ties[order[r]]] = r
        return
    padded = whole_vectors(length)
    keys[length:padded] = -np.inf  # no scalar remainder in the loop below
    taken[:length] = 0
    for a in range(length - 1, -1, -1):
        key = keys[a]
        last = -1
        for b in range(padded):
            last += keys[b] >= key
        # docs of equal score all find the last of their ranks, and take them backwards
        ranks[ties[a]] = last - taken[last]
        taken[last] += 1
