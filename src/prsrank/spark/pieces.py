"""Pieces of a log on Spark: a piece is what one task makes of its partition."""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from prsrank.logs.pieces import Pieces
from prsrank.spark.barrier import stage_errors

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

T = TypeVar("T")
U = TypeVar("U")
Batches = Iterator["pyarrow.RecordBatch"]

PACKED = "number int, part int, piece binary"
# Bytes of a piece in one row: Arrow and Java count those of a value in 32 bits.
_PART = 64 << 20
# Bytes of a number that says how large a piece is once it is unpacked.
_SIZE = 8
# So many sums of pieces come to the driver as they are; more are added up on the workers first.
_AT_ONCE = 32


class SparkPieces(Pieces[T]):
    """Pieces that the workers hold; nothing but sums of them comes to the driver.

    Sums are made in the order of the pieces, so that they do not depend on which task ends first.

    Args:
        rows: whole queries in each partition.
        count: how many partitions there are.
        load: makes a piece of a partition's rows, which are some; None: it holds nothing.
        kept: is told of every DataFrame that stays on the workers until it is unpersisted.
    """

    def __init__(
        self,
        rows: "DataFrame",
        count: int,
        load: Callable[[Batches], T | None],
        kept: list["DataFrame"],
    ) -> None:
        self._rows, self.count, self._load, self._kept = rows, count, load, kept

    def map(self, function: Callable[[T], U]) -> "SparkPieces[U]":
        """Return what a function makes of each piece; it is made once and stays there."""
        made = self.made(lambda number, piece: parts_of(number, function(piece)), PACKED)
        self._keep(made)
        return SparkPieces(made, self.count, _piece_of_parts, self._kept)

    def measured(self, measure: Callable[[T], U]) -> "tuple[SparkPieces[T], U]":
        """Return the pieces, each made once to stay there, and the sum of a small measure of each."""
        made = self.made(
            lambda number, piece: _with_measure(number, piece, measure(piece)),
            f"{PACKED}, measure binary",
        )
        self._keep(made)
        with stage_errors("counting"):
            found = made.where("part = 0").select("number", "part", "measure").collect()
        sums = (value for _, value in pieces_of(tuple(row) for row in found))
        result: U = reduce(add, sums)
        return SparkPieces(made, self.count, _piece_of_parts, self._kept), result

    def select(self, change: Callable[[T], U | None]) -> "SparkPieces[U]":
        """Return what a change leaves of each piece, made anew each time; None: nothing."""
        return SparkPieces(self._rows, self.count, _Changed(self._load, change), self._kept)

    def total(self, function: Callable[[T], U]) -> U:
        """Add up what a function makes of each piece, on the workers where pieces are many."""
        from pyspark.sql import functions as F

        rows = self.made(lambda number, piece: parts_of(number, function(piece)), PACKED)
        with stage_errors("counting"):
            if self.count > _AT_ONCE:
                width = max(_AT_ONCE, round(self.count**0.5))
                groups = rows.repartition(F.expr(f"number div {width}"))
                rows = groups.mapInArrow(lambda batches: _sums_of_groups(batches, width), PACKED)
            found = [(row.number, row.part, row.piece) for row in rows.collect()]
        result: U = reduce(add, (value for _, value in pieces_of(found)))
        return result

    def made(self, function: Callable[[int, T], Batches], schema: str) -> "DataFrame":
        """Return the rows that a function makes of the number of each piece, and the piece."""
        load = self._load

        def task(batches: Batches) -> Batches:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None  # noqa: S101
            full = (batch for batch in batches if batch.num_rows)
            first = next(full, None)
            piece = None if first is None else load(_with(first, full))
            if piece is not None:
                yield from function(context.partitionId(), piece)

        return self._rows.mapInArrow(task, schema)

    def _keep(self, rows: "DataFrame") -> None:
        from pyspark import StorageLevel

        # not in the heap: Spark unpacks a blob there several times over, and ran out of it
        self._kept.append(rows.persist(StorageLevel.DISK_ONLY))


class _Changed(Generic[T, U]):
    def __init__(
        self, load: Callable[[Batches], T | None], change: Callable[[T], U | None]
    ) -> None:
        self.load, self.change = load, change

    def __call__(self, batches: Batches) -> U | None:
        piece = self.load(batches)
        return None if piece is None else self.change(piece)


def parts_of(number: int, value: Any) -> Batches:
    """Return a value as rows of PACKED."""
    import pyarrow as pa
    from pyspark.serializers import CPickleSerializer

    # as Spark itself sends results between its own processes
    plain: bytes = CPickleSerializer().dumps(value)  # type: ignore[no-untyped-call]
    # what is smaller Spark copies the faster, which it does several times
    packed = len(plain).to_bytes(_SIZE) + pa.compress(plain, "lz4", asbytes=True)
    for part, start in enumerate(range(0, len(packed), _PART)):
        yield pa.record_batch(
            {
                "number": pa.array([number], pa.int32()),
                "part": pa.array([part], pa.int32()),
                "piece": pa.array([packed[start : start + _PART]], pa.binary()),
            }
        )


def _with_measure(number: int, value: Any, measure: Any) -> Batches:
    """Return a value as rows of PACKED, each with a measure that fits into one row."""
    [told] = parts_of(number, measure)
    for rows in parts_of(number, value):
        yield rows.append_column("measure", told.column("piece"))


def rows_of(batches: Iterable["pyarrow.RecordBatch"]) -> list[tuple[int, int, Any]]:
    """Return the rows of PACKED that batches hold."""
    return [
        (number.as_py(), part.as_py(), piece.as_buffer())
        for batch in batches
        for number, part, piece in zip(
            *(batch.column(name) for name in ("number", "part", "piece")), strict=True
        )
    ]


def pieces_of(rows: Iterable[tuple[int, int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield the number of each piece of rows of PACKED, and the piece, in their order."""
    import pyarrow as pa
    from pyspark.serializers import CPickleSerializer

    parts: dict[int, list[Any]] = {}
    for number, _, piece in sorted(rows, key=lambda row: row[:2]):
        parts.setdefault(number, []).append(piece)
    for number in list(parts):
        held = parts.pop(number)  # and so frees it
        packed = memoryview(held[0] if len(held) == 1 else b"".join(held))
        del held
        plain = pa.decompress(packed[_SIZE:], int.from_bytes(packed[:_SIZE]), "lz4", asbytes=True)
        del packed
        yield number, CPickleSerializer().loads(plain)  # type: ignore[no-untyped-call]


def _piece_of_parts(batches: Batches) -> Any:
    ((_, piece),) = pieces_of(rows_of(batches))
    return piece


def _sums_of_groups(batches: Batches, width: int) -> Batches:
    sums: dict[int, Any] = {}
    for number, value in pieces_of(rows_of(batches)):
        group = number // width
        sums[group] = sums[group] + value if group in sums else value
    for group, value in sums.items():
        yield from parts_of(group, value)


def _with(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest
