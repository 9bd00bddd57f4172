"""Checks for clients that are no readers: they click everything, too fast, or too often."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator

from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding

_ROWS = 50
_CLICK_SHARE = 0.9
_PER_MINUTE = 30
_HEAVY_SHARE = 0.01
_HEAVY_TIMES = 50
_MINUTE = 60_000_000


def check_clients(tables: EventTables) -> Iterator[Finding]:
    """Find suspicious clients in a log with a column client_id or user_id."""
    if tables.client is None:
        return
    clients, sessions = tables.row(
        "SELECT count(DISTINCT client), count(*) FROM {sessions} WHERE client IS NOT NULL"
    )
    if not clients:
        return
    for code, what, each in (_click_everything(), _too_fast(tables), _heavy(sessions)):
        count, worst = tables.row(
            f"SELECT count(DISTINCT client), min((-most, client)) FROM ({each})"
        )
        if count:
            told = f"clients {what}, up to {-worst[0]:,}"
            yield Finding(code, told, f"client {worst[1]}", count, clients, "clients")


def _click_everything() -> tuple[str, str, str]:
    """Return the code, what such clients do, and the SQL of who they are and how much they did."""
    each = (
        "SELECT client, sum(clicks) AS most FROM {sessions} WHERE client IS NOT NULL "
        f"GROUP BY client HAVING sum(n) >= {_ROWS} AND sum(clicks) >= {_CLICK_SHARE} * sum(n)"
    )
    return "client-clicks-everything", f"click at least {_CLICK_SHARE:.0%} of all docs", each


def _too_fast(tables: EventTables) -> tuple[str, str, str]:
    (spread,) = tables.row("SELECT count(*) FROM {sessions} WHERE clicks > 1 AND t != t_last")
    # the log is read once more only where the clicks of a session have times of their own
    count_of, table, some = (
        ("count(*)", "{events}", "c") if spread else ("sum(clicks)", "{sessions}", "clicks > 0")
    )
    each = (
        f"SELECT client, {count_of} AS most FROM {table} WHERE {some} AND t IS NOT NULL AND "
        f"client IS NOT NULL GROUP BY client, floor(t / {_MINUTE}) "
        f"HAVING {count_of} > {_PER_MINUTE}"
    )
    return "client-too-fast", f"click more than {_PER_MINUTE} times in a minute", each


def _heavy(sessions: int) -> tuple[str, str, str]:
    each = (
        "WITH each AS (SELECT client, count(*) AS most FROM {sessions} WHERE client IS NOT NULL "
        "GROUP BY client), middle AS (SELECT median(most) AS usual FROM each) "
        f"SELECT client, most FROM each, middle WHERE most > {_HEAVY_SHARE} * {sessions} "
        f"AND most > {_HEAVY_TIMES} * usual"
    )
    what = f"have more than {_HEAVY_SHARE:.0%} of all sessions and {_HEAVY_TIMES} times the usual"
    return "client-heavy", f"{what} number", each
