"""Row groups of Parquet files: which task reads which, and how. Knows Arrow, not Spark."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.errors import InputError
from prsrank.logs.event_source import EVENTS
from prsrank.logs.tables import one_line

if TYPE_CHECKING:
    import pyarrow

# Bytes of columns that a task reads at once, about, where a value takes eight.
_AT_ONCE = 32 << 20
_MOST_ROWS = 1 << 17
_CHANGED = "has changed since it was opened"
# So many bytes of files, as they are packed there, has a task at most, about. A doc is handed on once
# by each task that meets it, so tasks are few.
_TASK = 256 << 20


@dataclass(frozen=True)
class FileGroups:
    """Row groups of a file as it was when a log was opened.

    Attributes:
        path: of the file, the same for all tasks.
        size: bytes of the whole file.
        count: row groups of the whole file.
        groups: those meant.
        rows: how many they have together.
    """

    path: str
    size: int
    count: int
    groups: tuple[int, ...]
    rows: int

    def __add__(self, other: "FileGroups") -> "FileGroups":
        """Return both, of one file."""
        return replace(self, groups=self.groups + other.groups, rows=self.rows + other.rows)


def plan_tasks(
    paths: Sequence[str], columns: "pyarrow.Schema", least: int
) -> list[list[FileGroups]] | None:
    """Share the row groups of files out to tasks, neighbours to one.

    Args:
        paths: the files.
        columns: those to be read, and the types that they must have.
        least: how many tasks run at once; there are as many or a multiple.

    Returns:
        What each task reads; None if a file's columns are otherwise, or it cannot be opened here.
    """
    import pyarrow as pa

    found: list[tuple[int, FileGroups]] = []
    for path in sorted(paths):
        try:
            found += _groups_of(path, columns)
        except (OSError, KeyError, pa.ArrowException):
            return None
    sizes = np.cumsum([size for size, _ in found])
    if not len(sizes):
        return None
    count = least * -(-int(sizes[-1]) // (least * _TASK))  # as many for each core
    number = (sizes - 1) * count // sizes[-1]
    tasks: dict[int, dict[str, FileGroups]] = {}
    for task, (_, groups) in zip(number.tolist(), found, strict=True):
        files = tasks.setdefault(task, {})
        files[groups.path] = files[groups.path] + groups if groups.path in files else groups
    return [list(files.values()) for files in tasks.values()]


def _groups_of(path: str, columns: "pyarrow.Schema") -> Iterator[tuple[int, FileGroups]]:
    """Yield each row group with its bytes; KeyError if a column is missing or of another type."""
    import pyarrow.parquet as pq

    size = Path(path).stat().st_size
    metadata = pq.read_metadata(path)
    schema = metadata.schema.to_arrow_schema()
    for column in columns:
        if _plain(schema.field(column.name).type) != column.type:
            raise KeyError(column.name)
    leaves = range(metadata.num_columns)
    needed = [n for n in leaves if metadata.schema.column(n).path in columns.names]
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        packed = sum(group.column(number).total_compressed_size for number in needed)
        groups = FileGroups(path, size, metadata.num_row_groups, (index,), group.num_rows)
        yield max(packed, 1), groups


def _plain(kind: "pyarrow.DataType") -> "pyarrow.DataType":
    """Return the type that a column is cast to, which tells what is in the file."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_timestamp(kind) and kind.unit in ("ms", "us"):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    return kind


def read_tables(
    parts: Sequence[FileGroups], columns: "pyarrow.Schema", queries: Sequence[str]
) -> Iterator[list["pyarrow.Table"]]:
    """Yield what queries over EVENTS make of row groups, some thousand rows at a time.

    Raises:
        InputError: if a file has changed since, or cannot be read.
    """
    import duckdb
    import pyarrow as pa

    rows = int(np.clip(_AT_ONCE // (8 * max(len(columns), 1)), 1024, _MOST_ROWS))
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1; SET TimeZone = 'UTC'")
        for part in parts:
            with _errors_of_reading(part.path):
                for batch in _batches(part, columns, rows):
                    table = pa.Table.from_batches([batch]).select(columns.names).cast(columns)
                    events: Any = connection.from_arrow(table)
                    yield [events.query(EVENTS, query).to_arrow_table() for query in queries]


def _batches(part: FileGroups, columns: "pyarrow.Schema", rows: int) -> Iterator[Any]:
    import pyarrow.parquet as pq

    # not mapped into memory: a file that is cut short meanwhile would end the process
    with pq.ParquetFile(part.path) as file:
        same = Path(part.path).stat().st_size == part.size and file.num_row_groups == part.count
        groups = map(file.metadata.row_group, part.groups if same else ())
        if sum(group.num_rows for group in groups) != part.rows:
            raise InputError(f"{part.path}: {_CHANGED}")
        names = columns.names
        for batch in file.iter_batches(
            rows, row_groups=part.groups, columns=names, use_threads=False
        ):
            batch.validate(full=True)
            yield batch


@contextmanager
def _errors_of_reading(path: str) -> Iterator[None]:
    """Turn an error of Arrow's or DuckDB's into an InputError of one line that names the file."""
    import duckdb
    import pyarrow as pa

    try:
        yield
    except KeyError as error:  # a column is gone
        raise InputError(f"{path}: {_CHANGED}") from error
    except (OSError, pa.ArrowException, duckdb.Error) as error:
        raise InputError(f"{path}: cannot be read: {one_line(error)}") from error
