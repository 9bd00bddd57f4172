"""Harvesting and EM on Spark: counts per (query, doc, position) stay on the executors."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from prsrank.propensity.bootstrap import MOST_UNITS
from prsrank.propensity.cells import ENOUGH_QUERIES, Cells
from prsrank.propensity.curve import Propensities
from prsrank.propensity.em_steps import CellLikelihood
from prsrank.propensity.harvest import HarvestEstimator
from prsrank.propensity.regression_em import RegressionEM
from prsrank.spark.event_counts import moved_cells, pair_rates
from prsrank.types import Floats, Longs

if TYPE_CHECKING:
    import pyarrow
    from pyspark import RDD
    from pyspark.sql import Column, DataFrame

Collect = Callable[[nw.LazyFrame], dict[str, npt.NDArray]]

_DOC = ("query_id", "doc_id")


def harvest_on_spark(
    cells: nw.LazyFrame, estimator: HarvestEstimator, *, depth: int, collect: Collect, seed: int
) -> Propensities:
    """Harvest from the cells of a log; sums per unit and pair of positions come to the driver.

    Args:
        cells: the columns of `cell_counts`.
        estimator: what the sums are for.
        depth: the last position.
        collect: brings aggregates to the driver.
        seed: of the bootstrap.
    """
    with _kept(moved_cells(cells, depth=depth)) as moved:
        frame, units = _with_units(moved, collect)
        rows = collect(pair_rates(frame))
        clicks = _clicks_at(frame, depth, collect)
    k, other = rows["position"] - 1, rows["other"] - 1
    rates, docs = np.zeros((depth, depth)), np.zeros((depth, depth))
    np.add.at(rates, (k, other), rows["rate"])
    np.add.at(docs, (k, other), rows["docs"])

    def flows(gain: Floats) -> Floats:
        moved_by = gain[k, other] * rows["rate"]
        sums = np.zeros((units, depth))
        np.add.at(sums, (rows["unit"], k), moved_by)
        np.subtract.at(sums, (rows["unit"], other), moved_by)
        return sums

    return estimator.curve(rates, docs, clicks, flows, seed=seed)


def em_on_spark(
    cells: nw.LazyFrame, estimator: RegressionEM, *, depth: int, collect: Collect, seed: int
) -> Propensities:
    """Find the curve of EM without features: every step adds up sums over partitions.

    The arguments are those of `harvest_on_spark`.
    """
    with _kept(moved_cells(cells, depth=depth, clicked=True)) as moved:
        frame, units = _with_units(moved, collect)
        with _PartitionedLikelihood(frame.to_native(), depth, units) as likelihood:
            likelihood.clicks_at = _clicks_at(frame, depth, collect)
            return estimator.curve(likelihood, seed=seed)


class _PartitionedLikelihood:
    """The likelihood of cells that lie in partitions; see `em_steps.Likelihood`."""

    clicks_at: Longs

    def __init__(self, cells: "DataFrame", depth: int, units: int) -> None:
        from pyspark import StorageLevel

        order = [*_DOC, "position"]
        placed = cells.repartition(*_DOC).sortWithinPartitions(*order)
        packed = placed.mapInArrow(_packer(depth), "cells binary")
        self._kept = packed.persist(StorageLevel.MEMORY_AND_DISK)
        self._cells: RDD[bytes] = self._kept.rdd.map(lambda row: bytes(row[0]))
        self._depth, self._units = depth, units

    def __enter__(self) -> "_PartitionedLikelihood":
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.unpersist()

    def height(self, p: Floats) -> float:
        """Return the log-likelihood."""
        return float(self._sum(lambda part: part.height(p)))

    def information(self, p: Floats) -> Floats:
        """Return what `profile_information` returns."""
        return np.array(self._sum(lambda part: part.information(p)))

    def scores(self, p: Floats, *, by_unit: bool = False) -> Floats:
        """Return the derivative by log p, of all counts or of each unit (units x positions)."""
        return np.array(self._sum(lambda part: part.scores(p, by_unit=by_unit)))

    def _sum(self, function: Callable[[CellLikelihood], Any]) -> Any:
        units = self._units
        parts = self._cells.map(lambda data: function(_unpacked(data, units)))
        return parts.treeReduce(lambda one, other: one + other)


def _packer(depth: int) -> Callable[..., "Iterator[pyarrow.RecordBatch]"]:
    """Return what packs a partition, sorted by doc, as NumPy's own format."""

    def pack(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        import pyarrow as pa

        from prsrank.spark.shard_rows import ids_of

        parts = [batch for batch in batches if batch.num_rows]
        if not parts:
            return
        table = pa.Table.from_batches(parts).combine_chunks()
        columns = {n: table.column(n).combine_chunks() for n in table.column_names}
        ids = [ids_of(columns[name]) for name in _DOC]
        new = np.ones(len(ids[0]), bool)
        new[1:] = (ids[0][1:] != ids[0][:-1]) | (ids[1][1:] != ids[1][:-1])
        file = io.BytesIO()
        np.savez(
            file,
            allow_pickle=False,
            offsets=np.append(np.flatnonzero(new), len(new)),
            positions=columns["position"].to_numpy(),
            shown=columns["shown"].to_numpy().astype(np.float64),
            clicked=columns["clicked"].to_numpy().astype(np.float64),
            unit=columns["unit"].to_numpy()[new].astype(np.int64),
            depth=depth,
        )
        yield pa.record_batch({"cells": pa.array([file.getvalue()], pa.binary())})

    return pack


def _unpacked(data: bytes, units: int) -> CellLikelihood:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        unit = file["unit"]
        cells = Cells(
            file["offsets"],
            file["positions"],
            file["shown"],
            file["clicked"],
            unit,
            int(file["depth"]),
        )
    return CellLikelihood(cells, unit, units)


@contextmanager
def _kept(cells: nw.LazyFrame) -> "Iterator[DataFrame]":
    """Keep cells on the executors while they are read several times."""
    from pyspark import StorageLevel

    kept = cells.to_native().persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def _with_units(cells: "DataFrame", collect: Collect) -> tuple[nw.LazyFrame, int]:
    """Return the cells with their unit of resampling, and how many units there are.

    Units are those of `Cells.units`, numbered alike; beyond MOST_UNITS they are joined by a
    hash, where one process joins them by their number.
    """
    from pyspark.sql import functions as F

    from prsrank.spark.counts import lazy

    frame = lazy(cells)
    queries = _count(frame.select("query_id").unique(), collect)
    names = _DOC[:1] if queries >= ENOUGH_QUERIES else _DOC
    units = queries if len(names) == 1 else _count(frame.select(*names).unique(), collect)
    if units > MOST_UNITS:
        key: Column = F.xxhash64(*names)
        return lazy(
            cells.withColumn("unit", F.pmod(key, F.lit(MOST_UNITS)).cast("int"))
        ), MOST_UNITS
    known = collect(frame.select(*names).unique())
    order = np.lexsort([known[name] for name in reversed(names)])
    rows = [(*(known[name][at].item() for name in names), u) for u, at in enumerate(order)]
    kinds = dict(cells.dtypes)
    columns = ", ".join(f"{name} {kinds[name]}" for name in names)
    table = cells.sparkSession.createDataFrame(rows, f"{columns}, unit int")
    return lazy(cells.join(F.broadcast(table), on=list(names), how="inner")), max(units, 1)


def _clicks_at(cells: nw.LazyFrame, depth: int, collect: Collect) -> Longs:
    found = collect(cells.group_by("position").agg(nw.col("clicked").sum()))
    return np.bincount(found["position"] - 1, found["clicked"], depth).round().astype(np.int64)


def _count(frame: nw.LazyFrame, collect: Collect) -> int:
    return int(collect(frame.select(nw.len().alias("n")))["n"][0])
