"""Pieces of a log on Spark: a piece is what one task makes of its partition."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from prsrank.data.dataset import RankingDataset, concatenate
from prsrank.logs.click_log import ClickLog
from prsrank.logs.features import covered_sessions, lists_of_queries
from prsrank.logs.pieces import (
    NOTHING,
    Change,
    Extent,
    Pieces,
    Place,
    SessionPieces,
    Sessions,
    Sums,
    added,
)
from prsrank.spark.failures import stage_errors
from prsrank.threads import use_threads

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

    def changed(self, change: Callable[[T], U | None]) -> "SparkPieces[U]":
        """Return what a change leaves of each piece, made anew each time; None: nothing."""
        return SparkPieces(self._rows, self.count, _Changed(self._load, change), self._kept)

    def total(self, function: Callable[[T], U], nothing: U | None = None) -> U:
        """Add up what a function makes of each piece, on the workers where pieces are many."""
        from pyspark.sql import functions as F

        rows = self.made(lambda number, piece: parts_of(number, function(piece)), PACKED)
        with stage_errors("counting"):
            if self.count > _AT_ONCE:
                width = max(_AT_ONCE, round(self.count**0.5))
                groups = rows.repartition(F.expr(f"number div {width}"))
                rows = groups.mapInArrow(lambda batches: _sums_of_groups(batches, width), PACKED)
            blobs = [(row.number, row.part, row.piece) for row in rows.collect()]
        result: U = added((value for _, value in pieces_of(blobs)), nothing)
        return result

    def streamed(self, function: Callable[[T], U]) -> Iterator[U]:
        """Bring what a function makes of each piece to the driver, one after the other."""
        from pyspark import StorageLevel

        rows = self.made(lambda number, piece: parts_of(number, function(piece)), PACKED)
        rows = rows.persist(StorageLevel.DISK_ONLY)
        try:
            with stage_errors("folding"):
                rows.count()  # all tasks at once; what follows takes one partition at a time
                blobs = ((row.number, row.part, row.piece) for row in rows.toLocalIterator())
                for _, parts in groupby(blobs, key=itemgetter(0)):
                    ((_, value),) = pieces_of(parts)
                    yield value
        finally:
            rows.unpersist()

    def made(self, function: Callable[[int, T], Batches], schema: str) -> "DataFrame":
        """Return the rows that a function makes of the number of each piece, and the piece."""
        load = self._load

        def task(batches: Batches) -> Batches:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None  # noqa: S101
            use_threads(context.cpus())
            full = (batch for batch in batches if batch.num_rows)
            first = next(full, None)
            piece = None if first is None else load(chain([first], full))
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


class SparkSessions(SessionPieces):
    """Sessions with their lists that the workers hold.

    Args:
        held: the pieces, each with its own lists.
        feature_names: names of the features.
    """

    local = False

    def __init__(self, held: SparkPieces[Sessions], feature_names: tuple[str, ...]) -> None:
        self.held, self.feature_names = held, feature_names
        self.logs = held.changed(lambda piece: piece.log)

    def map(self, function: Callable[[Sessions], U]) -> SparkPieces[U]:
        """Return what a function makes of each piece; it is made once and stays there."""
        return self.held.map(function)

    def total(self, function: Callable[[Sessions], U], nothing: U | None = None) -> U:
        """Add up, with `+`, what a function makes of each piece."""
        return self.held.total(function, nothing)

    def select(self, change: Change) -> "SparkSessions":
        """Return what a change leaves of the sessions of each piece, with their lists."""
        return self._changed(lambda piece: change(piece.log))

    def covered(self) -> "SparkSessions":
        """Return the sessions all of whose docs are in the lists."""
        return self._changed(
            lambda piece: piece.log.select(covered_sessions(piece.log, piece.every))
        )

    def _changed(self, change: Callable[[Sessions], ClickLog]) -> "SparkSessions":
        return SparkSessions(self.held.changed(partial(_left, change=change)), self.feature_names)

    def cut(self, changes: Mapping[str, Change]) -> dict[str, tuple[SessionPieces, Extent]]:
        """Return what each change leaves, and how large it is, counted in one pass."""
        sizes = self.logs.total(
            lambda log: Sums(Extent.of(change(log)) for change in changes.values()),
            Sums([NOTHING] * len(changes)),
        )
        parts = (self.select(change) for change in changes.values())
        return dict(zip(changes, zip(parts, sizes, strict=True), strict=True))

    @cached_property
    def lists(self) -> RankingDataset:
        """The lists of all pieces, in the order of their ids; they come to the driver once."""
        lists = list(self.held.streamed(lambda piece: piece.lists))
        whole = concatenate(lists)
        lists.clear()  # features are what takes most room
        return whole.select(np.argsort(whole.query_ids, kind="stable"))

    def each(
        self, function: Callable[[Sessions], U], *, threads: int = 1
    ) -> Iterator[tuple[Place, U]]:
        """Bring what a function makes of each piece to the driver, one after the other."""
        made = self.held.streamed(lambda piece: (piece.lists.query_ids, function(piece)))
        return ((Place.of(queries, self.lists), value) for queries, value in made)


def _left(piece: Sessions, change: Callable[[Sessions], ClickLog]) -> Sessions | None:
    """Return what a change leaves of a piece, with the lists of its queries."""
    log = change(piece)
    return Sessions(log, lists_of_queries(log.query_ids, piece.every)) if log.sessions else None


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
