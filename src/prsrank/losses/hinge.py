r"""The pairwise hinge loss over a PairSet, plain and smoothed.

$$L(s) = \sum_{ij} W_{ij}\, h(1 - (s_i - s_j)), \qquad h(u) = \max(0, u)$$

Smoothed by $\mu$, $h_\mu(u) = \max_{0 \le z \le 1} (z u - \mu z^2 / 2)$: 0 below 0, $u^2 / (2 \mu)$
up to $\mu$, $u - \mu / 2$ above. Its slope z is a dual variable, so that every evaluation also
bounds the optimum of a regularised problem from below.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.errors import InputError
from prsrank.losses.logistic import REORDER, checked_scores
from prsrank.pairs.weighted_pairs import PairRows, WeightedPairs, run_over_lists
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


class HingeLoss:
    """The hinge loss of one PairSet.

    Args:
        pairs: the pairs.
        threads: default: the cores this process may use. No effect on the result.

    >>> from prsrank.data.dataset import RankingDataset
    >>> from prsrank.pairs.pair_set import PairSet
    >>> data = RankingDataset(np.eye(2), np.array([0, 2]), labels=np.array([1, 0]))
    >>> value = HingeLoss(PairSet.from_labels(data)).evaluate([0.25, 0.0])
    >>> value.loss, value.gradient.tolist()
    (0.75, [-1.0, 1.0])
    """

    def __init__(self, pairs: WeightedPairs, *, threads: int | None = None) -> None:
        self.pairs = pairs
        self.threads = threads

    def evaluate(self, scores: npt.ArrayLike, *, smoothing: float = 0.0) -> HingeValue:
        r"""Return the loss and its gradient with respect to the scores.

        Args:
            scores: score of each doc of the data set.
            smoothing: $\mu$, at least 0.
        """
        values = self._checked(scores, smoothing)
        sums = np.zeros((self.pairs.lists, 3))
        gradient = np.zeros(self.pairs.docs)
        arguments = (values, smoothing, sums, gradient)
        run_over_lists(_evaluate_kernel, self.pairs, *arguments, threads=self.threads)
        loss, smoothed, slopes = sums.sum(axis=0).tolist()
        return HingeValue(loss, smoothed, slopes, gradient)

    def hessian_product(
        self, scores: npt.ArrayLike, vector: npt.ArrayLike, *, smoothing: float
    ) -> Floats:
        r"""Return the Hessian of the smoothed loss with respect to the scores, times a vector.

        $$(H v)_i = \sum_j (k_{ij} + k_{ji})(v_i - v_j), \quad
        k_{ij} = W_{ij} / \mu \text{ where } 0 < 1 - (s_i - s_j) < \mu$$
        """
        values = self._checked(scores, smoothing)
        if smoothing == 0:
            raise InputError("the plain hinge loss has no Hessian: smoothing must be above 0")
        product = np.zeros(self.pairs.docs)
        direction = checked_scores(vector, self.pairs.docs, 1.0)
        arguments = (values, direction, smoothing, product)
        run_over_lists(_hessian_kernel, self.pairs, *arguments, threads=self.threads)
        return product

    def _checked(self, scores: npt.ArrayLike, smoothing: float) -> Floats:
        if not (smoothing >= 0 and np.isfinite(smoothing)):
            raise InputError(f"smoothing must be finite and at least 0, not {smoothing}")
        return checked_scores(scores, self.pairs.docs, 1.0)


@njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy")
def _evaluate_kernel(
    first: int,
    last: int,
    rows: PairRows,
    scores: Floats,
    smoothing: float,
    sums: Floats,
    gradient: Floats,
) -> None:
    offsets, winner_offsets, winner_row, weight_starts, weights = rows
    for q in range(first, last):
        begin, end = offsets[q], offsets[q + 1]
        s, pull = scores[begin:end], gradient[begin:end]
        start = weight_starts[q]
        for v in range(winner_offsets[q], winner_offsets[q + 1]):
            row = weights[start : start + end - begin]
            start += end - begin
            own = _row(row, s, s[winner_row[v]], smoothing, sums[q], pull)
            pull[winner_row[v]] -= own


# inlined by Numba, as the logistic loss of a row is, so that it is compiled in one place alone
@njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy", inline="always")
def _row(  # type: ignore[no-untyped-def]
    row: npt.NDArray, s: Floats, si: float, smoothing: float, sums: Floats, pull: Floats
):
    loss, saved, own = 0.0, 0.0, 0.0
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
    return own


@njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy")
def _hessian_kernel(
    first: int,
    last: int,
    rows: PairRows,
    scores: Floats,
    vector: Floats,
    smoothing: float,
    product: Floats,
) -> None:
    offsets, winner_offsets, winner_row, weight_starts, weights = rows
    steepness = 1 / smoothing
    for q in range(first, last):
        begin, end = offsets[q], offsets[q + 1]
        s, d, out = scores[begin:end], vector[begin:end], product[begin:end]
        start = weight_starts[q]
        for v in range(winner_offsets[q], winner_offsets[q + 1]):
            i = winner_row[v]
            row = weights[start : start + end - begin]
            start += end - begin
            level, di, own = s[i] - 1, d[i], 0.0
            for j in range(end - begin):
                u = s[j] - level
                inside = 1.0 if (u > 0) & (u < smoothing) else 0.0
                x = inside * steepness * row[j] * (di - d[j])
                own += x
                out[j] -= x
            out[i] += own
