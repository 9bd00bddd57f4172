"""Logs read in one call, and those that do not fit the memory given, in pieces.

In memory a log is its rankings, sessions and clicks: a few bytes an event. Making it of events
takes many more, so a large log is first cut into pieces on disk, by a hash of its queries.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import packed_ids, unpacked_ids
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.click_log_files import is_compact, read_compact
from prsrank.logs.event_source import EVENTS, LogSource, errors_in_one_line, open_frame, source_of
from prsrank.logs.events import from_source
from prsrank.logs.features import ORIGINAL_QUERY, lists_of_log, lists_of_table, split_lists
from prsrank.logs.mapping import LogMapping
from prsrank.logs.pieces import LocalPieces
from prsrank.logs.row_rules import check_columns, check_rows
from prsrank.logs.sources import check_unmapped, frame_file, is_path, open_events
from prsrank.logs.tables import connected, memory_limit, named_errors, quoted_name, quoted_text
from prsrank.threads import map_in_order, thread_count

_IDS = ("query_ids", "doc_ids", "session_ids")


def read_in_pieces(
    source: LogSource, folder: Path, *, by_original: bool = False
) -> LocalPieces[ClickLog]:
    """Make click logs of events: one if it fits the memory that DuckDB was given, else pieces.

    Args:
        source: the events, unchecked.
        folder: where pieces may be kept, until somebody removes it.
        by_original: lists of one query that have ids of their own stay in one piece.

    Raises:
        InputError: one line that names what cannot be used.
    """
    (rows,) = source.total("count(*)")
    allowed = memory_limit(source.connection)
    if rows * BYTES_PER_EVENT <= allowed // 2:
        return LocalPieces([click_log(source)])
    check_columns(source, source.contexts)
    check_rows(source)
    pieces = -(-rows * BYTES_PER_EVENT // (allowed // 4))
    stored = StoredLogs(folder / "pieces")
    parts = _cut(source, folder / "events", pieces, by_original)
    # two at once are half of the memory
    for log in map_in_order(partial(_read_piece, source), parts, threads=min(2, thread_count())):
        stored.add(log)
    return LocalPieces(list(stored) if stored.bytes <= allowed // 8 else stored)


def _cut(source: LogSource, folder: Path, pieces: int, by_original: bool) -> list[Path]:
    """Write the events to files, a folder for each piece."""
    kept = [quoted_name(name) for name in source.types if name not in source.features]
    query = ORIGINAL_QUERY if by_original else "query_id"
    # all sessions of a query in one piece: whatever sums over queries needs no merge
    piece = f"(hash({query}) % {pieces})::INTEGER AS prsrank_piece"
    # read once and removed: looking for values that come again takes longer than it saves
    how = "FORMAT parquet, PARTITION_BY (prsrank_piece), DICTIONARY_SIZE_LIMIT 1"
    rows = f"SELECT {', '.join((*kept, piece))} FROM {EVENTS}"  # noqa: S608
    source.query(f"COPY ({rows}) TO {quoted_text(str(folder))} ({how})")
    return sorted(folder.iterdir())


def _read_piece(source: LogSource, part: Path) -> ClickLog:
    """Make a log of the events in a folder, and remove them."""
    with source.connection.cursor() as cursor, errors_in_one_line(source.name):
        rows = cursor.read_parquet(str(part / "*.parquet"), hive_partitioning=False)
        events = LogSource(
            rows,
            source_of(rows).types,
            source.name,
            contexts=source.contexts,
            connection=cursor,
        )
        log = click_log(events, piece=True)
    shutil.rmtree(part)
    return log


class StoredLogs:
    """Click logs in files, read again each time they are gone through.

    Attributes:
        bytes: what all of them take in memory.
    """

    bytes: int = 0

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder, self._files = folder, 0

    def add(self, log: ClickLog) -> None:
        """Write one more log."""
        arrays = dict(_arrays(log))
        self.bytes += sum(array.nbytes for array in arrays.values())
        np.savez(self._folder / f"{self._files:06d}.npz", allow_pickle=False, **arrays)
        self._files += 1

    def __iter__(self) -> Iterator[ClickLog]:
        for file in sorted(self._folder.iterdir()):
            with np.load(file, allow_pickle=False) as arrays:
                yield _log(arrays)


def _arrays(log: ClickLog) -> Iterator[tuple[str, npt.NDArray]]:
    for field in fields(log):
        value = getattr(log, field.name)
        if field.name in _IDS and value is not None:
            yield from packed_ids(field.name, value).items()
        elif isinstance(value, np.ndarray):
            yield field.name, value
    yield "designs", np.array(log.designs)
    yield "contexts", np.array(json.dumps({n: c.values for n, c in log.contexts.items()}))
    for number, context in enumerate(log.contexts.values()):
        yield f"context_{number}", context.codes


def _log(arrays: "np.lib.npyio.NpzFile") -> ClickLog:
    known: dict[str, Sequence[str]] = json.loads(str(arrays["contexts"]))
    contexts = {
        name: Context(tuple(values), arrays[f"context_{number}"])
        for number, (name, values) in enumerate(known.items())
    }
    names = {f.name for f in fields(ClickLog)} - {"designs", "contexts", *_IDS}
    ids: dict[str, Any] = {name: unpacked_ids(name, arrays) for name in _IDS}
    return ClickLog(
        **ids,
        **{name: arrays[name] for name in names if name in arrays},
        designs=tuple(arrays["designs"].tolist()),
        contexts=contexts,
    )


BYTES_PER_EVENT = 90
"""About what making a log of events takes at its peak, measured."""


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
