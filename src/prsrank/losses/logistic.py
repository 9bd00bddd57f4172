r"""The pairwise logistic loss over weighted pairs: value, gradient, Hessian-vector product.

$$L(s) = \sum_{ij} W_{ij} \log(1 + e^{-(s_i - s_j)})$$

Inside a pair loop there is no exponential: with $e = \exp(s - \text{mid})$ per doc, mid the
middle of the list's scores, the sigmoid of $s_j - s_i$ is $e_j / (e_i + e_j)$, and
$\log(1 + x) = 2\,\text{artanh}(x / (2 + x))$ with x the lesser of the two e over the greater. In a
list whose scores lie so far apart that e would leave the range of float64, each doc in turn takes
the place of mid.

Over `OuterPairs` a doc's own sums are gathered over all the others, for both directions of each
pair: see `prsrank.losses.lambdas`.
"""
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.errors import InputError
from prsrank.pairs.outer_pairs import apart
from prsrank.pairs.weighted_pairs import PairRows, WeightedPairs, run_over_lists
from prsrank.sorting import longest_list
from prsrank.types import Floats

# exp(+-650) and its sums and products with weights stay inside float64
WIDEST_SPREAD = 1300.0
# A sum may be taken in any order. Nothing else may: (a b) (c d) as (a c) (b d) can overflow.
REORDER = {"reassoc", "contract", "nsz"}
FUSE = {"contract"}


def logistic_loss(
    scores: npt.ArrayLike, pairs: WeightedPairs, *, threads: int | None = None
) -> tuple[float, Floats]:
    r"""Return the loss and its gradient with respect to the scores.

    $$\frac{\partial L}{\partial s_i} = \sum_j -W_{ij} \rho_{ij} + W_{ji} \rho_{ji},
    \quad \rho_{ij} = \frac{1}{1 + e^{s_i - s_j}}$$

    Args:
        scores: score of each doc of the data set.
        pairs: $W$.
        threads: default: the cores this process may use. No effect on the result.

    >>> from prsrank.data.dataset import RankingDataset
    >>> from prsrank.pairs.pair_set import PairSet
    >>> data = RankingDataset(np.eye(2), np.array([0, 2]), labels=np.array([1, 0]))
    >>> loss, gradient = logistic_loss([0.0, 0.0], PairSet.from_labels(data))
    >>> round(loss, 4), gradient.tolist()
    (0.6931, [-0.5, 0.5])
    """
    losses, gradient = _run(scores, pairs, None, threads)
    return float(losses.sum()), gradient


def logistic_hessian_product(
    scores: npt.ArrayLike,
    vector: npt.ArrayLike,
    pairs: WeightedPairs,
    *,
    threads: int | None = None,
) -> Floats:
    r"""Return the Hessian of the loss with respect to the scores, times a vector.

    $$(H v)_i = \sum_j (h_{ij} + h_{ji})(v_i - v_j), \quad
    h_{ij} = W_{ij} \rho_{ij} (1 - \rho_{ij})$$

    Args:
        scores: score of each doc of the data set.
        vector: $v$, one value per doc.
        pairs: $W$.
        threads: default: the cores this process may use. No effect on the result.
    """
    return _run(scores, pairs, checked_scores(vector, pairs.docs), threads)[1]


def _run(
    scores: npt.ArrayLike, pairs: WeightedPairs, vector: Floats | None, threads: int | None
) -> tuple[Floats, Floats]:
    """Return the loss of each list and the gradient; or with a vector the Hessian times it."""
    losses, out = np.zeros(pairs.lists), np.zeros(pairs.docs)
    kernel = _row_kernel if isinstance(pairs.for_kernels, PairRows) else _vector_kernel
    arguments = checked_scores(scores, pairs.docs), vector, losses, out
    run_over_lists(kernel, pairs, *arguments, threads=threads)
    return losses, out


def checked_scores(scores: npt.ArrayLike, docs: int) -> Floats:
    """Return scores as contiguous float64 after checking their number and range."""
    values = np.ascontiguousarray(scores, np.float64)
    if values.shape != (docs,):
        raise InputError(f"{values.shape} scores for {docs} docs")
    if not np.isfinite(values).all():
        raise InputError(f"the score of doc {int(np.argmin(np.isfinite(values)))} is not finite")
    return values


@njit(cache=True, nogil=True)
def exponentials(scores, sigma, widest, out):
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
def exponentials_about(scores, i, sigma, out):
    """Set out to exp(sigma (score - score of i)) times a constant, for the pairs of doc i.

    With the constant, the share of doc i is exactly 0 beside docs far above, which are cut.
    """
    for j in range(len(scores)):
        above = sigma * (scores[j] - scores[i]) - 0.075 * WIDEST_SPREAD
        out[j] = np.exp(min(above, 0.5 * WIDEST_SPREAD))


@njit(cache=True, nogil=True, fastmath=REORDER)
def plus(total, value):
    """Return total + value; a loop of these may be added up in any order, so it vectorises."""
    return total + value


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def artanh_series(y):
    """Return artanh(z) / z for y = z^2 <= 1/9: sum of y^n / (2n + 1), to 1e-17."""
    # unrolled: an inner loop would keep the loop over pairs from being vectorised
    t = 1 / 33 + y / 35
    t = 1 / 25 + y * (1 / 27 + y * (1 / 29 + y * (1 / 31 + y * t)))
    t = 1 / 17 + y * (1 / 19 + y * (1 / 21 + y * (1 / 23 + y * t)))
    t = 1 / 9 + y * (1 / 11 + y * (1 / 13 + y * (1 / 15 + y * t)))
    t = 1 + y * (1 / 3 + y * (1 / 5 + y * (1 / 7 + y * t)))
    return t


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def log_of_sum(ei, ej):
    """Return log(1 + lesser / greater) of two exponentials, and whether that of j is greater.

    log(1 + exp(s_j - s_i)) is that, and s_j - s_i where j is above: so nothing overflows.
    """
    above = ej > ei
    lesser, greater = (ei, ej) if above else (ej, ei)
    z = lesser / (2 * greater + lesser)
    return 2 * z * artanh_series(z * z), above


# Inlined by Numba, as what follows is: a function of its own would be compiled twice, alone and
# with its caller, and which of the two runs, and so the last bits, would depend on the cache.
@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _row_loss(row, s, e, i, pull):
    si, ei, loss, own = s[i], e[i], 0.0, 0.0
    for j in range(len(row)):
        w = np.float64(row[j])
        x = w * (e[j] / (ei + e[j]))
        own = plus(own, x)
        pull[j] += x
        tail, above = log_of_sum(ei, e[j])
        excess = s[j] - si if above else 0.0
        loss = plus(loss, w * (excess + tail))
    pull[i] -= own
    return loss


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _row_bend(row, e, d, i, out):
    ei, di, own = e[i], d[i], 0.0
    for j in range(len(row)):
        inverse = 1 / (ei + e[j])
        h = row[j] * ((ei * inverse) * (e[j] * inverse)) * (di - d[j])
        own = plus(own, h)
        out[j] -= h
    out[i] += own


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _row_kernel(first, last, rows, scores, vector, losses, out):
    offsets, winner_offsets, winner_row, weight_starts, weights = rows
    e = np.empty(longest_list(first, last, offsets))
    for q in range(first, last):
        if winner_offsets[q] == winner_offsets[q + 1]:
            continue
        begin, end = offsets[q], offsets[q + 1]
        s, mine, start = scores[begin:end], out[begin:end], weight_starts[q]
        near = exponentials(s, 1.0, WIDEST_SPREAD, e)
        for v in range(winner_offsets[q], winner_offsets[q + 1]):
            i = winner_row[v]
            row = weights[start : start + end - begin]
            start += end - begin
            if not near:
                exponentials_about(s, i, 1.0, e)
            if vector is None:
                losses[q] += _row_loss(row, s, e, i, mine)
            else:
                _row_bend(row, e, vector[begin:end], i, mine)


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _vector_kernel(first, last, pairs, scores, vector, losses, out):
    offsets, winning, losing, way = pairs
    for q in range(first, last):
        begin, end = offsets[q], offsets[q + 1]
        if end - begin < 2:
            continue
        s = scores[begin:end]
        u, v = winning[begin:end].astype(np.float64), losing[begin:end].astype(np.float64)
        e = np.empty(end - begin)
        near = exponentials(s, 1.0, WIDEST_SPREAD, e)
        for a in range(end - begin):
            if not near:
                exponentials_about(s, a, 1.0, e)
            if vector is None:
                out[begin + a] = -_pull(a, way, u, v, e)
                losses[q] += _loss_with_later(a, way, u, v, s, e)
            else:
                out[begin + a] = _bend(a, way, u, v, e, vector[begin:end])


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _pull(a, way, u, v, e):
    ua, va, ea, own = u[a], v[a], e[a], 0.0
    for b in range(len(u)):  # itself too: the two directions cancel
        forward, backward = apart(ua * v[b], u[b] * va, way)
        own = plus(own, (forward * e[b] - backward * ea) / (ea + e[b]))
    return own


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _loss_with_later(a, way, u, v, s, e):
    """Return the loss of the pairs of doc a with later docs, both directions."""
    ua, va, sa, ea, loss = u[a], v[a], s[a], e[a], 0.0
    # slices from 0: an index that might be negative would keep the loop from vectors
    u, v, s, e = u[a + 1 :], v[a + 1 :], s[a + 1 :], e[a + 1 :]
    for b in range(len(u)):
        tail, above = log_of_sum(ea, e[b])
        rise = s[b] - sa
        excess = rise if above else 0.0
        forward, backward = apart(ua * v[b], u[b] * va, way)
        loss = plus(loss, forward * (excess + tail) + backward * (excess - rise + tail))
    return loss


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _bend(a, way, u, v, e, d):
    ua, va, ea, da, own = u[a], v[a], e[a], d[a], 0.0
    for b in range(len(u)):
        inverse = 1 / (ea + e[b])
        bend = (ea * inverse) * (e[b] * inverse)
        forward, backward = apart(ua * v[b], u[b] * va, way)
        own = plus(own, (forward + backward) * bend * (da - d[b]))
    return own
