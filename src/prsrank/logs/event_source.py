"""Events that SQL can be run over, wherever they lie."""

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
from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.tables import errors_in_one_line, open_table, quoted_name

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

    def replaced(self, values: Mapping[str, str]) -> Self:
        """Return the events with other SQL for some columns, by name."""
        listed = (f"{values.get(n, quoted_name(n))} AS {quoted_name(n)}" for n in self.types)
        return self.select(", ".join(listed))

    @contextmanager
    def setting(self, name: str, value: str) -> Iterator[None]:
        """Change a setting of DuckDB for a while; of no effect in other engines."""
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
            answer = self.relation.query(EVENTS, sql)
            return [] if answer is None else answer.fetchall()

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
        table: Any = open_table(self.connection, path, ids=ids)
        return source_of(table, str(path), self.connection)  # type: ignore[return-value]

    def _of(self, relation: "DuckDBPyRelation") -> Self:
        return replace(self, relation=relation, types=source_of(relation).types)

    @contextmanager
    def setting(self, name: str, value: str) -> Iterator[None]:
        """Change a setting of the database for a while, unless it is somebody else's."""
        if getattr(self, "connection", None) is None:
            yield
            return
        self.connection.execute(f"SET {name} = {value}")
        try:
            yield
        finally:
            self.connection.execute(f"RESET {name}")

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
        yield source_of(relation, "the log", connection)


def source_of(
    relation: "DuckDBPyRelation", name: str = "the events", connection: Any = None
) -> LogSource:
    """Return a DuckDB relation as a source of events."""
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    return LogSource(relation, kinds, name, connection=connection)


def _relation(connection: "DuckDBPyConnection", frame: Any, file: Path) -> "DuckDBPyRelation":
    import duckdb

    if isinstance(frame, duckdb.DuckDBPyRelation):
        frame.write_parquet(str(file))
        return connection.read_parquet(str(file))
    if type(frame).__module__.split(".")[0] == "polars":
        frame = frame.lazy().collect()
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
