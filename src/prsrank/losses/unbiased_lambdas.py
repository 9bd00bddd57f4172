r"""Lambda gradients that learn the position biases of clicks and of non-clicks on the way.

A pair of doc i, clicked at position $k_i$, and doc j, not clicked at $k_j$, of one session weighs
$1 / (t^+_{k_i} t^-_{k_j})$; lambda and second derivative are otherwise those of
`prsrank.losses.lambdas`. With $L_{ij} = |\Delta Z_{ij}| \log(1 + e^{-\sigma (s_i - s_j)})$,

$$t^+_k = \left[ \frac{\sum_{k_i = k} L_{ij} / t^-_{k_j}}{\sum_{k_i = 1} L_{ij} / t^-_{k_j}}
\right]^{1 / (1 + p)}, \quad
t^-_k = \left[ \frac{\sum_{k_j = k} L_{ij} / t^+_{k_i}}{\sum_{k_j = 1} L_{ij} / t^+_{k_i}}
\right]^{1 / (1 + p)}$$

are set anew after each call, both from the values before it (Hu, Wang, Peng, Li: Unbiased
LambdaMART, WWW 2019). The formulas are for lists of one length. Where few lists reach down to
position k its sums are small for that reason alone, so each sum is divided by the number of
sessions that showed position k (`per_showing`), which changes nothing for lists of one length.

Sums run over the pairs of all sessions, but no session is expanded: of a showing, doc i won
against j in $N_{ij} = n_i - n_{ij}$ sessions, those that clicked i less those that clicked both,
and $n_{ij}$ is 0 for all but few.
"""
# mypy: allow-untyped-defs, allow-untyped-calls

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.losses.logistic import (
    FUSE,
    WIDEST_SPREAD,
    artanh_series,
    exponentials,
    exponentials_about,
    plus,
)
from prsrank.losses.ranked_objective import (
    DISCOUNTS,
    Gradients,
    RankedObjective,
    gap_of_list,
    over_gap,
    rank_list,
    rank_room,
)
from prsrank.pairs.click_counts import ClickCounts
from prsrank.threads import for_each_piece
from prsrank.types import Floats

Biases = tuple[Floats, Floats]

# No t falls below this: a position whose pairs are few and in order weighs at most a million times.
LEAST_BIAS = 1e-6


class UnbiasedObjective(RankedObjective):
    """Lambda gradients of click counts; each call takes the biases one step on.

    A position without pairs keeps t = 1, which nothing reads; one whose loss is 0 in one call (all
    its pairs beyond `truncation`) keeps its value. If position 1 has no pairs, the first
    position that has some stands for it. Docs of equal score rank as in `LambdaObjective`.

    Args:
        counts: the click counts.
        metric: "ndcg" or "arp".
        p: regularisation: 0 is none, infinity leaves every t at 1.
        positions: this position and all below it share their t, that of their mean loss; None:
            each has its own.
        per_showing: divide the loss of a position by how often it was shown.
        options: as in `RankedObjective`.

    Attributes:
        click_biases: t+ of each position (the last may stand for more).
        non_click_biases: t-.
        steps: t+ and t- after each call.

    >>> from prsrank.data.dataset import RankingDataset
    >>> from prsrank.logs.click_log import ClickLog
    >>> data = RankingDataset(np.eye(2), np.array([0, 2]))
    >>> log = ClickLog.from_frame({
    ...     "query_id": np.zeros(6, int), "session_id": np.array([1, 1, 2, 2, 3, 3]),
    ...     "doc_id": np.array([0, 1] * 3), "position": np.array([1, 2] * 3),
    ...     "click": np.array([1, 0, 1, 0, 0, 1])})
    >>> objective = UnbiasedObjective(ClickCounts(log, data, normalise=None), metric="arp", p=0)
    >>> gradient, hessian = objective(np.zeros(2))
    >>> gradient.tolist(), objective.click_biases.tolist(), objective.non_click_biases.tolist()
    ([-0.5, 0.5], [1.0, 0.5], [1.0, 2.0])
    """

    def __init__(
        self,
        counts: ClickCounts,
        *,
        metric: str = "ndcg",
        p: float = 0.0,
        positions: int | None = None,
        per_showing: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(counts, metric=metric, **options)
        self.counts, shown = counts, counts.shown
        self.steps: list[Biases] = []
        self._exponent = 1 / (1 + p)
        self._discounts = DISCOUNTS[metric](np.arange(1.0, self.ranking.longest + 1))
        self._deepest = int(shown.slot_positions.max(initial=1))
        bins = self._deepest if positions is None else min(positions, self._deepest)
        self._known = np.zeros((2, bins), bool)
        self._bins = np.minimum(shown.slot_positions, bins).astype(np.int32) - np.int32(1)
        shown_at = counts.position_shown[: self._deepest]
        sizes = shown_at if per_showing else np.minimum(shown_at, 1)
        bin_of_position = np.minimum(np.arange(len(sizes)), bins - 1)
        self._sizes = np.maximum(np.bincount(bin_of_position, sizes, bins), 1.0)
        self.click_biases, self.non_click_biases = np.ones(bins), np.ones(bins)
        self._work = counts.pair_rows
        self._slot_losses = np.zeros((2, len(self._bins)))

    def __call__(self, scores: npt.ArrayLike) -> Gradients:
        """Return gradient and second derivative by the score of each doc; re-estimate the t."""
        gradient, hessian, plus, minus = self.exact(scores)
        self._known |= np.stack([plus, minus]) > 0
        self.click_biases = self._estimated(plus, self.click_biases)
        self.non_click_biases = self._estimated(minus, self.non_click_biases)
        self.steps.append((self.click_biases, self.non_click_biases))
        return gradient.astype(np.float32), hessian.astype(np.float32)

    def exact(self, scores: npt.ArrayLike) -> tuple[Floats, ...]:
        """Return gradient, second derivative and, per position, the loss behind t+ and t-."""
        gradient, hessian = super().exact(scores)
        # summed here, in the order of the slots, so that threads change nothing
        size = len(self.click_biases)
        by_bin = (np.bincount(self._bins, losses, size) for losses in self._slot_losses)
        return gradient, hessian, *(np.asarray(sums, np.float64) for sums in by_bin)

    def _write(
        self, scores: Floats, gradient: npt.NDArray, hessian: npt.NDArray, sums: Floats
    ) -> None:
        inputs = scores, self._discounts, self.ranking, self.counts.offsets, self.counts.shown
        biases = self._bins, 1 / self.click_biases, 1 / self.non_click_biases
        out = gradient, hessian, sums, (self._slot_losses[0], self._slot_losses[1])
        for_each_piece(
            lambda a, b: _unbiased_kernel(a, b, *inputs, biases, out),
            self._work,
            threads=self.threads,
        )

    def start(self, click_biases: Floats, non_click_biases: Floats) -> None:
        """Go on from t+ and t- as `by_position` gave them; what they lack starts at 1."""
        ours = (self.click_biases, self.non_click_biases)
        for given, own in zip((click_biases, non_click_biases), ours, strict=True):
            some = given[: len(own)]
            own[: len(some)] = np.where(np.isnan(some), 1.0, some)

    def by_position(self, biases: Biases) -> Biases:
        """Return t+ and t- of positions 1, 2, ...; NaN where no pair has told it."""
        indices = np.arange(len(self.counts.position_clicks))
        bins = np.minimum(indices, len(biases[0]) - 1)
        plus, minus = (
            np.where(known[bins] & (indices < self._deepest), t[bins], np.nan)
            for known, t in zip(self._known, biases, strict=True)
        )
        return plus, minus

    def _estimated(self, losses: Floats, before: Floats) -> Floats:
        known = losses > 0
        if not known.any():
            return before
        means = losses / self._sizes
        # t is relative to the first position that has pairs
        ratios = np.maximum(means / means[known.argmax()], LEAST_BIAS)
        return np.where(known, ratios**self._exponent, before)


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _unbiased_kernel(first, last, scores, discounts, ranking, offsets, shown, biases, out):
    sigma, top, longest, ties, least_gap = ranking
    bins, inverse_plus, inverse_minus = biases
    gradient, hessian, sums, (plus, minus) = out
    e, room = np.empty(longest), rank_room(longest)
    ranks = room.ranks
    # by slot: score, exponential, discount, 1/t-, in the top?, N, and the three sums
    space = np.empty((9, longest))
    for q in range(first, last):
        if shown.list_offsets[q] == shown.list_offsets[q + 1]:
            continue
        begin, end = offsets[q], offsets[q + 1]
        rank_list(scores[begin:end], ties[begin:end], room)
        near = exponentials(scores[begin:end], sigma, WIDEST_SPREAD, e)
        gap = gap_of_list(scores[begin:end], least_gap)
        for t in range(shown.list_offsets[q], shown.list_offsets[q + 1]):
            base, stop = shown.slot_offsets[t], shown.slot_offsets[t + 1]
            length = stop - base
            rows = shown.slot_rows[base:stop]
            s, es, d, lower, leads, counts = space[:6, :length]
            pull, curve, losses = space[6:, :length]
            for a in range(length):
                s[a] = scores[begin + rows[a]]
                es[a] = e[rows[a]]
                d[a] = discounts[ranks[rows[a]]]
                lower[a] = inverse_minus[bins[base + a]]
                leads[a] = ranks[rows[a]] < top
            space[6:, :length] = 0
            for v in range(shown.winner_offsets[t], shown.winner_offsets[t + 1]):
                i = shown.winner_slots[v]
                # N: all sessions that clicked i, less those that clicked the other doc, too
                counts[:] = shown.winner_counts[v]
                for c in range(shown.both_offsets[v], shown.both_offsets[v + 1]):
                    counts[shown.both_slots[c]] = shown.both_counts[c]
                # below the top only pairs with a doc of the top count
                if not leads[i]:
                    counts *= leads
                upper = inverse_plus[bins[base + i]]
                if not near:
                    exponentials_about(s, i, sigma, es)
                plus[base + i], total = _add_row(
                    i, sigma, gap, upper, counts, s, es, d, lower, pull, curve, losses
                )
                sums[q] += 2 * total
            for a in range(length):
                gradient[begin + rows[a]] += sigma * pull[a]
                hessian[begin + rows[a]] += sigma * sigma * curve[a]
                minus[base + a] = losses[a]


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _add_row(i, sigma, gap, upper, counts, s, e, d, lower, pull, curve, losses):
    """Add the pairs of one clicked slot; return its sum of L / t-, and how it is pulled."""
    si, ei, di = s[i], e[i], d[i]
    own, own_curve, own_loss = 0.0, 0.0, 0.0
    for j in range(len(counts)):
        ej = e[j]
        inverse = 1 / (ei + ej)
        weight = counts[j] * over_gap(abs(di - d[j]), si, s[j], gap)
        x = weight * upper * lower[j] * (ej * inverse)
        h = x * (ei * inverse)
        own = plus(own, x)
        own_curve = plus(own_curve, h)
        pull[j] += x
        curve[j] += h
        above = ej > ei
        lesser, greater = (ei, ej) if above else (ej, ei)
        z = lesser / (2 * greater + lesser)
        excess = s[j] - si if above else 0.0
        loss = weight * (sigma * excess + 2 * z * artanh_series(z * z))
        own_loss = plus(own_loss, loss * lower[j])
        losses[j] += loss * upper
    pull[i] -= own
    curve[i] += own_curve
    return own_loss, own
