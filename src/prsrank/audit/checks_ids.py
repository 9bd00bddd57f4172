"""Checks of ids that differ only in case or white space."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator

from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding

_IDS = {"query_id": "q", "doc_id": "d", "session_id": "s"}


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
    total, count, one, two = tables.row(
        "SELECT coalesce(sum(n), 0)::BIGINT, coalesce(sum(n) FILTER (n > 1), 0)::BIGINT, "
        "arg_min(one, one) FILTER (n > 1), "
        f"arg_min(two, one) FILTER (n > 1) FROM ({alike})"
    )
    if count:
        what = f"values of {name} differ only in case or white space"
        yield Finding("ids-nearly-equal", what, f"{one!r} and {two!r}", count, total, "ids")
