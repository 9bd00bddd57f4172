"""Frames of events as DuckDB sees them: columns, types, and the rows that are wrong."""

import difflib
import importlib.util
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

REQUIRED = ("query_id", "session_id", "doc_id", "position", "click")
OPTIONAL = ("propensity", "randomised", "timestamp", "weight")
MAX_POSITION = 1_000_000

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
_INTEGERS |= {f"U{name}" for name in _INTEGERS} | {"HUGEINT", "UHUGEINT"}
_FLOATS = {"FLOAT", "DOUBLE"}


@dataclass(frozen=True)
class EventSource:
    """Events that SQL can be run over, and the types of their columns.

    Attributes:
        relation: the events.
        types: DuckDB's type of each column, by name.
        name: what messages call the events, such as the path of their file.
    """

    relation: "DuckDBPyRelation"
    types: Mapping[str, str]
    name: str = "the events"

    def rows(self, columns: str, *, where: str = "true", limit: int = 1) -> list[tuple[Any, ...]]:
        """Return the first rows for which a condition holds, as tuples."""
        with errors_in_one_line(self.name):
            return self.relation.filter(where).limit(limit).project(columns).fetchall()

    def total(self, aggregates: str) -> tuple[Any, ...]:
        """Return aggregates over all rows."""
        with errors_in_one_line(self.name):
            return self.relation.aggregate(aggregates).fetchall()[0]

    def arrays(self, columns: str) -> dict[str, npt.NDArray]:
        """Return columns as arrays, in the order of the events."""
        with errors_in_one_line(self.name):
            return self.relation.project(columns).fetchnumpy()

    def distinct(self, column: str, *, also: str, ordered: bool) -> dict[str, npt.NDArray]:
        """Return the distinct values of a column as `value`, and SQL of `value` beside them."""
        with errors_in_one_line(self.name):
            values = self.relation.project(f"{column} AS value").distinct()
            if ordered:
                values = values.order("value")
            return values.project(f"value, {also}").fetchnumpy()

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


@contextmanager
def errors_in_one_line(name: str) -> Iterator[None]:
    """Turn an error of DuckDB about `name` into an InputError of one line."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise InputError(f"{name}: needs more memory than allowed: {one_line(error)}") from error
    except duckdb.Error as error:
        raise InputError(f"{name}: cannot be read: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """Return the first line of an error's message, without DuckDB's name for the error.

    An error in a CSV file keeps the line that says what is wrong, too.
    """
    lines = str(error).strip().splitlines()
    line = lines[0].split("Error: ", 1)[-1]
    if line.startswith("CSV Error") and len(lines) > 2:
        file = next((text.split("=", 1)[1].strip() for text in lines if "file =" in text), "")
        line = f"{file}{', ' if file else ''}{line[10:]}: {lines[2]}"
    return line


@contextmanager
def open_frame(frame: object) -> Iterator[EventSource]:
    """Open a pandas, Polars, Arrow or DuckDB frame, or a mapping of NumPy arrays."""
    import duckdb

    if isinstance(frame, duckdb.DuckDBPyRelation):
        yield source_of(frame)
        return
    _check_mixed_types(frame)
    with tempfile.TemporaryDirectory(prefix="prsrank-") as folder, duckdb.connect() as connection:
        try:
            relation = _relation(connection, frame, Path(folder))
        except duckdb.Error as error:
            raise InputError(
                "the log must be a pandas, Polars, Arrow or DuckDB frame, "
                f"or a mapping of arrays, not {type(frame).__name__}"
            ) from error
        yield source_of(relation)


def source_of(relation: "DuckDBPyRelation") -> EventSource:
    """Return a DuckDB relation as a source of events."""
    return EventSource(relation, dict(zip(relation.columns, map(str, relation.types), strict=True)))


def check_columns(source: EventSource, contexts: Sequence[str]) -> None:
    """Raise an InputError for a missing column, one of the wrong type, or no rows at all."""
    for name in (*REQUIRED, *contexts):
        if name not in source.types:
            raise InputError(f"the log has no column {name!r}{nearest_column(name, source.types)}")
    for name in contexts:
        if name in REQUIRED + OPTIONAL:
            raise InputError(f"column {name!r} has a meaning of its own and is no context")
    if source.total("count(*)") == (0,):
        raise InputError("the log is empty: it has no rows")
    for name in ("query_id", "session_id", "doc_id"):
        if not (source.is_integer(name) or source.is_text(name)):
            _raise_type(source, name, "integers or strings")
    if not source.is_number("position"):
        _raise_type(source, "position", "whole numbers")
    if not (source.is_number("click") or source.types["click"] == "BOOLEAN"):
        _raise_type(source, "click", "0 and 1, or booleans")
    for name in ("propensity", "weight"):
        if name in source.types and not source.is_number(name):
            _raise_type(source, name, "numbers")
    kind = source.types.get("randomised", "BOOLEAN")
    if kind != "BOOLEAN" and not source.is_text("randomised"):
        _raise_type(source, "randomised", "booleans or names of designs")
    kind = source.types.get("timestamp", "DATE")
    if not (kind in _INTEGERS or kind == "DATE" or kind.startswith("TIMESTAMP")):
        _raise_type(source, "timestamp", "times, or whole microseconds since 1970")


def check_rows(source: EventSource) -> None:
    """Raise an InputError that names the first row that cannot be used, if there is one."""
    checks = list(_row_checks(source))
    counts = ", ".join(f"count_if({condition})" for condition, _ in checks)
    total, *found = source.total(f"count(*), {counts}")
    for (condition, problem), count in zip(checks, found, strict=True):
        if count:
            row = source.rows(", ".join(REQUIRED), where=condition)[0]
            named = dict(zip(REQUIRED, row, strict=True))
            raise InputError(
                f"{problem.format(**named)} in {count} of {total} rows, first for doc "
                f"{named['doc_id']} of session {named['session_id']} of query {named['query_id']}"
            )


def _row_checks(source: EventSource) -> Iterator[tuple[str, str]]:
    for name in (*REQUIRED, "propensity", "timestamp"):
        if name not in source.types:
            continue
        null = f"{name} IS NULL"
        if source.types[name] in _FLOATS:
            null += f" OR isnan({name})"
        yield null, f"{name} is missing (null)"
    if not source.is_integer("position"):
        yield "position != trunc(position)", "position {position} is not a whole number"
    yield (
        "position < 1",
        "position {position}, but positions start at 1 (add 1 if the log counts from 0),",
    )
    yield f"position > {MAX_POSITION}", f"position {{position}} is above {MAX_POSITION:,}"
    if source.types["click"] != "BOOLEAN":
        yield "click NOT IN (0, 1)", "click {click}, but a click is 0 or 1,"
    if "weight" in source.types:
        usable = "weight > 0 AND isfinite(weight::DOUBLE)"
        yield (
            f"click::BOOLEAN AND NOT coalesce({usable}, false)",
            "the weight of a click is not a number above 0",
        )


def _relation(connection: "DuckDBPyConnection", frame: Any, folder: Path) -> "DuckDBPyRelation":
    library = type(frame).__module__.split(".")[0]
    if library == "polars":
        frame = frame.lazy().collect()
        if importlib.util.find_spec("pyarrow") is None:
            frame.write_parquet(folder / "frame.parquet")
            return connection.read_parquet(str(folder / "frame.parquet"))
    if isinstance(frame, Mapping):
        frame = {name: _column(values) for name, values in frame.items()}
        if len({len(values) for values in frame.values()}) > 1:
            lengths = ", ".join(f"{name} {len(values)}" for name, values in frame.items())
            raise InputError(f"the columns differ in length: {lengths}")
        if not frame:
            raise InputError(f"the log has no column {REQUIRED[0]!r}")
    connection.register("frame", frame)
    return connection.table("frame")


def _column(values: npt.ArrayLike) -> npt.NDArray:
    array = np.asarray(values)
    return array.astype(object) if array.dtype.kind in "UT" else array


def _check_mixed_types(frame: Any) -> None:
    if type(frame).__module__.split(".")[0] == "pandas":
        columns: Any = {name: frame[name] for name in frame.columns}
    elif isinstance(frame, Mapping):
        columns = frame
    else:
        return
    for name, values in columns.items():
        if name in REQUIRED + OPTIONAL and np.asarray(values).dtype.kind == "O":
            kinds = sorted({_kind(value) for value in np.asarray(values)} - {"NoneType"})
            if len(kinds) > 1:
                raise InputError(f"column {name!r} mixes types: {' and '.join(kinds)}")


def _kind(value: object) -> str:
    if isinstance(value, float) and value != value:
        return "NoneType"
    return "int" if isinstance(value, np.integer) else type(value).__name__


def nearest_column(name: str, known: Mapping[str, str]) -> str:
    """Return words that name the column nearest to `name`, or else all columns."""
    lower = {column.lower(): column for column in known}
    close = difflib.get_close_matches(name, lower, n=1, cutoff=0.4)
    return f"; did you mean {lower[close[0]]!r}?" if close else f"; it has {', '.join(known)}"


def _raise_type(source: EventSource, name: str, wanted: str) -> None:
    raise InputError(f"column {name!r} must hold {wanted}, not {source.types[name]}")
