"""The tables that the checks of an audit query: events, sessions and cells."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from prsrank.data.event_source import (
    MAX_POSITION,
    REQUIRED,
    EventSource,
    errors_in_one_line,
    nearest_column,
)
from prsrank.data.sql_text import quoted_name
from prsrank.errors import InputError

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_CLIENTS = ("client_id", "user_id")
_SESSIONS, _CELLS = "prsrank_sessions", "prsrank_cells"
_EVENTS, _GATHERED = "prsrank_events", "prsrank_gathered"


@dataclass(frozen=True)
class EventTables:
    """The log as SQL tables; in a query, {events}, {sessions} and {cells} name them.

    events: the log's own columns as r0, r1, ..., and
        q, s, d: query, session and doc; place: the position as a number, NULL where it is none;
        k: the 1-based position, NULL where it cannot be used; c: clicked or not, NULL where
        it is neither; t: microseconds since 1970 (NULL without timestamps); client; design.
    sessions: one row per (q, s): n rows, places (distinct positions), docs, clicks, lo and hi
        (first and last position), ranking (a hash of docs and positions), slots (a hash
        of positions), t, client, design, other_design (the same, if all is well).
    cells: shown and clicked per (q, d, k).

    Attributes:
        source: the log.
        contexts: columns with one value per session.
        features: columns with features.
        base: what the log calls the first position: 1, or 0.
        gathered: the table of sessions, once it is there.
        events: the log with the columns above.
    """

    source: EventSource
    contexts: Sequence[str] = ()
    features: Sequence[str] = ()
    base: int = 1
    gathered: "DuckDBPyRelation | None" = None
    events: "DuckDBPyRelation" = field(init=False)

    def __post_init__(self) -> None:
        columns = ", ".join(f"{sql} AS {name}" for name, sql in self._columns().items())
        object.__setattr__(self, "events", self.source.relation.project(columns))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query over the tables."""
        # a query through the log's relation opens the file, so others go through another one
        through = self.events if self.gathered is None or "{events}" in sql else self.gathered
        named = sql.format(events=_EVENTS, sessions=_SESSIONS, cells=_CELLS)
        with errors_in_one_line(self.source.name):
            found = through.query(_EVENTS if through is self.events else _GATHERED, named)
            return [] if found is None else found.fetchall()

    def row(self, sql: str) -> tuple[Any, ...]:
        """Return the first row of a query over the tables."""
        return self.rows(sql)[0]

    def raw(self, name: str) -> str:
        """Return the name in {events} of one of the log's own columns."""
        return f"r{list(self.source.types).index(name)}"

    def number(self, name: str) -> str:
        """Return the SQL in {events} of one of the log's own columns as a number."""
        raw = self.raw(name)
        if self.source.types[name] == "BOOLEAN":
            # a cast would move into DuckDB's CSV reader, which takes no "true" for a number
            return f"(CASE WHEN {raw} THEN 1.0 WHEN NOT {raw} THEN 0.0 END::DOUBLE)"
        return f"({raw}::DOUBLE)"

    @property
    def client(self) -> str | None:
        """The column that names clients, if there is one."""
        return next((name for name in _CLIENTS if name in self.source.types), None)

    def example(self, condition: str) -> str:
        """Return words that name the first event for which a condition holds."""
        found = self.rows(f"SELECT q, s, d FROM {{events}} WHERE {condition} LIMIT 1")
        if not found:
            return ""
        query, session, doc = found[0]
        return f"doc {doc} of session {session} of query {query}"

    def session_example(self, condition: str) -> str:
        """Return words that name the first session for which a condition holds."""
        found = self.rows(f"SELECT q, s FROM {{sessions}} WHERE {condition} ORDER BY ALL LIMIT 1")
        return f"session {found[0][1]} of query {found[0][0]}" if found else ""

    def _columns(self) -> dict[str, str]:
        columns = {f"r{i}": quoted_name(name) for i, name in enumerate(self.source.types)}
        for short, name in (("q", "query_id"), ("s", "session_id"), ("d", "doc_id")):
            whole = self.source.is_integer(name)
            columns[short] = quoted_name(name) if whole else f"{quoted_name(name)}::VARCHAR"
        place = self._number("position")
        columns["place"] = place
        usable = f"isfinite({place}) AND {place} = trunc({place})"
        usable += f" AND {place} BETWEEN {self.base} AND {MAX_POSITION}"
        columns["k"] = f"CASE WHEN {usable} THEN ({place})::INTEGER + {1 - self.base} END"
        columns["c"] = self._click()
        columns["t"] = self._time()
        columns["client"] = (
            f"{quoted_name(self.client)}::VARCHAR" if self.client else "NULL::VARCHAR"
        )
        columns["design"] = self._design()
        return columns

    def _number(self, name: str) -> str:
        if self.source.is_number(name):
            return f"{quoted_name(name)}::DOUBLE"
        return f"TRY_CAST({quoted_name(name)}::VARCHAR AS DOUBLE)"

    def _click(self) -> str:
        if self.source.types["click"] == "BOOLEAN":
            return quoted_name("click")
        if self.source.is_number("click"):
            return "CASE WHEN click = 1 THEN true WHEN click = 0 THEN false END"
        return "TRY_CAST(click::VARCHAR AS BOOLEAN)"

    def _time(self) -> str:
        kind = self.source.types.get("timestamp")
        if kind is None:
            return "NULL::BIGINT"
        if self.source.is_integer("timestamp"):
            return "TRY_CAST(timestamp AS BIGINT)"
        if kind == "DATE" or kind.startswith("TIMESTAMP"):
            return "epoch_us(timestamp::TIMESTAMP)"
        return "epoch_us(TRY_CAST(timestamp::VARCHAR AS TIMESTAMP))"

    def _design(self) -> str:
        kind = self.source.types.get("randomised")
        if kind is None:
            return "''"
        if kind == "BOOLEAN":
            return "CASE WHEN randomised THEN 'uniform' ELSE '' END"
        if self.source.is_number("randomised"):
            return "CASE WHEN randomised = 1 THEN 'uniform' ELSE '' END"
        return "coalesce(randomised::VARCHAR, '')"


@contextmanager
def open_tables(
    source: EventSource, *, contexts: Sequence[str], features: Sequence[str], base: int
) -> Iterator[EventTables]:
    """Make the tables of sessions and cells; they are dropped in the end.

    Both are temporary tables of DuckDB's, which it moves to disk where memory is short.
    """
    tables = EventTables(source, contexts, features, base)
    try:
        tables.rows(f"CREATE OR REPLACE TEMP TABLE {_SESSIONS} AS {_SESSIONS_SQL}")
        tables.rows(f"CREATE OR REPLACE TEMP TABLE {_CELLS} AS {_CELLS_SQL}")
        gathered = tables.events.query(_EVENTS, f"SELECT * FROM {_SESSIONS}")
        yield replace(tables, gathered=gathered)
    finally:
        # after an error DuckDB may refuse; the first error is the one to tell
        with suppress(InputError):
            for name in (_SESSIONS, _CELLS):
                tables.rows(f"DROP TABLE IF EXISTS {name}")


def check_present(source: EventSource, names: Sequence[str]) -> None:
    """Raise an InputError for the first column that a log does not have."""
    for name in (*REQUIRED, *names):
        if name not in source.types:
            hint = nearest_column(name, source.types)
            raise InputError(f"{source.name}: has no column {name!r}{hint}")


def counts_of(tables: EventTables) -> Mapping[str, int]:
    """Return how many rows, sessions, lists, queries, docs, clicks, ... a log has."""
    rows, clicks = tables.row("SELECT count(*), count(*) FILTER (c) FROM {events}")
    sessions, lists, queries, randomised, last = tables.row(
        "SELECT count(*), count(DISTINCT (q, n, ranking)), count(DISTINCT q), "
        "count(*) FILTER (design != ''), coalesce(max(hi), 0) FROM {sessions}"
    )
    (docs,) = tables.row("SELECT count(DISTINCT (q, d)) FROM {cells}")
    return {
        "rows": rows,
        "sessions": sessions,
        "lists": lists,
        "queries": queries,
        "docs": docs,
        "clicks": clicks,
        "positions": last,
        "randomised_sessions": randomised,
    }


_SESSIONS_SQL = (
    "SELECT q, s, count(*) AS n, count(k) AS placed, count(DISTINCT k) AS places, "
    "count(DISTINCT d) AS docs, count(*) FILTER (c) AS clicks, min(k) AS lo, max(k) AS hi, "
    "sum(hash(d, k)) AS ranking, sum(hash(k)) AS slots, min(t) AS t, "
    "min(client) AS client, min(design) AS design, max(design) AS other_design "
    "FROM {events} WHERE q IS NOT NULL AND s IS NOT NULL AND d IS NOT NULL GROUP BY q, s"
)
_CELLS_SQL = (
    "SELECT q, d, k, count(*) AS shown, count(*) FILTER (c) AS clicked "
    "FROM {events} WHERE q IS NOT NULL AND d IS NOT NULL AND k IS NOT NULL GROUP BY q, d, k"
)
