"""Kernels that draw sessions of any kind: what each one shows and which docs it clicks."""

from typing import NamedTuple

import numpy as np
from numba import njit

from prsrank.clicks.independent_sessions import draw_independent_kernel, next_event
from prsrank.clicks.plan import Events, Plan
from prsrank.clicks.stream import (
    below,
    exponential,
    next_state,
    stream_start,
    uniform,
)
from prsrank.sorting import longest_list
from prsrank.types import Bytes, Floats, Ints


class Room(NamedTuple):
    """Space for the tables of a rearranged ranking (longest list)."""

    hazard: Floats
    relevance: Bytes


@njit(cache=True, nogil=True, inline="always")
def begin_session(
    key: np.uint64, bases: int, share: float, session: int
) -> tuple[np.uint64, int, bool]:
    """Return a session's stream, its base ranking and whether it is randomised."""
    state = next_state(stream_start(key, session))
    base = below(state, bases)
    randomised = False
    if share > 0:
        state = next_state(state)
        randomised = uniform(state) < share
    return state, base, randomised


@njit(cache=True, nogil=True, inline="always")
def shuffle_slots(state: np.uint64, plan: Plan, base: int, slots: Ints) -> np.uint64:
    """Put the base ranking's slots into `slots` in the order that a shuffled session shows."""
    length = plan.offsets[base + 1] - plan.offsets[base]
    for i in range(length):
        slots[i] = i
    # Fisher and Yates, stopped early: what lies below the cutoff is never seen
    shuffled = length if plan.reach == 0 else min(plan.reach, length)
    for i in range(min(shuffled - 1, plan.cutoff)):
        state = next_state(state)
        j = i + below(state, shuffled - i)
        slots[i], slots[j] = slots[j], slots[i]
    return state


@njit(cache=True, nogil=True, inline="always")
def swapped_pair(design: int, pair: int) -> tuple[int, int]:
    """Return the two slots that a design's pair number stands for (2: adjacent, 3: pivot)."""
    return (pair if design == 2 else 0), pair + 1


@njit(cache=True, nogil=True)
def _walk(
    state: np.uint64,
    hazard: Floats,
    relevance: Bytes,
    start: int,
    stop: int,
    events: Events,
    clicks: Ints,
    used: int,
) -> int:
    """Write the clicks of one session on slots start to stop - 1; return the end of `clicks`."""
    # one exponential draw per event instead of one uniform per slot: most slots have no event
    passed = 0.0
    slot = start
    while slot < stop:
        state = next_state(state)
        target = passed + exponential(state)
        if not hazard[stop - 1] > target:
            break
        slot = next_event(hazard, slot, stop - 1, target)
        click_share = events.click_share[relevance[slot], slot - start]
        # an event that is no click ends the session; only some models have such
        if click_share < 1:
            state = next_state(state)
            if uniform(state) >= click_share:
                break
        clicks[used] = slot - start
        used += 1
        stop_share = events.stop[relevance[slot], slot - start]
        if stop_share > 0:
            state = next_state(state)
            if uniform(state) < stop_share:
                break
        # the hazard has no memory, so the next event is drawn from here on
        passed = hazard[slot]
        slot += 1
    return used


@njit(cache=True, nogil=True, inline="always")
def _swap_slots(
    state: np.uint64, plan: Plan, base: int, shown: int, slots: Ints
) -> tuple[np.uint64, int]:
    """Draw a swap into `slots`; return the stream and the code, `base` if there is no pair."""
    pairs = min(plan.reach, shown) - 1
    if pairs < 1:
        return state, base
    state = next_state(state)
    pair = below(state, pairs)
    state = next_state(state)
    # sessions that draw "no change" are marked too: they are the other arm of the experiment
    swap = uniform(state) < 0.5
    for i in range(shown):
        slots[i] = i
    if swap:
        one, other = swapped_pair(plan.design, pair)
        slots[one], slots[other] = slots[other], slots[one]
    bases = len(plan.offsets) - 1
    return state, bases + (base * (plan.reach - 1) + pair) * 2 + int(swap)


@njit(cache=True, nogil=True, inline="always")
def _randomise(
    state: np.uint64, plan: Plan, base: int, shown: int, slots: Ints
) -> tuple[np.uint64, int]:
    """Draw what a randomised session shows into `slots`; return the stream and the code."""
    if plan.design < 2:
        return shuffle_slots(state, plan, base, slots), -1 - base
    return _swap_slots(state, plan, base, shown, slots)


@njit(cache=True, nogil=True, inline="always")
def _walk_rearranged(
    state: np.uint64, plan: Plan, base: int, slots: Ints, room: Room, clicks: Ints, used: int
) -> int:
    """Do as `_walk` on the base ranking's slots in the order `slots`."""
    start = plan.offsets[base]
    shown = min(plan.offsets[base + 1] - start, plan.cutoff)
    total = 0.0
    for i in range(shown):
        room.relevance[i] = plan.relevance[start + slots[i]]
        total += plan.events.hazard[room.relevance[i], i]
        room.hazard[i] = total
    return _walk(
        state, room.hazard, room.relevance, int(np.int64(0)), shown, plan.events, clicks, used
    )


@njit(cache=True, nogil=True)
def draw_kernel(
    first: int, last: int, plan: Plan, codes: Ints, counts: Ints, clicks: Ints
) -> tuple[int, int]:
    """Draw sessions as long as `clicks` has room; return the next session and end of `clicks`."""
    offsets, hazard, cutoff = plan.offsets, plan.hazard, plan.cutoff
    key, share, bases = plan.key, plan.share, len(plan.offsets) - 1
    longest = longest_list(0, bases, offsets)
    slots = np.empty(longest, np.int32)
    room = Room(np.empty(longest), np.empty(longest, np.uint8))
    # a session may click all that it shows: stop while one still fits
    full = len(clicks) - min(longest, cutoff)
    # a plain 0 is a type of its own to numba, for which all that takes it is compiled once more
    used = int(np.int64(0))
    for session in range(first, last):
        if used > full:
            return session, used
        before = used
        state, base, randomised = begin_session(key, bases, share, session)
        start = offsets[base]
        stop = min(offsets[base + 1], start + cutoff)
        code = base
        if randomised:
            state, code = _randomise(state, plan, base, stop - start, slots)
        # the tables of base rankings are made once; only a rearranged one needs its own
        if code != base:
            used = _walk_rearranged(state, plan, base, slots, room, clicks, used)
        else:
            used = _walk(state, hazard, plan.relevance, start, stop, plan.events, clicks, used)
        codes[session - first] = code
        counts[session - first] = used - before
    return last, used


def draw_sessions(plan: Plan, first: int, last: int) -> tuple[Ints, Ints, Ints]:
    """Draw the sessions first to last - 1.

    Returns:
        A code of the ranking that each session shows (below), each session's number of
        clicks, and the clicked slots, session after session.

        The code is the base ranking's number, if it was shown as it is; -1 - that number for
        a shuffled session; and for a swap, with B base rankings and P pairs,
        B + (base * P + pair) * 2 + (1 if the docs changed places else 0).
    """
    codes, counts = np.empty(last - first, np.int32), np.empty(last - first, np.int32)
    # a guess at two clicks a session; the kernel comes back when it is full
    buffer = np.empty(2 * (last - first) + plan.cutoff, np.int32)
    simple = plan.events.only_clicks and plan.share == 0
    kernel = draw_independent_kernel if simple else draw_kernel
    clicks = []
    session = first
    while session < last:
        done = session - first
        session, used = kernel(session, last, plan, codes[done:], counts[done:], buffer)
        clicks.append(buffer[:used].copy())
    return codes, counts, np.concatenate(clicks)
