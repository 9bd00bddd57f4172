"""Checks of a table of features that comes beside a log."""

from collections.abc import Iterator

from prsrank.audit.checks_features import changed_docs, check_values
from prsrank.audit.checks_leaks import leaks_of
from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding
from prsrank.files import FileName
from prsrank.logs.event_source import EVENTS, EventSource
from prsrank.logs.features import keyed_table
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sql_text import quoted_name


def check_table(log: EventTables, table: FileName, mapping: LogMapping) -> Iterator[Finding]:
    """Find problems of a table of features keyed by (query, doc).

    Args:
        log: the log that it comes with.
        table: files as `prsrank.logs.tables.open_table` takes them.
        mapping: names the table's columns.

    Raises:
        InputError: if the table cannot be read.
    """
    tables = open_feature_table(log.source, table, mapping)
    yield from check_values(tables, beside_clicks=False)
    yield from leaks_of(log, tables)
    yield from _disagreements(tables)
    yield from _missing_docs(log, tables.source)


def open_feature_table(source: EventSource, table: FileName, mapping: LogMapping) -> EventTables:
    """Open a table of features beside a log as events that nobody saw."""
    rows, features = keyed_table(source, table, mapping)
    columns = [f"{key}::VARCHAR AS {key}" for key in ("query_id", "doc_id")]
    columns += ["0 AS session_id", 'NULL::INTEGER AS "position"', "NULL::BOOLEAN AS click"]
    rows = rows.select(", ".join([*columns, *map(quoted_name, features)]))
    return EventTables(rows, features=features)


def _disagreements(tables: EventTables) -> Iterator[Finding]:
    if not tables.features:
        return
    docs, found = changed_docs(tables, tables.features)
    worst = max(found, key=lambda name: found[name])
    if found[worst]:
        what = f"rows of the table for the same doc disagree, most in feature {worst}"
        yield Finding("feature-table-disagrees", what, "", found[worst], docs, "docs with two rows")


def _missing_docs(log: EventTables, rows: EventSource) -> Iterator[Finding]:
    known = f"SELECT DISTINCT query_id AS q, doc_id AS d FROM {EVENTS}"  # noqa: S608
    try:
        rows.keep("prsrank_known", known)
        total, count, first = log.row(
            "SELECT count(*), count(*) FILTER (missing), min((q, d)) FILTER (missing) FROM ("
            "SELECT shown.q, shown.d, known.q IS NULL AS missing "
            "FROM (SELECT q::VARCHAR AS q, d::VARCHAR AS d FROM {docs}) shown "
            "LEFT JOIN prsrank_known known ON shown.q = known.q AND shown.d = known.d)"
        )
    finally:
        log.source.drop("prsrank_known")
    if count:
        what = "docs of the log are not in the table of features"
        where = f"doc {first[1]} of query {first[0]}"
        yield Finding("feature-rows-missing", what, where, count, total, "docs")
