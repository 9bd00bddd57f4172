"""A log in pieces that share no query: what is summed over the pieces is that of the whole."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Generic, TypeVar

from prsrank.logs.click_log import ClickLog

T = TypeVar("T")
U = TypeVar("U")


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

    def changed(self, change: Callable[[ClickLog], ClickLog]) -> "LocalPieces[ClickLog]":
        """Return what a change leaves of each click log, without those left empty.

        Logs in memory are changed once; those that are read piece by piece each time.
        """
        logs = _Changed(self, change)
        return LocalPieces(list(logs) if self.held else logs)

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
class _Changed:
    logs: Iterable[Any]
    change: Callable[[ClickLog], ClickLog]

    def __iter__(self) -> Iterator[ClickLog]:
        changed = (self.change(log) for log in self.logs)
        return (log for log in changed if log.sessions)


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
