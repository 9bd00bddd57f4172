"""The kernels that draw sessions: what each one shows, and which docs it clicks.

The walk of a user (`WalkTables`) is drawn event by event, an event being a click or a stop. With
e_k the probability that a user who reaches slot k clicks there or stops there, the wait for the
next event, measured in the hazard -log(1 - e_k) of the slots passed, is a standard exponential. So
a session costs one draw an event and one more, not one a slot, and the result is exact.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.clicks.stream import below, exponential, next_state, stream_start, uniform
from prsrank.ragged import offsets_of, row_in_list
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
        start: P(a user begins in this state or one before it) (states).
        hazard: of an event (2 states x slots), in row 2 * state + relevance.
        click_share: P(click | event) (2 states x slots).
        stop: P(walk ends | clicked) (2 states x slots).
        after_click: the state that a click leads to (states x slots).
        cutoff: how many docs are shown at most.
        share: share of sessions that are randomised.
        reach: last position that a shuffle changes; 0 for all.
        swaps: pairs of slots of which a randomised session may swap one, the lower one rising;
            without any it shuffles.
    """

    key: np.uint64
    offsets: Longs
    docs: Ints
    relevance: Bytes
    start: Floats
    hazard: Floats
    click_share: Floats
    stop: Floats
    after_click: Longs
    cutoff: int
    share: float
    reach: int
    swaps: Longs


@njit(cache=True, nogil=True)
def show(plan: Plan, session: int, rows: npt.NDArray) -> tuple[np.uint64, int, int]:
    """Draw what a session shows.

    Args:
        plan: what sessions depend on.
        session: index of the session.
        rows: is filled with the rows of `plan.docs` that are shown, in their order.

    Returns:
        The session's stream, its base ranking, and the variant of it: 0 as it is; with swaps
        1 + 2 * pair + (1 if the docs changed places else 0), without them 1 for a shuffle.
    """
    stream = next_state(stream_start(plan.key, session))
    base = below(stream, len(plan.offsets) - 1)
    length = plan.offsets[base + 1] - plan.offsets[base]
    for i in range(length):
        rows[i] = plan.offsets[base] + i
    if plan.share == 0:
        return stream, base, 0
    stream = next_state(stream)
    if uniform(stream) >= plan.share:
        return stream, base, 0
    if len(plan.swaps) == 0:
        # Fisher and Yates, stopped early: what lies below the cutoff is never seen
        shuffled = length if plan.reach == 0 else min(plan.reach, length)
        for i in range(min(shuffled - 1, plan.cutoff)):
            stream = next_state(stream)
            j = i + below(stream, shuffled - i)
            rows[i], rows[j] = rows[j], rows[i]
        return stream, base, 1
    pairs = 0
    while pairs < len(plan.swaps) and plan.swaps[pairs, 1] < min(length, plan.cutoff):
        pairs += 1
    if pairs == 0:
        return stream, base, 0
    stream = next_state(stream)
    pair = below(stream, pairs)
    stream = next_state(stream)
    # sessions that draw "no change" are marked too: they are the other arm of the experiment
    swap = uniform(stream) < 0.5
    if swap:
        upper, lower = plan.swaps[pair]
        rows[upper], rows[lower] = rows[lower], rows[upper]
    return stream, base, 1 + 2 * pair + int(swap)


@njit(cache=True, nogil=True)
def _draw_kernel(
    first: int, last: int, plan: Plan, bases: Ints, variants: Ints, counts: Ints, clicks: Ints
) -> int:
    """Draw the sessions first to last - 1; return the number of their clicks.

    Writes what each one shows and its number of clicks, and the clicked slots, session after
    session.
    """
    rows = np.empty(longest_list(0, len(plan.offsets) - 1, plan.offsets), np.uint32)
    used = 0
    for session in range(first, last):
        stream, base, variant = show(plan, session, rows)
        shown = min(plan.offsets[base + 1] - plan.offsets[base], plan.cutoff)
        before, user = used, 0
        if len(plan.start) > 1:
            stream = next_state(stream)
            user = int(np.searchsorted(plan.start, uniform(stream)))
        stream = next_state(stream)
        wait = exponential(stream)
        for i in range(shown):
            # unsigned, because numba looks at every signed index for being negative
            row = np.uint64(2 * user) + np.uint64(plan.relevance[rows[i]])
            wait -= plan.hazard[row, i]
            if wait >= 0:
                continue
            # an event that is no click ends the session; only some models have such
            if plan.click_share[row, i] < 1:
                stream = next_state(stream)
                if uniform(stream) >= plan.click_share[row, i]:
                    break
            clicks[used] = i
            used += 1
            if plan.stop[row, i] > 0:
                stream = next_state(stream)
                if uniform(stream) < plan.stop[row, i]:
                    break
            user = plan.after_click[user, i]
            # the hazard has no memory, so the wait for the next event begins anew
            stream = next_state(stream)
            wait = exponential(stream)
        bases[session - first], variants[session - first] = base, variant
        counts[session - first] = used - before
    return used


def draw_sessions(plan: Plan, first: int, last: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Return base ranking, variant and number of clicks of each session, and the clicked slots."""
    bases, variants, counts = np.empty((3, last - first), np.int32)
    # room for a click on all that is shown: memory that is never written is never used
    clicks = np.empty((last - first) * plan.cutoff, np.int32)
    used = _draw_kernel(first, last, plan, bases, variants, counts, clicks)
    return bases, variants, counts, clicks[:used].copy()


def shown_rankings(
    plan: Plan, bases: Ints, variants: Ints, *, queries: int, threads: int | None = None
) -> tuple[Ints, Longs, Longs, Ints]:
    """Number the rankings that sessions show by first appearance; write them out.

    Args:
        plan: what the sessions were drawn from.
        bases: the base ranking of each session.
        variants: the variant of it; see `show`.
        queries: number of queries.
        threads: default: all cores.

    Returns:
        The number of each session's ranking; the first session of each ranking; where the slots
        of each ranking begin, and the end; and the docs in them.
    """
    import pyarrow

    codes = _first_alike(plan, queries)[bases] * (2 * len(plan.swaps) + 1) + variants
    if not len(plan.swaps):
        # shuffled rankings are hardly ever drawn twice: each is a new one
        codes = np.where(variants == 1, -1 - np.arange(len(codes)), codes)
    numbers = pyarrow.array(codes).dictionary_encode().indices.to_numpy()
    # of several values that go to one place the last one stays: here that of the first session
    firsts = np.empty(numbers.max() + 1, np.int64)
    firsts[numbers[::-1]] = np.arange(len(numbers))[::-1]
    offsets = offsets_of(np.minimum(np.diff(plan.offsets)[bases[firsts]], plan.cutoff))
    docs = np.empty(offsets[-1], np.int32)
    for_each_piece(
        lambda start, stop: _write_kernel(start, stop, firsts, plan, offsets, docs),
        offsets,
        threads=threads,
    )
    return numbers, firsts, offsets, docs


def _first_alike(plan: Plan, queries: int) -> Longs:
    """Return for each base ranking the first one that shows the same docs in the same order."""
    alike = np.arange(len(plan.offsets) - 1)
    offsets = plan.offsets[: queries + 1]
    shown = row_in_list(offsets) < plan.cutoff
    docs = plan.docs.reshape(-1, len(shown))
    for ranker in range(1, len(docs)):
        own = alike[ranker * queries : (ranker + 1) * queries]
        for other in reversed(range(ranker)):
            differing = np.diff(offsets_of((docs[ranker] != docs[other]) & shown)[offsets])
            own[differing == 0] = np.flatnonzero(differing == 0) + other * queries
    return alike


@njit(cache=True, nogil=True)
def _write_kernel(
    first: int, last: int, firsts: Longs, plan: Plan, offsets: Longs, docs: Ints
) -> None:
    rows = np.empty(longest_list(0, len(plan.offsets) - 1, plan.offsets), np.uint32)
    for ranking in range(first, last):
        # what a session shows is drawn again, which is cheaper than to keep it
        show(plan, firsts[ranking], rows)
        for i in range(offsets[ranking + 1] - offsets[ranking]):
            docs[offsets[ranking] + i] = plan.docs[rows[i]]
