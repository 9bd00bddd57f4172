r"""Lambda gradients and the pairwise logistic loss over OuterPairs, $W_{ij} = u_i v_j$.

Less what the two directions of a pair share, as far as the pairs count one way only.

The losses are those of `prsrank.losses.lambdas` and `prsrank.losses.logistic` on the same
weights. A doc's own sums are gathered over all the others, for both directions of each pair. So
every pair is visited twice, but nothing is written in the loop, and it runs on whole vectors:
several times as fast as one visit that adds to both docs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.losses.lambdas import (
    WIDEST_SPREAD as WIDEST_LAMBDA_SPREAD,
)
from prsrank.losses.lambdas import (
    LambdaObjective,
    logistic_parts,
    rank_list,
    room_for_keys,
)
from prsrank.losses.logistic import (
    FUSE,
    WIDEST_SPREAD,
    artanh_series,
    checked_scores,
    exponentials,
    logistic_hessian_product,
    logistic_loss,
    plus,
)
from prsrank.pairs.outer_pairs import OuterPairs, apart
from prsrank.threads import for_each_piece
from prsrank.types import Floats, Ints, Longs

if TYPE_CHECKING:
    from prsrank.pairs.pair_set import PairSet


class PairVectors(NamedTuple):
    """Offsets of the lists, u and v of each doc, and how far pairs count one way only."""

    offsets: Longs
    winning: npt.NDArray
    losing: npt.NDArray
    one_way: float


class OuterLambdaObjective(LambdaObjective):
    """Lambda gradients of OuterPairs; arguments as those of `LambdaObjective`.

    >>> from prsrank.data.dataset import RankingDataset
    >>> data = RankingDataset(np.eye(2), np.array([0, 2]))
    >>> pairs = OuterPairs.from_relevance(data, [1.0, 0.0])
    >>> gradient, hessian = OuterLambdaObjective(pairs, metric="arp")(np.zeros(2))
    >>> gradient.tolist(), hessian.tolist()
    ([-0.5, 0.5], [0.25, 0.25])
    """

    pairs: Any

    def _write(self, *arguments: Any) -> None:
        _run(_lambda_kernel, self.pairs, *arguments, threads=self.threads)


def _run(
    kernel: Callable[..., None], pairs: OuterPairs, *arguments: Any, threads: int | None
) -> None:
    """Call kernel(first, last, vectors, *arguments) for pieces of the lists of about equal work."""
    vectors = PairVectors(pairs.offsets, pairs.winning, pairs.losing, float(pairs.one_way))
    for_each_piece(
        lambda a, b: kernel(a, b, vectors, *arguments), pairs.work_offsets, threads=threads
    )


def lambda_objective(pairs: "PairSet | OuterPairs") -> type[LambdaObjective]:
    """Return the class of lambda objective for a set of pairs."""
    return OuterLambdaObjective if isinstance(pairs, OuterPairs) else LambdaObjective


def logistic_functions(
    pairs: "PairSet | OuterPairs",
) -> tuple[Callable[..., tuple[float, Floats]], Callable[..., Floats]]:
    """Return the logistic loss and its Hessian product for a set of pairs."""
    if isinstance(pairs, OuterPairs):
        return outer_logistic_loss, outer_logistic_hessian_product
    return logistic_loss, logistic_hessian_product


def outer_logistic_loss(
    scores: npt.ArrayLike, pairs: OuterPairs, *, sigma: float = 1.0, threads: int | None = None
) -> tuple[float, Floats]:
    """Return the loss and its gradient; see `prsrank.losses.logistic.logistic_loss`."""
    values = checked_scores(scores, pairs.docs, sigma)
    losses, gradient = np.zeros(pairs.lists), np.zeros(pairs.docs)
    _run(_loss_kernel, pairs, values, sigma, losses, gradient, threads=threads)
    return float(losses.sum()), gradient


def outer_logistic_hessian_product(
    scores: npt.ArrayLike,
    vector: npt.ArrayLike,
    pairs: OuterPairs,
    *,
    sigma: float = 1.0,
    threads: int | None = None,
) -> Floats:
    """Return the Hessian times a vector; see `logistic_hessian_product`."""
    values = checked_scores(scores, pairs.docs, sigma)
    direction = checked_scores(vector, pairs.docs, sigma)
    product = np.zeros(pairs.docs)
    _run(_hessian_kernel, pairs, values, direction, sigma, product, threads=threads)
    return product


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _lambda_kernel(
    first: int,
    last: int,
    pairs: PairVectors,
    scores: Floats,
    sigma: float,
    top: int,
    discounts: npt.NDArray,
    ties: Ints,
    gradient: npt.NDArray,
    hessian: npt.NDArray,
) -> None:
    offsets, longest, kind = pairs.offsets, len(discounts), discounts.dtype
    keys = np.empty(room_for_keys(longest))
    ranks, taken = np.empty(longest, np.int32), np.empty(longest, np.int32)
    order, s = np.empty(longest, np.int32), np.empty(longest)
    e, by_rank = np.empty(longest, kind), np.empty((4, room_for_keys(longest)), kind)
    for q in range(first, last):
        begin, length = offsets[q], offsets[q + 1] - offsets[q]
        if length == 0:
            continue
        mine = scores[begin : begin + length]
        rank_list(mine, ties[begin : begin + length], keys, taken, ranks)
        near = exponentials(mine, sigma, WIDEST_LAMBDA_SPREAD, e)
        # in the order of ranks, a cut at the top ranks is a shorter loop
        for j in range(length):
            order[ranks[j]] = j
            s[ranks[j]] = mine[j]
        width = _fill_by_rank(order[:length], begin, pairs, e, discounts, by_rank)
        u, v, x, d = by_rank[0], by_rank[1], by_rank[2], by_rank[3]
        way = kind.type(pairs.one_way)
        for a in range(length):
            if near:
                own, curve = _near_doc(a, width if a < top else top, way, u, v, x, d)
            else:
                own, curve = _far_doc(a, length if a < top else top, way, u, v, s, sigma, d)
            gradient[begin + order[a]] = -sigma * own
            hessian[begin + order[a]] = sigma * sigma * curve


@njit(cache=True, nogil=True)
def _fill_by_rank(order, begin, pairs, e, discounts, by_rank):  # type: ignore[no-untyped-def]
    """Set u, v, exponential and discount of each rank; return how many, up to whole vectors."""
    length = len(order)
    width = room_for_keys(length)
    by_rank[:, length:width] = 0
    by_rank[2, length:width] = 1
    for r in range(length):
        j = order[r]
        by_rank[0, r], by_rank[1, r] = pairs.winning[begin + j], pairs.losing[begin + j]
        by_rank[2, r], by_rank[3, r] = e[j], discounts[r]
    return width


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _near_doc(a, stop, way, u, v, e, d):  # type: ignore[no-untyped-def]
    """Return what the doc of rank a loses and bends by its pairs with ranks up to `stop`."""
    one = u.dtype.type(1)
    ua, va, ea, da = u[a], v[a], e[a], d[a]
    own, curve = u.dtype.type(0), u.dtype.type(0)
    for b in range(stop):  # itself too: the change is 0
        inverse = one / (ea + e[b])
        rho, rest = e[b] * inverse, ea * inverse
        change = abs(da - d[b])
        forward, backward = apart(ua * v[b] * change, u[b] * va * change, way)
        own = plus(own, forward * rho - backward * rest)
        curve = plus(curve, (forward + backward) * (rho * rest))
    return own, curve


@njit(cache=True, nogil=True, error_model="numpy")
def _far_doc(a, stop, way, u, v, s, sigma, d):  # type: ignore[no-untyped-def]
    own, curve = 0.0, 0.0
    for b in range(stop):
        rho, rest = logistic_parts(sigma * (s[a] - s[b]))
        change = abs(d[a] - d[b])
        forward, backward = apart(u[a] * v[b] * change, u[b] * v[a] * change, way)
        own += forward * rho - backward * rest
        curve += (forward + backward) * rho * rest
    return own, curve


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _loss_kernel(
    first: int,
    last: int,
    pairs: PairVectors,
    scores: Floats,
    sigma: float,
    losses: Floats,
    gradient: Floats,
) -> None:
    offsets, winning, losing, way = pairs
    for q in range(first, last):
        begin, end = offsets[q], offsets[q + 1]
        if end - begin < 2:
            continue
        s = scores[begin:end]
        u, v = winning[begin:end].astype(np.float64), losing[begin:end].astype(np.float64)
        e = np.empty(end - begin)
        near = exponentials(s, sigma, WIDEST_SPREAD, e)
        for a in range(end - begin):
            if near:
                gradient[begin + a] = -sigma * _near_pull(a, way, u, v, e)
                losses[q] += _near_loss(a, sigma, way, u, v, s, e)
            else:
                pull, loss = _far_loss(a, sigma, way, u, v, s)
                gradient[begin + a] = -sigma * pull
                losses[q] += loss


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _near_pull(a, way, u, v, e):  # type: ignore[no-untyped-def]
    ua, va, ea, own = u[a], v[a], e[a], 0.0
    for b in range(len(u)):  # itself too: the two directions cancel
        forward, backward = apart(ua * v[b], u[b] * va, way)
        own = plus(own, (forward * e[b] - backward * ea) / (ea + e[b]))
    return own


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _near_loss(a, sigma, way, u, v, s, e):  # type: ignore[no-untyped-def]
    """Return the loss of the pairs of doc a with later docs, both directions."""
    ua, va, sa, ea, loss = u[a], v[a], s[a], e[a], 0.0
    # slices from 0: an index that might be negative would keep the loop from vectors
    u, v, s, e = u[a + 1 :], v[a + 1 :], s[a + 1 :], e[a + 1 :]
    for b in range(len(u)):
        above = e[b] > ea
        lesser, greater = (ea, e[b]) if above else (e[b], ea)
        z = lesser / (2 * greater + lesser)
        tail = 2 * z * artanh_series(z * z)
        rise = s[b] - sa
        excess = rise if above else 0.0
        forward, backward = apart(ua * v[b], u[b] * va, way)
        right = forward * (sigma * excess + tail)
        loss = plus(loss, right + backward * (sigma * (excess - rise) + tail))
    return loss


@njit(cache=True, nogil=True, error_model="numpy")
def _far_loss(a, sigma, way, u, v, s):  # type: ignore[no-untyped-def]
    """Return the pull on doc a, and the loss of its pairs with later docs."""
    own, loss = 0.0, 0.0
    for b in range(len(u)):
        margin = sigma * (s[a] - s[b])
        rho, rest = logistic_parts(margin)
        forward, backward = apart(u[a] * v[b], u[b] * v[a], way)
        own += forward * rho - backward * rest
        if b > a:
            wrong = max(-margin, 0.0) * forward + max(margin, 0.0) * backward
            loss += wrong - (forward + backward) * np.log(max(rho, rest))
    return own, loss


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _hessian_kernel(
    first: int,
    last: int,
    pairs: PairVectors,
    scores: Floats,
    vector: Floats,
    sigma: float,
    product: Floats,
) -> None:
    offsets, winning, losing, way = pairs
    for q in range(first, last):
        begin, end = offsets[q], offsets[q + 1]
        if end - begin < 2:
            continue
        s, d = scores[begin:end], vector[begin:end]
        u, v = winning[begin:end].astype(np.float64), losing[begin:end].astype(np.float64)
        e = np.empty(end - begin)
        near = exponentials(s, sigma, WIDEST_SPREAD, e)
        for a in range(end - begin):
            own = _near_bend(a, way, u, v, e, d) if near else _far_bend(a, sigma, way, u, v, s, d)
            product[begin + a] = sigma * sigma * own


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _near_bend(a, way, u, v, e, d):  # type: ignore[no-untyped-def]
    ua, va, ea, da, own = u[a], v[a], e[a], d[a], 0.0
    for b in range(len(u)):
        inverse = 1 / (ea + e[b])
        bend = (ea * inverse) * (e[b] * inverse)
        forward, backward = apart(ua * v[b], u[b] * va, way)
        own = plus(own, (forward + backward) * bend * (da - d[b]))
    return own


@njit(cache=True, nogil=True, error_model="numpy")
def _far_bend(a, sigma, way, u, v, s, d):  # type: ignore[no-untyped-def]
    own = 0.0
    for b in range(len(u)):
        small = np.exp(-sigma * abs(s[a] - s[b]))
        forward, backward = apart(u[a] * v[b], u[b] * v[a], way)
        own += (forward + backward) * small / (1 + small) ** 2 * (d[a] - d[b])
    return own
