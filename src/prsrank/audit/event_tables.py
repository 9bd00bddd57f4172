"""The tables that the checks of an audit query: events, sessions, lists and cells."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from prsrank.errors import InputError, shortened
from prsrank.logs.event_source import EVENTS, REQUIRED, EventSource
from prsrank.logs.mapping import CLIENTS
from prsrank.logs.row_rules import (
    MAX_POSITION,
    click_sql,
    design_sql,
    finite_sql,
    nearest_column,
    number_sql,
    row_rules,
    time_sql,
)
from prsrank.logs.tables import quoted_name
from prsrank.propensity.identification import PLACES
from prsrank.types import Floats

TOP = 10
"""How many positions {sessions} tells one by one."""

WHOLE_LOG = 0.95
"""What nearly all lists do, the log does."""

_BITS = 62
_WIDE = 2**31

FEATURE_BLOCK = 64
"""So many features go into one query: what a query costs grows faster than its columns."""

_TABLES = ("sessions", "firsts", "shown", "lists", "cells", "docs")
_NAMES = {name: f"prsrank_{name}" for name in _TABLES}


class Totals(NamedTuple):
    """Rows of a log: all, clicked, not clicked, at position 0, and those that break each rule."""

    rows: int = 0
    clicks: int = 0
    unclicked: int = 0
    zeros: int = 0
    broken: tuple[int, ...] = ()


_NOT_COUNTED = Totals()


@dataclass(frozen=True)
class EventTables:
    """The log as SQL tables; in a query, {events}, {sessions}, {lists}, {cells} and {docs} name them.

    Only {events} reads the log: what several checks need is gathered in the others.

    events: the log's own columns as r0, r1, ..., its features as numbers x0, x1, ..., and
        q, s, d: query, session and doc; shown_at: the position as a number, NULL where it is none;
        k: the 1-based position, NULL where it cannot be used; c: clicked or not, NULL where
        it is neither; t: microseconds since 1970 (NULL without timestamps); client; design, and
        shuffled: whether it names one.
    sessions: one row per (q, s): n rows, placed (rows with a position), clicks, lo and hi (first
        and last position), ranking (a hash of docs and positions), t and t_last, client, design
        and other_design (the same, if all is well), top and top_clicked (bit k: position k is
        shown, clicked, for the first TOP; 0 without timestamps), mixed0, mixed1, ... (a context
        has two values).
    lists: one row per distinct (q, n, ranking): its number of sessions, and of ordinary ones (not
        randomised), s (the first of them), placed, lo, hi, and what is the same in all of them:
        positions (distinct positions), docs.
    cells: shown, clicked, and ordinary (shown in ordinary sessions; 0 where none is
        randomised) per (q, d, k).
    docs: cells, clicked (whether), and places and hits (bit k: the doc was shown, clicked, at
        position k, for k up to PLACES) per (q, d).

    Counts have 32 bits where the log's rows fit in: tables that lie on disk are read at their size.

    Attributes:
        source: the log.
        contexts: columns with one value per session.
        features: columns with features.
        base: what the log calls the first position: 1, or 0.
        gathered: the table of sessions, once it is there.
        totals: of its rows, where it is open as a log.
        events: the log with the columns above.
    """

    source: EventSource
    contexts: Sequence[str] = ()
    features: Sequence[str] = ()
    base: int = 1
    gathered: EventSource | None = None
    totals: Totals = _NOT_COUNTED
    events: EventSource = field(init=False)

    def __post_init__(self) -> None:
        columns = ", ".join(f"{sql} AS {name}" for name, sql in self._columns().items())
        object.__setattr__(self, "events", self.source.select(columns))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query over the tables."""
        # a query through the log's relation opens the file, so others go through another one
        through = self.events if self.gathered is None or "{events}" in sql else self.gathered
        return through.query(_named(sql))

    def row(self, sql: str) -> tuple[Any, ...]:
        """Return the first row of a query over the tables."""
        return self.rows(sql)[0]

    def begins(self) -> tuple[int, int]:
        """Return how many sessions begin at position 0, and how many at 1."""
        return self.row(_BEGINS)

    def raw(self, name: str) -> str:
        """Return the name in {events} of one of the log's own columns."""
        return f"r{list(self.source.types).index(name)}"

    def number(self, name: str) -> str:
        """Return the name in {events} of one of the log's features as a number."""
        return f"x{list(self.features).index(name)}"

    def blocks(self, names: Sequence[str]) -> Iterator["EventTables"]:
        """Yield the tables with some of these features at a time, and no others."""
        plain = [name for name in self.source.types if name not in set(self.features)]
        for start in range(0, len(names), FEATURE_BLOCK):
            block = tuple(names[start : start + FEATURE_BLOCK])
            source = self.source.select(", ".join(map(quoted_name, (*plain, *block))))
            yield replace(self, source=source, features=block)

    def values_of_docs(
        self, names: Sequence[str], sql: Callable[[str], str], *, where: str
    ) -> dict[tuple[str, str], list[Floats]]:
        """Return what SQL makes of the rows of each (query, doc): those of a block in one array.

        Args:
            names: features.
            sql: from the number of a feature to one or several aggregates.
            where: which rows.
        """
        values: dict[tuple[str, str], list[Floats]] = {}
        for block in self.blocks(names):
            columns = ", ".join(sql(block.number(name)) for name in block.features)
            rows = block.rows(
                f"SELECT q::VARCHAR, d::VARCHAR, {columns} FROM {{events}} "
                f"WHERE q IS NOT NULL AND d IS NOT NULL AND {where} GROUP BY q, d"
            )
            for q, d, *numbers in rows:
                values.setdefault((q, d), []).append(np.array(numbers, np.float64))
        return values

    @property
    def client(self) -> str | None:
        """The column that names clients, if there is one."""
        return next((name for name in CLIENTS if name in self.source.types), None)

    def example(self, condition: str) -> str:
        """Return words that name the first event for which a condition holds."""
        rows = self.rows(f"SELECT q, s, d FROM {{events}} WHERE {condition} LIMIT 1")
        return event_words(*rows[0]) if rows else ""

    def session_example(self, condition: str, *, of: str = "sessions") -> str:
        """Return words that name the first of the sessions, or lists, for which a condition holds."""
        rows = self.rows(f"SELECT q, s FROM {{{of}}} WHERE {condition} ORDER BY q, s LIMIT 1")
        return session_words(*rows[0]) if rows else ""

    def _columns(self) -> dict[str, str]:
        columns = {f"r{i}": quoted_name(name) for i, name in enumerate(self.source.types)}
        for short, name in (("q", "query_id"), ("s", "session_id"), ("d", "doc_id")):
            columns[short] = self._id(name)
        return columns | {
            "shown_at": number_sql(self.source, "position"),
            "k": self._position(),
            "c": click_sql(self.source, counts=True),
            "t": time_sql(self.source),
            "client": "NULL::VARCHAR" if self.client is None else self._id(self.client),
            "design": design_sql(self.source),
            "shuffled": self._shuffled(),
            **{f"x{i}": number_sql(self.source, name) for i, name in enumerate(self.features)},
        }

    def _position(self) -> str:
        if self.source.is_integer(
            "position"
        ):  # a look at whether it is whole costs more than all else
            position, usable = quoted_name("position"), "true"
        else:
            position = number_sql(self.source, "position")
            usable = f"{finite_sql(position)} AND {position} = floor({position})"
        usable += f" AND {position} BETWEEN {self.base} AND {MAX_POSITION}"
        return f"CASE WHEN {usable} THEN {position}::INTEGER + {1 - self.base} END"

    def _shuffled(self) -> str:
        # text of every row would be compared
        if self.source.types.get("randomised") == "BOOLEAN":
            return "coalesce(randomised, false)"
        return f"{design_sql(self.source)} != ''"

    def _id(self, name: str) -> str:
        return (
            quoted_name(name) if self.source.is_integer(name) else f"{quoted_name(name)}::VARCHAR"
        )


def event_words(query: object, session: object, doc: object) -> str:
    """Return words that name an event."""
    return f"doc {shortened(doc)} of {session_words(query, session)}"


def session_words(query: object, session: object) -> str:
    """Return words that name a session."""
    return f"session {shortened(session)} of query {shortened(query)}"


def _named(sql: str) -> str:
    return sql.format(events=EVENTS, **_NAMES)


_BEGINS = (
    "SELECT count(*) FILTER (lo = 0), count(*) FILTER (lo = 1) "
    "FROM (SELECT min(shown_at) AS lo FROM {events} GROUP BY q, s)"
)


@contextmanager
def open_tables(
    source: EventSource,
    *,
    contexts: Sequence[str] = (),
    features: Sequence[str] = (),
    base: int | None = None,
) -> Iterator[EventTables]:
    """Make the tables of sessions, lists and cells; they are dropped in the end.

    DuckDB moves them to disk where memory is short; Spark leaves them on its workers.

    Args:
        source: the log.
        contexts: columns with one value per session.
        features: columns with features.
        base: what the log calls the first position; default: 0 if nearly all lists begin at 0.
    """
    tables = EventTables(source, contexts, features, totals=_totals(source))
    if base is None:
        zero, first = tables.begins() if tables.totals.zeros else (0, 1)
        base = 0 if zero >= WHOLE_LOG * (zero + first) else 1
    tables = replace(tables, base=base)
    try:
        with source.setting("preserve_insertion_order", "false"):
            kept = {}
            for name, sql in _tables_sql(tables).items():
                if name == "docs":  # made of cells alone: the others leave room for it
                    for done in ("firsts", "shown"):
                        tables.events.drop(_NAMES[done])
                kept[name] = tables.events.keep(_NAMES[name], _named(sql))
        yield replace(tables, gathered=kept["sessions"])
    finally:
        # after an error the database may refuse; the first error is the one to tell
        with suppress(InputError):
            for name in _NAMES.values():
                tables.events.drop(name)


def _totals(source: EventSource) -> Totals:
    clicked, position = click_sql(source, counts=True), number_sql(source, "position")
    kinds = [clicked, f"NOT {clicked}", f"{position} = 0"]
    kinds += [rule.broken for rule in row_rules(source)]
    counts = (f"coalesce(count_if({kind}), 0)" for kind in kinds)
    rows, clicks, unclicked, zeros, *broken = source.total(", ".join(["count(*)", *counts]))
    return Totals(rows, clicks, unclicked, zeros, tuple(broken))


def check_present(source: EventSource, names: Sequence[str]) -> None:
    """Raise an InputError for the first column that a log does not have."""
    for name in (*REQUIRED, *names):
        if name not in source.types:
            hint = nearest_column(name, source.types)
            raise InputError(f"{source.name}: has no column {name!r}{hint}")


def counts_of(tables: EventTables) -> Mapping[str, int]:
    """Return how many rows, sessions, lists, queries, docs, clicks, ... a log has."""
    names = ("sessions", "lists", "queries", "docs", "clicks", "positions", "randomised_sessions")
    counts = tables.row(
        "SELECT count(*), (SELECT count(*) FROM {lists}), count(DISTINCT q), "
        f"(SELECT count(*) FROM {{docs}}), {tables.totals.clicks}, coalesce(max(hi), 0), "
        "count(*) FILTER (design != '') FROM {sessions}"
    )
    return {"rows": tables.totals.rows, **dict(zip(names, counts, strict=True))}


def context_value(tables: EventTables, name: str) -> str:
    """Return the SQL in {events} of a context, as text."""
    return f"coalesce({tables.raw(name)}::VARCHAR, '')"


def _tables_sql(tables: EventTables) -> dict[str, str]:
    """Return the SQL of each table, in the order in which they can be made."""
    whole = "INTEGER" if tables.totals.rows < _WIDE else "BIGINT"
    ordinary = ("0", "0")
    if "randomised" in tables.source.types:
        ordinary = "count(*) FILTER (other_design = '')", "coalesce(sum(ordinary), 0)"
    return {
        "sessions": _sessions_sql(tables, whole),
        "firsts": (
            f"SELECT q, n, ranking, count(*)::{whole} AS sessions, "
            f"({ordinary[0]})::{whole} AS ordinary, min(s) AS s, "
            "min(placed) AS placed, min(lo) AS lo, min(hi) AS hi FROM {sessions} "
            "GROUP BY q, n, ranking"
        ),
        # what a list shows is read in one of its sessions, and clicks where they are
        "shown": (
            "SELECT e.q, e.s, d, k, c, sessions, ordinary FROM {events} e "
            "LEFT JOIN {firsts} f ON e.q = f.q AND e.s = f.s WHERE (c OR sessions IS NOT NULL) "
            "AND e.q IS NOT NULL AND e.s IS NOT NULL AND d IS NOT NULL"
        ),
        # bits tell positions apart in a fraction of the time
        "lists": (
            "SELECT * FROM {firsts} JOIN (SELECT q, s, "
            f"bit_count(bit_or(CASE WHEN k <= {_BITS} THEN 1::BIGINT << k ELSE 0 END)) "
            f"+ coalesce(array_length(list_distinct(list(k) FILTER (k > {_BITS}))), 0) "
            "AS positions, array_length(list_distinct(list(d))) AS docs "
            "FROM {shown} WHERE sessions IS NOT NULL GROUP BY q, s) USING (q, s)"
        ),
        # of lists with equal hashes but other docs only the first is seen: a click is an impression
        "cells": (
            "SELECT q, d, k, greatest(coalesce(sum(sessions), 0), count(*) FILTER (c))"
            f"::{whole} AS shown, (count(*) FILTER (c))::{whole} AS clicked, "
            f"({ordinary[1]})::{whole} AS ordinary "
            "FROM {shown} WHERE k IS NOT NULL GROUP BY q, d, k"
        ),
        "docs": (
            f"SELECT q, d, count(*)::{whole} AS cells, bool_or(clicked > 0) AS clicked, "
            f"bit_or(CASE WHEN k <= {PLACES} THEN 1::BIGINT << k ELSE 0 END) AS places, "
            f"bit_or(CASE WHEN k <= {PLACES} AND clicked > 0 THEN 1::BIGINT << k ELSE 0 END) "
            "AS hits FROM {cells} GROUP BY q, d"
        ),
    }


def _sessions_sql(tables: EventTables, whole: str) -> str:
    values = [f"hash({context_value(tables, name)})" for name in tables.contexts]
    mixed = "".join(f", min({v}) != max({v}) AS mixed{i}" for i, v in enumerate(values))
    counts = {"n": "count(*)", "placed": "count(k)", "clicks": "(count(*) FILTER (c))"}
    return (
        f"SELECT q, s, {', '.join(f'{sql}::{whole} AS {n}' for n, sql in counts.items())}, "
        "min(k) AS lo, max(k) AS hi, sum(hash(d, k)) AS ranking, "
        f"{_same_in_session(tables)}, {_top_sql(tables)}{mixed} "
        "FROM {events} WHERE q IS NOT NULL AND s IS NOT NULL AND d IS NOT NULL GROUP BY q, s"
    )


def _top_sql(tables: EventTables) -> str:
    if "timestamp" not in tables.source.types:  # only checks over time ask for them
        return "0::TINYINT AS top, 0::TINYINT AS top_clicked"
    clicked = f"bit_or(CASE WHEN k <= {TOP} AND c THEN 1 << k ELSE 0 END)"
    return f"bit_or(CASE WHEN k <= {TOP} THEN 1 << k ELSE 0 END) AS top, {clicked} AS top_clicked"


def _same_in_session(tables: EventTables) -> str:
    """Return the SQL of times, client and design of a session; what the log lacks is not looked for."""
    times = "min(t) AS t, max(t) AS t_last"
    if "timestamp" not in tables.source.types:
        times = "NULL::TINYINT AS t, NULL::TINYINT AS t_last"
    client = "NULL::TINYINT" if tables.client is None else "min(client)"
    kind = tables.source.types.get("randomised")
    low, high = ("''", "''") if kind is None else ("min(design)", "max(design)")
    if kind == "BOOLEAN":  # it has two designs: text of every row need not be compared
        low, high = (
            f"CASE WHEN {all_or_one}(shuffled) THEN 'uniform' ELSE '' END"
            for all_or_one in ("bool_and", "bool_or")
        )
    return f"{times}, {client} AS client, {low} AS design, {high} AS other_design"
