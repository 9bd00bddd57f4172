"""Parts of a log on Spark: filters of the same rows, which stay where they are."""

from typing import TYPE_CHECKING

import numpy as np

from prsrank.errors import InputError
from prsrank.fit.parts import (
    BUCKETS,
    HALF,
    HELD_OUT,
    QUERY,
    RANDOMISED,
    TIME,
    TRAIN,
    VALIDATION,
    VALIDATION_SHARE,
    Split,
    bucket_limit,
)
from prsrank.logs.pieces import Extent
from prsrank.logs.row_rules import click_sql, design_sql, time_sql
from prsrank.spark.events import SparkEvents, spark_sql
from prsrank.types import Longs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PART = "prsrank_part"
DROPPED = "dropped"
_BUCKET, _HELD, _SHARED = "prsrank_bucket", "prsrank_held", "prsrank_shared"
# Bins of time that a cut is looked for in, again and again until one is a microsecond wide.
_BINS = 10_000


def with_parts(events: SparkEvents, how: Split) -> "DataFrame":
    """Return events with their part (PART) and the half of their query (HALF)."""
    from pyspark.sql import functions as F

    bucket = (
        f"cast(conv(left(md5(concat('{how.seed}:', cast(query_id AS string))), 8), 16, 10) "
        f"AS bigint) % {BUCKETS}"
    )
    frame = events.frame.withColumn(_BUCKET, F.expr(bucket))
    frame = _with_shared(_with_held_out(frame, events, how), how)
    learning = frame.where(f"NOT {_HELD} AND NOT {_SHARED}")
    histogram = _histogram(learning)
    # where nothing is left to learn from, the parts say so
    limit = bucket_limit(histogram, VALIDATION_SHARE) if histogram.any() else 0
    part = (
        f"CASE WHEN {_HELD} THEN '{HELD_OUT}' WHEN {_SHARED} THEN '{DROPPED}' "
        f"WHEN {_BUCKET} < {limit} THEN '{VALIDATION}' ELSE '{TRAIN}' END"
    )
    half = f"CASE WHEN {_BUCKET} % 2 = 0 THEN '1' ELSE '2' END"
    marked = frame.withColumn(PART, F.expr(part)).withColumn(HALF, F.expr(half))
    return marked.drop(_BUCKET, _HELD, _SHARED)


def extents(frame: "DataFrame", events: SparkEvents, *by: str) -> dict[tuple[str, ...], Extent]:
    """Return how large each group of events is, by the values of columns."""
    from pyspark.sql import functions as F

    rows = frame.groupBy(*by).agg(
        F.count_distinct("query_id", "session_id"),
        F.count_distinct("query_id"),
        F.sum(
            F.expr(spark_sql(f"SELECT {click_sql(events)}").removeprefix("SELECT ")).cast("long")
        ),
        F.max(F.col("position").cast("int")),
    )
    found = rows.collect()
    return {
        tuple(row[: len(by)]): Extent(*(int(value or 0) for value in row[len(by) :]))
        for row in found
    }


def _with_held_out(frame: "DataFrame", events: SparkEvents, how: Split) -> "DataFrame":
    from pyspark.sql import functions as F

    if how.way == QUERY:
        limit = bucket_limit(_histogram(frame), how.share)
        return frame.withColumn(_HELD, F.col(_BUCKET) < limit)
    if how.way == RANDOMISED:
        design = spark_sql(f"SELECT {design_sql(events)} <> ''").removeprefix("SELECT ")
        return frame.withColumn(_HELD, F.expr(design))
    assert how.way == TIME  # noqa: S101
    if "timestamp" not in events.types:
        raise InputError("the log has no timestamps to split by")
    time = spark_sql(f"SELECT {time_sql(events)}").removeprefix("SELECT ")
    sessions = frame.groupBy("query_id", "session_id").agg(F.min(F.expr(time)).alias("begin"))
    cut = _time_cut(sessions, how.share)
    late = sessions.where(F.col("begin") >= cut).select("query_id", "session_id")
    marked = late.withColumn(_HELD, F.lit(True))
    joined = frame.join(marked, on=["query_id", "session_id"], how="left")
    return joined.withColumn(_HELD, F.coalesce(_HELD, F.lit(False)))


def _with_shared(frame: "DataFrame", how: Split) -> "DataFrame":
    """Mark events of queries that have sessions to judge by."""
    from pyspark.sql import functions as F

    if how.way == QUERY:
        return frame.withColumn(_SHARED, F.col(_HELD))
    queries = frame.where(_HELD).select("query_id").distinct().withColumn(_SHARED, F.lit(True))
    joined = frame.join(queries, on="query_id", how="left")
    return joined.withColumn(_SHARED, F.coalesce(_SHARED, F.lit(False)))


def _histogram(frame: "DataFrame") -> Longs:
    """Count the queries of each bucket."""
    found = frame.select("query_id", _BUCKET).distinct().groupBy(_BUCKET).count().collect()
    histogram = np.zeros(BUCKETS, np.int64)
    for bucket, count in found:
        histogram[bucket] = count
    return histogram


def _time_cut(sessions: "DataFrame", share: float) -> int:
    """Return the time from which on the latest share of the sessions begins.

    That of the session at index (1 - share) n in the order of time, found by counts in bins:
    no sort of all sessions, and no more than _BINS numbers come to the driver at once.
    """
    from pyspark.sql import functions as F

    first, last, count = sessions.agg(F.min("begin"), F.max("begin"), F.count("*")).collect()[0]
    index, low, width = min(round((1 - share) * count), count - 1), first, last - first + 1
    while width > 1:
        step = -(-width // _BINS)
        bins = sessions.where(F.col("begin").between(low, low + width - 1)).groupBy(
            F.floor((F.col("begin") - low) / step).alias("bin")
        )
        for number, inside in sorted(bins.count().collect()):
            if index < inside:
                low, width = low + number * step, step
                break
            index -= inside
    if low == first:
        raise InputError(f"a split at {np.datetime64(low, 'us')} leaves one part without sessions")
    return int(low)
