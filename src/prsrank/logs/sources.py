"""Opening a log, whatever its form, as events that SQL can be run over."""

import glob
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from prsrank.errors import InputError
from prsrank.files import FileName, atomic_output
from prsrank.logs.canonical import canonical_events, feature_columns, with_numbers
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_files import is_compact, read_compact, stored_contexts, write_events
from prsrank.logs.event_source import EVENTS, REQUIRED, open_frame, source_of
from prsrank.logs.event_source import LogSource as LogSource
from prsrank.logs.mapping import LogMapping
from prsrank.logs.tables import (
    TableFiles,
    connected,
    errors_in_one_line,
    find_files,
    named_errors,
    open_table,
    quoted_text,
)
from prsrank.logs.ubi import is_ubi, open_ubi

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@contextmanager
def open_events(
    log: object,
    *,
    mapping: LogMapping | None = None,
    memory: str | None = None,
    threads: int | None = None,
) -> Iterator[LogSource]:
    r"""Open a log as events, out of core and without looking at the rows.

    Nothing is checked but that the files can be opened and have the columns: rows may be
    duplicated, positions 0, values missing. `prsrank.logs.row_rules.check_rows` and
    `prsrank.logs.events.from_source` refuse such rows.

    Args:
        log: a file (Parquet, CSV, JSON lines; also packed CSV and JSON), a folder of them to
            any depth, a glob, or several of those; a folder in the compact form; a folder with
            UBI's `ubi_queries` and `ubi_events`; a frame (pandas, Polars, Arrow, DuckDB, or a
            mapping of arrays); or a `ClickLog`.
        mapping: which column means what; default: the columns have prsrank's names.
        memory: how much to hold, such as "4GB"; more is spilled to a folder that is
            removed at the end.
        threads: default: the cores this process may use.

    Yields:
        The events. They can be used inside the `with` block only.

    Raises:
        InputError: one line that names the file or column that cannot be used.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = file.write_text("q,session_id,doc_id,rank,click\n1,1,5,0,0\n1,1,6,1,1\n")
    >>> mapping = LogMapping(columns={"query_id": "q", "position": "rank"}, positions_from=0)
    >>> with open_events(file, mapping=mapping) as events:
    ...     sorted(events.rows("doc_id, position, click", limit=9))
    [(5, 1, 0), (6, 2, 1)]
    """
    mapping = mapping or LogMapping()
    name = log_name(log)
    with connected(memory=memory, threads=threads) as connection, ExitStack() as stack:
        with errors_in_one_line(name), named_errors(name):
            if is_path(log) and is_ubi(log):
                features: tuple[str, ...] = ()
                events = open_ubi(connection, log, mapping)
            else:
                if not (is_path(log) or isinstance(log, (list, tuple, ClickLog))):
                    table, text = stack.enter_context(open_frame(log, connection)), False
                else:
                    table, mapping, text = _open_files(connection, log, mapping)
                table = with_numbers(table, mapping, name=name)
                features = feature_columns(table, mapping)
                events = canonical_events(table, mapping, name=name)
                if text:  # parsing it again takes longer than all that is asked of it
                    events = events.keep("prsrank_log", f"SELECT * FROM {EVENTS}")  # noqa: S608
        yield replace(
            events,
            name=name,
            contexts=mapping.contexts,
            features=features,
            connection=connection,
        )


@contextmanager
def frame_file(log: object, name: str = "the log") -> Iterator[Any]:
    """Give a frame as a Parquet file, for what reads files only; a path is given as it is.

    Args:
        log: a frame, or one path or several.
        name: what messages call the frame.
    """
    if not is_in_memory(log):
        yield log
        return
    with tempfile.TemporaryDirectory(prefix="prsrank-") as folder:
        file = Path(folder, "frame.parquet")
        with named_errors(name), errors_in_one_line(name):
            write_frame(log, file)
        try:
            yield str(file)
        except InputError as error:
            raise InputError(str(error).replace(str(file), name)) from error


def write_frame(table: object, path: Path) -> Path:
    """Write a frame, or a log's events, as Parquet; return the path."""
    if isinstance(table, ClickLog):
        write_events(table, path)
        return path
    with open_frame(table) as source, atomic_output(path) as draft:
        source.relation.write_parquet(str(draft))
    return path


def is_in_memory(table: object) -> bool:
    """Tell a frame or a `ClickLog` from paths of files.

    >>> is_in_memory({"x": [1]}), is_in_memory("log.parquet"), is_in_memory(["a.csv", "b.csv"])
    (True, False, False)
    """
    return not (table is None or is_path(table) or isinstance(table, (list, tuple)))


def is_path(log: object) -> TypeGuard[FileName]:
    """Tell whether a log is given as one path."""
    return isinstance(log, (str, os.PathLike))


def log_name(log: object) -> str:
    """Return what messages call a log.

    >>> log_name(["a.csv", "b.csv"])
    'a.csv and 1 more'
    """
    if isinstance(log, Sequence) and not isinstance(log, str) and len(log):
        return str(log[0]) if len(log) == 1 else f"{log[0]} and {len(log) - 1} more"
    return str(log) if is_path(log) else "the log"


def check_unmapped(log: object, mapping: LogMapping) -> None:
    """Raise an InputError for a mapping of columns that a log, read or compact, does not have."""
    # these are of the table of features, or hold anyway
    free = ("contexts", "feature_table", "nulls", "decimal", "duplicates")
    if mapping != LogMapping(**{name: getattr(mapping, name) for name in free}):
        raise InputError(f"{log_name(log)}: a log in the compact form has no columns to map")


def _open_files(
    connection: "DuckDBPyConnection", log: Any, mapping: LogMapping
) -> tuple[LogSource, LogMapping, bool]:
    """Open files, or a click log as one.

    Returns:
        It, the mapping with the contexts it names, and whether it is text.
    """
    if isinstance(log, ClickLog) or (is_path(log) and is_compact(log)):
        check_unmapped(log, mapping)
        clicks = log if isinstance(log, ClickLog) else read_compact(log, mapping.contexts or None)
        setting = connection.execute("SELECT current_setting('temp_directory')").fetchall()
        log = Path(setting[0][0], "events.parquet")
        write_events(clicks, log)
    files = find_files(log)
    _check_every_file(connection, files, mapping)
    if not mapping.contexts and files.kind == "Parquet":
        mapping = replace(mapping, contexts=stored_contexts(connection, files.files[0]))
    table = replace(
        source_of(open_table(connection, files, ids=mapping.ids)), connection=connection
    )
    return table, mapping, files.kind != "Parquet"


def _check_every_file(
    connection: "DuckDBPyConnection", files: TableFiles, mapping: LogMapping
) -> None:
    """Raise an InputError for a Parquet file among several that lacks a column of the others."""
    if files.kind != "Parquet" or len(files.files) == 1:
        return
    names = ", ".join(quoted_text(glob.escape(str(file))) for file in files.files)
    missing = connection.execute(
        f"WITH columns AS (SELECT file_name, list(name) AS names "  # noqa: S608
        f"FROM parquet_schema([{names}]) GROUP BY file_name), "
        "known AS (SELECT DISTINCT unnest(names) AS name FROM columns) "
        "SELECT file_name, name FROM columns, known WHERE NOT list_contains(names, name) "
        "AND list_contains(?, name) ORDER BY ALL LIMIT 1",
        [[mapping.column(name) for name in REQUIRED] + list(mapping.actions)],
    ).fetchall()
    if missing:
        file, name = missing[0]
        raise InputError(f"{file}: has no column {name!r}, which other files of the log have")
