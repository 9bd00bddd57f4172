"""Processes that compute jobs, one thread each, and report every job as soon as it is done."""

import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import connection, get_context

from threadpoolctl import threadpool_limits

from prsrank.experiment.jobs import Job
from prsrank.experiment.journal import Finished
from prsrank.experiment.measures import compute
from prsrank.experiment.methods import uses_torch

Unit = Sequence[Job]
"""Jobs that share a log: computed one after the other in one process, which keeps the log."""


def compute_units(units: Sequence[Unit], processes: int) -> Iterator[tuple[Job, Finished]]:
    """Compute units of jobs; yield each job when it is done, in any order.

    Args:
        units: the work.
        processes: number of processes; 0 computes in this one. They end with the iteration, and
            with this process even if it is killed.

    Raises:
        Exception: one that a job raised, as it is, and BrokenProcessPool if a process died.
    """
    if processes == 0:
        yield from ((job, _finished(job)) for unit in units for job in unit)
        return
    context = get_context("spawn")
    lifeline, ours = context.Pipe(duplex=False)
    # a pool of one process for each, so that the jobs of a unit go where its log is
    pools = [
        ProcessPoolExecutor(1, context, initializer=_start, initargs=(lifeline,))
        for _ in range(min(processes, len(units)))
    ]
    left, running = deque(units), dict[Future[Finished], tuple[ProcessPoolExecutor, Job, Unit]]()

    def submit(pool: ProcessPoolExecutor, unit: Unit) -> None:
        unit = unit or (left.popleft() if left else ())
        if unit:
            running[pool.submit(_finished, unit[0])] = pool, unit[0], unit[1:]

    try:
        for pool in pools:
            submit(pool, ())
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                pool, job, rest = running.pop(future)
                finished = future.result()
                submit(pool, rest)
                yield job, finished
    finally:
        ours.close()
        for pool in pools:
            pool.shutdown(cancel_futures=True)


def _start(lifeline: connection.Connection) -> None:
    """Prepare a process that ends when nobody holds the other end of its lifeline any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends what Ctrl-C interrupts

    def end_with_parent() -> None:
        connection.wait([lifeline])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _finished(job: Job) -> Finished:
    if uses_torch(job.identity.get("ranker", "")):
        from prsrank.rankers.neural.torch_library import torch

        torch.set_num_threads(1)
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        values, details = compute(job)
    spent = time.perf_counter() - wall, time.process_time() - cpu
    return Finished(job.id, job.identity["kind"], values, details, *spent)
