"""Checks of clicks: how many, at which positions, and whether they can teach."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding, Position
from prsrank.propensity.verdict import in_words

_FEW = 1000
_EXPECTED = 10
_SURE = 4.0
_RISE = 1.2


def positions_of(tables: EventTables) -> list[Position]:
    """Return how often docs were shown, and clicked, at each position."""
    found = tables.rows(
        "SELECT k, sum(shown)::BIGINT, sum(clicked)::BIGINT FROM {cells} GROUP BY k ORDER BY k"
    )
    return [Position(*row) for row in found]


def check_clicks(tables: EventTables) -> Iterator[Finding]:
    """Find logs with too few clicks, or with nothing but clicks."""
    rows, clicks, unclicked = tables.row(
        "SELECT count(*), count(*) FILTER (c), count(*) FILTER (NOT c) FROM {events}"
    )
    if not rows:
        return
    if not clicks:
        yield Finding("no-clicks", "the log has no clicks", count=rows, of=rows)
    elif not unclicked:
        what = "the log holds clicked rows only"
        yield Finding("clicked-rows-only", what, count=clicks, of=rows)
    else:
        yield from _pairs(tables)
        if clicks < _FEW:
            what = f"the log has only {clicks:,} clicks; {_FEW:,} are few"
            yield Finding("few-clicks", what, count=clicks, of=rows)


def _pairs(tables: EventTables) -> Iterator[Finding]:
    sessions, both = tables.row(
        "SELECT count(*), count(*) FILTER (clicks > 0 AND clicks < n) FROM {sessions}"
    )
    if sessions and not both:
        what = "no session has both a clicked doc and one that was not clicked"
        yield Finding("no-pairs", what, count=sessions, of=sessions, unit="sessions")


def check_click_rates(tables: EventTables) -> Iterator[Finding]:
    """Find positions without clicks, and click rates that rise down the list."""
    positions = positions_of(tables)
    shown = sum(at.shown for at in positions)
    if len(positions) < 2:
        return
    bare = [
        at
        for place, at in enumerate(positions)
        if not at.clicks and at.shown * _rate_around(positions, place) >= _EXPECTED
    ]
    if bare:
        where = in_words([at.position for at in bare])
        what = f"no doc at position {where} was ever clicked"
        count = sum(at.shown for at in bare)
        yield Finding("position-never-clicked", what, count=count, of=shown)
    steps = list(pairwise(positions))
    rises = [(one, two) for one, two in steps if _rises(one, two)]
    if rises:
        one, two = max(rises, key=lambda pair: pair[1].ctr / max(pair[0].ctr, 1e-9))
        what = (
            f"the click rate rises from position {one.position} ({one.ctr:.2%}) "
            f"to {two.position} ({two.ctr:.2%})"
        )
        yield Finding("ctr-rises", what, count=len(rises), of=len(steps), unit="steps")


def _rate_around(positions: Sequence[Position], place: int) -> float:
    """Return the click rate of the nearest positions, two above and two below."""
    near = positions[max(place - 2, 0) : place + 3]
    return sum(at.clicks for at in near) / sum(at.shown for at in near)


def _rises(one: Position, two: Position) -> bool:
    """Tell whether a click rate is higher than the one above it by more than chance."""
    rate = (one.clicks + two.clicks) / (one.shown + two.shown)
    deviation = (rate * (1 - rate) * (1 / one.shown + 1 / two.shown)) ** 0.5
    return two.ctr > _RISE * one.ctr and two.ctr - one.ctr > _SURE * deviation
