"""What sessions are drawn from: production rankings and the click model, as tables.

The walk of a user (`WalkTables`) is drawn event by event. With e_k the probability that a
user who reaches slot k clicks there or stops there, the wait for the next event, measured in
the cumulative hazard H_k = sum_{l <= k} -log(1 - e_l), is a standard exponential E: the next
event is at the first k with H_k > H_last + E. So a session costs one draw an event and one
more, not one a slot, and the result is exact.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from prsrank.clicks.stream import LONGEST_WAIT
from prsrank.clicks.walk import WalkTables
from prsrank.ragged import offsets_of
from prsrank.types import Bytes, Floats, Ints, Longs


class Events(NamedTuple):
    """Tables by relevance and 0-based position, for the walk by events (2 x positions).

    Attributes:
        hazard: -log(1 - P(an event, which is a click or a stop)); of a certain event, a value
            that no wait outlasts.
        click_share: P(click | event).
        stop: P(walk ends | clicked).
        only_clicks: whether every event is a click that the walk survives: then clicks are
            independent.
    """

    hazard: Floats
    click_share: Floats
    stop: Floats
    only_clicks: bool


class Jumps(NamedTuple):
    """Tables to find the next event from a uniform number without a search.

    With S_k = exp(-H_k) the chance to pass slots 1 to k without an event, the next event after
    slot l is at the first k with S_k < S_l U. For such a value v, guide[int(v * its length)],
    the guide of that base ranking, is a slot at or a little before that k.

    Attributes:
        survival: S_k, laid out as the base rankings.
        guide: slots, base ranking after base ranking.
        offsets: where each base ranking's guide begins, and the end (base rankings + 1).
    """

    survival: Floats
    guide: Ints
    offsets: Longs


class Plan(NamedTuple):
    """All that a session depends on, apart from its index.

    A *base ranking* is a query ranked by one of the rankers: number ranker * queries + query.

    Attributes:
        key: key of the sessions' streams.
        offsets: where each base ranking begins, and the end (base rankings + 1).
        docs: doc rows of the base rankings, best first.
        relevance: relevance of those docs.
        hazard: cumulative hazard of the events, each base ranking from 0 on.
        cutoff: how many docs are shown at most.
        share: share of sessions that are randomised.
        design: number of the design (`randomise.DESIGNS`).
        reach: last position that the design changes; 0 for all.
        events: the click model's tables.
        jumps: shortcuts into `hazard`.
    """

    key: np.uint64
    offsets: Longs
    docs: Ints
    relevance: Bytes
    hazard: Floats
    cutoff: int
    share: float
    design: int
    reach: int
    events: Events
    jumps: Jumps


def walk_events(tables: WalkTables) -> Events:
    """Return a walk's tables as events.

    >>> events = walk_events(WalkTables.independent(np.array([[0.0, 0.5], [1.0, 0.5]])))
    >>> np.exp(-events.hazard[:, 1]).tolist(), events.only_clicks
    ([0.5, 0.5], True)
    """
    # an event is whatever changes the walk: a click, or a stop without one
    event = tables.click + (1 - tables.click) * tables.stop_after_skip
    with np.errstate(divide="ignore", invalid="ignore"):
        # a certain event has an infinite hazard, which would spoil the sums after it
        hazard = np.minimum(-np.log1p(-event), LONGEST_WAIT)
        click_share = np.where(event > 0, tables.click / event, 1.0)
    survives = not (tables.stop_after_click.any() or tables.stop_after_skip.any())
    return Events(hazard, click_share, np.ascontiguousarray(tables.stop_after_click), survives)


@njit(cache=True, nogil=True)
def cumulative_hazard(offsets: Longs, relevance: Bytes, table: Floats, cutoff: int) -> Floats:
    """Return the cumulative hazard of base rankings, as far as they are shown."""
    hazard = np.zeros(len(relevance))
    for ranking in range(len(offsets) - 1):
        start = offsets[ranking]
        total = 0.0
        for slot in range(min(offsets[ranking + 1] - start, cutoff)):
            total += table[relevance[start + slot], slot]
            hazard[start + slot] = total
    return hazard


def event_jumps(offsets: Longs, hazard: Floats, cutoff: int) -> Jumps:
    """Return the shortcuts into a cumulative hazard: one guide entry for four slots shown."""
    lengths = np.maximum(np.minimum(np.diff(offsets), cutoff) // 4, 1)
    guide_offsets = offsets_of(lengths)
    survival = np.exp(-hazard)
    guide = _guide_kernel(offsets, survival, cutoff, guide_offsets)
    return Jumps(survival, guide, guide_offsets)


@njit(cache=True, nogil=True)
def _guide_kernel(offsets: Longs, survival: Floats, cutoff: int, guide_offsets: Longs) -> Ints:
    guide = np.zeros(guide_offsets[-1], np.int32)
    for ranking in range(len(offsets) - 1):
        start, first = offsets[ranking], guide_offsets[ranking]
        last = min(offsets[ranking + 1] - start, cutoff) - 1
        length = guide_offsets[ranking + 1] - first
        slot = 0
        # survival falls along the slots, so entries from the last to the first walk them once
        for entry in range(length - 1, -1, -1):
            while slot < last and int(survival[start + slot] * length) > entry:
                slot += 1
            guide[first + entry] = slot
    return guide
