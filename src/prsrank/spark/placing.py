"""From rows of a log to pieces of it: the one shuffle.

Tasks that read the log pack the rows of each bucket of queries into one blob of Arrow, so that
Spark moves a few blobs, not rows. The task of a bucket makes sessions and lists of its blobs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import id_array, indices_of
from prsrank.errors import InputError
from prsrank.logs.events import from_frame
from prsrank.logs.features import lists_of_queries
from prsrank.logs.pieces import Extent, Sessions, missing_sessions
from prsrank.logs.row_rules import time_sql
from prsrank.logs.tables import quoted_name
from prsrank.ragged import list_of_row
from prsrank.spark.events import SparkEvents
from prsrank.spark.pieces import Batches, SparkPieces

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

EVENT, DOC = range(2)

# Columns beside those of the log, whose contexts have names that we do not choose.
BUCKET, FEATURES, SEEN = "#bucket", "#features", "#seen"

# Bytes of features and events that a task holds at once, about.
_PIECE = 64 << 20
# About as many bytes has an event that a task makes a log of.
_EVENT = 64
# At least so many pieces has a log, whatever runs at once: sums depend on them in the last digit.
_LEAST = 2
# One of so many docs is counted.
_SOME = 16
# Bytes of rows that are packed at once.
_CHUNK = 32 << 20
# So many docs a task remembers; one that comes again after that is sent again.
_REMEMBERED = 2_000_000


def pieces_of_log(
    events: SparkEvents,
    features: tuple[str, ...],
    docs: SparkEvents | None,
    kept: list["DataFrame"],
) -> SparkPieces[Sessions]:
    """Bring the rows of each query, and its docs, to one task, which makes a piece of them.

    How many pieces there are depends on the log alone.

    Args:
        events: checked.
        features: names of the features.
        docs: query_id, doc_id and the features, a doc in any number of rows; None without
            features.
        kept: is told of what stays on the workers.
    """
    size = events.usable * _EVENT
    if docs is not None:
        size += _about_distinct(docs) * 4 * len(features)
    count = max(_LEAST, -(-size // _PIECE))
    shown, listed = event_columns(events), _feature_list(features)
    if docs is None:
        blobs = _blobs_of(events, shown, count)
    elif docs is events:
        blobs = _blobs_of(events, f"{shown}, {listed}", count)
    else:
        of_docs = _blobs_of(docs, f"query_id, doc_id, {listed}", count)
        blobs = _blobs_of(events, shown, count).unionByName(of_docs)
    load = partial(unpacked, feature_names=features, contexts=events.contexts)
    return SparkPieces(blobs.repartition(count, "query_id"), count, load, kept)


def event_columns(events: SparkEvents) -> str:
    """Return the SQL of what a click log is made of, for a row per shown doc."""
    names = ("query_id", "session_id", "doc_id", "position", "click", "propensity", "weight")
    casts = dict.fromkeys(("position", "click"), "::INTEGER")
    casts |= dict.fromkeys(("propensity", "weight"), "::DOUBLE")
    columns = {
        name: f"{quoted_name(name)}{casts.get(name, '')}"
        for name in (*names, "randomised")
        if name in events.types
    }
    if "timestamp" in events.types:
        columns["timestamp"] = time_sql(events)
    columns |= {name: f"{quoted_name(name)}::VARCHAR" for name in events.contexts}
    return ", ".join(f"{sql} AS {quoted_name(name)}" for name, sql in columns.items())


def _feature_list(features: tuple[str, ...]) -> str:
    """Return the SQL of all features of a row as one list: NaN where there is none."""
    missing = "'NaN'::FLOAT"
    # 0 has no sign
    values = (f"coalesce({quoted_name(name)}::FLOAT, {missing}) + 0::FLOAT" for name in features)
    return f"[{', '.join(values)}] AS {quoted_name(FEATURES)}"


def _about_distinct(docs: SparkEvents) -> int:
    from pyspark.sql import functions as F

    doc = F.xxhash64("query_id", "doc_id")
    # the count takes row by row; the filter is compiled
    some = docs.frame.select(doc.alias("doc")).where(f"doc % {_SOME} = 0")
    return _SOME * int(some.agg(F.approx_count_distinct("doc")).collect()[0][0])


def _blobs_of(rows: SparkEvents, columns: str, count: int) -> "DataFrame":
    """Return the blobs that tasks make of columns of a log or a table, in one pass over it.

    A row is in the bucket of its query: the partition that Spark brings this query to, so that
    any query of a bucket leads its blob there.
    """
    from pyspark.sql import functions as F

    frame = rows.select(columns).frame
    frame = frame.withColumn(BUCKET, F.expr(f"pmod(hash(query_id), {count})"))
    if FEATURES in frame.columns:
        frame = frame.withColumn(SEEN, F.xxhash64("query_id", "doc_id", F.col(FEATURES)))
    query_id = frame.schema["query_id"].dataType.simpleString()
    return frame.mapInArrow(packed, f"query_id {query_id}, kind int, rows binary")


def packed(batches: Batches) -> Batches:
    """Pack rows of a log, those of its docs once each, or of a table of docs."""
    met: set[int] = set()
    for rows in _chunks(batches):
        if "session_id" in rows.column_names:
            beside = [name for name in (FEATURES, SEEN) if name in rows.column_names]
            yield _blobs(rows.drop_columns(beside), EVENT)
        if SEEN in rows.column_names:
            hashes, first = np.unique(rows.column(SEEN).to_numpy(), return_index=True)
            new = np.array([key not in met for key in hashes.tolist()], bool)
            if len(met) > _REMEMBERED:
                met.clear()
            met.update(hashes.tolist())
            docs = rows.select(["query_id", "doc_id", FEATURES, SEEN, BUCKET])
            yield _blobs(docs.take(first[new]), DOC)


def _chunks(batches: Batches) -> Iterator["pyarrow.Table"]:
    import pyarrow as pa

    held: list[pyarrow.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(rows.nbytes for rows in held) >= _CHUNK:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _blobs(rows: "pyarrow.Table", kind: int) -> "pyarrow.RecordBatch":
    """Return a blob of the rows of each bucket, under one of its queries."""
    import pyarrow as pa

    buckets = rows.column(BUCKET).to_numpy()
    order = np.argsort(buckets, kind="stable")
    rows = rows.drop_columns([BUCKET]).take(order).combine_chunks()
    _, starts = np.unique(buckets[order], return_index=True)
    lengths = np.diff(starts, append=len(order))
    return pa.record_batch(
        {
            "query_id": rows.column("query_id").take(starts).combine_chunks(),
            "kind": pa.array([kind] * len(starts), pa.int32()),
            "rows": pa.array(map(_blob, map(rows.slice, starts, lengths)), pa.binary()),
        }
    )


def _blob(rows: "pyarrow.Table") -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    # Spark would pack them itself, but after and before it has copied them
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    packed_rows: bytes = sink.getvalue().to_pybytes()
    return packed_rows


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
    seen = docs.column(SEEN).to_numpy()[order]
    twice = np.flatnonzero(same & (seen[1:] != seen[:-1]))
    if len(twice):
        raise InputError(
            f"doc {ids[twice[0]]} of query {queries[twice[0]]} has two values of a feature; "
            "give every session a query of its own, or leave the feature out"
        )
    kept = np.append(True, ~same)
    flat = docs.column(FEATURES).combine_chunks().flatten().to_numpy()
    queries = queries[kept]
    starts = np.flatnonzero(np.append(True, queries[1:] != queries[:-1]))
    return RankingDataset(
        features=flat.reshape(-1, len(feature_names))[order[kept]],
        offsets=np.append(starts, len(queries)),
        query_ids=id_array(queries[starts]),
        doc_ids=id_array(ids[kept]),
        feature_names=feature_names,
    )


@dataclass(frozen=True)
class Size:
    """How large a log is; those of pieces add up with `+`.

    Attributes:
        extent: sessions, queries, clicks and positions.
        rows: shown docs of all sessions.
        docs: docs of all lists.
        weights: of pairs: one for each clicked doc and doc of its list.
        cells: docs at each of their positions.
        busiest: rows of the query with the most, and its id.
        missing: sessions that show a doc without features.
    """

    extent: Extent
    rows: int = 0
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
        cells = log.ranking_docs * np.int64(log.max_position + 1) + log.ranking_positions
        return cls(
            Extent.of(log),
            int(shown.sum()),
            lists.docs,
            int(winners @ lengths),
            len(np.unique(cells)),
            (int(rows[most]), str(log.query_ids[most])),
            missing_sessions(piece) if lists.feature_names else 0,
        )

    def __add__(self, other: "Size") -> "Size":
        """Return the size of both."""
        return Size(
            self.extent + other.extent,
            self.rows + other.rows,
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
