"""Checks of single rows, by the rules that readers of a log go by, and of how it was gathered."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator

from prsrank.audit.event_tables import EventTables, event_words
from prsrank.audit.findings import Finding
from prsrank.logs.row_rules import RowRule, row_rules, type_rules


def check_rows(tables: EventTables) -> Iterator[Finding]:
    """Find rows of which a column cannot be used."""
    total, *_, broken = tables.totals()
    if not total:
        yield Finding("empty-log", "the log has no rows")
        return
    for code, column, wanted in type_rules(tables.source):
        kind = tables.source.types[column]
        yield _found(tables, RowRule(code, "true", f"{column} holds {kind}, not {wanted}"), total)
    for rule, count in zip(row_rules(tables.source), broken, strict=True):
        # where only some lists count from 0, `check_base` has more to say of them
        if count and (rule.code != "positions-from-zero" or tables.base == 0):
            yield _found(tables, rule, count)


def _found(tables: EventTables, rule: RowRule, count: int) -> Finding:
    row = tables.source.rows("query_id, session_id, doc_id", where=rule.broken)[0]
    return Finding(rule.code, rule.what, event_words(*row), count, tables.totals().rows)


_GATHERED = {
    "clicks_not_in_list": ("click-not-shown", "clicks on docs that the query did not return"),
    "events_without_query": ("event-without-query", "events of queries that are not in the log"),
    "queries_without_list": ("query-without-list", "queries without the docs that they returned"),
    "repeated_queries": ("query-repeated", "a query_id has several rows"),
    "positions_disagree": ("positions-disagree", "a click's ordinal is not the doc's position"),
}


_READ = {
    "repeated_docs": ("duplicates-left-out", "rows show a doc again in its session: left out"),
    "words_for_nothing": ("nulls-read", "words such as NULL are read as missing values"),
}


def check_source(tables: EventTables) -> Iterator[Finding]:
    """Report clicks without an impression, and what UBI's queries and events disagree on."""
    noticed = tables.source.findings
    for name, (code, what) in _GATHERED.items():
        count = noticed.get(name, 0)
        if count:
            yield Finding(code, f"{what} ({count:,})", count=count)
    for name, (code, what) in _READ.items():
        if noticed.get(name):
            yield Finding(code, f"{noticed[name]:,} {what}", count=noticed[name])
    if noticed.get("positions_from") == 0:
        yield Finding("positions-rebased", "ordinals count from 0 and were raised by 1")
    if "impression" in tables.source.types and "clicks_not_in_list" not in noticed:
        unshown = f"NOT {tables.raw('impression')} AND c"
        (count,) = tables.row(f"SELECT count(*) FILTER ({unshown}) FROM {{events}}")
        if count:
            what = "docs were clicked without an impression"
            yield Finding(
                "click-not-shown", what, tables.example(unshown), count, tables.totals().rows
            )
