"""Tables in files, as DuckDB reads them: Parquet, CSV and JSON lines, folders and globs.

Names and values that a user gives get into a query as `quoted_name` and `quoted_text` write them,
and in no other way.
"""

import glob
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsrank.errors import InputError
from prsrank.files import FileName, existing_file
from prsrank.threads import thread_count

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

ENDINGS = {
    "Parquet": (".parquet", ".pq"),
    "CSV": (".csv", ".csv.gz", ".csv.zst", ".tsv", ".tsv.gz", ".tsv.zst"),
    "JSON lines": (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson", ".ndjson.gz", ".json"),
}
DUCKDB_SHARE = 0.8
"""DuckDB's part of the memory that is named: fetched columns, kernels and models need some too."""

_FITS = {
    "BIGINT": "coalesce(TRY_CAST({0} AS BIGINT)::VARCHAR = {0}, false)",  # as integers are written
    "DOUBLE": "TRY_CAST({0} AS DOUBLE) IS NOT NULL",
    "BOOLEAN": "lower({0}) IN ('true', 'false')",
}
"""SQL that is true of the texts that a type can hold; other columns hold what DuckDB guesses."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MEMORY = re.compile(r"\d+(\.\d+)?\s*[KMGT]i?B", re.IGNORECASE)


@dataclass(frozen=True)
class TableFiles:
    """Files that make one table, all of one kind.

    Attributes:
        kind: a key of `ENDINGS`.
        files: at least one.
        name: the path as the user gave it, for messages.
    """

    kind: str
    files: tuple[Path, ...]
    name: str


def quoted_name(name: str) -> str:
    """Return the name of a column as an identifier of SQL: so a user's text gets into a query.

    >>> quoted_name('a "b')
    '"a ""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def quoted_text(value: str) -> str:
    """Return a string as a literal of SQL.

    >>> quoted_text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def numbers_sql(last: int, name: str) -> str:
    """Return the SQL of a table of the numbers 1 to `last`, given its name and column.

    >>> numbers_sql(3, "r(k)")
    '(VALUES (1), (2), (3)) r(k)'
    """
    return f"(VALUES {', '.join(f'({i})' for i in range(1, last + 1))}) {name}"


@contextmanager
def connected(
    *, memory: str | None = None, threads: int | None = None
) -> Iterator["DuckDBPyConnection"]:
    """Open a database in memory that spills to a folder which is removed at the end.

    Args:
        memory: how much this process may hold, such as "4GB"; None: 80 % of all, for DuckDB alone.
        threads: default: the cores this process may use.
    """
    import duckdb

    if memory is not None and not _MEMORY.fullmatch(memory.strip()):
        raise InputError(f"memory must be an amount such as 4GB or 800MB, not {memory!r}")
    count = thread_count(threads)
    with tempfile.TemporaryDirectory(prefix="prsrank-") as folder, duckdb.connect() as connection:
        connection.execute(f"SET temp_directory = {quoted_text(folder)}")
        connection.execute(f"SET threads = {count}")
        # the system caches files better: DuckDB's cache counts as this process's memory
        connection.execute("SET enable_external_file_cache = false")
        # rows that wait to be written to a folder each: more of them take memory, and no less time
        connection.execute("SET partitioned_write_flush_threshold = 100000")
        if memory is not None:
            _limit(connection, memory.strip())
            _limit(connection, f"{int(DUCKDB_SHARE * memory_limit(connection))}B")
        yield connection


def _limit(connection: "DuckDBPyConnection", memory: str) -> None:
    connection.execute(f"SET memory_limit = {quoted_text(memory)}")


def memory_limit(connection: "DuckDBPyConnection") -> int:
    """Return how many bytes DuckDB may hold: what was asked for, or most of the machine's."""
    text = _memory_text(connection)
    number, unit = re.fullmatch(r"([\d.]+)\s*([KMGT]?)(?:i?B|bytes)?", text.strip()).groups()  # type: ignore[union-attr]
    return int(float(number) * _UNITS[unit])


def give_back(connection: "DuckDBPyConnection") -> None:
    """Let DuckDB return what it freed to the system: it keeps up to its limit for later queries."""
    _limit(connection, _memory_text(connection))  # any setting of the limit does


def _memory_text(connection: "DuckDBPyConnection") -> str:
    return str(connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])


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


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Put the name of a log before an InputError that does not begin with it."""
    try:
        yield
    except InputError as error:
        message = str(error)
        if message.startswith(name):
            raise
        raise type(error)(f"{name}: {message}") from error


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


def find_files(path: FileName | Sequence[FileName]) -> TableFiles:
    """Return the files of a table: a file, a folder of files, a glob, or several of those.

    A folder is searched to any depth; names that begin with "." or "_" are passed over.

    Raises:
        InputError: naming the file or folder that is missing, empty, cut short, of no known
            kind, or of another kind than the first.
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not paths:
        raise InputError("no file to read")
    files = [file for place in paths for file in _files_of(place)]
    name = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    kinds = [_checked_kind(file) for file in files]
    for file, kind in zip(files, kinds, strict=True):
        if kind != kinds[0]:
            raise InputError(
                f"{name}: holds both {kinds[0]} ({files[0].name}) and {kind} ({file.name}): "
                "a log is of one kind"
            )
    return TableFiles(kinds[0], tuple(files), name)


def open_table(
    connection: "DuckDBPyConnection",
    path: FileName | Sequence[FileName] | TableFiles,
    *,
    ids: Sequence[str] = (),
) -> "DuckDBPyRelation":
    """Return the table in a file, folder or glob (see `find_files`) as a relation.

    Args:
        connection: where it is opened.
        path: the files.
        ids: columns that hold ids: text, unless they are integers throughout.
    """
    table = path if isinstance(path, TableFiles) else find_files(path)
    escaped = [glob.escape(str(file)) for file in table.files]
    several = len(escaped) > 1
    with errors_in_one_line(table.name):
        if table.kind == "Parquet":
            return connection.read_parquet(escaped, union_by_name=several)

        def read(types: Mapping[str, str] | None = None) -> "DuckDBPyRelation":
            names: Any = escaped
            if table.kind == "CSV":
                return connection.read_csv(names, union_by_name=several, header=True, dtype=types)
            return connection.read_json(names, union_by_name=several, columns=types)

        return _typed_throughout(read, ids, table)


def _typed_throughout(
    read: Callable[..., "DuckDBPyRelation"], ids: Sequence[str], table: TableFiles
) -> "DuckDBPyRelation":
    guessed = read()
    kinds = dict(zip(guessed.columns, map(str, guessed.types), strict=True))
    # search engines export a document as what it is, and under _source what it holds
    if kinds.get("_source", "").startswith("STRUCT"):
        return guessed.project("unnest(_source)")
    # folders named day=7 are a column of their own, of which the files know nothing
    folders = {part.partition("=")[0] for part in table.files[0].parts if "=" in part}
    kinds = {name: kind for name, kind in kinds.items() if name not in folders}
    if table.kind == "CSV":  # a text among the first rows makes all of a column text
        ids = [name for name in ids if kinds.get(name) != "VARCHAR"]
    types = types_throughout(read, kinds, ids)
    return guessed if types == kinds else read(types)


def types_throughout(
    read: Callable[[Mapping[str, str]], "DuckDBPyRelation"],
    guessed: Mapping[str, str],
    ids: Sequence[str],
) -> dict[str, str]:
    """Return types of columns that all rows of a text file can be read with.

    DuckDB guesses types from the first 20,480 rows and fails on the first row that is otherwise, or
    rounds it. A column that is not throughout as it guesses is text; `prsrank.logs.canonical` makes
    numbers of it where numbers are meant.

    Args:
        read: reads the file with columns of these types.
        guessed: the types of all columns, by name.
        ids: columns that hold integers, or else text as it is written: 007 is not 7.
    """
    wanted = {name: "BIGINT" if name in ids else kind for name, kind in guessed.items()}
    wanted = {name: kind for name, kind in wanted.items() if kind in _FITS}
    if not wanted:
        return dict(guessed)
    sql = ", ".join(
        f"coalesce(bool_and({_FITS[kind].format(quoted_name(name))}) "
        f"FILTER ({quoted_name(name)} IS NOT NULL), {name not in ids})"
        for name, kind in wanted.items()
    )
    fits = read({**guessed, **dict.fromkeys(wanted, "VARCHAR")}).aggregate(sql).fetchall()[0]
    kinds = zip(wanted.items(), fits, strict=True)
    return {**guessed, **{name: kind if fit else "VARCHAR" for (name, kind), fit in kinds}}


def _files_of(name: FileName) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        return _files_in(path)
    if not path.exists() and glob.has_magic(str(name)):
        matches = sorted(Path(match) for match in glob.glob(str(name), recursive=True))
        if not matches:
            raise InputError(f"{name}: no file matches")
        return [file for match in matches for file in _files_of(match)]
    return [existing_file(path)]


def _files_in(folder: Path) -> list[Path]:
    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error

    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        files += [Path(parent, name) for name in sorted(names) if name[0] not in "._"]
    files = [file for file in files if _kind(file) is not None]
    if not files:
        raise InputError(f"{folder}: the folder holds no Parquet, CSV or JSONL files")
    return files


def _kind(file: Path) -> str | None:
    name = file.name.lower()
    return next((kind for kind, endings in ENDINGS.items() if name.endswith(endings)), None)


def _checked_kind(file: Path) -> str:
    existing_file(file)
    size = file.stat().st_size
    if size == 0:
        raise InputError(f"{file}: the file is empty")
    with file.open("rb") as stream:
        head = stream.read(4)
        stream.seek(max(size - 4, 0))
        tail = stream.read(4)
    kind = "Parquet" if head == b"PAR1" else _kind(file)
    if kind is None:
        raise InputError(
            f"{file}: not a log: neither Parquet nor named .parquet, .csv, .tsv or .jsonl"
        )
    if kind == "Parquet" and (head, tail) != (b"PAR1", b"PAR1"):
        begun = head == b"PAR1"
        problem = "is cut short (its end" if begun else "is no Parquet file (its start"
        raise InputError(f"{file}: {problem} is missing)")
    return kind
