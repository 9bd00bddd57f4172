"""Logs that do not fit the memory given: read in pieces without a common query.

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

from prsrank.data.ids import packed_ids, unpacked_ids
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.event_source import EVENTS, LogSource, source_of
from prsrank.logs.features import ORIGINAL_QUERY
from prsrank.logs.pieces import LocalPieces
from prsrank.logs.reading import BYTES_PER_EVENT, click_log
from prsrank.logs.row_rules import check_columns, check_rows
from prsrank.logs.tables import errors_in_one_line, memory_limit, quoted_name, quoted_text
from prsrank.threads import map_in_order, thread_count


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
        events = replace(source_of(rows, source.name, cursor), contexts=source.contexts)
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
        if isinstance(value, np.ndarray):
            yield from packed_ids(field.name, value).items()
    yield "designs", np.array(log.designs)
    yield "contexts", np.array(json.dumps({n: c.values for n, c in log.contexts.items()}))
    for number, context in enumerate(log.contexts.values()):
        yield f"context_{number}", context.codes


def _log(arrays: "np.lib.npyio.NpzFile") -> ClickLog:
    names = {field.name for field in fields(ClickLog)} - {"designs", "contexts"}
    columns: dict[str, Any] = {name: unpacked_ids(name, arrays) for name in names}
    values: dict[str, Sequence[str]] = json.loads(str(arrays["contexts"]))
    contexts = {
        name: Context(tuple(texts), arrays[f"context_{number}"])
        for number, (name, texts) in enumerate(values.items())
    }
    return ClickLog(**columns, designs=tuple(arrays["designs"].tolist()), contexts=contexts)
