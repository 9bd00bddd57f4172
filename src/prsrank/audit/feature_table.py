"""Checks of a table of features that comes beside a log."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from prsrank.audit.checks_features import changed_docs, check_features
from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Audit, Finding, worst_first
from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.event_source import EventSource, errors_in_one_line, nearest_column, source_of
from prsrank.logs.sql_text import quoted_name

if TYPE_CHECKING:
    from prsrank.logs.mapping import LogMapping
    from prsrank.logs.sources import LogSource


def with_feature_table(
    audit: Audit, source: "LogSource", table: FileName, *, mapping: "LogMapping"
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
    rows = _open(source, table, mapping)
    features = [name for name in rows.types if name not in _KEYS]
    tables = EventTables(rows, features=features)
    found = [f for f in check_features(tables) if f.code != "feature-changes"]
    found += [*_disagreements(tables), *_missing_docs(source, rows)]
    return replace(audit, findings=worst_first([*audit.findings, *found]))


_KEYS = ("query_id", "doc_id", "session_id", "position", "click")


def _open(source: "LogSource", table: FileName, mapping: "LogMapping") -> EventSource:
    from prsrank.logs.canonical import feature_columns
    from prsrank.logs.mapping import LogMapping
    from prsrank.logs.tables import open_table

    relation = open_table(source.connection, table)
    types = source_of(relation).types
    keys = {}
    for meaning in ("query_id", "doc_id"):
        names = [name for name in (mapping.column(meaning), meaning) if name in types]
        if not names:
            hint = nearest_column(meaning, types)
            raise InputError(f"{table}: the table has no column {meaning!r}{hint}")
        keys[meaning] = names[0]
    chosen = LogMapping(columns=keys, features=mapping.features or ("*",))
    columns = [f"{quoted_name(name)}::VARCHAR AS {key}" for key, name in keys.items()]
    columns += ["0 AS session_id", "NULL::INTEGER AS position", "NULL::BOOLEAN AS click"]
    with errors_in_one_line(str(table)):
        columns += [quoted_name(name) for name in feature_columns(relation, chosen)]
        rows = relation.project(", ".join(columns))
    return EventSource(rows, source_of(rows).types, str(table))


def _disagreements(tables: EventTables) -> Iterator[Finding]:
    if not tables.features:
        return
    docs, found = changed_docs(tables, tables.features)
    worst = max(found, key=lambda name: found[name])
    if found[worst]:
        what = f"rows of the table for the same doc disagree, most in feature {worst}"
        yield Finding("feature-table-disagrees", what, "", found[worst], docs, "docs with two rows")


def _missing_docs(source: EventSource, rows: EventSource) -> Iterator[Finding]:
    with errors_in_one_line(rows.name):
        shown = source.relation.project("query_id::VARCHAR AS q, doc_id::VARCHAR AS d").distinct()
        known = rows.relation.project("query_id AS tq, doc_id AS td").distinct()
        missing = shown.join(known, "q = tq AND d = td", how="anti")
        ((total,),) = shown.aggregate("count(*)").fetchall()
        ((count, first),) = missing.aggregate("count(*), min((q, d))").fetchall()
    if count:
        what = "docs of the log are not in the table of features"
        where = f"doc {first[1]} of query {first[0]}"
        yield Finding("feature-rows-missing", what, where, count, total, "docs")
