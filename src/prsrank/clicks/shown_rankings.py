"""Kernels that number the rankings of drawn sessions and write them out, each one once."""

from typing import NamedTuple

import numpy as np
from numba import njit

from prsrank.clicks.plan import Plan
from prsrank.clicks.sessions import begin_session, shuffle_slots, swapped_pair
from prsrank.ragged import offsets_of
from prsrank.sorting import longest_list
from prsrank.threads import for_each_piece
from prsrank.types import Ints, Longs


class ShownRankings(NamedTuple):
    """The rankings part of a `ClickLog`."""

    base: Ints
    design: Ints
    offsets: Longs
    docs: Ints
    positions: Ints


def shown_rankings(
    plan: Plan, codes: Ints, *, queries: int, swaps: int, threads: int | None = None
) -> ShownRankings:
    """Number the rankings that sessions show by first appearance; write them out.

    Args:
        plan: what the sessions were drawn from.
        codes: the codes of `draw_sessions`, session by session; replaced by the numbers.
        queries: number of queries.
        swaps: number of pairs that the design swaps.
        threads: default: all cores.
    """
    bases = len(plan.offsets) - 1
    same = _same_base(plan.offsets, plan.docs, queries, plan.cutoff)
    # shuffled rankings are hardly ever drawn twice: they have no entry, each is a new one
    table = np.full(bases * (1 + 2 * swaps), -1, np.int32)
    count = int((codes < 0).sum()) + min(len(table), len(codes))
    kinds, sessions = np.empty(count, np.int64), np.empty(count, np.int64)
    count = _number_kernel(codes, same, table, swaps, kinds, sessions)
    kinds, sessions = kinds[:count], sessions[:count]
    base = np.where(kinds < 0, -1 - kinds, kinds)
    if swaps:
        swapped = kinds >= bases
        base[swapped] = (kinds[swapped] - bases) // (2 * swaps)
    offsets = offsets_of(np.minimum(np.diff(plan.offsets)[base], plan.cutoff))
    docs, positions = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int32)
    design = np.zeros(count, np.int32)
    for_each_piece(
        lambda first, last: _write_kernel(
            first, last, plan, kinds, sessions, base, swaps, offsets, docs, positions, design
        ),
        offsets,
        threads=threads,
    )
    return ShownRankings(base.astype(np.int32), design, offsets, docs, positions)


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
def _number_kernel(
    codes: Ints, same: Ints, table: Ints, swaps: int, kinds: Longs, sessions: Longs
) -> int:
    bases = len(same)
    count = 0
    for session in range(len(codes)):
        code = np.int64(codes[session])
        number = np.int32(-1)
        if code >= bases:
            pair = code - bases
            base = pair // (2 * swaps)
            code += (same[base] - base) * 2 * swaps
        elif code >= 0:
            code = np.int64(same[code])
        if code >= 0:
            number = table[code]
        if number < 0:
            number = np.int32(count)
            kinds[count], sessions[count] = code, session
            count += 1
            if code >= 0:
                table[code] = number
        codes[session] = number
    return count


@njit(cache=True, nogil=True)
def _write_kernel(
    first: int,
    last: int,
    plan: Plan,
    kinds: Longs,
    sessions: Longs,
    bases_shown: Longs,
    swaps: int,
    offsets: Longs,
    docs: Ints,
    positions: Ints,
    design: Ints,
) -> None:
    bases = len(plan.offsets) - 1
    slots = np.empty(longest_list(0, bases, plan.offsets), np.int32)
    for ranking in range(first, last):
        base, kind = bases_shown[ranking], kinds[ranking]
        start, out = plan.offsets[base], offsets[ranking]
        shown = offsets[ranking + 1] - out
        if kind < 0:
            # the shuffle is drawn again from the session's own stream, which is cheaper than keeping it
            state, _, _ = begin_session(plan.key, bases, plan.share, sessions[ranking])
            shuffle_slots(state, plan, base, slots)
            design[ranking] = 1
            for i in range(shown):
                docs[out + i] = plan.docs[start + slots[i]]
        else:
            # not by a slice: the message of numba's check takes two seconds to compile
            for i in range(shown):
                docs[out + i] = plan.docs[start + i]
        if kind >= bases:
            pair = (kind - bases) // 2 % swaps
            design[ranking] = 1 + pair
            if (kind - bases) % 2:
                one, other = swapped_pair(plan.design, pair)
                docs[out + one], docs[out + other] = docs[out + other], docs[out + one]
        for i in range(shown):
            positions[out + i] = i + 1
