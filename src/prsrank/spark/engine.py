"""The engine that runs on Apache Spark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from prsrank.errors import InputError
from prsrank.fit.plan import Plan
from prsrank.logs.features import keyed_table
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sql_text import quoted_name
from prsrank.logs.tables import named_errors
from prsrank.rankers.base import ranker_class
from prsrank.spark.barrier import SparkFailure
from prsrank.spark.checks import checked, warn_of_skew
from prsrank.spark.events import SparkEvents, open_spark_log
from prsrank.spark.log import SparkLog
from prsrank.spark.placing import Size
from prsrank.spark.rows import pieces_of_log
from prsrank.spark.session import DYING, OwnSession, import_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from prsrank.data.dataset import RankingDataset
    from prsrank.files import FileName
    from prsrank.logs.click_log import ClickLog
    from prsrank.spark.pieces import SparkPieces


class SparkEngine:
    """Runs every step on Spark; see `prsrank.fit.engine.Engine`.

    Logs are opened, counted and trained on by the workers. Nothing comes to the driver but
    sums, of at most 2000 units, and models.

    Args:
        session: a SparkSession to use, which stays open; default: one of our own, started when
            it is first needed.
        master: the master URL of our own session, such as "local[4]" or "spark://host:7077";
            default: what Spark's own configuration says, else all local cores.
        options: settings of our own session, by Spark's names.
        workers: tasks that train trees together; default: as many as run at once.
        attempts: how often a lost training starts from scratch, the first time included.
    """

    name = "spark"

    def __init__(
        self,
        session: "SparkSession | None" = None,
        *,
        master: str | None = None,
        options: Mapping[str, str] | None = None,
        workers: int | None = None,
        attempts: int = 2,
    ) -> None:
        if session is not None and master is not None:
            raise InputError("give a Spark session or a master URL, not both")
        if attempts < 1 or (workers is not None and workers < 1):
            raise InputError("workers and attempts must be at least 1")
        import_pyspark()
        self._given = session
        self._own: OwnSession | None = None
        self._master, self._options = master, dict(options or {})
        self._workers = workers
        self.attempts = attempts
        self.kept: list[DataFrame] = []

    @property
    def session(self) -> Any:
        """The SparkSession."""
        if self._given is not None:
            return self._given
        if self._own is None:
            self._own = OwnSession(self._master, self._options)
        return self._own.session

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        gone = None
        if isinstance(error, Exception) and self._own is not None:
            told = isinstance(error, InputError) and not isinstance(error, SparkFailure)
            gone = None if told else self._own.ending(DYING)
        self.close()
        if gone is not None:
            # whatever failed then failed because of it
            raise SparkFailure(f"{gone}: too little memory, or somebody ended it") from error

    def close(self) -> None:
        """Stop the session, if it is our own."""
        if self._own is not None:
            self._own.stop()
            self._own = None

    @property
    def workers(self) -> int:
        """How many tasks train together."""
        slots = self.session.sparkContext.defaultParallelism // self.task_cores
        return self._workers or max(slots, 1)

    @property
    def task_cores(self) -> int:
        """How many cores a task has."""
        return int(self.session.sparkContext.getConf().get("spark.task.cpus", "1"))

    def check(self, plan: Plan) -> None:
        """Refuse, before Spark starts, what only one process can do."""
        if plan.lists != "query":
            raise InputError("lists = 'session' is for one machine: on Spark a query has one list")
        if not ranker_class(plan.ranker).on_spark:
            raise InputError(f"Spark does not train {plan.ranker}")

    @contextmanager
    def open_log(
        self, log: Any, *, mapping: LogMapping, memory: str | None = None
    ) -> Iterator[SparkEvents]:
        """Open a log that the cluster can read; rows stay there. Memory is Spark's to set."""
        try:
            yield open_spark_log(self.session, log, mapping)
        finally:
            for frame in self.kept:
                frame.unpersist()
            self.kept.clear()

    def sessions(self, source: SparkEvents) -> "SparkPieces[ClickLog]":
        """Return the sessions of an open log, checked; they stay where they are."""
        return self._log(checked(source)).pieces

    def load(
        self,
        source: SparkEvents,
        *,
        mapping: LogMapping,
        data: "RankingDataset | None" = None,
        table: "FileName | None" = None,
        lists: str = "query",
    ) -> SparkLog:
        """Check an open log, and find the features of its docs; rows stay where they are."""
        events = checked(source)
        if table is not None:
            rows, names = keyed_table(source, table, mapping)
        elif data is not None:
            names, rows = data.feature_names, SparkEvents(_frame_of(self.session, data))
        else:
            # lists are those of the whole log: a part may show fewer of their docs
            docs = events if events.features else None
            return self._log(events, events.features, docs)
        return self._log(events, names, _like(rows, names, events)).covered()

    def _log(
        self,
        events: SparkEvents,
        features: tuple[str, ...] = (),
        docs: SparkEvents | None = None,
    ) -> SparkLog:
        """Return a log in pieces, and warn, once, of a query with too many rows."""
        made = pieces_of_log(events, features, docs, self.kept)
        with named_errors(events.name):
            pieces, size = made.measured(Size.of)
        warn_of_skew(size.busiest, events.usable)
        return SparkLog(self, events.name, features, pieces, size, "propensity" in events.types)


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
