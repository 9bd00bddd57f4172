"""Checks of a table of features that comes beside a log."""

from collections.abc import Iterator
from dataclasses import replace

from prsrank.audit.checks_features import changed_docs, check_features
from prsrank.audit.checks_leaks import leaks_of
from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Audit, Finding, worst_first
from prsrank.files import FileName
from prsrank.logs.event_source import EVENTS, EventSource
from prsrank.logs.features import keyed_table
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sql_text import quoted_name


def with_feature_table(
    audit: Audit, source: EventSource, table: FileName, *, mapping: LogMapping
) -> Audit:
    """Return an audit with findings about a table of features keyed by (query, doc).

    Args:
        audit: of the log.
        source: the log, still open.
        table: files as `prsrank.logs.tables.open_table` takes them.
        mapping: names the table's columns.

    Raises:
        InputError: if the table cannot be read.
    """
    tables = open_feature_table(source, table, mapping)
    found = [f for f in check_features(tables) if f.code != "feature-changes"]
    found += leaks_of(EventTables(source), tables)
    found += [*_disagreements(tables), *_missing_docs(source, tables.source)]
    return replace(audit, findings=worst_first([*audit.findings, *found]))


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


def _missing_docs(source: EventSource, rows: EventSource) -> Iterator[Finding]:
    docs = f"SELECT DISTINCT query_id::VARCHAR AS q, doc_id::VARCHAR AS d FROM {EVENTS}"  # noqa: S608
    try:
        shown = source.keep("prsrank_shown", docs)
        rows.keep("prsrank_known", docs)
        (total,) = shown.total("count(*)")
        ((count, first),) = shown.query(
            "SELECT count(*), min((q, d)) FROM prsrank_shown ANTI JOIN prsrank_known USING (q, d)"
        )
    finally:
        source.drop("prsrank_shown")
        source.drop("prsrank_known")
    if count:
        what = "docs of the log are not in the table of features"
        where = f"doc {first[1]} of query {first[0]}"
        yield Finding("feature-rows-missing", what, where, count, total, "docs")
