"""The kernels that draw sessions: what each one shows, and which docs it clicks.

The walk of a user (`WalkTables`) is drawn event by event, an event being a click or a stop. With
e_k the probability that a user who reaches slot k clicks there or stops there, the wait for the
next event, measured in the hazard -log(1 - e_k) of the slots passed, is a standard exponential. So
a session costs one draw an event and one more, not one a slot, and the result is exact.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from prsrank.clicks.stream import below, exponential, next_state, stream_start, uniform
from prsrank.ragged import offsets_of
from prsrank.sorting import longest_list
from prsrank.threads import for_each_piece
from prsrank.types import Bytes, Floats, Ints, Longs


class Plan(NamedTuple):
    """All that a session depends on, apart from its index.

    A *base ranking* is a query ranked by one of the rankers: number ranker * queries + query.

    Attributes:
        key: key of the sessions' streams.
        offsets: where each base ranking begins, and the end (base rankings + 1).
        docs: doc rows of the base rankings, best first.
        relevance: relevance of those docs.
        hazard: of an event, by relevance and index of the slot (2 x slots).
        click_share: P(click | event) (2 x slots).
        stop: P(walk ends | clicked) (2 x slots).
        cutoff: how many docs are shown at most.
        share: share of sessions that are randomised.
        design: number of the design (`randomise.DESIGNS`).
        reach: last position that the design changes; 0 for all.
        variants: how many rankings each base ranking has that may occur again: itself, and the
            swaps of it.
    """

    key: np.uint64
    offsets: Longs
    docs: Ints
    relevance: Bytes
    hazard: Floats
    click_share: Floats
    stop: Floats
    cutoff: int
    share: float
    design: int
    reach: int
    variants: int


class ShownRankings(NamedTuple):
    """The rankings part of a `ClickLog`; `base` is the base ranking of each."""

    base: Ints
    design: Ints
    offsets: Longs
    docs: Ints
    positions: Ints


@njit(cache=True, nogil=True)
def show(plan: Plan, session: int, slots: Ints) -> tuple[np.uint64, int, int]:
    """Draw what a session shows.

    Args:
        plan: what sessions depend on.
        session: index of the session.
        slots: is filled with the base ranking's slots in the order shown.

    Returns:
        The session's stream, its base ranking, and the variant of it: 0 as it is, -1 shuffled,
        and for swaps 1 + 2 * pair + (1 if the docs changed places else 0).
    """
    state = next_state(stream_start(plan.key, session))
    base = below(state, len(plan.offsets) - 1)
    length = plan.offsets[base + 1] - plan.offsets[base]
    for i in range(length):
        slots[i] = i
    if plan.share == 0:
        return state, base, 0
    state = next_state(state)
    if uniform(state) >= plan.share:
        return state, base, 0
    if plan.design < 2:
        # Fisher and Yates, stopped early: what lies below the cutoff is never seen
        shuffled = length if plan.reach == 0 else min(plan.reach, length)
        for i in range(min(shuffled - 1, plan.cutoff)):
            state = next_state(state)
            j = i + below(state, shuffled - i)
            slots[i], slots[j] = slots[j], slots[i]
        return state, base, -1
    pairs = min(plan.reach, length, plan.cutoff) - 1
    if pairs < 1:
        return state, base, 0
    state = next_state(state)
    pair = below(state, pairs)
    state = next_state(state)
    # sessions that draw "no change" are marked too: they are the other arm of the experiment
    swap = uniform(state) < 0.5
    if swap:
        upper = pair if plan.design == 2 else 0
        slots[upper], slots[pair + 1] = slots[pair + 1], slots[upper]
    return state, base, 1 + 2 * pair + int(swap)


@njit(cache=True, nogil=True)
def draw_kernel(first: int, last: int, plan: Plan, codes: Ints, counts: Ints, clicks: Ints) -> int:
    """Draw the sessions first to last - 1; return the number of their clicks.

    Writes base * variants + variant of each session (-1: shuffled) to `codes`, its number of
    clicks to `counts`, and the clicked slots, session after session, to `clicks`.
    """
    slots = np.empty(longest_list(0, len(plan.offsets) - 1, plan.offsets), np.int32)
    rearranged = np.empty(len(slots), np.uint8)
    used = 0
    for session in range(first, last):
        state, base, variant = show(plan, session, slots)
        start = plan.offsets[base]
        shown = min(plan.offsets[base + 1] - start, plan.cutoff)
        relevance = plan.relevance[start : start + shown]
        if variant != 0:
            for i in range(shown):
                rearranged[i] = relevance[slots[i]]
            relevance = rearranged
        before = used
        state = next_state(state)
        wait = exponential(state)
        for i in range(shown):
            r = relevance[i]
            wait -= plan.hazard[r, i]
            if wait >= 0:
                continue
            # an event that is no click ends the session; only some models have such
            if plan.click_share[r, i] < 1:
                state = next_state(state)
                if uniform(state) >= plan.click_share[r, i]:
                    break
            clicks[used] = i
            used += 1
            if plan.stop[r, i] > 0:
                state = next_state(state)
                if uniform(state) < plan.stop[r, i]:
                    break
            # the hazard has no memory, so the wait for the next event begins anew
            state = next_state(state)
            wait = exponential(state)
        codes[session - first] = -1 if variant < 0 else base * plan.variants + variant
        counts[session - first] = used - before
    return used


def draw_sessions(plan: Plan, first: int, last: int) -> tuple[Ints, Ints, Ints]:
    """Return what `draw_kernel` writes of the sessions first to last - 1."""
    codes, counts = np.empty(last - first, np.int32), np.empty(last - first, np.int32)
    # room for a click on all that is shown: memory that is never written is never used
    clicks = np.empty((last - first) * plan.cutoff, np.int32)
    used = draw_kernel(first, last, plan, codes, counts, clicks)
    return codes, counts, clicks[:used].copy()


def shown_rankings(
    plan: Plan, codes: Ints, *, queries: int, threads: int | None = None
) -> ShownRankings:
    """Number the rankings that sessions show by first appearance; write them out.

    Args:
        plan: what the sessions were drawn from.
        codes: the codes of `draw_sessions`, session by session; replaced by the numbers.
        queries: number of queries.
        threads: default: all cores.
    """
    same = _same_base(plan.offsets, plan.docs, queries, plan.cutoff)
    table = np.full(len(same) * plan.variants, -1, np.int32)
    # shuffled rankings are hardly ever drawn twice: each is a new one
    firsts = np.empty(int((codes < 0).sum()) + min(len(table), len(codes)), np.int64)
    firsts = firsts[: _number_kernel(codes, same, plan.variants, table, firsts)]
    base, design = np.empty(len(firsts), np.int32), np.empty(len(firsts), np.int32)
    shown = np.empty(len(firsts), np.int64)
    _measure_kernel(firsts, plan, base, design, shown)
    offsets = offsets_of(shown)
    docs, positions = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int32)
    for_each_piece(
        lambda start, stop: _write_kernel(start, stop, firsts, plan, offsets, docs, positions),
        offsets,
        threads=threads,
    )
    return ShownRankings(base, design, offsets, docs, positions)


@njit(cache=True, nogil=True)
def _same_base(offsets: Longs, docs: Ints, queries: int, cutoff: int) -> Ints:
    """Return for each base ranking the first one that shows the same docs in the same order."""
    bases = len(offsets) - 1
    same = np.arange(bases).astype(np.int32)
    # rankers that agree on a query show one ranking, not two
    for base in range(queries, bases):
        start = offsets[base]
        shown = min(offsets[base + 1] - start, cutoff)
        for other in range(base % queries, base, queries):
            equal = True
            for i in range(shown):
                if docs[start + i] != docs[offsets[other] + i]:
                    equal = False
                    break
            if equal:
                same[base] = other
                break
    return same


@njit(cache=True, nogil=True)
def _number_kernel(codes: Ints, same: Ints, variants: int, table: Ints, firsts: Longs) -> int:
    """Replace codes by numbers of rankings; write the first session of each, return how many."""
    count = 0
    for session in range(len(codes)):
        code, number = codes[session], -1
        if code >= 0:
            code = same[code // variants] * variants + code % variants
            number = table[code]
        if number < 0:
            number = count
            firsts[count] = session
            count += 1
            if code >= 0:
                table[code] = number
        codes[session] = number
    return count


@njit(cache=True, nogil=True)
def _measure_kernel(firsts: Longs, plan: Plan, base: Ints, design: Ints, shown: Longs) -> None:
    slots = np.empty(longest_list(0, len(plan.offsets) - 1, plan.offsets), np.int32)
    for ranking in range(len(firsts)):
        _, at, variant = show(plan, firsts[ranking], slots)
        base[ranking] = at
        design[ranking] = 1 if variant < 0 else (variant + 1) // 2
        shown[ranking] = min(plan.offsets[at + 1] - plan.offsets[at], plan.cutoff)


@njit(cache=True, nogil=True)
def _write_kernel(
    first: int, last: int, firsts: Longs, plan: Plan, offsets: Longs, docs: Ints, positions: Ints
) -> None:
    slots = np.empty(longest_list(0, len(plan.offsets) - 1, plan.offsets), np.int32)
    for ranking in range(first, last):
        # what a session shows is drawn again, which is cheaper than to keep it
        _, base, _ = show(plan, firsts[ranking], slots)
        start = offsets[ranking]
        for i in range(offsets[ranking + 1] - start):
            docs[start + i] = plan.docs[plan.offsets[base] + slots[i]]
            positions[start + i] = i + 1
