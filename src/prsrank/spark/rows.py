"""Rows of a log and of its docs, and the one shuffle that makes pieces of them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prsrank.logs.row_rules import time_sql
from prsrank.logs.session_pieces import Sessions
from prsrank.logs.sql_text import quoted_name
from prsrank.spark.events import SparkEvents
from prsrank.spark.pieces import Batches, SparkPieces
from prsrank.spark.placing import BLOB, DOC, EVENT, packed, unpacked
from prsrank.spark.reading import reading_of
from prsrank.types import Longs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Bytes of features and events that a task without a barrier holds at once, about.
_PIECE = 64 << 20
# About as many bytes has an event that a task makes a log of.
_EVENT = 64
# At least so many pieces has a log, whatever runs at once: sums depend on them in the last digit.
_LEAST = 2
# One of so many docs is counted.
_SOME = 16


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
    keys = partition_keys(count)
    shown = events.select(event_columns(events))
    passes: list[dict[int, SparkEvents]] = [{EVENT: shown}]
    if docs is not None:
        rows = docs.select(", ".join(map(quoted_name, ("query_id", "doc_id", *features))))
        passes = [{EVENT: shown, DOC: rows}] if docs is events else [*passes, {DOC: rows}]
    blobs, *others = (_blobs(one, events.usable, keys) for one in passes)
    for other in others:
        blobs = blobs.unionByName(other)
    load = partial(unpacked, feature_names=features, contexts=events.contexts)
    return SparkPieces(blobs.repartition(count, "key"), count, load, kept)


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


def _blobs(rows: Mapping[int, SparkEvents], usable: int, keys: Sequence[int]) -> "DataFrame":
    """Return the blobs that tasks make of events or docs, or of both, in one pass over a log.

    Tasks read the files by themselves where they can.
    """
    reading = reading_of(rows, usable)
    if reading is None:
        frames = [_packed(source.frame, kind, keys) for kind, source in rows.items()]
        return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])

    def task(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from reading.blobs(number, keys)

    count = len(reading.tasks)
    session = next(iter(rows.values())).session
    return session.range(0, count, 1, count).mapInArrow(task, BLOB)


def _packed(rows: "DataFrame", kind: int, keys: Sequence[int]) -> "DataFrame":
    """Return the blobs that tasks make of rows which Spark hands to them."""
    if kind == DOC:
        rows = _with_list(rows)

    def task(batches: Batches) -> Batches:
        return packed(batches, kind, keys)

    return rows.mapInArrow(task, BLOB)


def _with_list(docs: "DataFrame") -> "DataFrame":
    """Return query_id, doc_id, and all features as one list."""
    from pyspark.sql import functions as F

    missing = F.lit(float("nan")).cast("float")
    values = [
        F.coalesce(F.col(f"`{n.replace('`', '``')}`").cast("float"), missing)
        for n in docs.columns[2:]
    ]
    return docs.select("query_id", "doc_id", F.array(*values).alias("features"))


def partition_keys(count: int) -> list[int]:
    """Return a key for each of so many partitions: Spark finds a row's by a hash of its key."""
    parts, firsts = np.unique(spark_hash(np.arange(64 * count)) % count, return_index=True)
    assert len(parts) == count  # noqa: S101
    keys: list[int] = firsts.tolist()
    return keys


def spark_hash(keys: Longs) -> Longs:
    """Return Spark's hash of integers of 32 bits: Murmur3, seed 42.

    >>> spark_hash(np.arange(3)).tolist()
    [933211791, -559580957, 1765031574]
    """
    mixed = _turned(keys.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    mixed = _turned(mixed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed ^= np.uint32(4)  # bytes of a key
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return mixed.view(np.int32).astype(np.int64)


def _turned(bits: npt.NDArray, by: int) -> npt.NDArray:
    return (bits << np.uint32(by)) | (bits >> np.uint32(32 - by))


def _about_distinct(docs: SparkEvents) -> int:
    from pyspark.sql import functions as F

    doc = F.xxhash64("query_id", "doc_id")
    # the count takes row by row; the filter is compiled
    some = docs.frame.select(doc.alias("doc")).where(f"doc % {_SOME} = 0")
    return _SOME * int(some.agg(F.approx_count_distinct("doc")).collect()[0][0])
