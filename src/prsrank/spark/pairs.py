"""Counted pairs and lists as DataFrames, side by side for the tasks that train."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw

from prsrank.errors import DataWarning, InputError
from prsrank.pairs.pair_counts import pair_counts
from prsrank.propensity.curve import PropensityCurve
from prsrank.spark.counts import arrays_of, lazy
from prsrank.spark.events import SparkEvents
from prsrank.spark.shard_rows import DOC, EVENT, JUDGED, PAIRS, Recipe, shard_of_rows
from prsrank.weighting import Weighting

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow
    from pyspark.sql import Column, DataFrame

# A list with more docs than this share of a rank's is placed by hand, not by its hash.
_HEAVY = 1 / 8
_BUCKETS = 10_000


@dataclass(frozen=True)
class CountedPairs:
    """Pairs counted on Spark, not yet computed.

    Attributes:
        frame: the columns of `pair_counts`.
        curve: what turns their keys into propensities; None: keys are propensities, or none.
    """

    frame: nw.LazyFrame
    curve: PropensityCurve | None


def counted_pairs(
    events: SparkEvents,
    propensities: PropensityCurve | None,
    weighting: Weighting,
    *,
    normalise: str | None = None,
    context: str | None = None,
) -> CountedPairs:
    """Count the pairs of a log by the same expression as on DuckDB.

    With a context, the key of a pair is the propensity itself, looked up by position and
    context on the executors.

    Raises:
        InputError: if the weighting needs propensities, and there are none.
    """
    frame, curve, key = events.frame, None, None
    if weighting.needs_propensities:
        key = "position"
        curve = propensities
        if propensities is None:
            if "propensity" not in frame.columns:
                raise InputError(f"weighting {weighting.name} needs propensities; the log has none")
            key = "propensity"
        elif context is not None:
            frame, curve, key = _with_propensities(events, propensities, context), None, "key"
    columns = ["query_id", "session_id", "doc_id", "click", *([key] if key else [])]
    frame = frame.withColumn("click", frame["click"].cast("int"))
    if key == "position":
        frame = frame.withColumn(key, frame[key].cast("int"))
    elif key is not None:
        frame = frame.withColumn(key, frame[key].cast("double"))
    weight = "weight" if "weight" in frame.columns else None
    counts = pair_counts(
        lazy(frame.select(*columns, *([weight] if weight else []))),
        key=key,
        against="non-clicked" if weighting.against == "non-clicked" else "others",
        count_clicks=normalise == "ndcg",
        weight=weight,
    )
    return CountedPairs(counts, curve)


def _with_propensities(
    events: SparkEvents, propensities: PropensityCurve, context: str
) -> "DataFrame":
    from pyspark.sql import functions as F

    if context not in events.contexts:
        known = ", ".join(events.contexts) or "none"
        raise InputError(f"context {context!r} is not in the log (it has: {known})")
    value = F.coalesce(F.col(f"`{context}`").cast("string"), F.lit(""))
    frame = events.frame.withColumn("context_value", value)
    found = frame.select(F.col("position").cast("int").alias("position"), "context_value")
    rows = found.distinct().collect()
    table = [
        (
            r.position,
            r.context_value,
            float(propensities.at([r.position], context=r.context_value)[0]),
        )
        for r in rows
    ]
    known_at = frame.sparkSession.createDataFrame(
        table, "position int, context_value string, key double"
    )
    frame = frame.withColumn("position", F.col("position").cast("int"))
    return frame.join(F.broadcast(known_at), on=["position", "context_value"], how="inner")


def log_rows(
    events: SparkEvents, counts: nw.LazyFrame, ranks: int, validation: SparkEvents | None = None
) -> "DataFrame":
    """Return docs and counted pairs as rows of `prsrank.spark.shard_rows`, with their rank.

    Args:
        events: to learn from.
        counts: their counted pairs.
        ranks: how many there are.
        validation: events to judge by.
    """
    from pyspark.sql import functions as F

    docs = _docs(events).withColumn("kind", F.lit(DOC))
    pairs = counts.to_native().withColumnRenamed("winner", "doc").withColumn("kind", F.lit(PAIRS))
    rows = docs.unionByName(pairs, allowMissingColumns=True)
    if validation is not None:
        rows = rows.unionByName(_judged(validation, ()), allowMissingColumns=True)
    return rows.withColumn("rank", _rank(events, ranks))


def judged_rows(events: SparkEvents, ranks: int, contexts: tuple[str, ...] = ()) -> "DataFrame":
    """Return events to judge by, and their docs, as rows of `shard_rows`, with their rank."""
    return _judged(events, contexts).withColumn("rank", _rank(events, ranks))


def _judged(events: SparkEvents, contexts: tuple[str, ...]) -> "DataFrame":
    from pyspark.sql import functions as F

    frame = events.frame
    known = [n for n in ("propensity", "weight") if n in frame.columns]
    shown = frame.select(
        "query_id",
        F.col("doc_id").alias("doc"),
        "session_id",
        F.col("position").cast("int").alias("position"),
        F.col("click").cast("int").alias("click"),
        *(F.col(name).cast("double").alias(name) for name in known),
        *(F.col(f"`{name}`").cast("string").alias(name) for name in contexts),
        F.lit(EVENT).alias("kind"),
    )
    docs = _docs(events).withColumn("kind", F.lit(JUDGED))
    return docs.unionByName(shown, allowMissingColumns=True)


def _docs(events: SparkEvents) -> "DataFrame":
    """Return one row per doc of a query; `twice` tells whether sessions saw it differ."""
    from pyspark.sql import functions as F

    if not events.features:
        raise InputError(f"{events.name}: no features: name columns of the log in the mapping")
    missing = F.lit(float("nan")).cast("float")
    values = [F.coalesce(F.col(f"`{n}`").cast("float"), missing) for n in events.features]
    # adding 0 makes one number of 0 and -0; a hash that differs tells what all values would
    rows = events.frame.select(
        "query_id",
        F.col("doc_id").alias("doc"),
        *(value.alias(f"f{i}") for i, value in enumerate(values)),
        F.xxhash64(*(value + F.lit(0.0).cast("float") for value in values)).alias("seen"),
    )
    names = [f"f{i}" for i in range(len(values))]
    grouped = rows.groupBy("query_id", "doc").agg(
        *(F.first(name).alias(name) for name in names),
        (F.min("seen") != F.max("seen")).alias("twice"),
    )
    return grouped.select("query_id", "doc", "twice", F.array(*names).alias("features"))


def _rank(events: SparkEvents, ranks: int) -> "Column":
    """Place queries by their hash, but lists that weigh much one by one on the emptiest rank."""
    from pyspark.sql import functions as F

    if ranks == 1:
        return F.lit(0)
    frame = lazy(events.frame).select("query_id", "doc_id").unique()
    sizes = frame.group_by("query_id").agg(nw.len().alias("docs"))
    whole = sizes.select(nw.col("docs").sum().alias("all"), nw.col("docs").max().alias("most"))
    total, most = (int(values[0] or 0) for values in arrays_of(whole).values())
    if most <= _HEAVY * total / ranks:
        return F.expr(f"pmod(xxhash64(query_id), {ranks})").cast("int")
    heavy = arrays_of(sizes.filter(nw.col("docs") > _HEAVY * total / ranks))
    placed, room = place_heavy(heavy["query_id"].tolist(), heavy["docs"].tolist(), total, ranks)
    # the other lists go by their hash, to each rank as many as it has room for
    limits = [round(_BUCKETS * sum(room[: rank + 1]) / sum(room)) for rank in range(ranks)]
    bucket = F.expr(f"pmod(xxhash64(query_id), {_BUCKETS})")
    chosen: Column = F.lit(ranks - 1)
    for rank in reversed(range(ranks - 1)):
        chosen = F.when(bucket < limits[rank], F.lit(rank)).otherwise(chosen)
    for rank, queries in enumerate(placed):
        chosen = F.when(F.col("query_id").isin(queries), F.lit(rank)).otherwise(chosen)
    return chosen


def place_heavy(
    queries: Sequence[Any], docs: Sequence[int], total: int, ranks: int
) -> tuple[list[list[Any]], list[float]]:
    """Put lists, the longest first, on the rank with the fewest docs; warn of one too long.

    Args:
        queries: the long lists.
        docs: how many docs each has.
        total: docs of all lists.
        ranks: how many ranks there are.

    Returns:
        The queries of each rank, and how many docs of other lists each has room for.

    >>> place_heavy(["a", "b", "c"], [40, 30, 20], total=200, ranks=2)
    ([['a'], ['b', 'c']], [60.0, 50.0])
    """
    placed: list[list[Any]] = [[] for _ in range(ranks)]
    filled = [0.0] * ranks
    for size, query in sorted(zip(docs, queries, strict=True), key=lambda item: -item[0]):
        if size > total / ranks:
            warnings.warn(
                f"the list of query {query} has {size:,} of {total:,} docs, more than the share of "
                f"one of {ranks} ranks: the others will wait for it",
                DataWarning,
                stacklevel=5,
            )
        rank = filled.index(min(filled))
        filled[rank] += size
        placed[rank].append(query)
    return placed, [max(total / ranks - taken, total / ranks / 100) for taken in filled]


def packed_shards(rows: "DataFrame", recipe: Recipe) -> "DataFrame":
    """Make one packed shard of each partition, kept on the executors; empty ones are left out."""
    from pyspark import StorageLevel

    def task(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        import pyarrow as pa

        full = (batch for batch in batches if batch.num_rows)
        first = next(full, None)
        if first is not None:
            shard = shard_of_rows(_with(first, full), recipe)
            yield pa.record_batch({"shard": pa.array([shard.pack()], pa.binary())})

    return rows.mapInArrow(task, "shard binary").persist(StorageLevel.MEMORY_AND_DISK)


def _with(first: Any, rest: Any) -> "Iterator[Any]":
    yield first
    yield from rest
