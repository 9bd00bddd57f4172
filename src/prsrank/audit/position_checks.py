"""Checks of positions and clicks: what positions count from, gaps, whether clicks can teach."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator

from prsrank.audit.event_tables import WHOLE_LOG, EventTables, context_value
from prsrank.audit.findings import Finding, Position
from prsrank.logs.row_rules import click_sql, number_sql, weight_sql
from prsrank.logs.tables import numbers_sql
from prsrank.propensity.verdict import in_words

_FEW_CLICKS = 1000
_GAP_SHARE = 0.8
_RARE = 0.01
_DEPTH = 100
_GAP = "positions < hi - lo + 1"


def positions_of(tables: EventTables) -> list[Position]:
    """Return how often docs were shown, and clicked, at each position."""
    rows = tables.rows(
        "SELECT k, sum(shown)::BIGINT, sum(clicked)::BIGINT FROM {cells} GROUP BY k ORDER BY k"
    )
    return [Position(*row) for row in rows]


def check_base(tables: EventTables) -> Iterator[Finding]:
    """Tell what positions count from; name the parts of a log that differ in it."""
    total, _, _, zeros, _ = tables.totals
    if tables.base == 0 or not total:
        return
    if not zeros:
        if tables.row("SELECT count(*) FILTER (lo = 1) FROM {sessions}")[0]:
            yield Finding("position-base", "positions count from 1")
        return
    where = tables.example("shown_at = 0")
    for context in tables.contexts:
        bases = _bases(tables, context)
        if len(set(bases.values())) > 1:
            named = ", ".join(f"{value} from {base}" for value, base in list(bases.items())[:4])
            words = f"positions count from 0 in some rows and from 1 in others ({context}: {named})"
            yield Finding("position-base-mixed", words, where, zeros, total)
            return
    at_zero, at_one = tables.begins()
    if at_zero > _RARE * (at_zero + at_one):
        words = "positions count from 0 in some sessions and from 1 in others"
        yield Finding("position-base-mixed", words, where, at_zero, at_zero + at_one, "sessions")
    else:
        yield Finding("position-below-one", "position is 0", where, zeros, total)


def _bases(tables: EventTables, context: str) -> dict[str, int]:
    rows = tables.rows(
        "SELECT value, count(*) FILTER (lo = 0), count(*) FILTER (lo = 1) FROM (SELECT min("
        f"{context_value(tables, context)}) AS value, min(shown_at) AS lo FROM {{events}} "
        "GROUP BY q, s) GROUP BY value ORDER BY count(*) DESC, value LIMIT 50"
    )
    return {
        value: 0 if at_zero else 1
        for value, at_zero, at_one in rows
        if at_zero + at_one and max(at_zero, at_one) >= WHOLE_LOG * (at_zero + at_one)
    }


def check_gaps(tables: EventTables) -> Iterator[Finding]:
    """Find positions that lists leave out, always or now and then."""
    sessions, with_gaps = tables.row(
        "SELECT coalesce(sum(sessions), 0)::BIGINT, coalesce(sum(sessions) "
        f"FILTER ({_GAP}), 0)::BIGINT FROM {{lists}} WHERE hi IS NOT NULL"
    )
    if not with_gaps:
        return
    always = _left_out(tables)
    where, besides = tables.session_example(_GAP, of="lists"), ""
    if always:
        slots, share = in_words(list(always)), min(always.values())
        words = f"position {slots} is left out of at least {share:.0%} of the lists that go past it"
        yield Finding("gap-consistent", words, where, with_gaps, sessions, "sessions")
        where, besides = "", f" (besides position {slots})"
    # sessions with gaps at other positions than those always left out
    expected = "hi - lo + 1" + "".join(f" - (lo < {k} AND hi > {k})::INTEGER" for k in always)
    (other,) = tables.row(
        "SELECT coalesce(sum(sessions), 0)::BIGINT FROM {lists} "
        f"WHERE hi IS NOT NULL AND positions < {expected}"
    )
    if other > _RARE * sessions:
        words = f"lists leave out positions without a rule{besides}"
        yield Finding("gap-inconsistent", words, where, other, sessions, "sessions")


def _left_out(tables: EventTables) -> dict[int, float]:
    """Return the positions that most lists that go past them leave out, with the share."""
    rows = tables.rows(
        "WITH slot AS (SELECT k, sum(shown) AS shown FROM {cells} GROUP BY k), "
        "past AS (SELECT i AS k, sum(sessions) AS lists FROM {lists}, "
        f"{numbers_sql(_DEPTH, 'r(i)')} WHERE lo < i AND hi > i GROUP BY i) "
        "SELECT past.k, 1 - coalesce(shown, 0) / lists "
        "FROM past LEFT JOIN slot ON slot.k = past.k WHERE lists >= 10 ORDER BY past.k"
    )
    return {int(k): float(share) for k, share in rows if share >= _GAP_SHARE}


def check_clicks(tables: EventTables) -> Iterator[Finding]:
    """Find logs with too few clicks, or with nothing but clicks."""
    rows, clicks, unclicked, *_ = tables.totals
    if not rows:
        return
    if not clicks:
        yield Finding("no-clicks", "the log has no clicks", count=rows, of=rows)
    elif not unclicked:
        words = "the log holds clicked rows only"
        yield Finding("clicked-rows-only", words, count=clicks, of=rows)
    else:
        sessions, both = tables.row(
            "SELECT count(*), count(*) FILTER (clicks > 0 AND clicks < n) FROM {sessions}"
        )
        if sessions and not both:
            words = "no session has both a clicked doc and one that was not clicked"
            yield Finding("no-pairs", words, count=sessions, of=sessions, unit="sessions")
        if clicks < _FEW_CLICKS:
            words = f"the log has only {clicks:,} clicks; {_FEW_CLICKS:,} are few"
            yield Finding("few-clicks", words, count=clicks, of=rows)


def check_weights(tables: EventTables) -> Iterator[Finding]:
    """Find clicks of different weights; `check_rows` finds weights that cannot be used."""
    if "weight" not in tables.source.types or not tables.source.is_number("weight"):
        return
    weight, usable = number_sql(tables.source, "weight"), weight_sql(tables.source)
    clicks, least, most = tables.source.where(f"{click_sql(tables.source)} AND {usable}").total(
        f"count(*), min({weight}), max({weight})"
    )
    if clicks and least != most:
        words = f"clicks count by their weight, from {least:g} to {most:g}"
        yield Finding("clicks-weighted", words, "", clicks, clicks)
