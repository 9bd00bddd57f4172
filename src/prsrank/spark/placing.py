"""From rows of a log to pieces of it: the one shuffle. Knows Arrow, not Spark.

Tasks that read the log pack the rows of each bucket of queries into one blob of Arrow, so that
Spark moves a few blobs, not rows. The task of a bucket makes sessions and lists of its blobs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import id_array
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.coverage import covered_sessions, lists_of_queries
from prsrank.logs.events import from_frame
from prsrank.logs.pieces import Extent
from prsrank.types import Longs

if TYPE_CHECKING:
    import pyarrow

Batches = Iterator["pyarrow.RecordBatch"]

EVENT, DOC = range(2)
BLOB = "key int, kind int, rows binary"
# Bytes of rows that are packed at once.
_CHUNK = 32 << 20


def packed(batches: Batches, kind: int, keys: Sequence[int]) -> Batches:
    """Pack rows into blobs, one of each bucket for every few megabytes of rows.

    Args:
        batches: rows with a column `bucket`; docs also with `doc_key`, a hash of their ids, and
            `seen`, one of their features.
        kind: EVENT or DOC; of equal docs the first is kept.
        keys: which key brings a row to the partition of each bucket.
    """
    import pyarrow as pa

    docs = _Docs()
    for chunk in _chunks(batches):
        table = docs.unseen(chunk) if kind == DOC else chunk
        buckets = table.column("bucket").to_numpy()
        # few buckets sort many times as fast, and in all but the largest logs they are
        small = np.int16 if len(keys) < 2**15 else np.int32
        order = np.argsort(buckets.astype(small), kind="stable")
        rows = table.drop_columns(["bucket"]).take(pa.array(order)).combine_chunks()
        ends = np.cumsum(np.bincount(buckets, minlength=len(keys)))
        blobs = [
            _blob(rows.slice(start, end - start))
            for start, end in zip(np.append(0, ends[:-1]), ends, strict=True)
        ]
        there = [bucket for bucket, blob in enumerate(blobs) if blob is not None]
        yield pa.record_batch(
            {
                "key": pa.array([keys[bucket] for bucket in there], pa.int32()),
                "kind": pa.array([kind] * len(there), pa.int32()),
                "rows": pa.array([blobs[bucket] for bucket in there], pa.binary()),
            }
        )


def _chunks(batches: Batches) -> Iterator["pyarrow.Table"]:
    import pyarrow as pa

    held: list[Any] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _CHUNK:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


class _Docs:
    """The docs that a task has met, each by a hash of its ids and one of its features."""

    def __init__(self) -> None:
        self.count, self.table = 0, np.zeros((2, 1 << 16), np.int64)

    def unseen(self, table: "pyarrow.Table") -> "pyarrow.Table":
        """Return the rows of docs that none before had."""
        import pyarrow as pa

        # copies: a kernel is compiled once more for arrays that cannot be written to
        doc_key, seen = (np.array(table.column(name)) for name in ("doc_key", "seen"))
        while self.table.shape[1] < 2 * (self.count + len(seen)):
            old = self.table[:, self.table[0] != 0]
            self.table = np.zeros((2, 2 * self.table.shape[1]), np.int64)
            self._enter(old[0], old[1])
        rows = self._enter(doc_key, seen)
        self.count += len(rows)
        return table.take(pa.array(rows))

    def _enter(self, doc_key: Longs, seen: Longs) -> Longs:
        rows = np.empty(len(seen), np.int64)
        count = _unseen_kernel(self.table[0], self.table[1], doc_key, seen, rows)
        return rows[:count]


@njit(cache=True, nogil=True)
def _unseen_kernel(known_keys, known_seen, doc_key, seen, rows):  # type: ignore[no-untyped-def]
    """Enter docs into a table by open addressing; key 0 marks a free place."""
    mask, count = len(known_keys) - 1, 0
    for row in range(len(doc_key)):
        key = doc_key[row] if doc_key[row] != 0 else np.int64(1)
        place = key & mask
        while known_keys[place] != 0 and (
            known_keys[place] != key or known_seen[place] != seen[row]
        ):
            place = (place + 1) & mask
        if known_keys[place] == 0:
            known_keys[place], known_seen[place] = key, seen[row]
            rows[count] = row
            count += 1
    return count


def _blob(rows: "pyarrow.Table") -> bytes | None:
    import pyarrow as pa

    if not rows.num_rows:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    packed_rows: bytes = sink.getvalue().to_pybytes()
    return packed_rows


@dataclass(frozen=True, eq=False)
class Sessions:
    """A piece of a log: sessions of whole queries, and the lists that they show.

    Attributes:
        log: the sessions.
        lists: those of their queries; without a feature where the log has none.
    """

    log: ClickLog
    lists: RankingDataset

    def select(self, marks: npt.NDArray) -> "Sessions | None":
        """Return some sessions and the lists of their queries; None without a session."""
        if not marks.any():
            return None
        log = self.log.select(marks)
        return Sessions(log, lists_of_queries(log.query_ids, self.lists))


@dataclass(frozen=True)
class Size:
    """How large a log is; those of pieces add up with `+`.

    Attributes:
        extent: sessions, queries, clicks and positions.
        docs: docs of all lists.
        longest: docs of the longest list.
        busiest: rows of the query with the most, and its id.
        bare: sessions that show a doc without features.
    """

    extent: Extent
    docs: int = 0
    longest: int = 0
    busiest: tuple[int, str] = (0, "")
    bare: int = 0

    @classmethod
    def of(cls, one: Sessions | None) -> "Size":
        """Measure a piece."""
        if one is None:
            return cls(Extent(0, 0, 0, 0))
        log, lists = one.log, one.lists
        shown = np.diff(log.ranking_offsets)[log.session_ranking]
        rows = np.bincount(log.ranking_query[log.session_ranking], shown, log.queries)
        most = int(rows.argmax())
        return cls(
            Extent.of(log),
            lists.docs,
            int(lists.list_lengths.max(initial=0)),
            (int(rows[most]), str(log.query_ids[most])),
            int((~covered_sessions(log, lists)).sum()) if lists.feature_names else 0,
        )

    def __add__(self, other: "Size") -> "Size":
        """Return the size of both."""
        return Size(
            self.extent + other.extent,
            self.docs + other.docs,
            max(self.longest, other.longest),
            max(self.busiest, other.busiest),
            self.bare + other.bare,
        )


def unpacked(
    batches: Batches, feature_names: tuple[str, ...], contexts: tuple[str, ...]
) -> Sessions | None:
    """Make a piece of the blobs of a bucket; None where they have no session.

    Raises:
        InputError: if a session shows a doc or a position twice, or a doc has two values of a
            feature.
    """
    import pyarrow as pa

    tables: dict[int, list[Any]] = {EVENT: [], DOC: []}
    for batch in batches:
        for kind, rows in zip(batch.column("kind"), batch.column("rows"), strict=True):
            with pa.ipc.open_stream(rows.as_buffer()) as reader:
                tables[kind.as_py()].append(reader.read_all())
    if not tables[EVENT]:
        return None
    log = from_frame(pa.concat_tables(tables[EVENT]), contexts=contexts, whole=False)
    if not tables[DOC]:
        none = np.zeros((0, len(feature_names)), np.float32)
        return Sessions(
            log, RankingDataset(none, np.zeros(1, np.int64), feature_names=feature_names)
        )
    lists = _lists(pa.concat_tables(tables[DOC]), feature_names)
    return Sessions(log, lists_of_queries(log.query_ids, lists))


def _lists(docs: "pyarrow.Table", feature_names: tuple[str, ...]) -> RankingDataset:
    """Return lists of docs, both in the order of their ids."""
    names = [id_array(docs.column(name).to_numpy()) for name in ("query_id", "doc_id")]
    order = np.lexsort(names[::-1])
    queries, ids = (name[order] for name in names)
    same = (queries[1:] == queries[:-1]) & (ids[1:] == ids[:-1])
    seen = docs.column("seen").to_numpy()[order]
    twice = np.flatnonzero(same & (seen[1:] != seen[:-1]))
    if len(twice):
        raise InputError(
            f"doc {ids[twice[0]]} of query {queries[twice[0]]} has two values of a feature; "
            "give every session a query of its own, or leave the feature out"
        )
    kept = np.append(True, ~same)
    flat = docs.column("features").combine_chunks().flatten().to_numpy()
    queries = queries[kept]
    starts = np.flatnonzero(np.append(True, queries[1:] != queries[:-1]))
    return RankingDataset(
        features=flat.reshape(-1, len(feature_names))[order[kept]],
        offsets=np.append(starts, len(queries)),
        query_ids=id_array(queries[starts]),
        doc_ids=id_array(ids[kept]),
        feature_names=feature_names,
    )
