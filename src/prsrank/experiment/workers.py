"""Processes that compute jobs, one thread each, and report every job as soon as it is done."""

import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

from prsrank.errors import InputError
from prsrank.experiment.jobs import Job
from prsrank.experiment.journal import Finished
from prsrank.experiment.measures import compute
from prsrank.experiment.methods import uses_torch
from prsrank.experiment.shared_inputs import SharedInputs

Unit = Sequence[Job]
"""Jobs that share a log."""

_THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
)


class Workers:
    """Processes that wait for work, started when there is some; ended with the block.

    Args:
        processes: number of processes; 0 computes in this one.
    """

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._connections: list[Connection] = []
        self._started: list[Any] = []

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._started:
            process.terminate()
            process.join()

    def compute(self, units: Sequence[Unit]) -> Iterator[tuple[Job, Finished]]:
        """Compute units of jobs; yield each job when it is done, in any order.

        Args:
            units: the work; the jobs of a unit are done one after the other in one process.

        Raises:
            InputError: one that a job raised.
            RuntimeError: for any other error of a job, and for a process that died.
        """
        if self.processes == 0:
            inputs = SharedInputs()
            for unit in units:
                yield from _computed(unit, inputs)
            return
        self._start(min(self.processes, len(units)))
        waiting = list(reversed(units))
        busy: dict[Any, Unit] = {}
        for connection in self._connections[: len(units)]:
            busy[connection] = waiting.pop()
            connection.send(busy[connection])
        while busy:
            ready: list[Any] = wait(list(busy))
            for one in ready:
                kind, content = _received(one)
                if kind == "job":
                    index, finished = content
                    yield busy[one][index], finished
                elif waiting:
                    busy[one] = waiting.pop()
                    one.send(busy[one])
                else:
                    del busy[one]

    def _start(self, count: int) -> None:
        context = get_context("spawn")
        with _single_threads():
            while len(self._started) < count:
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs,), daemon=True)
                process.start()
                theirs.close()
                self._connections.append(ours)
                self._started.append(process)


def _received(connection: Any) -> tuple[str, Any]:
    try:
        kind, content = connection.recv()
    except EOFError:
        raise RuntimeError("a process died while it computed a job") from None
    if kind == "bad input":
        raise InputError(content)
    if kind == "error":
        raise RuntimeError(f"a job failed:\n{content}")
    return kind, content


@contextmanager
def _single_threads() -> Iterator[None]:
    """Let processes that are started here inherit one thread each."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends what Ctrl-C interrupts
    threading.Thread(target=_end_with_parent, daemon=True).start()
    inputs = SharedInputs()
    try:
        while True:
            unit = connection.recv()
            for index, (_, finished) in enumerate(_computed(unit, inputs)):
                connection.send(("job", (index, finished)))
            connection.send(("unit", None))
    except (EOFError, BrokenPipeError):
        return
    except InputError as error:
        connection.send(("bad input", str(error)))
    except Exception:
        connection.send(("error", traceback.format_exc()))


def _end_with_parent() -> None:
    """End this process as soon as the one that started it is gone, even if it was killed."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _computed(unit: Unit, inputs: SharedInputs) -> Iterator[tuple[Job, Finished]]:
    for job in unit:
        inputs.enter(job.group)
        if uses_torch(job.identity.get("ranker", "")):
            from prsrank.rankers.torch_library import torch

            torch.set_num_threads(1)
        wall, cpu = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values, details = compute(inputs, job)
        spent = time.perf_counter() - wall, time.process_time() - cpu
        yield job, Finished(job.id, job.identity["kind"], values, details, *spent)
