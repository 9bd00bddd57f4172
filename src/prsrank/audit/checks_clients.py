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
    if clients:
        yield from _click_everything(tables, clients)
        yield from _too_fast(tables, clients)
        yield from _heavy(tables, clients, sessions)


def _click_everything(tables: EventTables, clients: int) -> Iterator[Finding]:
    each = (
        "SELECT client, sum(n) AS n, sum(clicks) AS clicks FROM {sessions} "
        f"WHERE client IS NOT NULL GROUP BY client HAVING n >= {_ROWS} "
        f"AND clicks >= {_CLICK_SHARE} * n"
    )
    count, clicks, first = tables.row(
        f"SELECT count(*), coalesce(sum(clicks), 0)::BIGINT, min(client) FROM ({each})"
    )
    if count:
        what = f"clients click at least {_CLICK_SHARE:.0%} of all docs: {clicks:,} clicks"
        yield Finding(
            "client-clicks-everything", what, f"client {first}", count, clients, "clients"
        )


def _too_fast(tables: EventTables, clients: int) -> Iterator[Finding]:
    (spread,) = tables.row("SELECT count(*) FROM {sessions} WHERE clicks > 1 AND t != t_last")
    # the log is read once more only where the clicks of a session have times of their own
    count_of, table, some = (
        ("count(*)", "{events}", "c") if spread else ("sum(clicks)", "{sessions}", "clicks > 0")
    )
    each = (
        f"SELECT client, floor(t / {_MINUTE}) AS minute, {count_of} AS n FROM {table} WHERE {some} "
        "AND t IS NOT NULL AND client IS NOT NULL GROUP BY client, minute "
        f"HAVING n > {_PER_MINUTE}"
    )
    count, worst = tables.row(f"SELECT count(DISTINCT client), min((-n, client)) FROM ({each})")
    if count:
        what = f"clients click more than {_PER_MINUTE} times in a minute, up to {-worst[0]:,} times"
        yield Finding("client-too-fast", what, f"client {worst[1]}", count, clients, "clients")


def _heavy(tables: EventTables, clients: int, sessions: int) -> Iterator[Finding]:
    each = "SELECT client, count(*) AS n FROM {sessions} WHERE client IS NOT NULL GROUP BY client"
    count, worst = tables.row(
        f"WITH each AS ({each}), middle AS (SELECT median(n) AS m FROM each) "
        "SELECT count(*), min((-n, client)) FROM each, middle "
        f"WHERE n > {_HEAVY_SHARE} * {sessions} AND n > {_HEAVY_TIMES} * m"
    )
    if count:
        what = (
            f"clients have more than {_HEAVY_SHARE:.0%} of all sessions and {_HEAVY_TIMES} times "
            f"the usual number, up to {-worst[0]:,}"
        )
        yield Finding("client-heavy", what, f"client {worst[1]}", count, clients, "clients")
