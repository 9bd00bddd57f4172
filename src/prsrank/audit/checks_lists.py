"""Checks of whole lists (clicks, repeats, lengths) and of ids that stand for several things."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator

from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding

_RARE = 0.01
_SHORT = 0.05
_LONG_ENOUGH = 3
_IDS = {"query_id": "q", "doc_id": "d", "session_id": "s"}


def check_lists(tables: EventTables) -> Iterator[Finding]:
    """Count lists without clicks, with clicks on every doc, of one doc, and shown before."""
    sessions, bare, single, long, full = tables.row(
        "SELECT count(*), count(*) FILTER (clicks = 0), "
        f"count(*) FILTER (n = 1), count(*) FILTER (n >= {_LONG_ENOUGH}), "
        f"count(*) FILTER (n >= {_LONG_ENOUGH} AND clicks = n) FROM {{sessions}}"
    )
    if not sessions:
        return
    if bare:
        what = "sessions have no click"
        yield Finding("lists-without-clicks", what, "", bare, sessions, "sessions")
    (lists,) = tables.row("SELECT count(*) FROM {lists}")
    if lists < sessions:
        what = "sessions show a list that another session showed too"
        yield Finding("repeated-lists", what, "", sessions - lists, sessions, "sessions")
    if single > _SHORT * sessions:
        where = tables.session_example("n = 1")
        yield Finding("single-doc-lists", "lists of one doc", where, single, sessions, "sessions")
    if full > _RARE * long:
        where = tables.session_example(f"n >= {_LONG_ENOUGH} AND clicks = n")
        what = f"every doc of a list of {_LONG_ENOUGH} or more was clicked"
        yield Finding("every-doc-clicked", what, where, full, long, "sessions")


def check_session_ids(tables: EventTables) -> Iterator[Finding]:
    """Count session ids that stand for sessions of several queries."""
    ids, shared, example = tables.row(
        "SELECT count(*), count(*) FILTER (queries > 1), min(s) FILTER (queries > 1) "
        "FROM (SELECT s, count(*) AS queries FROM {sessions} GROUP BY s)"
    )
    if shared:
        what = "a session_id occurs with several queries"
        yield Finding("session-id-shared", what, f"session {example}", shared, ids, "session ids")


def check_ids(tables: EventTables) -> Iterator[Finding]:
    """Find text ids that are equal but for case and white space."""
    for name, column in _IDS.items():
        if tables.source.is_text(name):
            yield from _nearly_equal(tables, name, column)


def _nearly_equal(tables: EventTables, name: str, column: str) -> Iterator[Finding]:
    table = "cells" if column == "d" else "sessions"
    ids = f"SELECT DISTINCT {column} AS id FROM {{{table}}}"
    alike = (
        "SELECT count(*) AS n, min(id) AS one, max(id) AS two "
        f"FROM ({ids}) GROUP BY lower(trim(regexp_replace(id, '\\s+', ' ', 'g')))"
    )
    total, count, first = tables.row(
        "SELECT coalesce(sum(n), 0)::BIGINT, coalesce(sum(n) FILTER (n > 1), 0)::BIGINT, "
        f"min((one, two)) FILTER (n > 1) FROM ({alike})"
    )
    if count:
        what = f"values of {name} differ only in case or white space"
        yield Finding(
            "ids-nearly-equal", what, f"{first[0]!r} and {first[1]!r}", count, total, "ids"
        )
