r"""The pairwise logistic loss over weighted pairs: value, gradient, Hessian-vector product.

$$L(s) = \sum_{ij} W_{ij} \log(1 + e^{-\sigma (s_i - s_j)})$$

Inside a pair loop there is no exponential: with $e = \exp(\sigma (s - \text{mid}))$ per doc, mid
the middle of the list's scores, the sigmoid of $\sigma (s_j - s_i)$ is $e_j / (e_i + e_j)$, and
$\log(1 + x) = 2\,\text{artanh}(x / (2 + x))$ with x the lesser of the two e over the greater. In a
list whose scores lie so far apart that e would leave the range of float64, each doc in turn takes
the place of mid.

Over `OuterPairs` a doc's own sums are gathered over all the others, for both directions of each
pair: see `prsrank.losses.lambdas`.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.errors import InputError
from prsrank.pairs.outer_pairs import apart
from prsrank.pairs.weighted_pairs import PairRows, PairVectors, WeightedPairs, run_over_lists
from prsrank.sorting import longest_list
from prsrank.types import Floats

# exp(+-650) and its sums and products with weights stay inside float64
WIDEST_SPREAD = 1300.0
# A sum may be taken in any order. Nothing else may: (a b) (c d) as (a c) (b d) can overflow.
REORDER = {"reassoc", "contract", "nsz"}
FUSE = {"contract"}


def logistic_loss(
    scores: npt.ArrayLike, pairs: WeightedPairs, *, sigma: float = 1.0, threads: int | None = None
) -> tuple[float, Floats]:
    r"""Return the loss and its gradient with respect to the scores.

    $$\frac{\partial L}{\partial s_i} = \sum_j -\sigma W_{ij} \rho_{ij} + \sigma W_{ji} \rho_{ji},
    \quad \rho_{ij} = \frac{1}{1 + e^{\sigma (s_i - s_j)}}$$

    Args:
        scores: score of each doc of the data set.
        pairs: $W$.
        sigma: $\sigma$.
        threads: default: the cores this process may use. No effect on the result.

    >>> from prsrank.data.dataset import RankingDataset
    >>> from prsrank.pairs.pair_set import PairSet
    >>> data = RankingDataset(np.eye(2), np.array([0, 2]), labels=np.array([1, 0]))
    >>> loss, gradient = logistic_loss([0.0, 0.0], PairSet.from_labels(data))
    >>> round(loss, 4), gradient.tolist()
    (0.6931, [-0.5, 0.5])
    """
    values = checked_scores(scores, pairs.docs, sigma)
    losses, gradient = np.zeros(pairs.lists), np.zeros(pairs.docs)
    rows = isinstance(pairs.for_kernels, PairRows)
    kernel = _row_loss_kernel if rows else _vector_loss_kernel
    run_over_lists(kernel, pairs, values, sigma, losses, gradient, threads=threads)
    return float(losses.sum()), gradient


def logistic_hessian_product(
    scores: npt.ArrayLike,
    vector: npt.ArrayLike,
    pairs: WeightedPairs,
    *,
    sigma: float = 1.0,
    threads: int | None = None,
) -> Floats:
    r"""Return the Hessian of the loss with respect to the scores, times a vector.

    $$(H v)_i = \sum_j (h_{ij} + h_{ji})(v_i - v_j), \quad
    h_{ij} = \sigma^2 W_{ij} \rho_{ij} (1 - \rho_{ij})$$

    Args:
        scores: score of each doc of the data set.
        vector: $v$, one value per doc.
        pairs: $W$.
        sigma: $\sigma$.
        threads: default: the cores this process may use. No effect on the result.
    """
    values = checked_scores(scores, pairs.docs, sigma)
    direction = checked_scores(vector, pairs.docs, sigma)
    product = np.zeros(pairs.docs)
    rows = isinstance(pairs.for_kernels, PairRows)
    kernel = _row_hessian_kernel if rows else _vector_hessian_kernel
    run_over_lists(kernel, pairs, values, direction, sigma, product, threads=threads)
    return product


def checked_scores(scores: npt.ArrayLike, docs: int, sigma: float) -> Floats:
    """Return scores as contiguous float64 after checking their number and range."""
    values = np.ascontiguousarray(scores, np.float64)
    if values.shape != (docs,):
        raise InputError(f"{values.shape} scores for {docs} docs")
    if not np.isfinite(values).all():
        raise InputError(f"the score of doc {int(np.argmin(np.isfinite(values)))} is not finite")
    if not (sigma > 0 and np.isfinite(sigma)):
        raise InputError(f"sigma must be finite and above 0, not {sigma}")
    return values


@njit(cache=True, nogil=True)
def exponentials(scores: Floats, sigma: float, widest: float, out: npt.NDArray) -> bool:
    """Set out to exp(sigma (score - middle)); return False if the spread is above `widest`."""
    low, high = scores[0], scores[0]
    for score in scores:
        low = min(low, score)
        high = max(high, score)
    if not sigma * (high - low) <= widest:
        return False
    middle = 0.5 * low + 0.5 * high
    for j in range(len(scores)):
        out[j] = np.exp(sigma * (scores[j] - middle))
    return True


@njit(cache=True, nogil=True, inline="always")
def exponentials_about(scores: Floats, i: int, sigma: float, out: Floats) -> None:
    """Set out to exp(sigma (score - score of i)) times a constant, for the pairs of doc i.

    With the constant, the share of doc i is exactly 0 beside docs far above, which are cut.
    """
    for j in range(len(scores)):
        above = sigma * (scores[j] - scores[i]) - 0.075 * WIDEST_SPREAD
        out[j] = np.exp(min(above, 0.5 * WIDEST_SPREAD))


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _row_loss_kernel(
    first: int,
    last: int,
    rows: PairRows,
    scores: Floats,
    sigma: float,
    losses: Floats,
    gradient: Floats,
) -> None:
    offsets, winner_offsets, winner_row, weight_starts, weights = rows
    e = np.empty(longest_list(first, last, offsets))
    for q in range(first, last):
        if winner_offsets[q] == winner_offsets[q + 1]:
            continue
        begin, end = offsets[q], offsets[q + 1]
        s, pull = scores[begin:end], gradient[begin:end]
        length = end - begin
        near = exponentials(s, sigma, WIDEST_SPREAD, e)
        start = weight_starts[q]
        total = 0.0
        for v in range(winner_offsets[q], winner_offsets[q + 1]):
            i = winner_row[v]
            row = weights[start : start + length]
            start += length
            if not near:
                exponentials_about(s, i, sigma, e)
            loss, own = _row_loss(row, sigma, s, e, s[i], e[i], pull)
            total += loss
            pull[i] -= own
        losses[q] = total


@njit(cache=True, nogil=True, fastmath=REORDER)
def plus(total, value):  # type: ignore[no-untyped-def]
    """Return total + value; a loop of these may be added up in any order, so it vectorises."""
    return total + value


# inlined by Numba: a function of its own would be compiled twice, alone and with its caller, and
# which of the two runs, and so the last bits, would depend on what the cache holds
@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _row_loss(  # type: ignore[no-untyped-def]
    row: npt.NDArray, sigma: float, s: Floats, e: Floats, si: float, ei: float, pull: Floats
):
    loss, own = 0.0, 0.0
    for j in range(len(row)):
        w = np.float64(row[j])
        x = w * sigma * (e[j] / (ei + e[j]))
        own = plus(own, x)
        pull[j] += x
        # log(1 + exp(-margin)) by the lesser over the greater, which never overflows
        above = e[j] > ei
        lesser, greater = (ei, e[j]) if above else (e[j], ei)
        z = lesser / (2 * greater + lesser)
        excess = s[j] - si if above else 0.0
        loss = plus(loss, w * (sigma * excess + 2 * z * artanh_series(z * z)))
    return loss, own


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def artanh_series(y: float) -> float:
    """Return artanh(z) / z for y = z^2 <= 1/9: sum of y^n / (2n + 1), to 1e-17."""
    # unrolled: an inner loop would keep the loop over pairs from being vectorised
    t = 1 / 33 + y / 35
    t = 1 / 25 + y * (1 / 27 + y * (1 / 29 + y * (1 / 31 + y * t)))
    t = 1 / 17 + y * (1 / 19 + y * (1 / 21 + y * (1 / 23 + y * t)))
    t = 1 / 9 + y * (1 / 11 + y * (1 / 13 + y * (1 / 15 + y * t)))
    t = 1 + y * (1 / 3 + y * (1 / 5 + y * (1 / 7 + y * t)))
    return t


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _row_hessian_kernel(
    first: int,
    last: int,
    rows: PairRows,
    scores: Floats,
    vector: Floats,
    sigma: float,
    product: Floats,
) -> None:
    offsets, winner_offsets, winner_row, weight_starts, weights = rows
    e = np.empty(longest_list(first, last, offsets))
    square = sigma * sigma
    for q in range(first, last):
        if winner_offsets[q] == winner_offsets[q + 1]:
            continue
        begin, end = offsets[q], offsets[q + 1]
        s, d, out = scores[begin:end], vector[begin:end], product[begin:end]
        length = end - begin
        near = exponentials(s, sigma, WIDEST_SPREAD, e)
        start = weight_starts[q]
        for v in range(winner_offsets[q], winner_offsets[q + 1]):
            i = winner_row[v]
            row = weights[start : start + length]
            start += length
            if not near:
                exponentials_about(s, i, sigma, e)
            own, ei, di = 0.0, e[i], d[i]
            for j in range(length):
                inverse = 1 / (ei + e[j])
                h = square * row[j] * ((ei * inverse) * (e[j] * inverse)) * (di - d[j])
                own = plus(own, h)
                out[j] -= h
            out[i] += own


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _vector_loss_kernel(
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
            if not near:
                exponentials_about(s, a, sigma, e)
            gradient[begin + a] = -sigma * _pull(a, way, u, v, e)
            losses[q] += _loss_with_later(a, sigma, way, u, v, s, e)


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _pull(a, way, u, v, e):  # type: ignore[no-untyped-def]
    ua, va, ea, own = u[a], v[a], e[a], 0.0
    for b in range(len(u)):  # itself too: the two directions cancel
        forward, backward = apart(ua * v[b], u[b] * va, way)
        own = plus(own, (forward * e[b] - backward * ea) / (ea + e[b]))
    return own


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _loss_with_later(a, sigma, way, u, v, s, e):  # type: ignore[no-untyped-def]
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


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _vector_hessian_kernel(
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
            if not near:
                exponentials_about(s, a, sigma, e)
            product[begin + a] = sigma * sigma * _bend(a, way, u, v, e, d)


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _bend(a, way, u, v, e, d):  # type: ignore[no-untyped-def]
    ua, va, ea, da, own = u[a], v[a], e[a], d[a], 0.0
    for b in range(len(u)):
        inverse = 1 / (ea + e[b])
        bend = (ea * inverse) * (e[b] * inverse)
        forward, backward = apart(ua * v[b], u[b] * va, way)
        own = plus(own, (forward + backward) * bend * (da - d[b]))
    return own
