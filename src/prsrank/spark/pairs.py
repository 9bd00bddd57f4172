"""Counted pairs and lists as DataFrames, side by side for the tasks that train."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw

from prsrank.errors import DataWarning, InputError
from prsrank.pairs.pair_counts import pair_counts
from prsrank.propensity.curve import PropensityCurve
from prsrank.spark.events import SparkEvents
from prsrank.spark.shard_rows import CELL, DOC, EVENT, JUDGED, PAIRS
from prsrank.weighting import Weighting

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# A list with more docs than this share of a worker's is placed by hand, not by its hash.
_HEAVY = 1 / 8
_BUCKETS = 10_000


@dataclass(frozen=True)
class CountedPairs:
    """Pairs, or cells for posterior pairs, counted on Spark; not yet computed.

    Attributes:
        frame: rows of `shard_rows`.
        curve: what turns their keys into propensities; None: keys are propensities, or none.
    """

    frame: "DataFrame"
    curve: PropensityCurve | None


def counted_pairs(
    events: SparkEvents,
    propensities: PropensityCurve | None,
    weighting: Weighting,
    *,
    normalise: str | None = None,
) -> CountedPairs:
    """Count the pairs of a log by the same expression as on DuckDB.

    Raises:
        InputError: if the weighting needs propensities, and there are none.
    """
    from pyspark.sql import functions as F

    frame, key = events.frame, None
    if weighting.needs_propensities:
        key = "position" if propensities is not None else "propensity"
        if key not in frame.columns:
            raise InputError(f"weighting {weighting.name} needs propensities; the log has none")
    kinds = {"click": "int", "position": "int", "propensity": "double"}
    columns = ["query_id", "session_id", "doc_id", "click", *([key] if key else [])]
    posterior = weighting.against == "posterior"
    columns += ["position"] if posterior and key != "position" else []
    weight = "weight" if "weight" in frame.columns else None
    chosen = frame.select(
        *(frame[n].cast(kinds[n]).alias(n) if n in kinds else n for n in columns),
        *([weight] if weight else []),
    )
    curve = propensities if key == "position" else None
    if posterior:
        keys = [n for n in ("position", "propensity") if n in columns]
        return CountedPairs(_cells(chosen, keys, weight), curve)
    counts = pair_counts(
        nw.from_native(chosen).lazy(),
        key=key,
        against="non-clicked" if weighting.against == "non-clicked" else "others",
        count_clicks=normalise == "ndcg",
        weight=weight,
    )
    pairs = counts.to_native().withColumnRenamed("winner", "doc").withColumn("kind", F.lit(PAIRS))
    return CountedPairs(pairs, curve)


def _cells(frame: "DataFrame", keys: Sequence[str], weight: str | None) -> "DataFrame":
    """Count impressions, clicks and their weights by doc and position."""
    from pyspark.sql import functions as F

    sums = {"shown": F.lit(1), "clicked": F.col("click")}
    if weight:
        # the weight of a doc without a click may be anything, also missing
        own = F.when(F.col("click") == 1, F.col(weight).cast("double")).otherwise(0.0)
        sums |= {"weights": own, "squares": own * own}
    grouped = frame.withColumnRenamed("doc_id", "doc").groupBy("query_id", "doc", *keys)
    counts = grouped.agg(*(F.sum(value).alias(name) for name, value in sums.items()))
    return counts.withColumn("kind", F.lit(CELL))


def log_rows(docs: "DataFrame", counts: "DataFrame", judged: "DataFrame | None") -> "DataFrame":
    """Return docs, their counted pairs, and what they are judged by, as rows of `shard_rows`.

    Args:
        docs: of the lists to learn from, as `doc_rows` gives them.
        counts: their counted pairs, or counted cells.
        judged: what `judged_rows` gives, if anything.
    """
    from pyspark.sql import functions as F

    rows = docs.withColumn("kind", F.lit(DOC)).unionByName(counts, allowMissingColumns=True)
    return rows if judged is None else rows.unionByName(judged, allowMissingColumns=True)


def judged_rows(
    events: SparkEvents, docs: "DataFrame", contexts: tuple[str, ...] = ()
) -> "DataFrame":
    """Return events to judge by, and their docs, as rows of `shard_rows`."""
    from pyspark.sql import functions as F

    known = [n for n in ("propensity", "weight") if n in events.frame.columns]
    shown = events.frame.select(
        "query_id",
        F.col("doc_id").alias("doc"),
        "session_id",
        F.col("position").cast("int").alias("position"),
        F.col("click").cast("int").alias("click"),
        *(F.col(name).cast("double").alias(name) for name in known),
        *(F.col(f"`{name}`").cast("string").alias(name) for name in contexts),
        F.lit(EVENT).alias("kind"),
    )
    return docs.withColumn("kind", F.lit(JUDGED)).unionByName(shown, allowMissingColumns=True)


def doc_rows(table: "DataFrame", features: Sequence[str]) -> "DataFrame":
    """Return one row per doc of a query; `twice` tells whether rows of the table disagree.

    Args:
        table: query_id, doc_id and the features, a doc in any number of rows.
        features: their names.
    """
    from pyspark.sql import functions as F

    missing = F.lit(float("nan")).cast("float")
    values = [F.coalesce(F.col(f"`{n}`").cast("float"), missing) for n in features]
    # adding 0 makes one number of 0 and -0; a hash that differs tells what all values would
    rows = table.select(
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


def worker_of(docs: "DataFrame", workers: int) -> "Column":
    """Place queries by their hash, but lists that weigh much one by one on the emptiest worker."""
    from pyspark.sql import functions as F

    if workers == 1:
        return F.lit(0)
    sizes = docs.groupBy("query_id").agg(F.count("*").alias("docs"))
    whole = sizes.agg(F.sum("docs"), F.max("docs")).collect()[0]
    total, most = (int(value or 0) for value in whole)
    if most <= _HEAVY * total / workers:
        return F.expr(f"pmod(xxhash64(query_id), {workers})").cast("int")
    heavy = sizes.where(F.col("docs") > _HEAVY * total / workers).collect()
    placed, room = place_heavy(
        [row.query_id for row in heavy], [row.docs for row in heavy], total, workers
    )
    # the other lists go by their hash, to each worker as many as it has room for
    limits = [round(_BUCKETS * sum(room[: n + 1]) / sum(room)) for n in range(workers)]
    bucket = F.expr(f"pmod(xxhash64(query_id), {_BUCKETS})")
    chosen: Column = F.lit(workers - 1)
    for number in reversed(range(workers - 1)):
        chosen = F.when(bucket < limits[number], F.lit(number)).otherwise(chosen)
    for number, queries in enumerate(placed):
        chosen = F.when(F.col("query_id").isin(queries), F.lit(number)).otherwise(chosen)
    return chosen


def place_heavy(
    queries: Sequence[Any], docs: Sequence[int], total: int, workers: int
) -> tuple[list[list[Any]], list[float]]:
    """Put lists, the longest first, on the worker with the fewest docs; warn of one too long.

    Args:
        queries: the long lists.
        docs: how many docs each has.
        total: docs of all lists.
        workers: how many there are.

    Returns:
        The queries of each worker, and how many docs of other lists each has room for.

    >>> place_heavy(["a", "b", "c"], [40, 30, 20], total=200, workers=2)
    ([['a'], ['b', 'c']], [60.0, 50.0])
    """
    placed: list[list[Any]] = [[] for _ in range(workers)]
    filled = [0.0] * workers
    for size, query in sorted(zip(docs, queries, strict=True), key=lambda item: -item[0]):
        if size > total / workers:
            warnings.warn(
                f"the list of query {query} has {size:,} of {total:,} docs, more than the share of "
                f"one of {workers} workers: the others will wait for it",
                DataWarning,
                stacklevel=5,
            )
        number = filled.index(min(filled))
        filled[number] += size
        placed[number].append(query)
    share = total / workers
    return placed, [max(share - taken, share / 100) for taken in filled]
