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
from prsrank.data.ids import id_array, indices_of
from prsrank.errors import InputError
from prsrank.logs.coverage import lists_of_queries
from prsrank.logs.events import from_frame
from prsrank.logs.pieces import Extent
from prsrank.logs.session_pieces import Sessions, missing_sessions
from prsrank.ragged import list_of_row
from prsrank.spark.hashes import buckets_of, feature_hashes, id_hashes, pair_hashes
from prsrank.types import Longs

if TYPE_CHECKING:
    import pyarrow

Batches = Iterator["pyarrow.RecordBatch"]

EVENT, DOC = range(2)
BLOB = "key int, kind int, rows binary"
# Bytes of rows that are packed at once.
_CHUNK = 32 << 20


def packed(batches: Batches, kind: int, keys: Sequence[int]) -> Batches:
    """Pack rows of one kind that Spark hands over; docs have their `features` as a list."""
    import pyarrow as pa

    packer = Packer(keys)
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        if kind == EVENT:
            yield from packer.add_events(rows)
            continue
        flat = batch.column("features").flatten().to_numpy()
        columns = np.array(flat.reshape(max(len(batch), 1), -1).T, order="C")
        yield from packer.add_docs(rows.drop_columns(["features"]), columns)
    yield from packer.finish()


class Packer:
    """Packs rows into blobs, one of each bucket of queries for every few megabytes of rows.

    Rows go to the bucket of their query whatever they are and wherever they were read.

    Args:
        keys: which key brings a row to the partition of each bucket.
    """

    def __init__(self, keys: Sequence[int]) -> None:
        self._keys, self._docs = keys, _Docs()
        self._held: dict[int, list[Any]] = {EVENT: [], DOC: []}

    def add_events(self, rows: "pyarrow.Table") -> Batches:
        """Take events; yield blobs once there are enough rows."""
        yield from self._hold(EVENT, rows)

    def add_docs(self, ids: "pyarrow.Table", columns: npt.NDArray[np.float32]) -> Batches:
        """Take docs; of equal ones the first is kept. Yield blobs once there are enough.

        Args:
            ids: query_id and doc_id.
            columns: the values of each feature, to be changed: 0 loses its sign.
        """
        import pyarrow as pa

        if not ids.num_rows:
            return
        columns += np.float32(0)
        queries, docs = (id_hashes(column.combine_chunks()) for column in ids.columns)
        seen = feature_hashes(columns)
        new = self._docs.unseen(pair_hashes(queries, docs), seen)
        flat = pa.array(np.ascontiguousarray(columns[:, new].T).reshape(-1))
        values = pa.FixedSizeListArray.from_arrays(flat, len(columns))
        rows = ids.take(pa.array(new)).append_column("seen", pa.array(seen[new]))
        yield from self._hold(DOC, rows.append_column("features", values))

    def finish(self) -> Batches:
        """Yield what is left."""
        for kind in self._held:
            yield from self._emptied(kind)

    def _hold(self, kind: int, rows: "pyarrow.Table") -> Batches:
        held = self._held[kind]
        held.append(rows)
        if sum(array.nbytes for array in held) >= _CHUNK:
            yield from self._emptied(kind)

    def _emptied(self, kind: int) -> Batches:
        import pyarrow as pa

        held = [rows for rows in self._held[kind] if rows.num_rows]
        self._held[kind] = []
        if held:
            yield _blobs(pa.concat_tables(held), kind, self._keys)


def _blobs(table: "pyarrow.Table", kind: int, keys: Sequence[int]) -> "pyarrow.RecordBatch":
    """Return a blob of the rows of each bucket."""
    import pyarrow as pa

    buckets = buckets_of(id_hashes(table.column("query_id").combine_chunks()), len(keys))
    # few buckets sort many times as fast, and in all but the largest logs they are
    small = np.int16 if len(keys) < 2**15 else np.int32
    order = np.argsort(buckets.astype(small), kind="stable")
    rows = table.take(pa.array(order)).combine_chunks()
    counts = np.bincount(buckets, minlength=len(keys))
    starts = np.cumsum(counts) - counts
    there = np.flatnonzero(counts).tolist()
    return pa.record_batch(
        {
            "key": pa.array([keys[bucket] for bucket in there], pa.int32()),
            "kind": pa.array([kind] * len(there), pa.int32()),
            "rows": pa.array(
                [_blob(rows.slice(starts[bucket], counts[bucket])) for bucket in there],
                pa.binary(),
            ),
        }
    )


class _Docs:
    """The docs that a task has met, each by a hash of its ids and one of its features."""

    def __init__(self) -> None:
        self.count, self.table = 0, np.zeros((2, 1 << 16), np.int64)

    def unseen(self, doc_key: Longs, seen: Longs) -> Longs:
        """Return the rows of docs that none before had."""
        while self.table.shape[1] < 2 * (self.count + len(seen)):
            old = self.table[:, self.table[0] != 0]
            self.table = np.zeros((2, 2 * self.table.shape[1]), np.int64)
            self._enter(old[0], old[1])
        rows = self._enter(doc_key, seen)
        self.count += len(rows)
        return rows

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


def _blob(rows: "pyarrow.Table") -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    # Spark would pack them itself, but after and before it has copied them
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    packed_rows: bytes = sink.getvalue().to_pybytes()
    return packed_rows


@dataclass(frozen=True)
class Size:
    """How large a log is; those of pieces add up with `+`.

    Attributes:
        extent: sessions, queries, clicks and positions.
        docs: docs of all lists.
        weights: of pairs: one for each clicked doc and doc of its list.
        cells: docs at each of their positions.
        busiest: rows of the query with the most, and its id.
        missing: sessions that show a doc without features.
    """

    extent: Extent
    docs: int = 0
    weights: int = 0
    cells: int = 0
    busiest: tuple[int, str] = (0, "")
    missing: int = 0

    @classmethod
    def of(cls, piece: Sessions) -> "Size":
        """Measure a piece."""
        log, lists = piece.log, piece.lists
        shown = np.diff(log.ranking_offsets)[log.session_ranking]
        rows = np.bincount(log.ranking_query[log.session_ranking], shown, log.queries)
        most = int(rows.argmax())
        slots = np.repeat(log.ranking_offsets[log.session_ranking], log.session_clicks) + log.clicks
        clicked = np.bincount(log.ranking_docs[slots], minlength=len(log.doc_ids)) > 0
        winners = np.bincount(list_of_row(log.doc_offsets), clicked, log.queries)
        lengths = np.zeros(log.queries, np.int64)
        where = indices_of(log.query_ids, lists.query_ids)
        lengths[where >= 0] = lists.list_lengths[where[where >= 0]]
        return cls(
            Extent.of(log),
            lists.docs,
            int(winners @ lengths),
            len(
                np.unique(log.ranking_docs * np.int64(log.max_position + 1) + log.ranking_positions)
            ),
            (int(rows[most]), str(log.query_ids[most])),
            missing_sessions(piece) if lists.feature_names else 0,
        )

    def __add__(self, other: "Size") -> "Size":
        """Return the size of both."""
        return Size(
            self.extent + other.extent,
            self.docs + other.docs,
            self.weights + other.weights,
            self.cells + other.cells,
            max(self.busiest, other.busiest),
            self.missing + other.missing,
        )

    def bytes_to_learn(self, features: int) -> int:
        """Return about how many bytes learning from all lists takes in one process."""
        # features as they arrive, in the data set and in LightGBM's bins; docs in rankings and lists
        per_doc = 12 * features + 200
        return self.docs * per_doc + 10 * self.weights + 270 * self.cells


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
