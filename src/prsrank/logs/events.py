"""Events, one row per shown doc, to a click log and back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prsrank.data.ids import id_array, objects
from prsrank.errors import InputError
from prsrank.logs.array_checks import check_contents, check_fetched
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.distinct import (
    code_pairs,
    code_rankings,
    doc_table,
    first_repeated_doc,
    group_rows,
)
from prsrank.logs.event_source import LogSource, open_frame
from prsrank.logs.mapping import CLIENTS
from prsrank.logs.row_rules import check_columns, check_rows
from prsrank.logs.sql_text import quoted_name
from prsrank.ragged import ragged_rows
from prsrank.types import Floats, IdArray, Ints, Longs, Marks

MOST_VALUES = 1_000
"""A context has no more values than this: every one may get a curve of its own."""

_BLOCK_ROWS = 1_000_000


def check_few_values(context: str, count: int) -> None:
    """Raise an InputError for a context with so many values that it must be an id."""
    if count > MOST_VALUES:
        raise InputError(
            f"column {context!r} has more than {MOST_VALUES:,} values: a context has few, such as a "
            "device; is it an id?"
        )


def from_frame(frame: object, *, contexts: Sequence[str] = (), whole: bool = True) -> ClickLog:
    """Make a log of a frame of events, one row per shown doc, clicked or not.

    Columns `query_id`, `session_id`, `doc_id` (integers or strings), `position` (from 1)
    and `click` (boolean, or 0 and 1); where present also `propensity`, `randomised` (a
    boolean, true meaning "uniform", or the name of a design as in `ClickLog.designs`, null
    and "" meaning not randomised), `timestamp` (the earliest of a session's rows counts) and
    `weight` (how much a click counts; of no matter where there is none). Other columns are
    ignored.

    A session is a distinct pair (query_id, session_id). Sessions are sorted by session_id, then
    query_id; the rest is in the order of `click_log_parts.canonical`. So a log does not depend on
    the order of the rows, and neither does any sum over it.

    Args:
        frame: pandas or Polars frame, Arrow table, DuckDB relation, or a mapping of arrays.
        contexts: further columns to keep, one value per session; null becomes "".
        whole: whether the frame is all there is: a piece of a log may hold nothing but clicks.

    Raises:
        InputError: if a column or row cannot be used; the message names it.

    >>> log = from_frame({
    ...     "query_id": np.array(["a", "a"]), "session_id": np.array([1, 1]),
    ...     "doc_id": np.array([5, 6]), "position": np.array([1, 2]), "click": np.array([0, 1])})
    >>> log.doc_ids.tolist(), log.clicks.tolist()
    ([5, 6], [1])
    """
    with open_frame(frame) as source:
        return from_source(source, contexts=contexts, whole=whole)


def from_source(
    source: LogSource, *, contexts: Sequence[str] = (), whole: bool = True, checked: bool = False
) -> ClickLog:
    """Make a log of events that DuckDB can read; see `from_frame`. Rows may be checked already."""
    if not checked:
        check_columns(source, contexts)
        check_rows(source)
    keyed = _KeyedColumns(source, contexts)
    events = keyed.fetch()
    query, session_id = events["query_id"], events["session_id"]
    session, first_rows = keyed.sorted_sessions(*code_pairs(query, session_id), events)
    keyed.check_constant(session, first_rows, events)
    offsets, order = group_rows(session, len(first_rows), events["position"])
    if not np.all(order[1:] > order[:-1]):
        for name in ("doc_id", "position", "click", "propensity", "timestamp", "weight"):
            if name in events:
                events[name] = events[name][order]
    sessions = _Sessions(keyed, events, offsets, first_rows)
    sessions.check_positions()
    log = sessions.log(contexts)
    if whole:
        check_contents(log)
    return log


@dataclass(frozen=True)
class _Keys:
    """A column as 64-bit keys: integers themselves, strings by a hash without collisions.

    `ids` are the distinct strings, sorted; `keys` their keys.
    """

    sql: str
    ids: npt.NDArray | None = None
    keys: Longs | None = None

    def ranks(self, keys: Longs) -> Longs:
        """Return integers that sort as the ids of the keys do."""
        if self.keys is None:
            return keys
        # the table's keys come first and differ, so a key's code is its row in the table
        both = np.concatenate([self.keys, keys])
        return code_pairs(both, np.zeros_like(both))[0][len(self.keys) :].astype(np.int64)

    def named(self, ranks: Longs) -> IdArray:
        """Return the ids of ranks."""
        return id_array(ranks if self.ids is None else self.ids[ranks])


class _KeyedColumns:
    """The columns of a source of events, as keys and numbers."""

    def __init__(self, source: LogSource, contexts: Sequence[str]) -> None:
        self.source = source
        names = ["query_id", "session_id", "doc_id", *contexts]
        if "randomised" in source.types:
            names.append("randomised")
        self.keys = {name: self._keys(name) for name in names}

    def _keys(self, name: str) -> _Keys:
        column = quoted_name(name)
        if name in _IDS and self.source.is_integer(name):
            return _Keys(f"{column}::BIGINT")
        if name == "randomised" and self.source.types[name] == "BOOLEAN":
            column = f"CASE WHEN {column} THEN 'uniform' ELSE '' END"
        column = f"{column}::VARCHAR" if name in _IDS else f"coalesce({column}::VARCHAR, '')"
        most = None if name in (*_IDS, *CLIENTS) else MOST_VALUES
        # strings become 64-bit keys; should two meet, another hash is taken
        for hashed in ("hash({})", "hash({} || '1')", "hash({} || '2')"):
            also = f"{hashed.format('value')} AS key"
            values = self.source.distinct(column, also=also, most=most and most + 1)
            if most:
                check_few_values(name, len(values["value"]))
            keys = values["key"].view(np.int64)
            if len(code_pairs(keys, np.zeros_like(keys))[1]) == len(keys):
                return _Keys(hashed.format(column), values["value"], keys)
        raise InputError(f"the values of column {name!r} cannot be told apart")

    def fetch(self) -> dict[str, npt.NDArray]:
        """Return every column of the events as an array of numbers."""
        sql = {name: keys.sql for name, keys in self.keys.items()}
        sql |= {"position": "position::INTEGER", "click": "click::BOOLEAN"}
        if "propensity" in self.source.types:
            sql["propensity"] = "propensity::DOUBLE"
        if "weight" in self.source.types:
            sql["weight"] = "CASE WHEN click::BOOLEAN THEN weight::DOUBLE ELSE 0 END"
        if "timestamp" in self.source.types:
            whole = self.source.is_integer("timestamp")
            sql["timestamp"] = "timestamp::BIGINT" if whole else "epoch_us(timestamp)"
        arrays = self.source.arrays(
            ", ".join(f"{text} AS c{i}" for i, text in enumerate(sql.values()))
        )
        check_fetched({name: arrays[f"c{i}"] for i, name in enumerate(sql)})
        columns = {name: np.asarray(arrays[f"c{i}"]) for i, name in enumerate(sql)}
        return {n: a.view(np.int64) if a.dtype == np.uint64 else a for n, a in columns.items()}

    def sorted_sessions(
        self, session: Ints, first_rows: Longs, events: dict[str, npt.NDArray]
    ) -> tuple[Ints, Longs]:
        """Number sessions by their ids instead of as they first appear: rows have no order."""
        ids, queries = (
            self.keys[name].ranks(events[name][first_rows]) for name in ("session_id", "query_id")
        )
        rises = (ids[1:] > ids[:-1]) | ((ids[1:] == ids[:-1]) & (queries[1:] > queries[:-1]))
        if rises.all():  # as most logs are written
            return session, first_rows
        # runs that rise, as threads write them, are merged: not by queries first, which have no order
        order = np.argsort(ids, kind="stable")
        in_order = ids[order]
        if np.any(in_order[1:] == in_order[:-1]):
            order = np.lexsort((queries, ids))
        number = np.empty(len(order), np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        return number[session], first_rows[order]

    def check_constant(
        self, session: Ints, first_rows: Longs, events: dict[str, npt.NDArray]
    ) -> None:
        """Raise an InputError if a column has two values in a session."""
        for name, keys in self.keys.items():
            if name in _IDS:
                continue
            values = events[name]
            differs = values != values[first_rows][session]
            if differs.any():
                row = int(differs.argmax())
                first = first_rows[session[row]]
                value, other = keys.named(keys.ranks(values[[first, row]])).tolist()
                raise InputError(
                    f"{name} is both {value!r} and {other!r} in {self.name_session(events, first)}"
                )

    def name_session(self, events: dict[str, npt.NDArray], row: int) -> str:
        """Return words that name the session of a row."""
        return f"session {self.id('session_id', events, row)} of query {self.id('query_id', events, row)}"

    def id(self, name: str, events: dict[str, npt.NDArray], row: int) -> str:
        """Return the id in a column of a row."""
        keys = self.keys[name]
        return str(keys.named(keys.ranks(events[name][[row]]))[0])


_IDS = ("query_id", "session_id", "doc_id")


@dataclass(frozen=True)
class _Sessions:
    """Events sorted by session and position; query and session id only at `first_rows`."""

    columns: _KeyedColumns
    events: dict[str, npt.NDArray]
    offsets: Longs
    first_rows: Longs

    def check_positions(self) -> None:
        positions = self.events["position"]
        same = positions[1:] == positions[:-1]
        inner = self.offsets[1:-1]
        # the last row of a session and the first of the next may share a position
        same[inner[(inner > 0) & (inner <= len(same))] - 1] = False
        if same.any():
            row = int(same.argmax())
            raise InputError(
                f"position {positions[row]} twice in {self._name(row)} "
                f"({int(same.sum())} such rows)"
            )

    def _name(self, row: int) -> str:
        session = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return self.columns.name_session(self.events, int(self.first_rows[session]))

    def log(self, contexts: Sequence[str]) -> ClickLog:
        events, keys, first = self.events, self.columns.keys, self.first_rows
        query = events["query_id"][first]
        designs, design = self._designs()
        codes, firsts = code_rankings(
            self.offsets,
            query,
            design,
            events["doc_id"],
            events["position"],
            events.get("propensity"),
        )
        slots, ranking_offsets = ragged_rows(self.offsets, firsts)
        shown = events["doc_id"][slots]
        # checked on distinct rankings: far fewer than sessions
        repeated = first_repeated_doc(ranking_offsets, shown)
        if repeated >= 0:
            doc = self.columns.id("doc_id", events, int(slots[repeated]))
            raise InputError(
                f"doc {doc} twice in {self._name(int(slots[repeated]))}; duplicates = 'first' keeps "
                "the first of each"
            )
        query_ranks, ranking_query = np.unique(
            keys["query_id"].ranks(query[firsts]), return_inverse=True
        )
        doc_offsets, doc_ranks, docs = doc_table(
            np.repeat(ranking_query, np.diff(ranking_offsets)),
            keys["doc_id"].ranks(shown),
            len(query_ranks),
        )
        session_clicks, clicks = _clicked(self.offsets, events["click"])
        return ClickLog(
            query_ids=keys["query_id"].named(query_ranks),
            doc_offsets=doc_offsets,
            doc_ids=keys["doc_id"].named(doc_ranks),
            ranking_query=ranking_query.astype(np.int32),
            ranking_offsets=ranking_offsets,
            ranking_docs=docs,
            ranking_positions=events["position"][slots],
            session_ranking=codes,
            session_clicks=session_clicks,
            clicks=clicks,
            ranking_design=design[firsts],
            designs=designs,
            ranking_propensities=events["propensity"][slots] if "propensity" in events else None,
            session_ids=self._session_ids(),
            session_times=self._times(),
            contexts={name: self._context(name) for name in contexts},
            click_weights=self._weights(),
        )

    def _weights(self) -> Floats | None:
        if "weight" not in self.events:
            return None
        weights = self.events["weight"][np.asarray(self.events["click"], bool)]
        # weights of 1 are no weights: unweighted paths are faster
        return None if np.all(weights == 1) else weights

    def _designs(self) -> tuple[tuple[str, ...], Ints]:
        if "randomised" not in self.columns.keys:
            return ("",), np.zeros(len(self.first_rows), np.int32)
        marks = self._context("randomised")
        if "" in marks.values:  # sorted, so it is the first
            return marks.values, marks.codes
        return ("", *marks.values), marks.codes + np.int32(1)

    def _context(self, name: str) -> Context:
        keys = self.columns.keys[name]
        assert keys.ids is not None  # noqa: S101
        codes = keys.ranks(self.events[name][self.first_rows])
        return Context(tuple(keys.ids.tolist()), codes.astype(np.int32))

    def _session_ids(self) -> IdArray | None:
        keys = self.columns.keys["session_id"]
        ids = self.events["session_id"][self.first_rows]
        if keys.ids is None and np.array_equal(ids, np.arange(len(ids))):
            return None
        return keys.named(keys.ranks(ids))

    def _times(self) -> Longs | None:
        if "timestamp" not in self.events:
            return None
        return np.asarray(np.minimum.reduceat(self.events["timestamp"], self.offsets[:-1]))


def _clicked(offsets: Longs, click: Marks) -> tuple[Ints, Ints]:
    """Return how many rows of each session are clicked, and their rows in it."""
    rows = np.flatnonzero(click)
    counts = np.diff(np.searchsorted(rows, offsets))
    clicks = rows - np.repeat(offsets[:-1], counts)
    return counts.astype(np.int32), clicks.astype(np.int32)


def _event_columns(
    log: ClickLog, queries: npt.NDArray, docs: npt.NDArray, start: int, stop: int
) -> dict[str, npt.NDArray]:
    ranking = log.session_ranking[start:stop]
    slots, offsets = ragged_rows(log.ranking_offsets, ranking)
    lengths = np.diff(offsets)
    ids = np.arange(start, stop) if log.session_ids is None else log.session_ids[start:stop]
    clicks = _clicks_of(log, start, stop)
    clicked_rows = np.repeat(offsets[:-1], log.session_clicks[start:stop]) + log.clicks[clicks]
    clicked = np.zeros(len(slots), bool)
    clicked[clicked_rows] = True
    columns = {
        "query_id": np.repeat(queries[log.ranking_query[ranking]], lengths),
        "session_id": np.repeat(objects(ids), lengths),
        "doc_id": docs[log.ranking_docs[slots]],
        "position": log.ranking_positions[slots],
        "click": clicked,
    }
    if log.ranking_propensities is not None:
        columns["propensity"] = log.ranking_propensities[slots]
    if log.ranking_design.any():
        designs = np.array(log.designs, object)
        columns["randomised"] = np.repeat(designs[log.ranking_design[ranking]], lengths)
    if log.session_times is not None:
        times = log.session_times[start:stop].view("datetime64[us]")
        columns["timestamp"] = np.repeat(times, lengths)
    if log.click_weights is not None:
        columns["weight"] = np.zeros(len(slots))
        columns["weight"][clicked_rows] = log.click_weights[clicks]
    for name, context in log.contexts.items():
        values = np.array(context.values, object)
        columns[name] = np.repeat(values[context.codes[start:stop]], lengths)
    return columns


def _clicks_of(log: ClickLog, start: int, stop: int) -> slice:
    """Return where the clicks of the sessions start to stop - 1 stand."""
    first = int(log.session_clicks[:start].sum(dtype=np.int64))
    return slice(first, first + int(log.session_clicks[start:stop].sum(dtype=np.int64)))


def event_blocks(log: ClickLog, *, rows: int = _BLOCK_ROWS) -> Iterator[dict[str, npt.NDArray]]:
    """Yield the events of runs of sessions as columns, one row per shown doc, about `rows` each.

    The inverse of `from_frame`; `pandas.DataFrame` and `polars.DataFrame` take what it yields.
    Strings are object arrays, timestamps datetime64[us].

    >>> log = from_frame({
    ...     "query_id": np.array([3, 3]), "session_id": np.array([0, 0]),
    ...     "doc_id": np.array([5, 6]), "position": np.array([1, 2]), "click": np.array([0, 1])})
    >>> [block["click"].tolist() for block in event_blocks(log)]
    [[False, True]]
    """
    ends = np.cumsum(np.diff(log.ranking_offsets)[log.session_ranking])
    queries, docs = objects(log.query_ids), objects(log.doc_ids)
    start = 0
    while start < log.sessions:
        before = ends[start - 1] if start else 0
        # one session at least, however long
        stop = max(int(np.searchsorted(ends, before + rows, side="right")), start + 1)
        yield _event_columns(log, queries, docs, start, stop)
        start = stop
