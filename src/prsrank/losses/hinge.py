r"""The pairwise hinge loss over a PairSet, plain and smoothed.

$$L(s) = \sum_{ij} W_{ij}\, h(1 - (s_i - s_j)), \qquad h(u) = \max(0, u)$$

Smoothed by $\mu$, $h_\mu(u) = \max_{0 \le z \le 1} (z u - \mu z^2 / 2)$: 0 below 0, $u^2 / (2 \mu)$
up to $\mu$, $u - \mu / 2$ above. Its slope z is a dual variable, so that every evaluation also
bounds the optimum of a regularised problem from below.

Where all winners of a list have a constant row of weights (IPS against all others), a sorted
list gives the sums from running totals, O(n log n) for a list of n docs and any number of
winners. Other rows cost O(n) each, vectorised; with few winners that is faster for all.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.errors import InputError
from prsrank.losses.logistic import REORDER, checked_scores
from prsrank.pairs.pair_rows import PairRows, run_over_lists
from prsrank.sorting import sort_with_index
from prsrank.types import Floats, Ints, Marks

if TYPE_CHECKING:
    from prsrank.pairs.pair_set import PairSet


# sorting a list takes as long as about so many of its rows, at 0.3 ns an entry
FEWEST_WINNERS_TO_SORT = 256


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
    """The hinge loss of one PairSet, with the lists to sort found out beforehand.

    Args:
        pairs: the pairs.
        threads: default: the cores this process may use. No effect on the result.
        fewest_winners_to_sort: lists with fewer winners are not sorted.

    Attributes:
        sorted_lists: which lists are evaluated by sorting.

    >>> from prsrank.data.dataset import RankingDataset
    >>> from prsrank.pairs.pair_set import PairSet
    >>> data = RankingDataset(np.eye(2), np.array([0, 2]), labels=np.array([1, 0]))
    >>> value = HingeLoss(PairSet.from_labels(data)).evaluate([0.25, 0.0])
    >>> value.loss, value.gradient.tolist()
    (0.75, [-1.0, 1.0])
    """

    def __init__(
        self,
        pairs: "PairSet",
        *,
        threads: int | None = None,
        fewest_winners_to_sort: int = FEWEST_WINNERS_TO_SORT,
    ) -> None:
        self.pairs = pairs
        self.threads = threads
        self.row_weights = np.zeros(pairs.winners)
        self.taking_part = np.zeros(pairs.docs, np.bool_)
        self.sorted_lists = np.zeros(pairs.lists, np.bool_)
        found = (self.row_weights, self.taking_part, self.sorted_lists)
        run_over_lists(
            _find_constant_kernel, pairs, fewest_winners_to_sort, *found, threads=threads
        )

    def evaluate(self, scores: npt.ArrayLike, *, smoothing: float = 0.0) -> HingeValue:
        r"""Return the loss and its gradient with respect to the scores.

        Args:
            scores: score of each doc of the data set.
            smoothing: $\mu$, at least 0.
        """
        values = self._checked(scores, smoothing)
        sums = np.zeros((self.pairs.lists, 3))
        gradient = np.zeros(self.pairs.docs)
        run_over_lists(
            _evaluate_kernel,
            self.pairs,
            *(values, smoothing, self.row_weights, self.taking_part, self.sorted_lists),
            *(sums, gradient),
            threads=self.threads,
        )
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


@njit(cache=True, nogil=True)
def _find_constant_kernel(
    first: int,
    last: int,
    rows: PairRows,
    fewest: int,
    row_weights: Floats,
    taking_part: Marks,
    constant: Marks,
) -> None:
    """Find lists whose rows hold one weight per winner, over the same docs but the winner."""
    offsets, winner_offsets, winner_row, weight_starts, weights = rows
    for q in range(first, last):
        winners = winner_offsets[q + 1] - winner_offsets[q]
        begin, length = offsets[q], offsets[q + 1] - offsets[q]
        table = weights[weight_starts[q] : weight_starts[q + 1]].reshape(winners, length)
        if winners < fewest or winners == 0:
            continue
        part = taking_part[begin : begin + length]
        for k in range(winners):
            for j in range(length):
                part[j] |= table[k, j] > 0
        same = True
        for k in range(winners):
            v = winner_offsets[q] + k
            weight = table[k].max()
            row_weights[v] = weight
            for j in range(length):
                expected = weight if part[j] and j != winner_row[v] else 0.0
                if abs(table[k, j] - expected) > 1e-14 * weight:
                    same = False
        constant[q] = same


@njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy")
def _evaluate_kernel(
    first: int,
    last: int,
    rows: PairRows,
    scores: Floats,
    smoothing: float,
    row_weights: Floats,
    taking_part: Marks,
    to_sort: Marks,
    sums: Floats,
    gradient: Floats,
) -> None:
    offsets, winner_offsets, winner_row, weight_starts, weights = rows
    for q in range(first, last):
        begin, end = offsets[q], offsets[q + 1]
        won = slice(winner_offsets[q], winner_offsets[q + 1])
        s, pull = scores[begin:end], gradient[begin:end]
        if to_sort[q]:
            part = taking_part[begin:end]
            _sorted_list(s, part, winner_row[won], row_weights[won], smoothing, sums[q], pull)
            continue
        start = weight_starts[q]
        for v in range(won.start, won.stop):
            row = weights[start : start + end - begin]
            start += end - begin
            own = _row(row, s, s[winner_row[v]], smoothing, sums[q], pull)
            pull[winner_row[v]] -= own


@njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
def _sorted_list(
    s: Floats,
    taking_part: Marks,
    winner_row: Ints,
    row_weights: Floats,
    smoothing: float,
    sums: Floats,
    pull: Floats,
) -> None:
    """Add a list of constant rows: docs from the highest score down, winners likewise.

    The docs with u >= smoothing of a winner are a prefix that grows from winner to winner; its
    sums are running totals. The docs with 0 < u < smoothing follow it and are few.
    """
    middle = s.mean()  # sums of scores about their mean lose no digits to a common offset
    _, docs = sort_with_index(-s)
    _, winners = sort_with_index(-s[winner_row])
    ends = np.zeros(len(s) + 1)
    full, total, passed = 0.0, 0.0, 0
    for k in winners:
        i, w = winner_row[k], row_weights[k]
        level = s[i] - 1
        while passed < len(docs):
            j = docs[passed]
            if not (s[j] > level and s[j] - level >= smoothing):
                break
            if taking_part[j]:
                full += 1
                total += s[j] - middle
            passed += 1
        above = total - full * (level - middle)
        loss, smoothed, slopes = above, above - 0.5 * smoothing * full, full
        ends[passed] += w
        own = 0.0
        for at in range(passed, len(docs)):
            j = docs[at]
            u = s[j] - level
            if u <= 0:
                break
            if taking_part[j]:
                z = u / smoothing
                loss += u
                smoothed += 0.5 * u * z
                slopes += z
                pull[j] += w * z
        # the winner against itself, u = 1, was counted and is no pair
        if taking_part[i]:
            own = min(1 / smoothing, 1.0) if smoothing > 0 else 1.0
            loss -= 1
            smoothed -= own - 0.5 * smoothing * own * own
            slopes -= own
        sums[0] += w * loss
        sums[1] += w * smoothed
        sums[2] += w * slopes
        pull[i] -= w * (slopes + own)
    # a doc's pull from all winners whose prefix holds it: one pass from the end
    behind = 0.0
    for at in range(len(docs) - 1, -1, -1):
        behind += ends[at + 1]
        if taking_part[docs[at]]:
            pull[docs[at]] += behind


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
