"""Rows of a log and of its docs as DataFrames, and the one shuffle that makes pieces of them."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prsrank.logs.row_rules import time_sql
from prsrank.spark.events import SparkEvents, spark_sql
from prsrank.spark.pieces import Batches, SparkPieces
from prsrank.spark.placing import BLOB, DOC, EVENT, Sessions, packed, unpacked
from prsrank.types import Longs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Bytes of features and events that a task without a barrier holds at once, about.
_PIECE = 64 << 20
# About as many bytes has an event that a task makes a log of.
_EVENT = 64
# At least so many pieces has a log, whatever runs at once: sums depend on them in the last digit.
_LEAST = 2


def pieces_of_log(
    events: SparkEvents,
    features: tuple[str, ...],
    docs: "DataFrame | None",
    kept: list["DataFrame"],
) -> SparkPieces[Sessions]:
    """Bring the rows of each query, and its docs, to one task, which makes a piece of them.

    How many pieces there are depends on the log alone.

    Args:
        events: checked.
        features: names of the features.
        docs: what `doc_rows` gives; None without features.
        kept: is told of what stays on the workers.
    """
    size = events.usable * _EVENT
    if docs is not None:
        size += _about_distinct(docs) * 4 * len(features)
    count = max(_LEAST, -(-size // _PIECE))
    keys = partition_keys(count)
    blobs = _packed(event_rows(events), EVENT, keys)
    if docs is not None:
        blobs = blobs.unionByName(_packed(docs, DOC, keys))
    rows = blobs.repartition(count, "key")
    load = partial(unpacked, feature_names=features, contexts=events.contexts)
    return SparkPieces(rows, count, load, kept)


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


def event_rows(events: SparkEvents) -> "DataFrame":
    """Return what a click log is made of, one row per shown doc."""
    from pyspark.sql import functions as F

    kinds = {"position": "int", "click": "int", "propensity": "double", "weight": "double"}
    names = ["query_id", "session_id", "doc_id", *kinds, "randomised"]
    columns = [
        F.col(name).cast(kinds[name]).alias(name) if name in kinds else F.col(name)
        for name in names
        if name in events.types
    ]
    if "timestamp" in events.types:
        time = spark_sql(f"SELECT {time_sql(events)}").removeprefix("SELECT ")
        columns.append(F.expr(time).alias("timestamp"))
    columns += [F.col(f"`{name}`").cast("string").alias(name) for name in events.contexts]
    return events.frame.select(*columns)


def doc_rows(table: "DataFrame", features: Sequence[str]) -> "DataFrame":
    """Return docs with their features, and hashes that tell equal docs and equal features.

    Args:
        table: query_id, doc_id and the features, a doc in any number of rows.
        features: their names.
    """
    from pyspark.sql import functions as F

    missing, zero = (F.lit(value).cast("float") for value in (float("nan"), 0.0))
    # adding 0 makes one number of 0 and -0
    values = [F.coalesce(F.col(f"`{n}`").cast("float"), missing) + zero for n in features]
    return table.select(
        "query_id",
        "doc_id",
        F.array(*values).alias("features"),
        F.xxhash64("query_id", "doc_id").alias("doc_key"),
        F.xxhash64(*values).alias("seen"),
    )


def _packed(rows: "DataFrame", kind: int, keys: Sequence[int]) -> "DataFrame":
    from pyspark.sql import functions as F

    bucket = F.expr(f"pmod(xxhash64(query_id), {len(keys)})").cast("int").alias("bucket")

    def task(batches: Batches) -> Batches:
        return packed(batches, kind, keys)

    return rows.select("*", bucket).mapInArrow(task, BLOB)


def _about_distinct(docs: "DataFrame") -> int:
    from pyspark.sql import functions as F

    return int(docs.agg(F.approx_count_distinct("doc_key")).collect()[0][0])
