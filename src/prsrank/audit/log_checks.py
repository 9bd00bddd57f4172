"""Checks of rows, lists, ids and clients, and of how a log was gathered."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator
from typing import NamedTuple

from prsrank.audit.event_tables import EventTables, event_words, session_words
from prsrank.audit.findings import Finding
from prsrank.logs.row_rules import RowRule, row_rules, type_rules

_RARE, _SHORT = 0.01, 0.05
_LONG_ENOUGH = 3
_SEVERAL = 1.5
_IDS = {"query_id": "q", "doc_id": "d", "session_id": "s"}

_CLIENT_ROWS = 50
_CLICK_SHARE = 0.9
_PER_MINUTE, _MINUTE = 30, 60_000_000
_HEAVY_SHARE, _HEAVY_TIMES = 0.01, 50


def check_rows(tables: EventTables) -> Iterator[Finding]:
    """Find rows of which a column cannot be used, by the rules that readers of a log go by."""
    total, *_, broken = tables.totals
    if not total:
        yield Finding("empty-log", "the log has no rows")
        return
    for code, column, wanted in type_rules(tables.source):
        kind = tables.source.types[column]
        yield _row(tables, RowRule(code, "true", f"{column} holds {kind}, not {wanted}"), total)
    for rule, count in zip(row_rules(tables.source), broken, strict=True):
        # where only some lists count from 0, `check_base` has more to say of them
        if count and (rule.code != "positions-from-zero" or tables.base == 0):
            yield _row(tables, rule, count)


def _row(tables: EventTables, rule: RowRule, count: int) -> Finding:
    row = tables.source.rows("query_id, session_id, doc_id", where=rule.broken)[0]
    return Finding(rule.code, rule.what, event_words(*row), count, tables.totals.rows)


_NOTICED = {
    "clicks_not_in_list": ("click-not-shown", "clicks on docs that the query did not return"),
    "events_without_query": ("event-without-query", "events of queries that are not in the log"),
    "queries_without_list": ("query-without-list", "queries without the docs that they returned"),
    "repeated_queries": ("query-repeated", "a query_id has several rows"),
    "positions_disagree": ("positions-disagree", "a click's ordinal is not the doc's position"),
    "repeated_docs": ("duplicates-left-out", "{} rows show a doc again in its session: left out"),
    "words_for_nothing": ("nulls-read", "{} words such as NULL are read as missing values"),
}


def check_source(tables: EventTables) -> Iterator[Finding]:
    """Report clicks without an impression, and what UBI's queries and events disagree on."""
    noticed = tables.source.findings
    for name, (code, words) in _NOTICED.items():
        count = noticed.get(name, 0)
        if count:
            counted = words.format(f"{count:,}") if "{}" in words else f"{words} ({count:,})"
            yield Finding(code, counted, count=count)
    if noticed.get("positions_from") == 0:
        yield Finding("positions-rebased", "ordinals count from 0 and were raised by 1")
    if "impression" in tables.source.types and "clicks_not_in_list" not in noticed:
        unshown = f"NOT {tables.raw('impression')} AND c"
        (count,) = tables.row(f"SELECT count(*) FILTER ({unshown}) FROM {{events}}")
        if count:
            words, where = "docs were clicked without an impression", tables.example(unshown)
            yield Finding("click-not-shown", words, where, count, tables.totals.rows)


class _SessionRule(NamedTuple):
    """Sessions for which SQL is true, of those for which `of` is, if they are a larger share."""

    code: str
    what: str
    broken: str
    of: str = "true"
    share: float = 0.0
    named: bool = True


_SESSION_RULES = (
    _SessionRule("lists-without-clicks", "sessions have no click", "clicks = 0", named=False),
    _SessionRule("single-doc-lists", "lists of one doc", "n = 1", share=_SHORT),
    # as further pages do
    _SessionRule("lists-begin-late", "lists begin below position 1", "lo > 1", share=_RARE),
    _SessionRule(
        "every-doc-clicked",
        f"every doc of a list of {_LONG_ENOUGH} or more was clicked",
        "clicks = n",
        of=f"n >= {_LONG_ENOUGH}",
        share=_RARE,
    ),
)


def check_sessions(tables: EventTables) -> Iterator[Finding]:
    """Count sessions without clicks, with clicks on every doc, of one doc, or of two contexts."""
    changes = {name: f"mixed{i}" for i, name in enumerate(tables.contexts)}
    rules = [
        *_SESSION_RULES,
        *(
            _SessionRule("session-not-constant", f"{name} has two values in a session", changed)
            for name, changed in (changes | {"randomised": "design != other_design"}).items()
        ),
    ]
    wanted = ", ".join(f"count_if({r.of}), count_if({r.of} AND {r.broken})" for r in rules)
    counts = tables.row(f"SELECT {wanted} FROM {{sessions}}")
    for rule, total, count in zip(rules, counts[::2], counts[1::2], strict=True):
        if count and count > rule.share * total:
            broken = f"{rule.of} AND {rule.broken}"
            where = tables.session_example(broken) if rule.named else ""
            yield Finding(rule.code, rule.what, where, count, total, "sessions")


def check_lists(tables: EventTables) -> Iterator[Finding]:
    """Count lists shown before, and find docs and positions that occur twice in a session."""
    lists, twice, sessions = tables.row(
        "SELECT count(*), count(*) FILTER (n > docs OR placed > positions), "
        "coalesce(sum(sessions), 0)::BIGINT FROM {lists}"
    )
    if lists < sessions:
        words = "sessions show a list that another session showed too"
        yield Finding("repeated-lists", words, "", sessions - lists, sessions, "sessions")
    if twice:
        for code, (keys, condition, words) in _REPEATS.items():
            groups = (
                f"SELECT q, s, d FROM {{events}} SEMI JOIN ({_of_lists('n > docs')}) USING (q, s) "
                f"WHERE d IS NOT NULL GROUP BY {keys} HAVING {condition}"
            )
            count, first = tables.row(
                f"SELECT count(DISTINCT (q, s)), min((q, s, d)) FROM ({groups})"
            )
            if count:
                yield Finding(code, words, event_words(*first), count, sessions, "sessions")
        yield from _shared_positions(tables, sessions)


# code: keys of a group, what is wrong with one, words
_REPEATS = {
    "duplicate-rows": ("q, s, d, shown_at, c", "count(*) > 1", "rows are logged twice"),
    "impression-and-click-rows": (
        "q, s, d, shown_at",
        "min(c) != max(c)",
        "a doc has a row with a click and one without in the same session",
    ),
    "duplicate-doc": (
        "q, s, d",
        "min(shown_at) != max(shown_at)",
        "a doc is shown at two positions in the same session",
    ),
}


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
    shared = tables.rows(
        f"SELECT docs >= {_SEVERAL} AS several, count(*), min((q, s)) FROM (SELECT q, s, "
        f"sum(docs) / count(*) AS docs FROM ({groups}) GROUP BY q, s) "
        "WHERE docs > 1 GROUP BY several ORDER BY several"
    )
    for several, count, first in shared:
        code, words = (
            ("session-several-rankings", "a (query_id, session_id) stands for several lists")
            if several
            else ("duplicate-position", "two docs stand at the same position of a session")
        )
        yield Finding(code, words, session_words(*first), count, sessions, "sessions")


def check_ids(tables: EventTables) -> Iterator[Finding]:
    """Find session ids of several queries, and text ids equal but for case and white space."""
    ids, shared, example = tables.row(
        "SELECT count(*), count(*) FILTER (queries > 1), min(s) FILTER (queries > 1) "
        "FROM (SELECT s, count(*) AS queries FROM {sessions} GROUP BY s)"
    )
    if shared:
        words = "a session_id occurs with several queries"
        yield Finding("session-id-shared", words, f"session {example}", shared, ids, "session ids")
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
        words = f"values of {name} differ only in case or white space"
        where = f"{first[0]!r} and {first[1]!r}"
        yield Finding("ids-nearly-equal", words, where, count, total, "ids")


def check_clients(tables: EventTables) -> Iterator[Finding]:
    """Find clients that are no readers in a log with a column client_id or user_id."""
    if tables.client is None:
        return
    clients, sessions, spread = tables.row(
        "SELECT count(DISTINCT client), count(client), count_if(clicks > 1 AND t != t_last) "
        "FROM {sessions}"
    )
    if not clients:
        return
    # the log is read once more only where the clicks of a session have times of their own
    clicks, table, clicked = (
        ("count(*)", "{events}", "c") if spread else ("sum(clicks)", "{sessions}", "clicks > 0")
    )
    kinds = {
        "client-clicks-everything": (
            f"click at least {_CLICK_SHARE:.0%} of all docs",
            "SELECT client, sum(clicks) AS most FROM {sessions} WHERE client IS NOT NULL GROUP BY "
            f"client HAVING sum(n) >= {_CLIENT_ROWS} AND sum(clicks) >= {_CLICK_SHARE} * sum(n)",
        ),
        "client-too-fast": (
            f"click more than {_PER_MINUTE} times in a minute",
            f"SELECT client, {clicks} AS most FROM {table} WHERE {clicked} AND t IS NOT NULL AND "
            f"client IS NOT NULL GROUP BY client, floor(t / {_MINUTE}) "
            f"HAVING {clicks} > {_PER_MINUTE}",
        ),
        "client-heavy": (
            f"have more than {_HEAVY_SHARE:.0%} of all sessions and {_HEAVY_TIMES} times the usual "
            "number",
            "WITH each AS (SELECT client, count(*) AS most FROM {sessions} WHERE client IS NOT NULL "
            "GROUP BY client), middle AS (SELECT median(most) AS usual FROM each) "
            f"SELECT client, most FROM each, middle WHERE most > {_HEAVY_SHARE} * {sessions} "
            f"AND most > {_HEAVY_TIMES} * usual",
        ),
    }
    for code, (words, each) in kinds.items():
        count, worst = tables.row(
            f"SELECT count(DISTINCT client), min((-most, client)) FROM ({each})"
        )
        if count:
            most = f"clients {words}, up to {-worst[0]:,}"
            yield Finding(code, most, f"client {worst[1]}", count, clients, "clients")
