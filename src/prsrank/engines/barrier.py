"""LambdaMART in a barrier stage of Spark: one rank per task."""

import json
import os
import re
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prsrank.engines.rank_sums import RankSums, free_port, listen
from prsrank.engines.shard import Shard
from prsrank.engines.spark_events import first_line
from prsrank.engines.training_worker import Place, TrainedModel, train_rank
from prsrank.errors import DataWarning, InputError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

Load = Callable[[Iterator["pyarrow.RecordBatch"]], Shard]

_ROW = "rank int, problem string, model string, history array<double>, seconds double"

_OWN_ERROR = re.compile(
    r"^(?!org\.|java\.)[A-Za-z_][\w.]*(Error|Exception|LostRank): .*$", re.MULTILINE
)
_MARKS = (
    "Most recent failure reason: ",
    "Most recent failure: ",
    "aborted due to stage failure: ",
)


class SparkFailure(InputError):
    """A stage was lost to the cluster, not to the input; the message is one line."""


def train_in_barrier(
    partitions: "DataFrame",
    load: Load,
    parameters: Mapping[str, Any],
    *,
    judge: Any = None,
    attempts: int = 2,
) -> TrainedModel:
    """Grow one LambdaMART over all partitions, one rank each.

    A lost executor or task ends the whole stage: trees need all ranks. The stage is then run
    again from scratch, on whatever executors there are.

    Args:
        partitions: the rows of one rank per partition.
        load: makes a rank's shard of its rows.
        parameters: of the LambdaMART.
        judge: as `train_rank` takes it; rank 0 has it.
        attempts: how often to run the stage at most.

    Raises:
        InputError: what a rank finds wrong with its rows.
        SparkFailure: if the last attempt is lost, too.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    def task(batches: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
        yield from _run_rank(batches, load, parameters, judge)

    for attempt in range(1, attempts + 1):
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
    model = next(row for row in rows if row.rank == 0)
    return TrainedModel(model.model, list(model.history), model.seconds)


def reason_of(error: BaseException) -> str:
    r"""Return one line that says why a stage of Spark failed: a rank's own error, if it says.

    >>> reason_of(ValueError("Job aborted. Traceback:\nMemoryError: no room\n\n\tat org.apache"))
    'MemoryError: no room'
    """
    text = str(error)
    told = [found.group() for found in _OWN_ERROR.finditer(text)]
    if told:
        return told[-1].removeprefix("lightgbm.basic.").removeprefix("prsrank.engines.rank_sums.")
    for mark in _MARKS:
        if mark in text:
            return text.split(mark, 1)[1].splitlines()[0].strip()
    return first_line(error)


def _run_rank(
    batches: Iterator["pyarrow.RecordBatch"], load: Load, parameters: Mapping[str, Any], judge: Any
) -> Iterator["pyarrow.RecordBatch"]:
    """Do what one task does: load, meet the others, train."""
    import pyarrow as pa
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    rank = context.partitionId()
    host = socket.gethostbyname(context.getTaskInfos()[rank].address.rpartition(":")[0])
    shard, problem = None, ""
    try:
        shard = load(batches)
    except InputError as error:
        problem = str(error)
    model = TrainedModel("", [])
    with listen(host) as server:
        own = {
            "host": host,
            "port": free_port(host),
            "sums": server.getsockname()[1],
            "problem": problem,
        }
        told = [json.loads(message) for message in context.allGather(json.dumps(own))]
        problem = next((one["problem"] for one in told if one["problem"]), "")
        if shard is not None and not problem:
            model, problem = _train(parameters, shard, told, rank, server, judge)
    first = rank == 0
    yield pa.record_batch(
        {
            "rank": pa.array([rank], pa.int32()),
            "problem": [problem],
            "model": [model.text if first else ""],
            "history": pa.array([model.history if first else []], pa.list_(pa.float64())),
            "seconds": pa.array([model.seconds], pa.float64()),
        }
    )


def _train(
    parameters: Mapping[str, Any],
    shard: Shard,
    told: list[dict[str, Any]],
    rank: int,
    server: socket.socket,
    judge: Any,
) -> tuple[TrainedModel, str]:
    first = told[0]
    machines = tuple(f"{one['host']}:{one['port']}" for one in told)
    sums = RankSums(
        rank,
        len(told),
        server=server if rank == 0 else None,
        address=(first["host"], first["sums"]),
    )
    with sums, _output_hidden():
        try:
            place = Place(rank, machines, sums)
            return train_rank(parameters, shard, place, judge=judge if rank == 0 else None), ""
        except InputError as error:
            return TrainedModel("", []), str(error)


@contextmanager
def _output_hidden() -> Iterator[None]:
    """Keep what LightGBM's threads print about their sockets out of the task's output."""
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
