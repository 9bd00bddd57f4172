"""The kernel for the usual sessions: nothing is randomised and clicks are independent.

It draws the same sessions as the general kernel, but takes them in small batches, whose first
clicks are looked up together: the processor then waits for memory far less.
"""

import math

import numpy as np
from numba import njit

from prsrank.clicks.plan import Plan
from prsrank.clicks.stream import below, next_state, stream_start, uniform
from prsrank.sorting import longest_list
from prsrank.types import Floats, Ints

_BATCH = 32
_LEAST_SURVIVAL = 2.0**-10


@njit(cache=True, nogil=True)
def next_event(hazard: Floats, low: int, high: int, target: float) -> int:
    """Return the first slot in [low, high] with hazard > target; hazard[high] is."""
    while low < high:
        middle = (low + high) >> 1
        if hazard[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def draw_independent_kernel(
    first: int, last: int, plan: Plan, codes: Ints, counts: Ints, clicks: Ints
) -> tuple[int, int]:
    """Draw sessions as long as `clicks` has room; return the next session and end of `clicks`."""
    key, cutoff, offsets, hazard = plan.key, plan.cutoff, plan.offsets, plan.hazard
    survival, guide, guide_offsets = plan.jumps.survival, plan.jumps.guide, plan.jumps.offsets
    bases = len(offsets) - 1
    full = len(clicks) - min(longest_list(0, bases, offsets), cutoff)
    states, draws = np.empty(_BATCH, np.uint64), np.empty(_BATCH)
    ends, hints = np.empty(_BATCH), np.empty(_BATCH, np.int64)
    used = 0
    # two loops, so that the loads of a whole batch are under way before the first is needed
    for batch in range(first, last, _BATCH):
        size = min(_BATCH, last - batch)
        for i in range(size):
            state = next_state(stream_start(key, batch + i))
            base = below(state, bases)
            state = next_state(state)
            v = uniform(state)
            start, entry = offsets[base], guide_offsets[base]
            states[i], draws[i], codes[batch - first + i] = state, v, base
            ends[i] = survival[min(offsets[base + 1], start + cutoff) - 1]
            hints[i] = start + guide[entry + int(v * (guide_offsets[base + 1] - entry))]
        for i in range(size):
            if used > full:
                return batch + i, used
            base, v, end, before = codes[batch - first + i], draws[i], ends[i], used
            # a session without a click ends here, with one comparison
            if end < v:
                state, slot, start = states[i], hints[i], offsets[base]
                stop, entry = min(offsets[base + 1], start + cutoff), guide_offsets[base]
                length = guide_offsets[base + 1] - entry
                while True:
                    # the guide leads to the slot or a little before it
                    while survival[slot] >= v:
                        slot += 1
                    clicks[used] = slot - start
                    used += 1
                    passed = survival[slot]
                    state = next_state(state)
                    if passed >= _LEAST_SURVIVAL:
                        v = passed * uniform(state)
                        if not end < v:
                            break
                        slot = max(slot + 1, start + guide[entry + int(v * length)])
                    else:  # survival loses digits where the hazard is high
                        target = hazard[slot] - math.log(uniform(state))
                        if not hazard[stop - 1] > target:
                            break
                        slot = next_event(hazard, slot + 1, stop - 1, target)
                        v = math.inf
            counts[batch - first + i] = used - before
    return last, used
