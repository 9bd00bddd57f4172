"""Sessions with the lists that they show, in pieces: what an engine makes of a log."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import indices_of, joined_ids
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_parts import merge
from prsrank.logs.coverage import bare_lists, covered_sessions, marked_queries
from prsrank.logs.pieces import NOTHING, Extent, LocalPieces, Pieces
from prsrank.ragged import ragged_rows
from prsrank.threads import map_in_order, thread_count
from prsrank.types import IdArray, Longs, Marks

U = TypeVar("U")
Change = Callable[[ClickLog], ClickLog]


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


@dataclass(frozen=True, eq=False)
class Place:
    """Where the lists of a piece are among those of the whole log, and so their docs.

    Attributes:
        lists: index of each list of the piece; None: the piece has the lists of the whole log.
        rows: index of each doc of the piece.
    """

    lists: Longs | None = None
    rows: Longs | None = None

    @classmethod
    def of(cls, queries: IdArray, whole: RankingDataset) -> "Place":
        """Find the lists of a piece by their queries."""
        lists = indices_of(queries, whole.query_ids)
        return cls(lists, ragged_rows(whole.offsets, lists)[0])

    def list_numbers(self, numbers: Longs) -> Longs:
        """Return the numbers that lists of the piece have in the whole log."""
        return numbers if self.lists is None else self.lists[numbers]

    def doc_numbers(self, numbers: Longs) -> Longs:
        """Return the numbers that docs of the piece have in the whole log."""
        return numbers if self.rows is None else self.rows[numbers]

    def of_docs(self, values: npt.NDArray) -> npt.NDArray:
        """Return those values of docs of the whole log that are of the piece's docs."""
        return values if self.rows is None else values[self.rows]

    def on_lists(self, values: npt.NDArray, whole: RankingDataset) -> npt.NDArray:
        """Return values of the piece's lists (... x lists) as those of the lists of the whole log."""
        return values if self.lists is None else _spread(values, self.lists, whole.lists)

    def on_docs(self, values: npt.NDArray, whole: RankingDataset) -> npt.NDArray:
        """Return values of the piece's docs (... x docs) as those of the docs of the whole log."""
        return values if self.rows is None else _spread(values, self.rows, whole.docs)


def _spread(values: npt.NDArray, at: Longs, size: int) -> npt.NDArray:
    spread = np.zeros((*values.shape[:-1], size), values.dtype)
    spread[..., at] = values
    return spread


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
        self._held: list[Sessions] | None = None

    def __iter__(self) -> Iterator[Sessions]:
        if not self.logs.held:
            yield from (self._piece(log) for log in self.logs)
            return
        self._held = self._held or [self._piece(log) for log in self.logs]
        yield from self._held

    def _piece(self, log: ClickLog) -> Sessions:
        return Sessions(log, self.every, lambda: self.lists)

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
        return LocalSessions(self.logs.changed(change), self.every)

    def covered(self) -> "LocalSessions":
        """Return the sessions all of whose docs are in the lists."""
        return self.select(lambda log: log.select(covered_sessions(log, self.every)))

    def each(
        self, function: Callable[[Sessions], U], *, threads: int = 1
    ) -> Iterator[tuple[Place, U]]:
        """Yield what a function makes of each piece."""
        count = 1 if self.only else min(threads, thread_count())
        return ((Place(), made) for made in map_in_order(function, self, threads=count))

    def in_memory(self) -> tuple[ClickLog, RankingDataset]:
        """Return the sessions as one log, and their lists."""
        logs = list(self.logs)
        return logs[0] if len(logs) == 1 else merge(logs), self.lists

    @property
    def only(self) -> Sessions | None:
        """The piece of a log that is held in one."""
        return next(iter(self)) if self.logs.held == 1 else None
