"""The engine that runs on Apache Spark."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prsrank.errors import DataWarning, InputError
from prsrank.fit.engine import Engine
from prsrank.fit.log import PiecedLog
from prsrank.fit.plan import Plan
from prsrank.logs.click_log import ClickLog
from prsrank.logs.features import keyed_table
from prsrank.logs.mapping import LogMapping
from prsrank.logs.pieces import Pieces
from prsrank.logs.row_rules import check_columns, check_rows
from prsrank.logs.tables import DUCKDB_SHARE, connected, memory_limit, named_errors, quoted_name
from prsrank.spark.events import SparkEvents, open_spark_log
from prsrank.spark.failures import SparkFailure
from prsrank.spark.pieces import SparkSessions
from prsrank.spark.placing import Size, pieces_of_log
from prsrank.spark.session import DYING, OwnSession, import_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from prsrank.data.dataset import RankingDataset
    from prsrank.files import FileName

# A query with more than this share of all rows is worth a word.
_SKEWED = 0.05
_MANY_ROWS = 1000


class SparkEngine(Engine):
    """Runs every step on Spark.

    Logs are opened, checked, folded and judged by the workers. Trees are grown by this process,
    the driver, from lists that come to it: those of all queries, or of as many as fit the memory
    given. All else that comes to it are sums, of at most 2000 units.

    Args:
        session: a SparkSession to use, which stays open; default: one of our own, started when
            it is first needed.
        master: the master URL of our own session, such as "local[4]" or "spark://host:7077";
            default: what Spark's own configuration says, else all local cores.
        options: settings of our own session, by Spark's names.
    """

    name = "spark"

    def __init__(
        self,
        session: "SparkSession | None" = None,
        *,
        master: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        if session is not None and master is not None:
            raise InputError("give a Spark session or a master URL, not both")
        import_pyspark()
        self._given = session
        self._own: OwnSession | None = None
        self._master, self._options = master, dict(options or {})
        self._memory: str | None = None
        self.kept: list[DataFrame] = []

    @property
    def session(self) -> Any:
        """The SparkSession."""
        if self._given is not None:
            return self._given
        if self._own is None:
            self._own = OwnSession(self._master, self._options)
        return self._own.session

    def __exit__(self, *error: Any) -> None:
        _, raised, _ = error
        gone = None
        if isinstance(raised, Exception) and self._own is not None:
            refused = isinstance(raised, InputError) and not isinstance(raised, SparkFailure)
            gone = None if refused else self._own.ending(DYING)
        self.close()
        if gone is not None:
            # whatever failed then failed because of it
            raise SparkFailure(f"{gone}: too little memory, or somebody ended it") from raised

    def close(self) -> None:
        """Stop the session, if it is our own."""
        if self._own is not None:
            self._own.stop()
            self._own = None

    def check(self, plan: Plan) -> None:
        """Refuse, before Spark starts, what only one process can do."""
        if plan.mapping.lists != "query":
            raise InputError("lists = 'session' is for one machine: on Spark a query has one list")

    @contextmanager
    def open_log(
        self, log: Any, *, mapping: LogMapping, memory: str | None = None
    ) -> Iterator[SparkEvents]:
        """Open a log that the cluster can read; rows stay there. Memory is for learning here."""
        self._memory = memory
        try:
            yield open_spark_log(self.session, log, mapping)
        finally:
            for frame in self.kept:
                frame.unpersist()
            self.kept.clear()

    def sessions(self, source: SparkEvents) -> Pieces[ClickLog]:
        """Return the sessions of an open log, checked; they stay where they are."""
        return self._log(checked(source)).pieces

    def load(
        self,
        source: SparkEvents,
        *,
        mapping: LogMapping,
        data: "RankingDataset | None" = None,
        table: "FileName | None" = None,
    ) -> PiecedLog:
        """Check an open log, and find the features of its docs; rows stay where they are."""
        events = checked(source)
        if table is not None:
            rows, names = keyed_table(source, table, mapping)
        elif data is not None:
            names, rows = data.feature_names, SparkEvents(_frame_of(self.session, data))
        else:
            # lists are those of the whole log: a part may show fewer of their docs
            return self._log(events, events.features, events if events.features else None)
        return self._log(events, names, _like(rows, names, events))

    def _log(
        self,
        events: SparkEvents,
        features: tuple[str, ...] = (),
        docs: SparkEvents | None = None,
    ) -> PiecedLog:
        """Return a log in pieces, and warn, once, of a query with too many rows."""
        with named_errors(events.name):
            pieces = pieces_of_log(events, features, docs, self.kept).map(lambda piece: piece)
            size = pieces.total(Size.of)
            if size.rows != events.usable:
                raise InputError("has changed since it was checked")
        _warn_of_skew(size.busiest, events.usable)
        share = _share(size, len(features), self._memory) if features else 1.0
        sessions = SparkSessions(pieces, features)
        return PiecedLog(sessions, measured=size.extent, share=share).covered(size.missing)


def _share(size: Size, features: int, memory: str | None) -> float:
    """Return the share of the queries whose lists this process can learn from.

    Args:
        size: of the log.
        features: how many there are.
        memory: how much may be used; default: half of this machine's.
    """
    need = size.bytes_to_learn(features)
    with connected(memory=memory) as connection:
        # DuckDB takes a share of what is given, else as much of the machine's or container's
        allowed = memory_limit(connection) / DUCKDB_SHARE * (0.5 if memory is None else 1.0)
    if need <= allowed:
        return 1.0
    share = max(allowed / need, 1e-3)  # it is drawn by thousandths
    warnings.warn(
        f"trees and posteriors learn from {share:.1%} of the queries, chosen by a hash of their "
        f"ids: the lists of all, {size.docs:,} docs, take about {need / 1e9:.1f} GB, and "
        f"{allowed / 1e9:.1f} GB are allowed (memory)",
        DataWarning,
        stacklevel=5,
    )
    return share


def checked(events: SparkEvents) -> SparkEvents:
    """Return events whose rows can be used, with their number.

    Raises:
        InputError: naming a row that cannot be used.
    """
    if events.usable:
        return events
    with named_errors(events.name):
        check_columns(events, events.contexts)
        return replace(events, usable=check_rows(events))


def _warn_of_skew(busiest: tuple[int, str], rows: int) -> None:
    """Warn of a query with too large a share of all rows.

    Args:
        busiest: rows of the query with the most, and its id.
        rows: of the log.
    """
    most, query = busiest
    if rows >= _MANY_ROWS and most > _SKEWED * rows:
        warnings.warn(
            f"query {query} has {most / rows:.0%} of all {rows:,} rows; one task counts them",
            DataWarning,
            stacklevel=4,
        )


def _frame_of(session: "SparkSession", data: "RankingDataset") -> "DataFrame":
    """Hand a data set over: query_id, doc_id and a column for each feature."""
    import numpy as np
    import pyarrow as pa

    columns = {
        "query_id": np.repeat(data.query_ids, data.list_lengths),
        "doc_id": data.doc_names,
    } | {name: data.features[:, i] for i, name in enumerate(data.feature_names)}
    return session.createDataFrame(pa.table({n: pa.array(c) for n, c in columns.items()}))


def _like(table: SparkEvents, features: Sequence[str], events: SparkEvents) -> SparkEvents:
    """Return ids, of the types that the log's are, and features of a table."""
    ids = (f"{name}::{events.types[name]} AS {name}" for name in ("query_id", "doc_id"))
    return table.select(", ".join([*ids, *map(quoted_name, features)]))
