r"""Lambda gradients over click sets, for MAP and MRR.

As in `prsrank.losses.lambdas`, with $|\Delta Z_{ij}|$ the change of the session's average precision
or reciprocal rank, its clicked docs taken as the relevant ones, when the clicked doc i and the
other doc j swap ranks in the ranking by the current scores.

A session has m clicks. When a doc clicked at rank a and another doc at rank b swap, with l and h the
lesser and the greater of a and b:

* MAP: $m |\Delta Z| = \sum_k \max(0, \min(1/k, 1/l) - 1/h) + [b < a] (1/b - 1/a)$ over the ranks k of
  the clicks.
* MRR, with f and g the ranks of the first and second click: $1 / b - 1 / f$ if b < f;
  $1 / f - 1 / \min(b, g)$ if a = f < b; else 0.

**Cost.** The sum over the sessions of a showing of $|\Delta Z_{ij}|$ needs of them only, with $m_s$ the
clicks of session s, $T_{ijk} = \sum_s [i, k \text{ clicked}, j \text{ not}] / m_s$:

$$\sum_s |\Delta Z_{ij}| = \sum_k T_{ijk} \max(0, \min(1/k, 1/l) - 1/h) + [b < a]\, T_{iji} (1/b - 1/a)$$

with k the rank of doc k. With T, MAP costs the cube of a showing's length, however many click sets
there are; T is made where that is less. Sums over pairs of clicks would not do: sets of equal pair
counts may differ in T.

MRR has no such sum. Docs of rank above f are those that a session did not click: with b < f the sum
over sessions counts those with i clicked and none of the top b ranks. Counts of "none of these
docs" for every set of docs, which some ranking puts on top, give back how many sessions had each
click set (by inclusion and exclusion). So whatever serves all rankings holds as much as the sets.
"""
# mypy: allow-untyped-defs, allow-untyped-calls

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.losses.logistic import (
    FUSE,
    WIDEST_SPREAD,
    exponentials,
    exponentials_about,
    plus,
)
from prsrank.losses.ranked_objective import (
    RankedObjective,
    gap_of_list,
    over_gap,
    rank_list,
    rank_room,
)
from prsrank.pairs.click_sets import ClickSets, SetArrays
from prsrank.threads import for_each_piece
from prsrank.types import Floats, Ints, Longs

STEPS_PER_PAIR = 8
"""How many steps of T take as long as one pair of one click set."""


class ClickSetObjective(RankedObjective):
    """Lambda gradients of click sets; called and used like a `LambdaObjective`.

    Args:
        sets: click sets.
        metric: "map" or "mrr".
        options: as in `RankedObjective`.

    >>> from prsrank.data.dataset import RankingDataset
    >>> data = RankingDataset(np.eye(2), np.array([0, 2]), labels=np.array([1, 0]))
    >>> gradient, hessian = ClickSetObjective(ClickSets.from_labels(data), metric="mrr")([0, 0])
    >>> gradient.tolist(), hessian.tolist()
    ([-0.25, 0.25], [0.125, 0.125])
    """

    metrics: ClassVar[Iterable[str]] = ("map", "mrr")
    of: ClassVar[str] = "click sets"

    def __init__(self, sets: ClickSets, *, metric: str = "map", **options: Any) -> None:
        super().__init__(sets, metric=metric, **options)
        self.sets, self._of_map = sets.arrays, metric == "map"
        # an estimate of the work of each list, so that threads get equal pieces
        starts = self.sets.list_offsets
        self._work = (starts + self.sets.set_offsets[starts]) * 64
        self._triples = _click_triples(self.sets, of_map=self._of_map)

    def _write(
        self, scores: Floats, gradient: npt.NDArray, hessian: npt.NDArray, sums: Floats
    ) -> None:
        inputs = self.sets, self._triples, scores, self._of_map, self.ranking
        for_each_piece(
            lambda a, b: _click_set_kernel(a, b, *inputs, gradient, hessian, sums),
            self._work,
            threads=self.threads,
        )


class Triples(NamedTuple):
    """T of showings: that of slots (i, j, k) is values[starts[showing] + (i n + j) n + k].

    Attributes:
        starts: of each showing; -1 where its click sets are gone through instead.
        values: T.
    """

    starts: Longs
    values: Floats


def _click_triples(sets: SetArrays, *, of_map: bool) -> Triples:
    """Return T of the showings for which it saves work: none for MRR."""
    lengths = np.diff(sets.slot_offsets)
    clicks = np.diff(sets.set_offsets)
    pairs = np.zeros(len(lengths))
    np.add.at(pairs, sets.set_showing, clicks * (lengths[sets.set_showing] - clicks) + 0.0)
    cubes = lengths**3
    # a step of the cube is a few operations on a vector, a pair one at a time
    chosen = (cubes < STEPS_PER_PAIR * pairs) & of_map
    ends = np.cumsum(np.where(chosen, cubes, 0))
    starts = np.where(chosen, ends - cubes, -1)
    triples = Triples(starts, np.zeros(int(ends[-1]) if len(ends) else 0))
    _fill_triples(sets, triples)
    return triples


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_triples(sets, triples):
    for t in range(len(sets.set_counts)):
        start = triples.starts[sets.set_showing[t]]
        if start < 0:
            continue
        slots = sets.set_slots[sets.set_offsets[t] : sets.set_offsets[t + 1]]
        base = sets.slot_offsets[sets.set_showing[t]]
        n = sets.slot_offsets[sets.set_showing[t] + 1] - base
        share = sets.set_counts[t] / len(slots)
        clicked = np.zeros(n, np.uint8)
        clicked[slots] = 1
        for i in slots:
            for j in range(n):
                if not clicked[j]:
                    for k in slots:
                        triples.values[start + (i * n + j) * n + k] += share


class _List(NamedTuple):
    """Scores of one list and its sums, as the loops over pairs take them."""

    s: Floats
    sigma: float
    near: bool
    e: Floats
    ranks: Ints
    top: int
    pull: Floats
    curve: Floats
    gap: float | None
    total: Floats


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy")
def _click_set_kernel(first, last, sets, triples, scores, of_map, ranking, gradient, hessian, sums):
    sigma, top, longest, ties, gap = ranking
    offsets, list_offsets = sets.offsets, sets.list_offsets
    room, clicked = rank_room(longest), np.zeros(longest, np.uint8)
    once, inverse = np.ones(longest), np.empty(longest)
    e, pull, curve = np.empty(longest), np.empty(longest), np.empty(longest)
    for q in range(first, last):
        if list_offsets[q] == list_offsets[q + 1]:
            continue
        begin, end = offsets[q], offsets[q + 1]
        s = scores[begin:end]
        pull[:] = 0
        curve[:] = 0
        rank_list(s, ties[begin:end], room)
        near = exponentials(s, sigma, WIDEST_SPREAD, e)
        own_gap, total = gap_of_list(s, gap), sums[q : q + 1]
        here = _List(s, sigma, near, e, room.ranks, top, pull, curve, own_gap, total)
        for t in range(list_offsets[q], list_offsets[q + 1]):
            showing = sets.set_showing[t]
            if triples.starts[showing] < 0:
                _add_set(t, sets, of_map, here, clicked, once, inverse)
            elif t == list_offsets[q] or sets.set_showing[t - 1] != showing:
                _add_triples(showing, sets, triples, here)
        gradient[begin:end] = pull[: end - begin]
        hessian[begin:end] = curve[: end - begin]


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _add_triples(showing, sets, triples, here):
    """Add the pairs of all sessions of a showing, by T."""
    base, rows = sets.slot_offsets[showing], sets.rows
    shown = sets.slot_rows[base : sets.slot_offsets[showing + 1]]
    n = len(shown)
    inverse = np.empty(n)
    for k in range(n):
        inverse[k] = 1 / (here.ranks[shown[k]] + 1)
    for i in range(n):
        source = rows.starts[base + i]
        if not here.near:
            exponentials_about(here.s, shown[i], here.sigma, here.e)
        for j in range(n):
            start = triples.starts[showing] + (i * n + j) * n
            both = triples.values[start : start + n]
            if both[i] == 0 or not sets.slot_compared[base + j]:
                continue
            if min(here.ranks[shown[i]], here.ranks[shown[j]]) >= here.top:
                continue
            near, far = max(inverse[i], inverse[j]), min(inverse[i], inverse[j])
            change = _summed_change(both, inverse, near, far)
            if inverse[j] > inverse[i]:
                change += both[i] * (near - far)
            weight = rows.table[source + rows.columns[base + j]] * change
            _add_pair(shown[i], shown[j], weight, here)


@njit(cache=True, nogil=True, fastmath=FUSE, error_model="numpy", inline="always")
def _summed_change(both, inverse, near, far):
    total = 0.0
    for k in range(len(both)):
        above = near if inverse[k] > near else inverse[k]
        gain = above - far
        total = plus(total, both[k] * (gain if gain > 0 else 0.0))
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _add_set(t, sets, of_map, here, clicked, once, inverse):
    """Add the pairs of the sessions with one click set."""
    base, rows, ranks = sets.slot_offsets[sets.set_showing[t]], sets.rows, here.ranks
    shown = sets.slot_rows[base : sets.slot_offsets[sets.set_showing[t] + 1]]
    slots = sets.set_slots[sets.set_offsets[t] : sets.set_offsets[t + 1]]
    clicks = len(slots)
    first, second = 0.0, 0.0  # of 1 / rank of the clicked docs the two largest
    for c in range(clicks):
        clicked[shown[slots[c]]] = 1
        inverse[c] = 1 / (ranks[shown[slots[c]]] + 1)
        second = max(second, min(first, inverse[c]))
        first = max(first, inverse[c])
    for c in range(clicks):
        i, a = shown[slots[c]], inverse[c]
        source = rows.starts[base + slots[c]]
        if not here.near:
            exponentials_about(here.s, i, here.sigma, here.e)
        for other in range(len(shown)):
            j = shown[other]
            # a pair is a clicked and a non-clicked doc that the weighting compares
            if clicked[j] or not sets.slot_compared[base + other]:
                continue
            if min(ranks[i], ranks[j]) >= here.top:
                continue
            b = 1 / (ranks[j] + 1)
            if of_map:
                change = _summed_change(once[:clicks], inverse, max(a, b), min(a, b))
                change = (change + max(b - a, 0.0)) / clicks
            elif b > first:
                change = b - first
            elif a == first:
                change = first - max(b, second)
            else:
                continue
            weight = rows.table[source + rows.columns[base + other]] * sets.set_counts[t]
            _add_pair(i, j, weight * change, here)
    for slot in slots:
        clicked[shown[slot]] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def _add_pair(i, j, weight, here):
    sigma, e = here.sigma, here.e
    inverse = 1 / (e[i] + e[j])
    rho, rest = e[j] * inverse, e[i] * inverse
    x = sigma * over_gap(weight, here.s[i], here.s[j], here.gap) * rho
    here.pull[i] -= x
    here.pull[j] += x
    here.curve[i] += sigma * x * rest
    here.curve[j] += sigma * x * rest
    here.total[0] += 2 * x / sigma
