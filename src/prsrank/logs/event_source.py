"""Events that SQL can be run over, wherever they lie, and what their columns and rows must be."""

import difflib
import importlib.util
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from prsrank.data.ids import objects, plain_array
from prsrank.errors import InputError, shortened
from prsrank.files import FileName
from prsrank.logs.row_rules import row_rules, type_rules
from prsrank.logs.sql_text import quoted_name
from prsrank.logs.tables import errors_in_one_line as errors_in_one_line
from prsrank.logs.tables import open_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

REQUIRED = ("query_id", "session_id", "doc_id", "position", "click")
OPTIONAL = ("propensity", "randomised", "timestamp", "weight")
EVENTS = "prsrank_events"
"""What a query calls the events that it runs over."""

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
_INTEGERS |= {f"U{name}" for name in _INTEGERS} | {"HUGEINT", "UHUGEINT"}
_FLOATS = {"FLOAT", "DOUBLE"}


class EventSource(ABC):
    """The events of a log, unchecked, that DuckDB's SQL can be run over, wherever they lie.

    Those of a log have query_id, session_id, doc_id, position and click; where the log has
    them also propensity, randomised, timestamp, client_id, weight (of the heaviest action that
    counts; 0 where none) and impression (whether the log says that the doc was shown; only in
    logs of single actions and UBI); then contexts and features under their own names.

    Attributes:
        types: DuckDB's type of each column, by name.
        name: what messages call the events, such as the path of their file.
        contexts: the columns with one value per session.
        features: the columns that are features.
        findings: what was noticed while opening, each with a count: "clicks_not_in_list" and
            so on (UBI only; see `prsrank.logs.ubi`).
    """

    types: Mapping[str, str]
    name: str
    contexts: tuple[str, ...]
    features: tuple[str, ...]
    findings: Mapping[str, int]

    @abstractmethod
    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query over the events (EVENTS) and tables that were kept."""

    @abstractmethod
    def select(self, columns: str) -> Self:
        """Return the events with these columns, which SQL lists, only."""

    @abstractmethod
    def where(self, condition: str) -> Self:
        """Return the events for which SQL is true."""

    @abstractmethod
    def grouped(self, keys: str, columns: str) -> Self:
        """Return one row, with these columns, of each group of events with the same keys."""

    @abstractmethod
    def keep(self, name: str, sql: str) -> Self:
        """Keep the rows of a query as a table that further queries can name; see `drop`."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Drop a table that was kept."""

    @abstractmethod
    def open_table(self, path: FileName | Sequence[FileName], *, ids: Sequence[str] = ()) -> Self:
        """Open files beside the log: a table that queries can be run over together with it.

        Args:
            path: the files.
            ids: columns that hold ids; see `prsrank.logs.tables.open_table`.
        """

    def rows(self, columns: str, *, where: str = "true", limit: int = 1) -> list[tuple[Any, ...]]:
        """Return the first rows for which a condition holds, as tuples."""
        return self.query(f"SELECT {columns} FROM {EVENTS} WHERE {where} LIMIT {limit}")  # noqa: S608

    def total(self, aggregates: str) -> tuple[Any, ...]:
        """Return aggregates over all rows."""
        return self.query(f"SELECT {aggregates} FROM {EVENTS}")[0]  # noqa: S608

    @contextmanager
    def no_statistics(self) -> Iterator[None]:
        """Answer queries from the rows alone, not from what a file says of them."""
        yield

    @contextmanager
    def in_any_order(self) -> Iterator[None]:
        """Let rows of queries come, and be kept, in any order, which takes less time."""
        yield

    def is_integer(self, column: str) -> bool:
        """Tell whether a column holds integers."""
        return self.types[column] in _INTEGERS

    def is_number(self, column: str) -> bool:
        """Tell whether a column holds numbers of any kind."""
        kind = self.types[column]
        return kind in _INTEGERS | _FLOATS or kind.startswith("DECIMAL")

    def is_text(self, column: str) -> bool:
        """Tell whether a column holds strings."""
        return self.types[column] in ("VARCHAR", "UUID") or self.types[column].startswith("ENUM")


@dataclass(frozen=True)
class LogSource(EventSource):
    """Events in DuckDB, which leaves them in their files and keeps within its memory limit.

    Attributes:
        relation: the events.
        connection: the database that the relation belongs to, if it is our own.
    """

    relation: "DuckDBPyRelation"
    types: Mapping[str, str]
    name: str = "the events"
    contexts: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    connection: "DuckDBPyConnection" = None  # type: ignore[assignment]
    findings: Mapping[str, int] = field(default_factory=dict)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with errors_in_one_line(self.name):
            found = self.relation.query(EVENTS, sql)
            return [] if found is None else found.fetchall()

    def select(self, columns: str) -> Self:
        """Return the events with these columns only."""
        return self._of(self.relation.project(columns))

    def where(self, condition: str) -> Self:
        """Return the events for which SQL is true."""
        return self._of(self.relation.filter(condition))

    def grouped(self, keys: str, columns: str) -> Self:
        """Return one row of each group of events."""
        return self._of(self.relation.aggregate(columns, keys))

    def keep(self, name: str, sql: str) -> Self:
        """Keep the rows of a query in a temporary table, on disk where memory is short."""
        self.query(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}")
        if self.connection:  # not through the events: their thousands of columns would be bound
            return self._of(self.connection.table(name))
        kept: Any = self.relation.query(EVENTS, f"SELECT * FROM {name}")  # noqa: S608
        return self._of(kept)

    def drop(self, name: str) -> None:
        """Drop a table that was kept."""
        self.query(f"DROP TABLE IF EXISTS {name}")

    def open_table(self, path: FileName | Sequence[FileName], *, ids: Sequence[str] = ()) -> Self:
        """Open files beside the log."""
        table = replace(self, name=str(path), contexts=(), features=(), findings={})
        return table._of(open_table(self.connection, path, ids=ids))

    def _of(self, relation: "DuckDBPyRelation") -> Self:
        return replace(self, relation=relation, types=source_of(relation).types)

    @contextmanager
    def no_statistics(self) -> Iterator[None]:
        """Keep DuckDB from answering by the statistics of a Parquet file."""
        with self._set("disabled_optimizers", "'statistics_propagation'", "''"):
            yield

    @contextmanager
    def in_any_order(self) -> Iterator[None]:
        """Let all threads write tables that are kept at once."""
        with self._set("preserve_insertion_order", "false", "true"):
            yield

    @contextmanager
    def _set(self, name: str, value: str, usual: str) -> Iterator[None]:
        """Change a setting of the database for a while, unless it is somebody else's."""
        if getattr(self, "connection", None) is None:
            yield
            return
        self.connection.execute(f"SET {name} = {value}")
        try:
            yield
        finally:
            self.connection.execute(f"SET {name} = {usual}")

    def arrays(self, columns: str) -> dict[str, npt.NDArray]:
        """Return columns as arrays, in the order of the events."""
        with errors_in_one_line(self.name):
            return self.relation.project(columns).fetchnumpy()

    def distinct(
        self, column: str, *, also: str, most: int | None = None
    ) -> dict[str, npt.NDArray]:
        """Return the distinct values of a column as `value`, sorted, and SQL of `value` beside.

        Args:
            column: its SQL.
            also: SQL of the second column.
            most: so many of them at most.
        """
        with errors_in_one_line(self.name):
            values = self.relation.project(f"{column} AS value").distinct().order("value")
            values = values if most is None else values.limit(most)
            return values.project(f"value, {also}").fetchnumpy()


@contextmanager
def open_frame(
    frame: object, connection: "DuckDBPyConnection | None" = None
) -> Iterator[LogSource]:
    """Open a pandas, Polars, Arrow or DuckDB frame, or a mapping of NumPy arrays.

    Args:
        frame: it may belong to another database.
        connection: the database to open it in; default: its own, or a new one.
    """
    import duckdb

    if isinstance(frame, duckdb.DuckDBPyRelation) and connection is None:
        yield source_of(frame)
        return
    _check_mixed_types(frame)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="prsrank-"))
        if connection is None:
            connection = stack.enter_context(duckdb.connect())
        try:
            relation = _relation(connection, frame, Path(folder) / "frame.parquet")
        except duckdb.Error as error:
            raise InputError(
                "the log must be a pandas, Polars, Arrow or DuckDB frame, "
                f"or a mapping of arrays, not {type(frame).__name__}"
            ) from error
        yield replace(source_of(relation), name="the log", connection=connection)


def source_of(relation: "DuckDBPyRelation") -> LogSource:
    """Return a DuckDB relation as a source of events."""
    return LogSource(relation, dict(zip(relation.columns, map(str, relation.types), strict=True)))


def check_columns(source: EventSource, contexts: Sequence[str]) -> None:
    """Raise an InputError for a missing column, one of the wrong type, or no rows at all."""
    for name in (*REQUIRED, *contexts):
        if name not in source.types:
            raise InputError(f"the log has no column {name!r}{nearest_column(name, source.types)}")
    for name in contexts:
        if name in REQUIRED + OPTIONAL:
            raise InputError(f"column {name!r} has a meaning of its own and is no context")
    if not source.rows("1"):
        raise InputError("the log is empty: it has no rows")
    for rule in type_rules(source):
        kind = source.types[rule.column]
        held = instead_of_numbers(source, rule.column) if "number" in rule.wanted else f"not {kind}"
        raise InputError(f"column {rule.column!r} must hold {rule.wanted}, {held}")


def check_rows(source: EventSource) -> int:
    """Raise an InputError that names a row that cannot be used, if there is one.

    Returns:
        The number of rows.
    """
    rules = [rule for rule in row_rules(source) if rule.refusal]
    counts = ", ".join(f"count_if({rule.broken})" for rule in rules)
    with source.no_statistics():
        total, *found = source.total(f"count(*), {counts}")
    shown = [name for name in (*REQUIRED, "propensity") if name in source.types]
    for rule, count in zip(rules, found, strict=True):
        if count:
            rows = source.rows(", ".join(f'"{name}"' for name in shown), where=rule.broken)
            if not rows:  # a filter by statistics has hidden them
                raise InputError(
                    f"{rule.what} in {count} of {total} rows, which the file's own statistics "
                    "deny: it is damaged"
                )
            named = {name: shortened(one) for name, one in zip(shown, rows[0], strict=True)}
            raise InputError(
                f"{rule.refusal.format(**named)} in {count} of {total} rows, first for doc "
                f"{named['doc_id']} of session {named['session_id']} of query {named['query_id']}"
            )
    return int(total)


def instead_of_numbers(source: EventSource, name: str) -> str:
    """Return words that say what a column holds instead of numbers: its type, or a text."""
    column = quoted_name(name)
    if source.is_text(name):
        # a decimal comma is the likelier trouble, but a word the clearer
        for text in (f"replace({column}, ',', '.')", column):
            no_number = f"{column} IS NOT NULL AND TRY_CAST({text} AS DOUBLE) IS NULL"
            found = source.rows(column, where=no_number)
            if found:
                return f"not text such as {found[0][0]!r}"
    return f"not {source.types[name]}"


def _relation(connection: "DuckDBPyConnection", frame: Any, file: Path) -> "DuckDBPyRelation":
    import duckdb

    if isinstance(frame, duckdb.DuckDBPyRelation):
        frame.write_parquet(str(file))
        return connection.read_parquet(str(file))
    if type(frame).__module__.split(".")[0] == "polars":
        frame = frame.lazy().collect()
        if importlib.util.find_spec("pyarrow") is None:
            frame.write_parquet(file)
            return connection.read_parquet(str(file))
    if isinstance(frame, Mapping):
        frame = {name: objects(values) for name, values in frame.items()}
        if len({len(values) for values in frame.values()}) > 1:
            lengths = ", ".join(f"{name} {len(values)}" for name, values in frame.items())
            raise InputError(f"the columns differ in length: {lengths}")
        if not frame:
            raise InputError(f"the log has no column {REQUIRED[0]!r}")
    connection.register("frame", frame)
    return connection.table("frame")


def _check_mixed_types(frame: Any) -> None:
    if type(frame).__module__.split(".")[0] == "pandas":
        columns: Any = {name: frame[name] for name in frame.columns}
    elif isinstance(frame, Mapping):
        columns = frame
    else:
        return
    for name, values in columns.items():
        if name in REQUIRED + OPTIONAL and plain_array(values).dtype.kind == "O":
            kinds = sorted({_kind(value) for value in plain_array(values)} - {"NoneType"})
            if len(kinds) > 1:
                raise InputError(f"column {name!r} mixes types: {' and '.join(kinds)}")


def _kind(value: object) -> str:
    if isinstance(value, float) and value != value:
        return "NoneType"
    return "int" if isinstance(value, np.integer) else type(value).__name__


_OTHER_NAMES = {
    "query_id": (
        "query",
        "qid",
        "q",
        "srch_id",
        "search_id",
        "query_text",
        "user_query",
        "keyword",
    ),
    "session_id": ("session", "sid", "visit_id", "request_id", "search_id", "srch_id"),
    "doc_id": ("doc", "docid", "document_id", "item_id", "item", "product_id", "prop_id", "url"),
    "position": ("rank", "pos", "ordinal", "slot"),
    "click": ("clicked", "clicks", "is_click", "is_clicked", "click_bool"),
}
"""What other programs call the columns that a log must have."""

_MOST_COLUMNS = 20


def nearest_column(name: str, known: Mapping[str, str]) -> str:
    """Return words that name a column that may well be meant by `name`, or else the columns.

    >>> nearest_column("session_id", {"doc_id": "", "sid": ""})
    "; did you mean 'sid'?"
    >>> nearest_column("session_id", {"doc_id": "", "x": ""})
    '; it has doc_id, x'
    """
    lower = {column.lower(): column for column in known}
    # the column itself in other letters, then what other programs call it
    close = [other for other in (name, *_OTHER_NAMES.get(name, ())) if other in lower]
    # what has a meaning of its own is not meant, nor is a name that shares only the ending
    free = {_stem(column): column for column in lower if column not in REQUIRED}
    close += [free[one] for one in difflib.get_close_matches(_stem(name), free, 1, cutoff=0.75)]
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    columns = list(known)[:_MOST_COLUMNS]
    more = len(known) - len(columns)
    return f"; it has {', '.join(columns)}{f' and {more} more' if more else ''}"


def _stem(name: str) -> str:
    return name.lower().removesuffix("id").rstrip("_")
