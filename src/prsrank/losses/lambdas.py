r"""Lambda gradients over a PairSet, for NDCG and ARP: the objective of LambdaMART.

Of a pair (i, j) of weight W_ij, with the ranks that the *current* scores give:

$$\lambda_{ij} = -\sigma W_{ij} |\Delta Z_{ij}| \rho_{ij}, \quad
h_{ij} = \sigma^2 W_{ij} |\Delta Z_{ij}| \rho_{ij} (1 - \rho_{ij}), \quad
\rho_{ij} = \frac{1}{1 + e^{\sigma (s_i - s_j)}}$$

The gradient of doc i gains $\lambda_{ij}$, that of j loses it; the second derivatives of both gain
$h_{ij}$. This is LightGBM's `lambdarank` with `lambdarank_norm=false`. $|\Delta Z_{ij}|$ is
$|D(r_i) - D(r_j)|$ with $D(r) = 1 / \log_2(1 + r)$ for NDCG and $D(r) = r$ for ARP; the gains and
1 / IDCG are part of W (`normalise="ndcg"`). MAP and MRR need click sets: `prsrank.pairs.click_sets`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.errors import InputError
from prsrank.hashing import STEP, mixed, text_hashes
from prsrank.losses.logistic import FUSE, checked_scores, exponentials, plus
from prsrank.pairs.pair_rows import PairRows, run_over_lists
from prsrank.ragged import list_of_row, row_in_list
from prsrank.sorting import sort_with_index
from prsrank.types import Floats, IdArray, Ints, Longs, Reals

if TYPE_CHECKING:
    from prsrank.pairs.pair_set import PairSet

Gradients = tuple[Reals, Reals]

# exp(+-80) and its sums stay inside float32
WIDEST_SPREAD = 160.0
# up to this length, ranks by comparing all docs are faster than by sorting
LONGEST_COMPARED = 1000

DISCOUNTS: dict[str, Callable[[Floats], Floats]] = {
    "ndcg": lambda ranks: np.asarray(1 / np.log2(1 + ranks)),
    "arp": lambda ranks: ranks,
}


class LambdaObjective:
    """Lambda gradients of a PairSet, called once per tree.

    Docs of equal score rank in an order drawn from a hash of seed, query id and row. The order
    of the rows will not do: in a log that is often the shown order, and before the first tree,
    when all scores tie, it would bring the position bias back in. Once scores differ the
    hash has no effect.

    Args:
        pairs: weighted pairs; float32 weights are used as they are, others are converted.
        metric: "ndcg" or "arp".
        sigma: steepness of the logistic function.
        truncation: only pairs with at least one doc in the top `truncation` ranks count, as
            with LightGBM's `lambdarank_truncation_level` (whose IDCG is cut there too: give
            the PairSet the same `truncation`). None: all pairs.
        seed: of the order of ties.
        threads: default: the cores this process may use. No effect on the result.

    >>> from prsrank.data.dataset import RankingDataset
    >>> from prsrank.pairs.pair_set import PairSet
    >>> data = RankingDataset(np.eye(2), np.array([0, 2]), labels=np.array([1, 0]))
    >>> objective = LambdaObjective(PairSet.from_labels(data), metric="arp")
    >>> gradient, hessian = objective(np.zeros(2))
    >>> gradient.tolist(), hessian.tolist()
    ([-0.5, 0.5], [0.25, 0.25])
    """

    def __init__(
        self,
        pairs: "PairSet",
        *,
        metric: str = "ndcg",
        sigma: float = 1.0,
        truncation: int | None = None,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        if metric not in DISCOUNTS:
            raise InputError(
                f"lambda gradients of pairs are for {' and '.join(DISCOUNTS)}, not {metric!r}"
            )
        self.pairs = pairs.astype(np.float32)
        self.sigma = sigma
        self.threads = threads
        longest = int(np.diff(pairs.offsets).max(initial=0))
        self._top = top_ranks(truncation, longest)
        self._discounts = DISCOUNTS[metric](np.arange(1.0, longest + 1)).astype(np.float32)
        self._ties = tie_order(pairs.offsets, pairs.query_ids, seed)
        self._gradient = np.zeros(pairs.docs, np.float32)
        self._hessian = np.zeros(pairs.docs, np.float32)

    def __call__(self, scores: npt.ArrayLike) -> Gradients:
        """Return gradient and second derivative by the score of each doc.

        The two arrays are written anew by the next call: copy what you keep.
        """
        values = checked_scores(scores, self.pairs.docs, self.sigma)
        how = self.sigma, self._top, self._discounts, self._ties
        self._write(values, *how, self._gradient, self._hessian)
        return self._gradient, self._hessian

    def _write(self, *arguments: Any) -> None:
        run_over_lists(_lambda_kernel, self.pairs, *arguments, threads=self.threads)


def top_ranks(truncation: int | None, longest: int) -> int:
    """Return how many ranks from the top count: `truncation`, or all of the longest list."""
    if truncation is not None and truncation < 1:
        raise InputError(f"truncation must be at least 1, not {truncation}")
    return longest if truncation is None else truncation


def tie_order(offsets: Longs, query_ids: "IdArray", seed: int) -> Ints:
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


@njit(cache=True, nogil=True, error_model="numpy")
def rank_list(
    scores: Floats,
    ties: Ints,
    keys: Floats,
    taken: Ints,
    ranks: Ints,
) -> None:
    """Set the 0-based rank of each row of one list.

    `keys` and `taken` are scratch space; keys needs room for `room_for_keys(length)`.
    """
    length = len(scores)
    for a in range(length):
        keys[a] = scores[ties[a]]
    if length > LONGEST_COMPARED:
        _, order = sort_with_index(-keys[:length])
        for r in range(length):
            ranks[ties[order[r]]] = r
        return
    padded = room_for_keys(length)
    keys[length:padded] = -np.inf  # whole vectors: no scalar remainder in the loop below
    taken[:length] = 0
    for a in range(length - 1, -1, -1):
        key = keys[a]
        last = -1
        for b in range(padded):
            last += keys[b] >= key
        # docs of equal score all find the last of their ranks, and take them backwards
        ranks[ties[a]] = last - taken[last]
        taken[last] += 1


@njit(cache=True, nogil=True)
def room_for_keys(length: int) -> int:
    """Return the least multiple of 32 that is at least `length`."""
    return (length + 31) // 32 * 32


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _lambda_kernel(
    first: int,
    last: int,
    rows: PairRows,
    scores: Floats,
    sigma: float,
    top: int,
    discounts: Reals,
    ties: Ints,
    gradient: Reals,
    hessian: Reals,
) -> None:
    offsets, winner_offsets, winner_row, weight_starts, weights = rows
    longest = len(discounts)
    e, d = np.empty(longest, np.float32), np.empty(longest, np.float32)
    keys = np.empty(room_for_keys(longest))
    ranks, taken = np.empty(longest, np.int32), np.empty(longest, np.int32)
    leaders = np.empty(min(top, longest), np.int32)
    for q in range(first, last):
        if winner_offsets[q] == winner_offsets[q + 1]:
            continue
        begin, end = offsets[q], offsets[q + 1]
        s, length = scores[begin:end], end - begin
        pull, curve = gradient[begin:end], hessian[begin:end]
        pull[:] = 0
        curve[:] = 0
        rank_list(s, ties[begin:end], keys, taken, ranks)
        _set_discounts(discounts, ranks[:length], d, leaders)
        near = exponentials(s, sigma, WIDEST_SPREAD, e)
        start = weight_starts[q]
        for v in range(winner_offsets[q], winner_offsets[q + 1]):
            i = winner_row[v]
            row = weights[start : start + length]
            start += length
            # below the top a doc is compared with the leaders only: most rows are cut short
            if ranks[i] >= top:
                _leader_pairs(row, i, s, near, e, d, sigma, leaders[:top], pull, curve)
            elif near:
                _whole_row(row, i, e, d, pull, curve)
            else:
                _far_row(row, i, s, d, sigma, pull, curve)
        for j in range(length):
            pull[j] *= np.float32(sigma)
            curve[j] *= np.float32(sigma * sigma)


@njit(cache=True, nogil=True)
def _set_discounts(discounts: Reals, ranks: Ints, d: Reals, leaders: Ints) -> None:
    """Set the discount of each row, and the rows of the top ranks."""
    for j in range(len(ranks)):
        d[j] = discounts[ranks[j]]
        if ranks[j] < len(leaders):
            leaders[ranks[j]] = j


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _whole_row(row: Reals, i: int, e: Reals, d: Reals, pull: Reals, curve: Reals) -> None:
    ei, di = e[i], d[i]
    own, own_curve = np.float32(0), np.float32(0)
    for j in range(len(row)):
        inverse = np.float32(1) / (ei + e[j])
        x = row[j] * abs(di - d[j]) * (e[j] * inverse)
        h = x * (ei * inverse)
        own = plus(own, x)
        own_curve = plus(own_curve, h)
        pull[j] += x
        curve[j] += h
    pull[i] -= own
    curve[i] += own_curve


@njit(cache=True, nogil=True, error_model="numpy")
def _far_row(
    row: Reals, i: int, s: Floats, d: Reals, sigma: float, pull: Reals, curve: Reals
) -> None:
    for j in range(len(row)):
        rho, rest = logistic_parts(sigma * (s[i] - s[j]))
        _add_parts(row[j], i, j, rho, rest, d, pull, curve)


@njit(cache=True, nogil=True, error_model="numpy")
def _leader_pairs(
    row: Reals,
    i: int,
    s: Floats,
    near: bool,
    e: Reals,
    d: Reals,
    sigma: float,
    leaders: Ints,
    pull: Reals,
    curve: Reals,
) -> None:
    for j in leaders:
        if near:
            inverse = np.float32(1) / (e[i] + e[j])
            _add_parts(row[j], i, j, e[j] * inverse, e[i] * inverse, d, pull, curve)
        else:
            rho, rest = logistic_parts(sigma * (s[i] - s[j]))
            _add_parts(row[j], i, j, rho, rest, d, pull, curve)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_parts(
    weight: float,
    i: int,
    j: int,
    rho: float,
    rest: float,
    d: Reals,
    pull: Reals,
    curve: Reals,
) -> None:
    x = weight * abs(d[i] - d[j]) * rho
    pull[i] -= x
    pull[j] += x
    curve[i] += x * rest
    curve[j] += x * rest


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_parts(margin: float):  # type: ignore[no-untyped-def]
    """Return rho = 1 / (1 + exp(margin)) and 1 - rho, both to full precision."""
    small = np.exp(-abs(margin))
    if margin > 0:
        return small / (1 + small), 1 / (1 + small)
    return 1 / (1 + small), small / (1 + small)
