"""Events, one row per shown doc, to a click log and back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prsrank.data.ids import objects
from prsrank.errors import InputError
from prsrank.logs.array_checks import check_contents, check_docs, check_fetched
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.click_log_parts import ranking_fields
from prsrank.logs.distinct import IdKeys, code_pairs
from prsrank.logs.event_source import OPTIONAL, REQUIRED, LogSource, open_frame
from prsrank.logs.mapping import CLIENTS
from prsrank.logs.row_rules import check_columns, check_rows
from prsrank.logs.tables import quoted_name
from prsrank.ragged import ragged_rows
from prsrank.sorting import rows_by_group
from prsrank.types import Floats, IdArray, Ints, Longs, Marks

MOST_VALUES = 1_000
"""A context has no more values than this: every one may get a curve of its own."""

_BLOCK_ROWS = 1_000_000
_IDS = ("query_id", "session_id", "doc_id")
_POSITION_BITS = 20  # positions are at most a million


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
    log = _Events.of(source, contexts).log(contexts, whole=whole)
    if whole:
        check_contents(log)
    return log


def _keys_of(source: LogSource, name: str) -> tuple[str, IdKeys]:
    """Return the SQL of keys for a column of ids, or of values of a context, and their names."""
    column = quoted_name(name)
    if name in _IDS and source.is_integer(name):
        return f"{column}::BIGINT", IdKeys()
    if name == "randomised" and source.types[name] == "BOOLEAN":
        column = f"CASE WHEN {column} THEN 'uniform' ELSE '' END"
    column = f"{column}::VARCHAR" if name in _IDS else f"coalesce({column}::VARCHAR, '')"
    most = None if name in (*_IDS, *CLIENTS) else MOST_VALUES
    # should the keys of two strings meet, another hash is taken
    for hashed in ("hash({})", "hash({} || '1')", "hash({} || '2')"):
        also = f"{hashed.format('value')} AS key"
        values = source.distinct(column, also=also, most=most and most + 1)
        if most:
            check_few_values(name, len(values["value"]))
        keys = values["key"].view(np.int64)
        in_order = np.sort(keys)  # np.unique would take seconds for millions
        if np.all(in_order[1:] > in_order[:-1]):
            return hashed.format(column), IdKeys(values["value"], keys)
    raise InputError(f"the values of column {name!r} cannot be told apart")


@dataclass(frozen=True)
class _Events:
    """Events sorted by session and position, the sessions by their ids, then their queries.

    Attributes:
        keys: of the columns that hold keys and not numbers.
        columns: one number per row.
        offsets: where the rows of each session begin, and the end.
        query: key of each session's query.
        session: key of each session's own id.
    """

    keys: dict[str, IdKeys]
    columns: dict[str, npt.NDArray]
    offsets: Longs
    query: Longs
    session: Longs

    @classmethod
    def of(cls, source: LogSource, contexts: Sequence[str]) -> "_Events":
        """Fetch the events of a source, and sort them."""
        keys, columns = _fetched(source, contexts)
        query, session = columns.pop("query_id"), columns.pop("session_id")
        number, first = code_pairs(query, session)
        query, session = query[first], session[first]
        order = _pair_order(keys["session_id"].ranks(session), keys["query_id"].ranks(query))
        if order is not None:
            sorted_number = np.empty(len(order), np.int32)
            sorted_number[order] = np.arange(len(order), dtype=np.int32)
            number, query, session = sorted_number[number], query[order], session[order]
        offsets, rows = rows_by_group(number, len(first))
        places = number[rows].astype(np.int64) << _POSITION_BITS | columns["position"][rows]
        if np.any(places[1:] <= places[:-1]):
            by_position = np.argsort(places)
            places, rows = places[by_position], rows[by_position]
        if np.any(rows[1:] < rows[:-1]):
            columns = {name: values[rows] for name, values in columns.items()}
        events = cls(keys, columns, offsets, query, session)
        events._check_positions(places[1:] == places[:-1])
        return events

    def _check_positions(self, same: Marks) -> None:
        if same.any():
            row = int(same.argmax())
            raise InputError(
                f"position {self.columns['position'][row]} twice in {self._name(row)} "
                f"({int(same.sum())} such rows)"
            )

    def _name(self, row: int) -> str:
        """Return words that name the session of a row."""
        number = int(np.searchsorted(self.offsets, row, side="right")) - 1
        session = self.keys["session_id"].id(self.session[number])
        return f"session {session} of query {self.keys['query_id'].id(self.query[number])}"

    def log(self, contexts: Sequence[str], *, whole: bool) -> ClickLog:
        """Return the click log of the events."""
        columns = self.columns
        kept = {name: self._context(name) for name in contexts}
        designs, design = self._designs()
        query, docs = self.keys["query_id"], self.keys["doc_id"]
        rankings = ranking_fields(
            self.offsets,
            (self.query, query),
            design,
            (columns["doc_id"], docs),
            columns["position"],
            columns.get("propensity"),
        )
        clicked = np.flatnonzero(columns["click"])
        session_clicks = np.diff(np.searchsorted(clicked, self.offsets))
        clicks = clicked - np.repeat(self.offsets[:-1], session_clicks)
        log = ClickLog(
            **rankings,
            session_clicks=session_clicks.astype(np.int32),
            clicks=clicks.astype(np.int32),
            designs=designs,
            session_ids=self._session_ids(whole=whole),
            session_times=self._times(),
            contexts=kept,
            click_weights=self._weights(clicked),
        )
        check_docs(log)
        return log

    def _context(self, name: str) -> Context:
        """Return a column with one value per session."""
        keys, values = self.keys[name], self.columns[name]
        of_session = values[self.offsets[:-1]]
        first = np.repeat(of_session, np.diff(self.offsets))
        if not np.array_equal(values, first):
            row = int(np.argmax(values != first))
            both = sorted(map(keys.id, (first[row], values[row])))
            words = f"both {both[0]!r} and {both[1]!r}"
            raise InputError(f"{name} is {words} in {self._name(row)}")
        assert keys.ids is not None  # noqa: S101
        return Context(tuple(keys.ids.tolist()), keys.ranks(of_session).astype(np.int32))

    def _designs(self) -> tuple[tuple[str, ...], Ints]:
        if "randomised" not in self.keys:
            return ("",), np.zeros(len(self.query), np.int32)
        marks = self._context("randomised")
        if "" in marks.values:  # sorted, so it is the first
            return marks.values, marks.codes
        return ("", *marks.values), marks.codes + np.int32(1)

    def _session_ids(self, *, whole: bool) -> IdArray | None:
        keys = self.keys["session_id"]
        # the ids of a piece are those of the whole log, though they be 0, 1, 2, ...
        if (
            whole
            and keys.ids is None
            and np.array_equal(self.session, np.arange(len(self.session)))
        ):
            return None
        return keys.named(keys.ranks(self.session))

    def _times(self) -> Longs | None:
        if "timestamp" not in self.columns:
            return None
        return np.asarray(np.minimum.reduceat(self.columns["timestamp"], self.offsets[:-1]))

    def _weights(self, clicked: Longs) -> Floats | None:
        weights = self.columns.get("weight", np.ones(len(self.columns["click"])))[clicked]
        # weights of 1 are no weights: unweighted paths are faster
        return None if np.all(weights == 1) else weights


def _fetched(
    source: LogSource, contexts: Sequence[str]
) -> tuple[dict[str, IdKeys], dict[str, npt.NDArray]]:
    """Return every column of the events as an array of numbers, and what those that are keys mean."""
    names = [*_IDS, *contexts, *(name for name in ("randomised",) if name in source.types)]
    keyed = {name: _keys_of(source, name) for name in names}
    sql = {name: text for name, (text, _) in keyed.items()}
    sql |= {"position": "position::INTEGER", "click": "click::BOOLEAN"}
    if "propensity" in source.types:
        sql["propensity"] = "propensity::DOUBLE"
    if "weight" in source.types:
        sql["weight"] = "CASE WHEN click::BOOLEAN THEN weight::DOUBLE ELSE 0 END"
    if "timestamp" in source.types:
        whole = source.is_integer("timestamp")
        sql["timestamp"] = "timestamp::BIGINT" if whole else "epoch_us(timestamp)"
    listed = ", ".join(f"{text} AS c{i}" for i, text in enumerate(sql.values()))
    columns = dict(zip(sql, source.arrays(listed).values(), strict=True))
    check_fetched(columns)
    plain = {name: np.asarray(values) for name, values in columns.items()}
    return {name: keys for name, (_, keys) in keyed.items()}, {
        n: a.view(np.int64) if a.dtype == np.uint64 else a for n, a in plain.items()
    }


def _pair_order(first: Longs, second: Longs) -> Longs | None:
    """Return the order of pairs by first, then second; None if they are in order already."""
    rises = (first[1:] > first[:-1]) | ((first[1:] == first[:-1]) & (second[1:] > second[:-1]))
    if rises.all():  # as most logs are written
        return None
    return np.lexsort((second, first))


def slot_columns(log: ClickLog) -> dict[str, npt.NDArray]:
    """Return what a log says of each slot of its rankings, as columns; texts are objects."""
    lengths = np.diff(log.ranking_offsets)
    columns: dict[str, npt.NDArray] = {
        "query_id": np.repeat(objects(log.query_ids)[log.ranking_query], lengths),
        "doc_id": objects(log.doc_ids)[log.ranking_docs],
        "position": log.ranking_positions,
    }
    if log.ranking_propensities is not None:
        columns["propensity"] = log.ranking_propensities
    if log.ranking_design.any():
        designs = np.array(log.designs, object)
        columns["randomised"] = np.repeat(designs[log.ranking_design], lengths)
    return columns


def session_columns(log: ClickLog, sessions: slice) -> dict[str, npt.NDArray]:
    """Return what a log says of each of some sessions, as columns; texts are objects."""
    columns = {}
    if log.session_ids is not None:
        columns["session_id"] = objects(log.session_ids[sessions])
    if log.session_times is not None:
        columns["timestamp"] = log.session_times[sessions].view("datetime64[us]")
    for name, context in log.contexts.items():
        columns[name] = np.array(context.values, object)[context.codes[sessions]]
    return columns


def _event_columns(
    log: ClickLog, of_slots: dict[str, npt.NDArray], start: int, stop: int
) -> dict[str, npt.NDArray]:
    """Return the events of the sessions start to stop - 1."""
    slots, offsets = ragged_rows(log.ranking_offsets, log.session_ranking[start:stop])
    clicks = _clicks_of(log, start, stop)
    clicked_rows = np.repeat(offsets[:-1], log.session_clicks[start:stop]) + log.clicks[clicks]
    clicked = np.zeros(len(slots), bool)
    clicked[clicked_rows] = True
    columns = {name: values[slots] for name, values in of_slots.items()} | {"click": clicked}
    if log.click_weights is not None:
        columns["weight"] = np.zeros(len(slots))
        columns["weight"][clicked_rows] = log.click_weights[clicks]
    of_sessions = {"session_id": np.arange(start, stop), **session_columns(log, slice(start, stop))}
    lengths = np.diff(offsets)
    columns |= {name: np.repeat(values, lengths) for name, values in of_sessions.items()}
    order = (*REQUIRED, *OPTIONAL, *columns)
    return {name: columns[name] for name in order if name in columns}


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
    of_slots = slot_columns(log)
    start = 0
    while start < log.sessions:
        before = ends[start - 1] if start else 0
        # one session at least, however long
        stop = max(int(np.searchsorted(ends, before + rows, side="right")), start + 1)
        yield _event_columns(log, of_slots, start, stop)
        start = stop
