"""Reading a log, whatever its form: as events that SQL can be run over, or as sessions and lists."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.files import FileName, atomic_output
from prsrank.logs.canonical import canonical_events
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_files import is_compact, read_compact, stored_contexts, write_events
from prsrank.logs.event_source import EVENTS, REQUIRED, LogSource, open_frame, source_of
from prsrank.logs.events import from_source
from prsrank.logs.features import lists_of_log, lists_of_table, split_lists
from prsrank.logs.mapping import LogMapping
from prsrank.logs.tables import (
    TableFiles,
    connected,
    errors_in_one_line,
    find_files,
    memory_limit,
    named_errors,
    open_table,
)
from prsrank.logs.ubi import is_ubi, open_ubi

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BYTES_PER_EVENT = 90
"""About what making a log of events takes at its peak, measured."""


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
    mapping, name = mapping or LogMapping(), log_name(log)
    with connected(memory=memory, threads=threads) as connection, ExitStack() as stack:
        with errors_in_one_line(name), named_errors(name):
            if is_path(log) and is_ubi(log):
                events = open_ubi(connection, log, mapping)
            elif is_path(log) or isinstance(log, (list, tuple, ClickLog)):
                events = _open_files(connection, log, mapping)
            else:
                frame = stack.enter_context(open_frame(log, connection))
                events = canonical_events(frame, mapping)
        yield replace(events, name=name, connection=connection)


def _open_files(connection: "DuckDBPyConnection", log: Any, mapping: LogMapping) -> LogSource:
    """Open files, or a click log as one."""
    name, clicks = log_name(log), ready_log(log, mapping)
    if clicks is not None:
        setting = connection.execute("SELECT current_setting('temp_directory')").fetchall()
        log = Path(setting[0][0], "events.parquet")
        write_events(clicks, log)
    files = find_files(log)
    table = source_of(open_table(connection, files, ids=mapping.ids), name, connection)
    if files.kind != "Parquet":
        # parsing it again takes longer than all that is asked of it
        return canonical_events(table, mapping).keep("prsrank_log", f"SELECT * FROM {EVENTS}")  # noqa: S608
    _check_every_file(files, mapping)
    if not mapping.contexts:
        mapping = replace(mapping, contexts=stored_contexts(connection, files.files[0]))
    return canonical_events(table, mapping)


def _check_every_file(files: TableFiles, mapping: LogMapping) -> None:
    """Raise an InputError for a Parquet file among several that lacks a column of the others."""
    from pyarrow import parquet

    columns = {file: set(parquet.read_schema(file).names) for file in files.files}
    needed = {*map(mapping.column, REQUIRED), *mapping.actions} & set().union(*columns.values())
    for file, names in columns.items():
        for name in sorted(needed - names):
            raise InputError(f"{file}: has no column {name!r}, which other files of the log have")


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


def read_click_log(
    log: object,
    *,
    mapping: LogMapping | None = None,
    contexts: Sequence[str] | None = None,
    memory: str | None = None,
    threads: int | None = None,
) -> ClickLog:
    """Read the sessions of a log of any form, without features.

    Args:
        log: as `open_events` takes it; a `ClickLog` is returned as it is.
        mapping: which column means what.
        contexts: the context columns to keep; by default the mapping's, else those that the
            log was written with, which for other programs' files is none.
        memory: how much to hold, such as "4GB".
        threads: default: the cores this process may use.

    Raises:
        InputError: if a file is missing, is cut short, or holds a log that cannot be used.
    """
    mapping = mapping or LogMapping()
    if contexts is not None:
        mapping = replace(mapping, contexts=tuple(contexts))
    log_as_it_is = ready_log(log, mapping, contexts)
    if log_as_it_is is not None:
        return log_as_it_is
    with open_events(log, mapping=mapping, memory=memory, threads=threads) as source:
        _check_fits(source, memory)
        return click_log(source if contexts is None else replace(source, contexts=tuple(contexts)))


def read_log(
    log: object,
    *,
    mapping: LogMapping | None = None,
    features: object = None,
    memory: str | None = None,
    threads: int | None = None,
) -> tuple[ClickLog, RankingDataset | None]:
    """Read a log and the lists it showed.

    Args:
        log: as `open_events` takes it.
        mapping: which column means what, and what a list is.
        features: a table of features keyed by query and doc, a file or a frame (default: the
            mapping's); without one, the mapping's columns of the log are the features.
        memory: how much to hold, such as "4GB".
        threads: default: the cores this process may use.

    Returns:
        The log, checked, with the weights of its actions, and the lists without labels; None in
        place of the lists where no features are named.

    Raises:
        InputError: one line that names what cannot be used.
    """
    mapping = mapping or LogMapping()
    log_as_it_is = ready_log(log, mapping) if mapping.lists == "query" else None
    given = features if features is not None else mapping.feature_table
    with frame_file(given, "the table of features") as table:
        if log_as_it_is is None:
            with open_events(log, mapping=mapping, memory=memory, threads=threads) as source:
                _check_fits(source, memory)
                split = mapping.lists == "session" and table is None
                events = split_lists(source) if split else source
                log_as_read = click_log(events)
                if table is not None:
                    return log_as_read, lists_of_table(events, table, mapping=mapping)
                return log_as_read, lists_of_log(events) if events.features else None
        if table is None:
            return log_as_it_is, None
        with (
            connected(memory=memory, threads=threads) as connection,
            open_frame({"query_id": log_as_it_is.query_ids}, connection) as queries,
        ):
            return log_as_it_is, lists_of_table(queries, table, mapping=mapping)


def _check_fits(source: LogSource, memory: str | None) -> None:
    """Raise an InputError for a log that would take more than the memory that was named."""
    if memory is None:
        return
    (rows,) = source.total("count(*)")
    need, allowed = rows * BYTES_PER_EVENT, memory_limit(source.connection)
    if need > allowed:
        raise InputError(
            f"{source.name}: {rows:,} events take about {need / 1e9:.1f} GB in one piece, more than "
            f"the memory allowed ({memory}); 'audit', 'propensity' and 'fit' read in pieces"
        )


def ready_log(
    log: object, mapping: LogMapping, contexts: Sequence[str] | None = None
) -> ClickLog | None:
    """Return a log that need not be made of events: one in memory, or in the compact form."""
    if isinstance(log, ClickLog):
        check_unmapped(log, replace(mapping, contexts=()))
        return log
    if not is_path(log) or not is_compact(log):
        return None
    check_unmapped(log, mapping)
    return read_compact(log, (mapping.contexts or None) if contexts is None else contexts)


def click_log(source: LogSource, *, piece: bool = False) -> ClickLog:
    """Make a checked click log of events, sorted by session, whatever the order of the rows.

    Args:
        source: the events.
        piece: of a log whose rows are checked already; it may hold nothing but clicks.
    """
    with named_errors(source.name):
        return from_source(source, contexts=source.contexts, whole=not piece, checked=piece)
