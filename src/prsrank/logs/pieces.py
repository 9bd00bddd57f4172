"""A log in pieces that share no query: what is summed over the pieces is that of the whole."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import indices_of, joined_ids
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_parts import merge
from prsrank.logs.features import bare_lists, covered_sessions, marked_queries
from prsrank.ragged import ragged_rows
from prsrank.threads import map_in_order, thread_count
from prsrank.types import IdArray, Longs, Marks

T = TypeVar("T")
U = TypeVar("U")
Change = Callable[[ClickLog], ClickLog]


class Pieces(ABC, Generic[T]):
    """Pieces of a log, wherever they lie. Functions travel to them, sums come back."""

    @abstractmethod
    def map(self, function: Callable[[T], U]) -> "Pieces[U]":
        """Return what a function makes of each piece; it is made once and stays where it is."""

    @abstractmethod
    def total(self, function: Callable[[T], U], nothing: U | None = None) -> U:
        """Add up, with `+`, what a function makes of each piece.

        Args:
            function: it travels to the pieces.
            nothing: the sum where there is no piece.
        """


class LocalPieces(Pieces[T]):
    """Pieces that this process holds, or makes one after the other.

    Args:
        pieces: a sequence of pieces, or anything that can be run through again and again.

    >>> LocalPieces([1, 2, 3]).map(lambda n: 2 * n).total(lambda n: n)
    12
    """

    def __init__(self, pieces: Iterable[T]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[T]:
        return iter(self._pieces)

    @property
    def held(self) -> int:
        """How many pieces lie in memory; 0 where they are made anew each time."""
        return len(self._pieces) if isinstance(self._pieces, list) else 0

    def map(self, function: Callable[[T], U]) -> "LocalPieces[U]":
        """Return what a function makes of each piece."""
        return LocalPieces([function(piece) for piece in self])

    def made(self, make: Callable[[Iterable[Any]], Iterator[U]]) -> "LocalPieces[U]":
        """Return what is made of the pieces: at once where they are held, else each time anew."""
        made = _Made(self, make)
        return LocalPieces(list(made) if self.held else made)

    def total(self, function: Callable[[T], U], nothing: U | None = None) -> U:
        """Add up what a function makes of each piece."""
        return added((function(piece) for piece in self), nothing)


def added(sums: Iterable[U], nothing: U | None = None) -> U:
    """Add up sums of pieces, in their order.

    >>> added([1, 2]), added([], 0)
    (3, 0)
    """
    return reduce(add, sums) if nothing is None else reduce(add, sums, nothing)


@dataclass(frozen=True, eq=False)
class _Made(Generic[U]):
    pieces: Iterable[Any]
    make: Callable[[Iterable[Any]], Iterator[U]]

    def __iter__(self) -> Iterator[U]:
        return self.make(self.pieces)


@dataclass(frozen=True)
class Extent:
    """How large a log is; those of several pieces add up with `+`.

    Attributes:
        sessions: number of sessions.
        queries: number of queries.
        clicks: number of clicks.
        depth: the last position at which any doc was shown.
    """

    sessions: int
    queries: int
    clicks: int
    depth: int

    @classmethod
    def of(cls, log: ClickLog) -> "Extent":
        """Measure a log, or one piece of it."""
        return cls(log.sessions, log.queries, len(log.clicks), log.max_position)

    def __add__(self, other: "Extent") -> "Extent":
        """Return the extent of both; no query is in two pieces."""
        return Extent(
            self.sessions + other.sessions,
            self.queries + other.queries,
            self.clicks + other.clicks,
            max(self.depth, other.depth),
        )


NOTHING = Extent(0, 0, 0, 0)


class Sums(tuple):
    """Several sums side by side: adding two adds each.

    >>> Sums((1, 2)) + Sums((10, 20))
    (11, 22)
    """

    __slots__ = ()

    def __add__(self, other: object) -> "Sums":
        """Return the sums of both."""
        assert isinstance(other, Sums)  # noqa: S101
        return Sums(one + two for one, two in zip(self, other, strict=True))


@dataclass(frozen=True, eq=False)
class Sessions:
    """A piece of a log: the sessions of whole queries, and lists with their docs.

    Attributes:
        log: the sessions.
        every: lists, at least those of their queries.
        shared: makes lists that several pieces share; None: `every` are the piece's own.
    """

    log: ClickLog
    every: RankingDataset
    shared: Callable[[], RankingDataset] | None = None

    @property
    def lists(self) -> RankingDataset:
        """The lists that rankers score: those of the whole log in memory, else the piece's own."""
        return self.every if self.shared is None else self.shared()

    @cached_property
    def own(self) -> tuple[Longs, RankingDataset]:
        """Which of `lists` are those of its queries, and these lists, of several without features."""
        chosen = marked_queries(self.log.query_ids, self.lists)
        if chosen.all():
            return np.arange(self.lists.lists), self.lists
        if len(self.log.query_ids) != chosen.sum():
            self.log.doc_rows(self.lists)  # says which query is missing
        return np.flatnonzero(chosen), bare_lists(self.lists).select(chosen)


class Place(NamedTuple):
    """Where the lists of a piece are among those of the whole log, and so their docs.

    Attributes:
        lists: index of each list of the piece.
        rows: index of each doc of the piece.
    """

    lists: Longs
    rows: Longs

    @classmethod
    def of(cls, queries: IdArray, whole: RankingDataset) -> "Place":
        """Find the lists of a piece by their queries."""
        lists = indices_of(queries, whole.query_ids)
        return cls(lists, ragged_rows(whole.offsets, lists)[0])


class SessionPieces(Pieces[Sessions]):
    """Sessions and lists in pieces without a common query, where an engine keeps them.

    Attributes:
        logs: the sessions alone.
        local: whether this process goes through the pieces.
        feature_names: names of the features of all lists.
    """

    logs: Pieces[ClickLog]
    local: bool
    feature_names: tuple[str, ...]

    @abstractmethod
    def select(self, change: Change) -> "SessionPieces":
        """Return what a change leaves of the sessions of each piece, with their lists."""

    @abstractmethod
    def covered(self) -> "SessionPieces":
        """Return the sessions all of whose docs are in the lists."""

    def cut(self, changes: Mapping[str, Change]) -> dict[str, "tuple[SessionPieces, Extent]"]:
        """Return what each change leaves, and how large it is."""
        parts = {name: self.select(change) for name, change in changes.items()}
        return {name: (part, part.logs.total(Extent.of, NOTHING)) for name, part in parts.items()}

    @property
    @abstractmethod
    def lists(self) -> RankingDataset:
        """The lists of all pieces, in this process."""

    @abstractmethod
    def each(
        self, function: Callable[[Sessions], U], *, threads: int = 1
    ) -> Iterator[tuple[Place, U]]:
        """Bring what a function makes of each piece to this process, one after the other.

        Args:
            function: it travels to the pieces.
            threads: so many pieces at once, where this process goes through them.
        """

    def docs(self) -> int:
        """Return how many docs the lists of the queries have."""
        return self.total(_docs_of)

    def in_memory(self) -> tuple[ClickLog, RankingDataset] | None:
        """Return sessions and lists as one log and data set, if this process can hold them."""
        return None

    @property
    def only(self) -> Sessions | None:
        """The piece of a log that this process holds in one; None for any other."""
        return None


def missing_sessions(piece: Sessions) -> int:
    """Count the sessions of a piece that show docs which its lists lack."""
    return int((~covered_sessions(piece.log, piece.every)).sum())


def _docs_of(piece: Sessions) -> int:
    chosen = marked_queries(piece.log.query_ids, piece.every)
    return int(piece.every.list_lengths[chosen].sum())


class LocalSessions(LocalPieces[Sessions], SessionPieces):
    """Pieces that this process holds, or reads one after the other; they share their lists.

    Args:
        logs: the sessions.
        every: lists, at least those of their queries.
        whole: whether all of these lists count, and not only those of the queries.
    """

    local = True

    def __init__(
        self, logs: LocalPieces[ClickLog], every: RankingDataset, *, whole: bool = False
    ) -> None:
        self.logs: LocalPieces[ClickLog] = logs
        self.every, self.whole = every, whole
        self.feature_names = every.feature_names
        super().__init__(logs.made(self._sessions)._pieces)

    def _sessions(self, logs: Iterable[ClickLog]) -> Iterator[Sessions]:
        return (Sessions(log, self.every, lambda: self.lists) for log in logs)

    @cached_property
    def lists(self) -> RankingDataset:
        """Those of the queries: where they are not all, a copy made when it is first asked for."""
        return self.every if self.whole or self._listed.all() else self.every.select(self._listed)

    @cached_property
    def _listed(self) -> Marks:
        ids = [log.query_ids for log in self.logs]
        if not ids:
            return np.ones(self.every.lists, np.bool_)
        return marked_queries(joined_ids(ids), self.every)

    def select(self, change: Change) -> "LocalSessions":
        """Return what a change leaves of the sessions of each piece, with their lists."""
        return LocalSessions(
            self.logs.made(lambda logs: (new for new in map(change, logs) if new.sessions)),
            self.every,
        )

    def covered(self) -> "LocalSessions":
        """Return the sessions all of whose docs are in the lists."""
        return self.select(lambda log: log.select(covered_sessions(log, self.every)))

    def each(
        self, function: Callable[[Sessions], U], *, threads: int = 1
    ) -> Iterator[tuple[Place, U]]:
        """Yield what a function makes of each piece."""
        everywhere = Place(np.arange(self.lists.lists), np.arange(self.lists.docs))
        count = 1 if self.only else min(threads, thread_count())
        return ((everywhere, made) for made in map_in_order(function, self, threads=count))

    def in_memory(self) -> tuple[ClickLog, RankingDataset]:
        """Return the sessions as one log, and their lists."""
        logs = list(self.logs)
        return logs[0] if len(logs) == 1 else merge(logs), self.lists

    @property
    def only(self) -> Sessions | None:
        """The piece of a log that is held in one."""
        return next(iter(self)) if self.held == 1 else None
