"""Rankers in a barrier stage of Spark: one worker per task."""

import json
import re
import secrets
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsrank.errors import DataWarning, InputError
from prsrank.relevance.workers import Workers
from prsrank.spark.events import first_line
from prsrank.spark.shard import Shard
from prsrank.spark.training_worker import TrainedModel, train_linear, train_worker
from prsrank.spark.tree_network import tree_network
from prsrank.spark.worker_sums import WorkerSums, listen

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

Load = Callable[[Iterator["pyarrow.RecordBatch"]], Shard]

_ROW = (
    "worker int, setting int, problem string, notices array<string>, model string, "
    "history array<double>, seconds double"
)

_OWN_ERROR = re.compile(
    r"^(?!org\.|java\.)[A-Za-z_][\w.]*(Error|Exception|LostWorker): .*$", re.MULTILINE
)
_LOOPBACK = "127.0.0.1"
# Seconds that workers wait for the slowest one's rows: of a lost one Spark ends the others.
_PATIENCE = 24 * 3600.0
_INPUT_ERROR = f"{InputError.__module__}.{InputError.__name__}: "
_MARKS = (
    "Most recent failure reason: ",
    "Most recent failure: ",
    "aborted due to stage failure: ",
)


class SparkFailure(InputError):
    """A stage was lost to the cluster, not to the input; the message is one line."""


@dataclass(frozen=True)
class _Meeting:
    """How the workers of a stage find and know one another.

    Attributes:
        secret: of this stage; it travels to the workers with the task.
        local: whether all workers are on the driver's machine: then they listen on its loopback.
    """

    secret: bytes
    local: bool

    def host(self, address: str) -> str:
        """Return the address to listen on, of the one that Spark knows a worker by."""
        return _LOOPBACK if self.local else socket.gethostbyname(address.rpartition(":")[0])


def train_in_barrier(
    partitions: "DataFrame",
    load: Load,
    settings: Sequence[Mapping[str, Any]],
    *,
    kind: str = "trees",
    attempts: int = 2,
) -> list[TrainedModel]:
    """Train rankers of several settings over all partitions, one worker each, one by one.

    Workers load their shards once. A lost executor or task ends the whole stage: trees need all
    workers. The stage is then run again from scratch, on whatever executors there are.

    Args:
        partitions: the rows of one worker per partition.
        load: makes a worker's shard of its rows.
        settings: parameters of each ranker.
        kind: how Spark trains it, "trees" (a LambdaMART) or "sums" (a linear one).
        attempts: how often to run the stage at most.

    What worker 0 has to tell of the data is told here, by a DataWarning.

    Returns:
        What each of the settings gave.

    Raises:
        InputError: what a worker finds wrong with its rows.
        SparkFailure: if the last attempt is lost, too.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    local = str(partitions.sparkSession.sparkContext.master).startswith("local")

    for attempt in range(1, attempts + 1):
        meeting = _Meeting(secrets.token_bytes(32), local)

        def task(
            batches: Iterator["pyarrow.RecordBatch"], meeting: _Meeting = meeting
        ) -> Iterator["pyarrow.RecordBatch"]:
            yield from _run_worker(batches, load, settings, kind, meeting)

        try:
            rows = partitions.mapInArrow(task, _ROW, barrier=True).collect()
            break
        except (PySparkException, Py4JError) as error:
            reason = reason_of(error)
            if attempt == attempts:
                times = "once" if attempts == 1 else f"{attempts} times"
                raise SparkFailure(f"training on Spark failed {times}, last: {reason}") from error
            warnings.warn(
                f"training on Spark was interrupted and starts again: {reason}",
                DataWarning,
                stacklevel=3,
            )
    problems = [row.problem for row in rows if row.problem]
    if problems:
        raise InputError(problems[0])
    models = sorted((row for row in rows if row.worker == 0), key=lambda row: row.setting)
    for notice in models[0].notices:
        warnings.warn(notice, DataWarning, stacklevel=3)
    return [TrainedModel(row.model, list(row.history), row.seconds) for row in models]


@contextmanager
def stage_errors(what: str) -> Iterator[None]:
    """Say in one line why stages of Spark failed: what a task found wrong, or how it was lost."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        reason = reason_of(error)
        if reason.startswith(_INPUT_ERROR):
            raise InputError(reason.removeprefix(_INPUT_ERROR)) from error
        raise SparkFailure(f"{what} on Spark failed: {reason}") from error


def reason_of(error: BaseException) -> str:
    r"""Return one line that says why a stage of Spark failed: a worker's own error, if it says.

    >>> reason_of(ValueError("Job aborted. Traceback:\nMemoryError: no room\n\n\tat org.apache"))
    'MemoryError: no room'
    """
    text = str(error)
    told = [found.group() for found in _OWN_ERROR.finditer(text)]
    if told:
        return told[-1].removeprefix("lightgbm.basic.").removeprefix("prsrank.spark.worker_sums.")
    for mark in _MARKS:
        if mark in text:
            return text.split(mark, 1)[1].splitlines()[0].strip()
    return first_line(error)


def _run_worker(
    batches: Iterator["pyarrow.RecordBatch"],
    load: Load,
    settings: Sequence[Mapping[str, Any]],
    kind: str,
    meeting: _Meeting,
) -> Iterator["pyarrow.RecordBatch"]:
    """Do what one task does: load, meet the others, train; worker 0 gives the models."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    worker = context.partitionId()
    host = meeting.host(context.getTaskInfos()[worker].address)
    shard, problem = None, ""
    with listen(host) as server, ThreadPoolExecutor(1) as pool:
        # It goes through the driver and takes a second: meanwhile rows are loaded. Sums take
        # sockets of our own, since histograms are summed for every leaf.
        told = pool.submit(context.allGather, json.dumps(server.getsockname()[:2]))
        try:
            shard = load(batches)
        except InputError as error:
            problem = str(error)
        addresses = [tuple(json.loads(address)) for address in told.result()]
        sums = WorkerSums(
            worker, addresses, server=server, secret=meeting.secret, patience=_PATIENCE
        )
    with sums, tree_network(sums), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        models: list[TrainedModel] = []
        all_loaded = sums(float(shard is None)) == 0  # else those who found what is wrong say it
        if shard is not None and all_loaded:
            models, problem = _train(settings, kind, shard, Workers(len(addresses), sums))
    if problem:
        yield _row(worker, 0, TrainedModel("", []), problem=problem)
    elif worker == 0:
        notices = [str(one.message) for one in heard if issubclass(one.category, DataWarning)]
        for number, model in enumerate(models):
            yield _row(worker, number, model, notices=notices)


def _train(
    settings: Sequence[Mapping[str, Any]], kind: str, shard: Shard, workers: Workers
) -> tuple[list[TrainedModel], str]:
    """Train rankers one after another; return what is wrong with the input if something is."""
    try:
        shard = shard.ready(workers)
        if kind == "sums":
            return list(train_linear(settings, shard, workers)), ""
        return [train_worker(parameters, shard, workers) for parameters in settings], ""
    except InputError as error:
        return [], str(error)


def _row(
    worker: int,
    number: int,
    model: TrainedModel,
    *,
    problem: str = "",
    notices: Sequence[str] = (),
) -> "pyarrow.RecordBatch":
    import pyarrow as pa

    return pa.record_batch(
        {
            "worker": pa.array([worker], pa.int32()),
            "setting": pa.array([number], pa.int32()),
            "problem": [problem],
            "notices": pa.array([list(notices)], pa.list_(pa.string())),
            "model": [model.text],
            "history": pa.array([model.history], pa.list_(pa.float64())),
            "seconds": pa.array([model.seconds], pa.float64()),
        }
    )
