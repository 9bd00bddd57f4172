r"""The pairwise hinge loss over a PairSet, plain and smoothed.

$$L(s) = \sum_{ij} W_{ij}\, h(1 - (s_i - s_j)), \qquad h(u) = \max(0, u)$$

Smoothed by $\mu$, $h_\mu(u) = \max_{0 \le z \le 1} (z u - \mu z^2 / 2)$: 0 below 0, $u^2 / (2 \mu)$
up to $\mu$, $u - \mu / 2$ above. Its slope z is a dual variable, so that every evaluation also
bounds the optimum of a regularised problem from below.
"""
# mypy: allow-untyped-defs, allow-untyped-calls

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.errors import InputError
from prsrank.losses.logistic import REORDER, checked_scores
from prsrank.pairs.weighted_pairs import WeightedPairs, run_over_lists
from prsrank.types import Floats


@dataclass(frozen=True, eq=False)
class HingeValue:
    r"""What one evaluation tells.

    Attributes:
        loss: $L(s)$.
        smoothed: $\sum W_{ij} h_\mu(1 - (s_i - s_j))$.
        slopes: $\sum W_{ij} z_{ij}$, z the slope of $h_\mu$.
        gradient: of `smoothed`, by doc; without smoothing, a subgradient of `loss`.
    """

    loss: float
    smoothed: float
    slopes: float
    gradient: Floats


def hinge_loss(
    scores: npt.ArrayLike,
    pairs: WeightedPairs,
    *,
    smoothing: float = 0.0,
    threads: int | None = None,
) -> HingeValue:
    r"""Return the loss and its gradient with respect to the scores.

    Args:
        scores: score of each doc of the data set.
        pairs: $W$.
        smoothing: $\mu$, at least 0.
        threads: default: the cores this process may use. No effect on the result.

    >>> from prsrank.data.dataset import RankingDataset
    >>> from prsrank.pairs.pair_set import PairSet
    >>> data = RankingDataset(np.eye(2), np.array([0, 2]), labels=np.array([1, 0]))
    >>> value = hinge_loss([0.25, 0.0], PairSet.from_labels(data))
    >>> value.loss, value.gradient.tolist()
    (0.75, [-1.0, 1.0])
    """
    if not (smoothing >= 0 and np.isfinite(smoothing)):
        raise InputError(f"smoothing must be finite and at least 0, not {smoothing}")
    sums, gradient = _run(scores, pairs, None, smoothing, threads)
    loss, smoothed, slopes = sums.sum(axis=0).tolist()
    return HingeValue(loss, smoothed, slopes, gradient)


def hinge_hessian_product(
    scores: npt.ArrayLike,
    vector: npt.ArrayLike,
    pairs: WeightedPairs,
    *,
    smoothing: float,
    threads: int | None = None,
) -> Floats:
    r"""Return the Hessian of the smoothed loss with respect to the scores, times a vector.

    $$(H v)_i = \sum_j (k_{ij} + k_{ji})(v_i - v_j), \quad
    k_{ij} = W_{ij} / \mu \text{ where } 0 < 1 - (s_i - s_j) < \mu$$
    """
    if not smoothing > 0:
        raise InputError("the plain hinge loss has no Hessian: smoothing must be above 0")
    return _run(scores, pairs, checked_scores(vector, pairs.docs), smoothing, threads)[1]


def _run(
    scores: npt.ArrayLike,
    pairs: WeightedPairs,
    vector: Floats | None,
    smoothing: float,
    threads: int | None,
) -> tuple[Floats, Floats]:
    """Return the sums of each list and the gradient; or with a vector the Hessian times it."""
    sums, out = np.zeros((pairs.lists, 3)), np.zeros(pairs.docs)
    arguments = checked_scores(scores, pairs.docs), vector, float(smoothing), sums, out
    run_over_lists(_kernel, pairs, *arguments, threads=threads)
    return sums, out


@njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy")
def _kernel(first, last, rows, scores, vector, smoothing, sums, out):
    offsets, winner_offsets, winner_row, weight_starts, weights = rows
    for q in range(first, last):
        begin, end = offsets[q], offsets[q + 1]
        s, mine, start = scores[begin:end], out[begin:end], weight_starts[q]
        for v in range(winner_offsets[q], winner_offsets[q + 1]):
            i = winner_row[v]
            row = weights[start : start + end - begin]
            start += end - begin
            if vector is None:
                _row(row, s, i, smoothing, sums[q], mine)
            else:
                _row_bend(row, s, i, smoothing, vector[begin:end], mine)


# inlined by Numba, as the logistic loss of a row is, so that it is compiled in one place alone
@njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy", inline="always")
def _row(row, s, i, smoothing, sums, pull):
    si, loss, saved, own = s[i], 0.0, 0.0, 0.0
    # without smoothing, so steep that z is 0 or 1: no branch inside the loop
    steepness = 1 / smoothing if smoothing > 0 else 1e300
    for j in range(len(row)):
        u = max(1 - si + s[j], 0.0)
        z = min(u * steepness, 1.0)
        w = np.float64(row[j])
        x = w * z
        loss += w * u
        # u - h(u) = (1 - z) u + smoothing z^2 / 2
        saved += (w - x) * u + 0.5 * smoothing * x * z
        own += x
        pull[j] += x
    sums[0] += loss
    sums[1] += loss - saved
    sums[2] += own
    pull[i] -= own


@njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy", inline="always")
def _row_bend(row, s, i, smoothing, d, out):
    level, di, own, steepness = s[i] - 1, d[i], 0.0, 1 / smoothing
    for j in range(len(row)):
        u = s[j] - level
        inside = 1.0 if (u > 0) & (u < smoothing) else 0.0
        x = inside * steepness * row[j] * (di - d[j])
        own += x
        out[j] -= x
    out[i] += own
