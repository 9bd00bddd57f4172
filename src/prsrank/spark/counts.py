"""Aggregates of a log on Spark: nothing else leaves the executors here."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from prsrank.audit.event_tables import counts_of, open_tables
from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning, InputError
from prsrank.logs.event_source import EVENTS, check_columns, check_rows
from prsrank.logs.row_rules import click_sql, design_sql
from prsrank.propensity.bootstrap import MOST_UNITS, NO_CLICKS
from prsrank.propensity.curve import Propensities
from prsrank.propensity.randomised import RandomisedEstimator
from prsrank.propensity.regression_em import RegressionEM
from prsrank.propensity.swap import SwapEstimator, swap_pairs
from prsrank.spark.cells import em_on_spark, harvest_on_spark
from prsrank.spark.counted_log import (
    CountedLog,
    estimate_from_cells,
)
from prsrank.spark.event_counts import cell_counts
from prsrank.spark.events import SparkEvents, spark_sql
from prsrank.spark.experiment_counts import (
    shuffled_arrays,
    shuffled_counts,
    swapped_arrays,
    swapped_counts,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A query with more than this share of all rows is worth a word.
_SKEWED = 0.05
_MANY_ROWS = 1000


def lazy(frame: "DataFrame") -> nw.LazyFrame:
    """Return a DataFrame as narwhals sees it."""
    return nw.from_native(frame).lazy()


def arrays_of(frame: nw.LazyFrame) -> dict[str, npt.NDArray]:
    """Bring the columns of aggregates to the driver; ids as integers or strings."""
    from prsrank.spark.shard_rows import ids_of

    table = frame.to_native().toArrow().combine_chunks()
    columns = {}
    for name in table.column_names:
        chunked = table.column(name)
        values = chunked.chunk(0) if chunked.num_chunks else chunked.combine_chunks()
        text = name in ("query_id", "doc_id", "winner", "loser", "design")
        columns[name] = ids_of(values) if text else values.to_numpy(zero_copy_only=False)
    return columns


def check_log(events: SparkEvents) -> Mapping[str, int]:
    """Raise an InputError for rows that cannot be used; warn, once, of a query that has too many.

    Returns:
        "rows" and "clicks".
    """
    check_columns(events, events.contexts)
    rows = check_rows(events)
    if not events.checked:
        _warn_of_skew(events, rows)
    return {"rows": rows, "clicks": events.total(f"count_if({click_sql(events)})")[0]}


def check_sessions(events: SparkEvents) -> None:
    """Raise an InputError that names a session with a doc, or a position, in several rows."""
    found = events.grouped(
        "query_id, session_id",
        "query_id, session_id, count(*) AS n, count(DISTINCT doc_id) AS docs, "
        'count(DISTINCT "position") AS slots',
    ).where("docs < n OR slots < n")
    for query, session, rows, docs in found.rows("query_id, session_id, n, docs"):
        what = "a doc" if docs < rows else "a position"
        (count,) = found.total("count(*)")
        raise InputError(
            f"{events.name}: {what} twice in session {session} of query {query} "
            f"({count} such sessions)"
        )


def _warn_of_skew(events: SparkEvents, rows: int) -> None:
    query, most = events.query(
        f"SELECT query_id, count(*) AS n FROM {EVENTS} GROUP BY query_id "  # noqa: S608
        "ORDER BY n DESC LIMIT 1"
    )[0]
    if rows >= _MANY_ROWS and most > _SKEWED * rows:
        warnings.warn(
            f"query {query} has {most / rows:.0%} of all {rows:,} rows; its "
            "sessions are counted in several tasks, but its list is trained on one rank",
            DataWarning,
            stacklevel=4,
        )


def log_counts(events: SparkEvents) -> Mapping[str, int]:
    """Return the counts of an audit."""
    with open_tables(events, contexts=(), features=(), base=1) as tables:
        return counts_of(tables)


def estimate_on_spark(
    events: SparkEvents, estimator: Any, *, dataset: RankingDataset | None, seed: int
) -> Propensities:
    """Return the curve that an estimator finds, from aggregates of the log.

    The curve equals the local engine's; where sessions are the units of the bootstrap, they
    are grouped by a hash, so intervals differ within the chance of the bootstrap.
    """
    checked = check_log(events)
    if not hasattr(estimator, "depth"):
        raise InputError("this method estimates nothing from a log: it needs no engine")
    if isinstance(estimator, (RandomisedEstimator, SwapEstimator)):
        return _from_experiment(events, estimator, checked["clicks"], seed)
    frame = lazy(events.frame)
    last = int(arrays_of(frame.select(nw.col("position").cast(nw.Int64).max()))["position"][0])
    cells = cell_counts(frame)
    if isinstance(estimator, RegressionEM) and dataset is not None:
        log = CountedLog.of(
            arrays_of(cells),
            max_position=last,
            sessions=checked["rows"],
            clicks=checked["clicks"],
        )
        return estimate_from_cells(log, estimator, dataset=dataset, seed=seed)
    if not checked["clicks"]:
        raise InputError(NO_CLICKS)
    depth = min(estimator.positions or last, last)
    options: Any = {"depth": depth, "collect": arrays_of, "seed": seed}
    if isinstance(estimator, RegressionEM):
        return em_on_spark(cells, estimator, **options)
    return harvest_on_spark(cells, estimator, **options)


def _from_experiment(
    events: SparkEvents,
    estimator: RandomisedEstimator | SwapEstimator,
    clicks: int,
    seed: int,
) -> Propensities:
    plain = lazy(_coded(events, units=1))
    last = int(arrays_of(plain.select(nw.col("position").max()))["position"][0])
    if not clicks:
        raise InputError(NO_CLICKS)
    depth = min(estimator.positions or last, last)
    designs = tuple(sorted(arrays_of(plain.select("design").unique())["design"].tolist()))
    marked = plain.filter(nw.col("design") != "").select("query_id", "session_id").unique()
    units = min(_rows(marked), MOST_UNITS)
    frame = lazy(_coded(events, units=max(units, 1))).filter(nw.col("design") != "")
    if isinstance(estimator, RandomisedEstimator):
        rows = arrays_of(shuffled_counts(frame, designs, depth=depth))
        units = units if len(rows["unit"]) else 0
        here, first = shuffled_arrays(rows, units=units, depth=depth)
        return estimator.curve(here, first, seed=seed)
    pairs, _ = swap_pairs(designs, depth=depth)
    rows = arrays_of(swapped_counts(frame, designs, depth=depth))
    counts = swapped_arrays(rows, pairs, units=units if len(rows["unit"]) else 0)
    return estimator.curve(pairs, counts, depth=depth, seed=seed)


def _coded(events: SparkEvents, *, units: int) -> "DataFrame":
    """Return the events with `design` and `unit`, which narwhals cannot make."""
    from pyspark.sql import functions as F

    frame = events.frame
    design = F.expr(spark_sql(design_sql(events)))
    session = F.concat_ws("|", F.col("query_id").cast("string"), F.col("session_id").cast("string"))
    return frame.select(
        "query_id",
        "session_id",
        "doc_id",
        F.col("position").cast("int").alias("position"),
        F.col("click").cast("int").alias("click"),
        design.alias("design"),
        (F.crc32(session.cast("binary")) % F.lit(units)).cast("int").alias("unit"),
    )


def _rows(frame: nw.LazyFrame) -> int:
    return int(np.asarray(arrays_of(frame.select(nw.len().alias("n")))["n"])[0])
