"""Parts of a log on Spark: filters of the same rows, which stay where they are."""

from dataclasses import replace

from prsrank.logs.log_split import (
    BUCKETS,
    HALF,
    EventParts,
    LogSplit,
    PartCounts,
    half_sql,
    randomised_sql,
)
from prsrank.spark.counts import check_log, check_sessions
from prsrank.spark.events import SparkEvents

_BUCKET = f"cast(conv(left(md5(cast(query_id AS string)), 8), 16, 10) AS bigint) % {BUCKETS}"


def split_on_spark(events: SparkEvents, how: LogSplit) -> EventParts:
    """Split a log into parts without a common query; see `Engine.split`."""
    from pyspark.sql import functions as F

    if not events.checked:
        check_log(events)
        check_sessions(events)
    frame = events.frame
    marked = _randomised(events)
    if how.held_out is None:
        shared = frame.where(marked).select("query_id").distinct()
        frame = frame.join(shared.withColumn("shared", F.lit(True)), on="query_id", how="left")
    part = how.part(_BUCKET, randomised=marked, shared="coalesce(shared, false)")
    half = half_sql(_BUCKET)
    frame = frame.withColumn("log_part", F.expr(part)).withColumn(HALF, F.expr(half))
    counted = frame.groupBy("log_part", HALF).agg(
        F.count_distinct("query_id", "session_id"),
        F.count_distinct("query_id"),
        F.sum(F.col("click").cast("long")),
    )

    def where(condition: str, *contexts: str) -> SparkEvents:
        return replace(events, frame=frame.where(condition), contexts=contexts, checked=True)

    return EventParts.of(PartCounts(counted.collect()), how, where, half=f"`{HALF}`")


def _randomised(events: SparkEvents) -> str:
    return randomised_sql(dict(events.frame.dtypes).get("randomised"))
