"""Aggregates of a log on Spark: nothing else leaves the executors here."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning, InputError
from prsrank.logs.event_source import REQUIRED
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
from prsrank.spark.event_counts import (
    busiest_query,
    cell_counts,
    check_types,
    repeating_sessions,
    row_problems,
    session_counts,
    totals,
)
from prsrank.spark.events import SparkEvents
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
    frame = lazy(events.frame)
    check_types(frame)
    found = {name: int(values[0] or 0) for name, values in arrays_of(totals(frame)).items()}
    if not found["rows"]:
        raise InputError(f"{events.name}: the log is empty: it has no rows")
    for i, (condition, problem) in enumerate(row_problems(frame)):
        if found[f"problem_{i}"]:
            _raise_row(frame, condition, problem, found[f"problem_{i}"], found["rows"])
    if not events.checked:
        _warn_of_skew(frame, found["rows"])
    return {"rows": found["rows"], "clicks": found["clicks"]}


def check_sessions(events: SparkEvents) -> None:
    """Raise an InputError that names a session with a doc, or a position, in several rows."""
    found = repeating_sessions(lazy(events.frame))
    first = found.head(1).to_native().collect()
    if first:
        row = first[0]
        what = "a doc" if row["docs"] < row["rows"] else "a position"
        raise InputError(
            f"{events.name}: {what} twice in session {row['session_id']} of query "
            f"{row['query_id']} ({_rows(found)} such sessions)"
        )


def _raise_row(frame: nw.LazyFrame, condition: nw.Expr, problem: str, count: int, of: int) -> None:
    row = frame.filter(condition).select(*REQUIRED).head(1).to_native().collect()[0].asDict()
    raise InputError(
        f"{problem.format(**row)} in {count} of {of} rows, first for doc {row['doc_id']} of "
        f"session {row['session_id']} of query {row['query_id']}"
    )


def _warn_of_skew(frame: nw.LazyFrame, rows: int) -> None:
    most = busiest_query(frame).to_native().collect()[0]
    if rows >= _MANY_ROWS and most["rows"] > _SKEWED * rows:
        warnings.warn(
            f"query {most['query_id']} has {most['rows'] / rows:.0%} of all {rows:,} rows; its "
            "sessions are counted in several tasks, but its list is trained on one rank",
            DataWarning,
            stacklevel=4,
        )


def log_counts(events: SparkEvents) -> Mapping[str, int]:
    """Return what `prsrank.audit.event_tables.counts_of` returns."""
    frame = lazy(_coded(events, units=1))
    rows = arrays_of(frame.select(nw.len().alias("rows"), _clicked().alias("clicks")))
    sessions = session_counts(frame)
    whole = arrays_of(
        sessions.select(
            nw.len().alias("sessions"),
            nw.col("last").max().alias("positions"),
            (nw.col("design") != "").cast(nw.Int64).sum().alias("randomised_sessions"),
        )
    )
    lists = sessions.select("query_id", "rows", "ranking").unique()
    docs = frame.select("query_id", "doc_id").unique()
    return {
        "rows": int(rows["rows"][0]),
        "sessions": int(whole["sessions"][0]),
        "lists": _rows(lists),
        "queries": _rows(frame.select("query_id").unique()),
        "docs": _rows(docs),
        "clicks": int(rows["clicks"][0] or 0),
        "positions": int(whole["positions"][0] or 0),
        "randomised_sessions": int(whole["randomised_sessions"][0] or 0),
    }


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
    """Return the events with `design`, `unit` and `slot`, which narwhals cannot make."""
    from pyspark.sql import functions as F

    frame = events.frame
    kind = dict(frame.dtypes).get("randomised")
    design = F.lit("")
    if kind == "boolean":
        design = F.when(F.col("randomised"), F.lit("uniform")).otherwise(F.lit(""))
    elif kind is not None:
        design = F.coalesce(F.col("randomised").cast("string"), F.lit(""))
    session = F.concat_ws("|", F.col("query_id").cast("string"), F.col("session_id").cast("string"))
    # 40 bits: the sum over a list of any length that can occur stays within 63
    slot = F.shiftrightunsigned(F.xxhash64("doc_id", F.col("position").cast("long")), 24)
    return frame.select(
        "query_id",
        "session_id",
        "doc_id",
        F.col("position").cast("int").alias("position"),
        F.col("click").cast("int").alias("click"),
        design.alias("design"),
        (F.crc32(session.cast("binary")) % F.lit(units)).cast("int").alias("unit"),
        slot.alias("slot"),
    )


def _clicked() -> nw.Expr:
    return nw.col("click").cast(nw.Int64).sum()


def _rows(frame: nw.LazyFrame) -> int:
    return int(np.asarray(arrays_of(frame.select(nw.len().alias("n")))["n"])[0])
