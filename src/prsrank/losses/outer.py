r"""Lambda gradients and the pairwise logistic loss over OuterPairs, $W_{ij} = u_i v_j$.

The losses are those of `prsrank.losses.lambdas` and `prsrank.losses.logistic` on the same
weights. Each unordered pair is visited once, for both of its directions: the exponentials and
the change of the metric are common to the two.
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
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.threads import for_each_piece
from prsrank.types import Floats, Ints, Longs

if TYPE_CHECKING:
    from prsrank.pairs.pair_set import PairSet


class PairVectors(NamedTuple):
    """Offsets of the lists, and u and v of each doc, as kernels take them."""

    offsets: Longs
    winning: npt.NDArray
    losing: npt.NDArray


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
    vectors = PairVectors(pairs.offsets, pairs.winning, pairs.losing)
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
    offsets, winning, losing = pairs
    longest, kind = len(discounts), discounts.dtype
    keys = np.empty(room_for_keys(longest))
    ranks, taken = np.empty(longest, np.int32), np.empty(longest, np.int32)
    order, e = np.empty(longest, np.int32), np.empty(longest, kind)
    s, by_rank = np.empty(longest), np.empty((5, longest), kind)
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
        for r in range(length):
            j = order[r]
            s[r] = mine[j]
            by_rank[0, r], by_rank[1, r] = winning[begin + j], losing[begin + j]
            by_rank[2, r] = e[j]
            by_rank[3, r], by_rank[4, r] = 0, 0
        u, v, x = by_rank[0, :length], by_rank[1, :length], by_rank[2, :length]
        pull, curve = by_rank[3, :length], by_rank[4, :length]
        for a in range(min(top, length)):
            if near:
                _near_pairs(a, u, v, x, discounts, pull, curve)
            else:
                _far_pairs(a, u, v, s, sigma, discounts, pull, curve)
        for r in range(length):
            gradient[begin + order[r]] = sigma * pull[r]
            hessian[begin + order[r]] = sigma * sigma * curve[r]


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _near_pairs(a, u, v, e, discounts, pull, curve):  # type: ignore[no-untyped-def]
    one = u.dtype.type(1)
    ua, va, ea, da = u[a], v[a], e[a], discounts[a]
    own, own_curve = u.dtype.type(0), u.dtype.type(0)
    for b in range(a + 1, len(u)):
        inverse = one / (ea + e[b])
        rho, rest = e[b] * inverse, ea * inverse
        change = abs(da - discounts[b])
        forward, backward = ua * v[b] * change, u[b] * va * change
        x = forward * rho - backward * rest
        h = (forward + backward) * (rho * rest)
        own = plus(own, x)
        own_curve = plus(own_curve, h)
        pull[b] += x
        curve[b] += h
    pull[a] -= own
    curve[a] += own_curve


@njit(cache=True, nogil=True, error_model="numpy")
def _far_pairs(a, u, v, s, sigma, discounts, pull, curve):  # type: ignore[no-untyped-def]
    for b in range(a + 1, len(u)):
        rho, rest = logistic_parts(sigma * (s[a] - s[b]))
        change = abs(discounts[a] - discounts[b])
        forward, backward = u[a] * v[b] * change, u[b] * v[a] * change
        x = forward * rho - backward * rest
        h = (forward + backward) * rho * rest
        pull[a] -= x
        pull[b] += x
        curve[a] += h
        curve[b] += h


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
    offsets, winning, losing = pairs
    for q in range(first, last):
        begin, end = offsets[q], offsets[q + 1]
        if end - begin < 2:
            continue
        s, pull = scores[begin:end], gradient[begin:end]
        u, v = winning[begin:end].astype(np.float64), losing[begin:end].astype(np.float64)
        e = np.empty(end - begin)
        near = exponentials(s, sigma, WIDEST_SPREAD, e)
        total = 0.0
        for a in range(end - begin - 1):
            own, loss = 0.0, 0.0
            for b in range(a + 1, end - begin):
                forward, backward = u[a] * v[b], u[b] * v[a]
                if near:
                    inverse = 1 / (e[a] + e[b])
                    rho, rest = e[b] * inverse, e[a] * inverse
                    lesser, greater = min(e[a], e[b]), max(e[a], e[b])
                    z = lesser / (2 * greater + lesser)
                    tail = 2 * z * artanh_series(z * z)
                else:
                    rho, rest = logistic_parts(sigma * (s[a] - s[b]))
                    tail = -np.log(max(rho, rest))
                margin = sigma * (s[a] - s[b])
                x = forward * rho - backward * rest
                own = plus(own, x)
                pull[b] += sigma * x
                wrong = max(-margin, 0.0) * forward + max(margin, 0.0) * backward
                loss = plus(loss, (forward + backward) * tail + wrong)
            pull[a] -= sigma * own
            total += loss
        losses[q] = total


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
    offsets, winning, losing = pairs
    for q in range(first, last):
        begin, end = offsets[q], offsets[q + 1]
        if end - begin < 2:
            continue
        s, d, out = scores[begin:end], vector[begin:end], product[begin:end]
        u, v = winning[begin:end].astype(np.float64), losing[begin:end].astype(np.float64)
        e = np.empty(end - begin)
        near = exponentials(s, sigma, WIDEST_SPREAD, e)
        for a in range(end - begin - 1):
            own = 0.0
            for b in range(a + 1, end - begin):
                if near:
                    inverse = 1 / (e[a] + e[b])
                    bend = (e[a] * inverse) * (e[b] * inverse)
                else:
                    small = np.exp(-sigma * abs(s[a] - s[b]))
                    bend = small / (1 + small) ** 2
                h = sigma * sigma * (u[a] * v[b] + u[b] * v[a]) * bend * (d[a] - d[b])
                own = plus(own, h)
                out[b] -= h
            out[a] += own
