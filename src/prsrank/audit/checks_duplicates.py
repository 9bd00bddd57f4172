"""Checks for what a session shows twice, and for values that change within one."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator
from typing import NamedTuple

from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding

_SEVERAL = 1.5


class _Repeats(NamedTuple):
    code: str
    keys: str
    condition: str
    what: str


_REPEATS = (
    _Repeats("duplicate-rows", "q, s, d, place, c", "count(*) > 1", "rows are logged twice"),
    _Repeats(
        "impression-and-click-rows",
        "q, s, d, place",
        "min(c) != max(c)",
        "a doc has a row with a click and one without in the same session",
    ),
    _Repeats(
        "duplicate-doc",
        "q, s, d",
        "min(place) != max(place)",
        "a doc is shown at two positions in the same session",
    ),
)


def check_duplicates(tables: EventTables) -> Iterator[Finding]:
    """Find docs and positions that occur twice in a session."""
    twice, sessions = tables.row(
        "SELECT count(*) FILTER (n > docs OR placed > places), count(*) FROM {sessions}"
    )
    if not twice:
        return
    for check in _REPEATS:
        yield from _repeats(tables, check, sessions)
    yield from _shared_positions(tables, sessions)


def _repeats(tables: EventTables, check: _Repeats, sessions: int) -> Iterator[Finding]:
    groups = (
        f"SELECT q, s, d, count(*) AS n FROM {{events}} SEMI JOIN "
        "(SELECT q, s FROM {sessions} WHERE n > docs) USING (q, s) WHERE d IS NOT NULL "
        f"GROUP BY {check.keys} HAVING {check.condition}"
    )
    count, first = tables.row(f"SELECT count(DISTINCT (q, s)), min((q, s, d)) FROM ({groups})")
    if count:
        query, session, doc = first
        where = f"doc {doc} of session {session} of query {query}"
        yield Finding(check.code, check.what, where, count, sessions, "sessions")


def _shared_positions(tables: EventTables, sessions: int) -> Iterator[Finding]:
    """Find sessions with two docs at a position; many of them are two lists in one session."""
    groups = (
        "SELECT q, s, k, count(DISTINCT d) AS docs FROM {events} SEMI JOIN "
        "(SELECT q, s FROM {sessions} WHERE placed > places) USING (q, s) "
        "WHERE d IS NOT NULL AND k IS NOT NULL GROUP BY q, s, k"
    )
    each = f"SELECT q, s, sum(docs) / count(*) AS docs FROM ({groups}) GROUP BY q, s"
    shared, several, first, first_several = tables.row(
        f"SELECT count(*) FILTER (docs > 1 AND docs < {_SEVERAL}), "
        f"count(*) FILTER (docs >= {_SEVERAL}), "
        f"min((q, s)) FILTER (docs > 1 AND docs < {_SEVERAL}), "
        f"min((q, s)) FILTER (docs >= {_SEVERAL}) FROM ({each})"
    )
    for code, count, example, what in (
        ("duplicate-position", shared, first, "two docs stand at the same position of a session"),
        (
            "session-several-rankings",
            several,
            first_several,
            "a (query_id, session_id) stands for several lists",
        ),
    ):
        if count:
            query, session = example
            where = f"session {session} of query {query}"
            yield Finding(code, what, where, count, sessions, "sessions")


def check_constant(tables: EventTables) -> Iterator[Finding]:
    """Find columns that must have one value per session and have two."""
    (sessions,) = tables.row("SELECT count(*) FROM {sessions}")
    names = [*tables.contexts, *(["randomised"] if "randomised" in tables.source.types else [])]
    for name in names:
        if name == "randomised":
            value = "design"
        else:
            value = f"coalesce({tables.raw(name)}::VARCHAR, '')"
        count, first = tables.row(
            f"SELECT count(*), min((q, s)) FROM (SELECT q, s FROM {{events}} GROUP BY q, s "
            f"HAVING min({value}) != max({value}))"
        )
        if count:
            query, session = first
            where = f"session {session} of query {query}"
            what = f"{name} has two values in a session"
            yield Finding("session-not-constant", what, where, count, sessions, "sessions")
