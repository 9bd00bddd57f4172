"""Engines: where the log of a fit is opened and cut into pieces."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from prsrank.data.dataset import RankingDataset
from prsrank.files import FileName
from prsrank.fit.plan import Plan
from prsrank.logs.click_log import ClickLog
from prsrank.logs.event_source import LogSource
from prsrank.logs.features import lists_of_log, lists_of_table, split_lists
from prsrank.logs.mapping import LogMapping
from prsrank.logs.pieces import LocalPieces, LocalSessions, Pieces
from prsrank.logs.reading import open_events, ready_log
from prsrank.logs.stored_pieces import read_in_pieces
from prsrank.logs.tables import give_back

if TYPE_CHECKING:
    from prsrank.fit.log import PiecedLog


class Engine(ABC):
    """Where a log is read and cut into pieces. Use it in a `with` block."""

    name: str

    def __enter__(self) -> Self:
        """Return the engine."""
        return self

    @abstractmethod
    def __exit__(self, *error: Any) -> None:
        """End what the engine started."""

    @abstractmethod
    def check(self, plan: Plan) -> None:
        """Raise an InputError for settings that the engine cannot follow, before it starts."""

    @abstractmethod
    def open_log(
        self, log: Any, *, mapping: LogMapping, memory: str | None = None
    ) -> AbstractContextManager[Any]:
        """Open a log as `prsrank.logs.reading.open_events` does."""

    @abstractmethod
    def sessions(self, source: Any) -> Pieces[ClickLog]:
        """Read the sessions of an open log, without features."""

    @abstractmethod
    def load(
        self,
        source: Any,
        *,
        mapping: LogMapping,
        data: RankingDataset | None = None,
        table: FileName | None = None,
    ) -> "PiecedLog":
        """Read an open log, and the features of its docs.

        Args:
            source: the log.
            mapping: what a list is, and which columns are features, where they are the log's own.
            data: a data set with the features; or
            table: a table of features keyed by query and doc.
        """


class LocalEngine(Engine):
    """Runs every step in this process: DuckDB for logs, this machine's cores for training.

    A log that does not fit the memory given is read, and gone through, piece by piece.

    Args:
        threads: default: the cores this process may use.
    """

    name = "local"

    def __init__(self, *, threads: int | None = None) -> None:
        self.threads = threads
        self._folder = tempfile.TemporaryDirectory(prefix="prsrank-")
        self._ready: ClickLog | None = None

    def __exit__(self, *error: Any) -> None:
        self._folder.cleanup()

    def check(self, plan: Plan) -> None:
        """Refuse nothing: what a plan says can be done here."""

    @contextmanager
    def open_log(
        self, log: Any, *, mapping: LogMapping, memory: str | None = None
    ) -> Iterator[LogSource]:
        """Open a log out of core."""
        # what is a click log already need not be made of events again
        self._ready = ready_log(log, mapping)
        with open_events(log, mapping=mapping, memory=memory, threads=self.threads) as source:
            yield source

    def sessions(self, source: LogSource, *, split: bool = False) -> LocalPieces[ClickLog]:
        """Read the sessions of an open log: in memory if they fit, else in pieces.

        Args:
            source: the log.
            split: whether each session has a list of its own; those of a query stay together.
        """
        if self._ready is not None and not split:
            return LocalPieces([self._ready])
        give_back(source.connection)  # the audit's tables
        return read_in_pieces(source, Path(self._folder.name), by_original=split)

    def load(
        self,
        source: LogSource,
        *,
        mapping: LogMapping,
        data: RankingDataset | None = None,
        table: FileName | None = None,
    ) -> "PiecedLog":
        """Read an open log, in memory or in pieces, and the features of its docs."""
        from prsrank.fit.log import PiecedLog  # all that trains and evaluates

        split = mapping.lists == "session" and table is None and data is None
        source = split_lists(source) if split else source
        pieces = self.sessions(source, split=split)
        if table is not None:
            data = lists_of_table(source, table, mapping=mapping)
        features = lists_of_log(source) if data is None else data
        give_back(source.connection)
        return PiecedLog(LocalSessions(pieces, features), grouped=split).covered()
