r"""Lambda gradients over weighted pairs, for NDCG and ARP: the objective of LambdaMART.

Of a pair (i, j) of weight W_ij, with the ranks that the *current* scores give:

$$\lambda_{ij} = -\sigma W_{ij} |\Delta Z_{ij}| \rho_{ij}, \quad
h_{ij} = \sigma^2 W_{ij} |\Delta Z_{ij}| \rho_{ij} (1 - \rho_{ij}), \quad
\rho_{ij} = \frac{1}{1 + e^{\sigma (s_i - s_j)}}$$

The gradient of doc i gains $\lambda_{ij}$, that of j loses it; the second derivatives of both gain
$h_{ij}$. This is LightGBM's `lambdarank`, with `lambdarank_norm` by `norm`. $|\Delta Z_{ij}|$ is
$|D(r_i) - D(r_j)|$ with $D(r) = 1 / \log_2(1 + r)$ for NDCG and $D(r) = r$ for ARP; the gains and
1 / IDCG are part of W (`normalise="ndcg"`). MAP and MRR need click sets: `prsrank.pairs.click_sets`.

Of `OuterPairs`, a doc's own sums are gathered over all the others, for both directions of each
pair. So every pair is visited twice, but nothing is written in the loop, and it runs on whole
vectors: several times as fast as one visit that adds to both docs.
"""
# mypy: allow-untyped-defs, allow-untyped-calls

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.losses.logistic import FUSE, exponentials, exponentials_about, plus
from prsrank.losses.ranked_objective import (
    DISCOUNTS,
    RankedObjective,
    gap_of_list,
    over_gap,
    plus_if_normed,
    rank_list,
    rank_room,
    whole_vectors,
)
from prsrank.pairs.outer_pairs import apart
from prsrank.pairs.weighted_pairs import PairRows, WeightedPairs, run_over_lists
from prsrank.types import Floats

# exp(+-80) and its sums stay inside float32
WIDEST_SPREAD = 160.0


class LambdaObjective(RankedObjective):
    """Lambda gradients of a PairSet or OuterPairs, called once per tree.

    Args:
        pairs: weighted pairs; float32 weights are used as they are, others are converted.
        metric: "ndcg" or "arp".
        options: as in `RankedObjective`.

    >>> from prsrank.data.dataset import RankingDataset
    >>> from prsrank.pairs.pair_set import PairSet
    >>> data = RankingDataset(np.eye(2), np.array([0, 2]), labels=np.array([1, 0]))
    >>> objective = LambdaObjective(PairSet.from_labels(data), metric="arp")
    >>> gradient, hessian = objective(np.zeros(2))
    >>> gradient.tolist(), hessian.tolist()
    ([-0.5, 0.5], [0.25, 0.25])
    """

    def __init__(self, pairs: WeightedPairs, *, metric: str = "ndcg", **options: Any) -> None:
        super().__init__(pairs, metric=metric, **options)
        self.pairs = pairs.astype(np.float32)
        ranks = np.arange(1.0, self.ranking.longest + 1)
        self._discounts = DISCOUNTS[metric](ranks).astype(np.float32)

    def _write(
        self, scores: Floats, gradient: npt.NDArray, hessian: npt.NDArray, sums: Floats
    ) -> None:
        rows = isinstance(self.pairs.for_kernels, PairRows)
        kernel = _row_kernel if rows else _vector_kernel
        ranked = scores, self._discounts, self.ranking
        run_over_lists(kernel, self.pairs, *ranked, gradient, hessian, sums, threads=self.threads)


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _row_kernel(first, last, pairs, scores, discounts, ranking, gradient, hessian, sums):
    sigma, top, longest, ties, least_gap = ranking
    offsets, winner_offsets, winner_row, weight_starts, weights = pairs
    e, d = np.empty(longest, np.float32), np.empty(longest, np.float32)
    room, by_rank, far = rank_room(longest), np.empty(longest, np.int32), np.empty(longest)
    ranks = room.ranks
    for q in range(first, last):
        if winner_offsets[q] == winner_offsets[q + 1]:
            continue
        begin, end = offsets[q], offsets[q + 1]
        s, length = scores[begin:end], end - begin
        pull, curve = gradient[begin:end], hessian[begin:end]
        pull[:] = 0
        curve[:] = 0
        rank_list(s, ties[begin:end], room)
        gap, total = gap_of_list(s, least_gap), 0.0
        for j in range(length):
            d[j] = discounts[ranks[j]]
            by_rank[ranks[j]] = j
        near = exponentials(s, sigma, WIDEST_SPREAD, e)
        start = weight_starts[q]
        for v in range(winner_offsets[q], winner_offsets[q + 1]):
            i = winner_row[v]
            row = weights[start : start + length]
            start += length
            # below the top a doc is compared with the leaders only: most rows are cut short
            whole = ranks[i] < top
            if not near:
                exponentials_about(s, i, sigma, far)
                ranks_seen = length if whole else top
                total += _pairs_with_top(ranks_seen, by_rank, row, i, s, gap, far, d, pull, curve)
            elif whole:
                total += _whole_row(row, i, s, gap, e, d, pull, curve)
            else:
                total += _pairs_with_top(top, by_rank, row, i, s, gap, e, d, pull, curve)
        sums[q] = 2 * total
        for j in range(length):
            pull[j] *= np.float32(sigma)
            curve[j] *= np.float32(sigma * sigma)


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _whole_row(row, i, s, gap, e, d, pull, curve):
    ei, di = e[i], d[i]
    own, own_curve = np.float32(0), np.float32(0)
    for j in range(len(row)):
        inverse = np.float32(1) / (ei + e[j])
        x = row[j] * over_gap(abs(di - d[j]), s[i], s[j], gap) * (e[j] * inverse)
        h = x * (ei * inverse)
        own = plus(own, x)
        own_curve = plus(own_curve, h)
        pull[j] += x
        curve[j] += h
    pull[i] -= own
    curve[i] += own_curve
    return own


@njit(cache=True, nogil=True, error_model="numpy")
def _pairs_with_top(ranks, by_rank, row, i, s, gap, e, d, pull, curve):
    """Add the pairs of doc i with the docs of the first ranks."""
    own = 0.0
    for rank in range(ranks):
        j = by_rank[rank]
        inverse = np.float32(1) / (e[i] + e[j])
        x = row[j] * over_gap(abs(d[i] - d[j]), s[i], s[j], gap) * (e[j] * inverse)
        h = x * (e[i] * inverse)
        pull[i] -= x
        pull[j] += x
        curve[i] += h
        curve[j] += h
        own += x
    return own


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _vector_kernel(first, last, pairs, scores, discounts, ranking, gradient, hessian, sums):
    sigma, top, longest, ties, least_gap = ranking
    offsets, kind = pairs.offsets, discounts.dtype
    room, order = rank_room(longest), np.empty(longest, np.int32)
    s, far = np.zeros(whole_vectors(longest)), np.empty(longest)
    e, by_rank = np.empty(longest, kind), np.empty((4, whole_vectors(longest)), kind)
    way = kind.type(pairs.one_way)
    for q in range(first, last):
        begin, length = offsets[q], offsets[q + 1] - offsets[q]
        if length == 0:
            continue
        mine = scores[begin : begin + length]
        rank_list(mine, ties[begin : begin + length], room)
        near = exponentials(mine, sigma, WIDEST_SPREAD, e)
        gap = gap_of_list(mine, least_gap)
        # in the order of ranks, a cut at the top ranks is a shorter loop
        for j in range(length):
            order[room.ranks[j]] = j
            s[room.ranks[j]] = mine[j]
        width = _fill_by_rank(order[:length], begin, pairs, e, discounts, by_rank)
        u, v, x, d = by_rank[0], by_rank[1], by_rank[2], by_rank[3]
        for a in range(length):
            stop = width if a < top else top
            if near:
                own, curve, total = _doc_of_rank(a, stop, way, u, v, s, gap, x, d)
            else:
                exponentials_about(s[:length], a, sigma, far)
                stop = min(stop, length)
                own, curve, total = _doc_of_rank(a, stop, way, u, v, s, gap, far, d)
            sums[q] += total
            gradient[begin + order[a]] = -sigma * own
            hessian[begin + order[a]] = sigma * sigma * curve


@njit(cache=True, nogil=True)
def _fill_by_rank(order, begin, pairs, e, discounts, by_rank):
    """Set u, v, e and the discount of each rank, up to whole vectors; return how many."""
    length = len(order)
    width = whole_vectors(length)
    by_rank[:, length:width] = 0
    by_rank[2, length:width] = 1
    for r in range(length):
        j = order[r]
        by_rank[0, r], by_rank[1, r] = pairs.winning[begin + j], pairs.losing[begin + j]
        by_rank[2, r], by_rank[3, r] = e[j], discounts[r]
    return width


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _doc_of_rank(a, stop, way, u, v, s, gap, e, d):
    """Return what the doc of rank a loses, bends and is pulled by pairs with ranks up to `stop`."""
    unit = u.dtype.type(1)
    ua, va, ea, da = u[a], v[a], e[a], d[a]
    own, curve, total = u.dtype.type(0), u.dtype.type(0), u.dtype.type(0)
    for b in range(stop):  # itself too: the change is 0
        inverse = unit / (ea + e[b])
        rho, rest = e[b] * inverse, ea * inverse
        change = over_gap(abs(da - d[b]), s[a], s[b], gap)
        forward, backward = apart(ua * v[b] * change, u[b] * va * change, way)
        own = plus(own, forward * rho - backward * rest)
        curve = plus(curve, (forward + backward) * (rho * rest))
        total = plus_if_normed(total, forward * rho + backward * rest, gap)
    return own, curve, total
