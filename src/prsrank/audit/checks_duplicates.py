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
    _Repeats("duplicate-rows", "q, s, d, shown_at, c", "count(*) > 1", "rows are logged twice"),
    _Repeats(
        "impression-and-click-rows",
        "q, s, d, shown_at",
        "min(c) != max(c)",
        "a doc has a row with a click and one without in the same session",
    ),
    _Repeats(
        "duplicate-doc",
        "q, s, d",
        "min(shown_at) != max(shown_at)",
        "a doc is shown at two positions in the same session",
    ),
)


def check_duplicates(tables: EventTables) -> Iterator[Finding]:
    """Find docs and positions that occur twice in a session."""
    twice, sessions = tables.row(
        "SELECT count(*) FILTER (n > docs OR placed > positions), coalesce(sum(sessions), 0)::BIGINT "
        "FROM {lists}"
    )
    if not twice:
        return
    for check in _REPEATS:
        yield from _repeats(tables, check, sessions)
    yield from _shared_positions(tables, sessions)


def _repeats(tables: EventTables, check: _Repeats, sessions: int) -> Iterator[Finding]:
    groups = (
        "SELECT q, s, d, count(*) AS n FROM {events} SEMI JOIN "
        f"({_of_lists('n > docs')}) USING (q, s) WHERE d IS NOT NULL "
        f"GROUP BY {check.keys} HAVING {check.condition}"
    )
    count, first = tables.row(f"SELECT count(DISTINCT (q, s)), min((q, s, d)) FROM ({groups})")
    if count:
        query, session, doc = first
        where = f"doc {doc} of session {session} of query {query}"
        yield Finding(check.code, check.what, where, count, sessions, "sessions")


def _of_lists(condition: str) -> str:
    """Return SQL for the sessions that show lists for which a condition holds."""
    lists = f"SELECT q, n, ranking FROM {{lists}} WHERE {condition}"
    return f"SELECT q, s FROM {{sessions}} SEMI JOIN ({lists}) USING (q, n, ranking)"


def _shared_positions(tables: EventTables, sessions: int) -> Iterator[Finding]:
    """Find sessions with two docs at a position; many of them are two lists in one session."""
    groups = (
        "SELECT q, s, k, count(DISTINCT d) AS docs FROM {events} SEMI JOIN "
        f"({_of_lists('placed > positions')}) USING (q, s) "
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
    changes = {name: f"mixed{i}" for i, name in enumerate(tables.contexts)}
    for name, changed in (changes | {"randomised": "design != other_design"}).items():
        count, first = tables.row(f"SELECT count(*), min((q, s)) FROM {{sessions}} WHERE {changed}")
        if count:
            query, session = first
            where = f"session {session} of query {query}"
            what = f"{name} has two values in a session"
            yield Finding("session-not-constant", what, where, count, sessions, "sessions")
