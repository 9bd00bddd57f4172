"""Opening a log, whatever files it is in, as events that SQL can be run over."""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.canonical import canonical_events, feature_columns
from prsrank.logs.click_log_files import is_compact, read_click_log, stored_contexts, write_events
from prsrank.logs.event_source import REQUIRED, EventSource, errors_in_one_line, source_of
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sql_text import quoted_text
from prsrank.logs.tables import TableFiles, connected, find_files, open_table
from prsrank.logs.ubi import is_ubi, open_ubi

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


@dataclass(frozen=True)
class LogSource(EventSource):
    """The events of a log, unchecked, under the names that prsrank knows.

    `types` has query_id, session_id, doc_id, position and click; where the log has them also
    propensity, randomised, timestamp, client_id, weight (of the heaviest action that counts;
    0 where none) and impression (whether the log says that the doc was shown; only in logs
    of single actions and UBI); then contexts and features under their own names.

    Attributes:
        contexts: the columns with one value per session.
        features: the columns that are features.
        connection: the database that the relation belongs to.
        findings: what was noticed while opening, each with a count: "clicks_not_in_list" and
            so on (UBI only; see `prsrank.logs.ubi`).
    """

    contexts: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    connection: "DuckDBPyConnection" = None  # type: ignore[assignment]
    findings: Mapping[str, int] = field(default_factory=dict)


@contextmanager
def open_events(
    path: FileName | Sequence[FileName],
    *,
    mapping: LogMapping | None = None,
    memory: str | None = None,
    threads: int | None = None,
) -> Iterator[LogSource]:
    r"""Open a log as events, out of core and without looking at the rows.

    Nothing is checked but that the files can be opened and have the columns: rows may be
    duplicated, positions 0, values missing. `prsrank.logs.event_source.check_rows` and
    `prsrank.logs.events.from_source` refuse such rows.

    Args:
        path: a file (Parquet, CSV, JSON lines; also packed CSV and JSON), a folder of them to
            any depth, a glob, or several of those; a folder in the compact form; or a folder
            with UBI's `ubi_queries` and `ubi_events`.
        mapping: which column means what; default: the columns have prsrank's names.
        memory: how much DuckDB may hold, such as "4GB"; more is spilled to a folder that is
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
    single = path if isinstance(path, (str, os.PathLike)) else None
    with connected(memory=memory, threads=threads) as connection:
        if single is not None and is_ubi(single):
            events = open_ubi(connection, single, mapping)
            yield _log_source(connection, events.relation, mapping, str(path), events.findings)
            return
        found = find_files(_plain_files(connection, path, mapping))
        name = str(path) if single is not None else found.name
        with errors_in_one_line(name), _named(name):
            _check_every_file(connection, found, mapping)
            if not mapping.contexts and found.kind == "Parquet":
                stored = stored_contexts(connection, found.files[0])
                mapping = replace(mapping, contexts=stored)
            table = open_table(connection, found)
            features = feature_columns(table, mapping)
            relation = canonical_events(table, mapping)
        yield _log_source(connection, relation, mapping, name, {}, features)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Put the name of the log before an InputError that does not begin with it."""
    try:
        yield
    except InputError as error:
        message = str(error)
        if message.startswith(name):
            raise
        raise InputError(f"{name}: {message}") from error


def _log_source(
    connection: "DuckDBPyConnection",
    relation: "DuckDBPyRelation",
    mapping: LogMapping,
    name: str,
    findings: Mapping[str, int],
    features: tuple[str, ...] = (),
) -> LogSource:
    return LogSource(
        relation=relation,
        types=source_of(relation).types,
        name=name,
        contexts=mapping.contexts,
        features=features,
        connection=connection,
        findings=findings,
    )


def _plain_files(
    connection: "DuckDBPyConnection", path: FileName | Sequence[FileName], mapping: LogMapping
) -> FileName | Sequence[FileName]:
    """Return the path, or for a compact log that of the same log as events."""
    if not isinstance(path, (str, os.PathLike)) or not is_compact(path):
        return path
    if mapping != LogMapping(contexts=mapping.contexts):
        raise InputError(f"{path}: a log in the compact form has no columns to map")
    folder = connection.execute("SELECT current_setting('temp_directory')").fetchall()[0][0]
    events = Path(folder, "events.parquet")
    write_events(read_click_log(path, contexts=mapping.contexts or None), events)
    return events


def _check_every_file(
    connection: "DuckDBPyConnection", found: TableFiles, mapping: LogMapping
) -> None:
    """Raise an InputError for a Parquet file among several that lacks a column of the others."""
    if found.kind != "Parquet" or len(found.files) == 1:
        return
    files = ", ".join(quoted_text(glob.escape(str(file))) for file in found.files)
    missing = connection.execute(
        f"WITH columns AS (SELECT file_name, list(name) AS names "  # noqa: S608
        f"FROM parquet_schema([{files}]) GROUP BY file_name), "
        "known AS (SELECT DISTINCT unnest(names) AS name FROM columns) "
        "SELECT file_name, name FROM columns, known WHERE NOT list_contains(names, name) "
        "AND list_contains(?, name) ORDER BY ALL LIMIT 1",
        [[mapping.column(name) for name in REQUIRED] + list(mapping.actions)],
    ).fetchall()
    if missing:
        file, name = missing[0]
        raise InputError(f"{file}: has no column {name!r}, which other files of the log have")
