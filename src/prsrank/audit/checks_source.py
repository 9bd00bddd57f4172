"""What was noticed while a log of single actions was gathered to one row per shown doc."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator

from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding

_GATHERED = {
    "clicks_not_in_list": ("click-not-shown", "clicks on docs that the query did not return"),
    "events_without_query": ("event-without-query", "events of queries that are not in the log"),
    "queries_without_list": ("query-without-list", "queries without the docs that they returned"),
    "repeated_queries": ("query-repeated", "a query_id has several rows"),
    "positions_disagree": ("positions-disagree", "a click's ordinal is not the doc's position"),
}


def check_source(tables: EventTables) -> Iterator[Finding]:
    """Report clicks without an impression, and what UBI's queries and events disagree on."""
    noticed = getattr(tables.source, "findings", {})
    for name, (code, what) in _GATHERED.items():
        count = noticed.get(name, 0)
        if count:
            yield Finding(code, f"{what} ({count:,})", count=count)
    if noticed.get("positions_from") == 0:
        yield Finding("positions-rebased", "ordinals count from 0 and were raised by 1")
    if "impression" in tables.source.types and "clicks_not_in_list" not in noticed:
        shown = tables.raw("impression")
        (count,) = tables.row(f"SELECT count(*) FILTER (NOT {shown} AND c) FROM {{events}}")
        if count:
            where = tables.example(f"NOT {shown} AND c")
            what = "docs were clicked without an impression"
            yield Finding("click-not-shown", what, where, count, tables.totals().rows)
