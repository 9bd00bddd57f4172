"""Pieces of a log on Spark: a piece is what one task makes of its partition."""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, TypeVar

from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.events import from_frame
from prsrank.logs.pieces import Pieces
from prsrank.spark.barrier import stage_errors

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

T = TypeVar("T")
U = TypeVar("U")
Batches = Iterator["pyarrow.RecordBatch"]


class SparkPieces(Pieces[T]):
    """Pieces that the workers hold; nothing but sums of them comes to the driver.

    Args:
        rows: whole queries in each partition.
        load: makes a piece of a partition's rows, which are some.
        kept: is told of every DataFrame that stays on the workers until it is unpersisted.
    """

    def __init__(
        self, rows: "DataFrame", load: Callable[[Batches], T], kept: list["DataFrame"]
    ) -> None:
        self._rows, self._load, self._kept = rows, load, kept

    def map(self, function: Callable[[T], U]) -> "SparkPieces[U]":
        """Return what a function makes of each piece; it is made once and stays there."""
        from pyspark import StorageLevel

        made = self._made(function).persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(made)
        return SparkPieces(made, _unpacked, self._kept)

    def total(self, function: Callable[[T], U]) -> U:
        """Add up what a function makes of each piece, on the workers as far as it goes."""
        packed = self._made(function).rdd.map(lambda row: bytes(row[0]))
        with stage_errors("counting"):
            sums = packed.mapPartitions(_summed)
            found = sums.treeReduce(lambda one, other: _pack(_load(one) + _load(other)))
        result: U = _load(found)
        return result

    def _made(self, function: Callable[[T], Any]) -> "DataFrame":
        load = self._load

        def task(batches: Batches) -> Batches:
            import pyarrow as pa

            full = (batch for batch in batches if batch.num_rows)
            first = next(full, None)
            if first is not None:
                made = _pack(function(load(_with(first, full))))
                yield pa.record_batch({"piece": pa.array([made], pa.binary())})

        return self._rows.mapInArrow(task, "piece binary")


def _summed(packed: Iterable[bytes]) -> Iterator[bytes]:
    values = [_load(one) for one in packed]
    if values:
        yield _pack(reduce(add, values))


def _with(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _pack(value: Any) -> bytes:
    """Return a value as Spark itself sends results between its own processes."""
    from pyspark.serializers import CPickleSerializer

    packed: bytes = CPickleSerializer().dumps(value)  # type: ignore[no-untyped-call]
    return packed


def _load(packed: bytes) -> Any:
    from pyspark.serializers import CPickleSerializer

    return CPickleSerializer().loads(packed)  # type: ignore[no-untyped-call]


def _unpacked(batches: Batches) -> Any:
    (packed,) = [value.as_py() for batch in batches for value in batch.column("piece")]
    return _load(packed)


def click_log_of(batches: Batches, contexts: tuple[str, ...] = ()) -> ClickLog:
    """Make a click log of a partition's events."""
    import pyarrow as pa

    table = pa.Table.from_batches(list(batches))
    if not table.num_rows:
        raise InputError("a partition without events")
    return from_frame(table, contexts=contexts, whole=False)
