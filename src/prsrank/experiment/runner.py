"""Running experiments: jobs that are not finished yet, in processes, into the journal."""

import importlib.util
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from multiprocessing import connection, get_context
from pathlib import Path

from threadpoolctl import threadpool_limits

from prsrank import __version__
from prsrank.errors import InputError
from prsrank.experiment.inputs import read_source
from prsrank.experiment.jobs import RESULTS_VERSION, Job, Planner, Setting, Source
from prsrank.experiment.journal import Finished, Journal, open_journal
from prsrank.experiment.measures import compute
from prsrank.experiment.methods import uses_torch
from prsrank.experiment.results import Results, write_frame
from prsrank.experiment.spec import Spec
from prsrank.threads import thread_count

Progress = Callable[[str, int, int], object]
"""Is told what is being done, how many jobs of it are done, and how many there are."""

_WITHOUT_TORCH = "The neural rankers are left out: they need PyTorch (pip install 'prsrank[dnn]')."


Unit = Sequence[Job]
"""Jobs that share a log: computed one after the other in one process, which keeps the log."""


@dataclass(frozen=True, eq=False)
class Run:
    """What came of a run.

    Attributes:
        results: of each experiment, by its id.
        computed: number of jobs that were computed now.
        reused: number of jobs that were finished before.
        cpu_seconds: processor time of all jobs, whenever they were computed.
        titles: of the data sets, by their names.
    """

    results: Mapping[str, Results]
    computed: int
    reused: int
    cpu_seconds: float
    titles: Mapping[str, str]


def run_experiments(
    specs: Sequence[Spec],
    data: str,
    out: Path,
    *,
    resume: bool = False,
    processes: int | None = None,
    progress: Progress | None = None,
    relevant_from: float | None = None,
) -> Run:
    """Run experiments, or what is missing of them, and write their results to a folder.

    Args:
        specs: the experiments.
        data: the data set, for those that have none of their own.
        out: the folder. `jobs.jsonl` in it takes each job when it is done, so that a run may
            be killed at any time; `results.parquet` is written at the end.
        resume: go on where an earlier run into this folder stopped, and reuse all that still
            holds.
        processes: number of processes, default one per core; 0 computes in this one.
        progress: is told how it goes.
        relevant_from: the least label of `data` that counts as relevant; None: the collection's.

    Raises:
        InputError: among others if `out` holds results and `resume` is false, or another run
            is writing to it.
    """
    with open_journal(out) as journal:
        finished = journal.finished
        before = len(finished)
        if before and not resume:
            raise InputError(f"{out}: holds {before} results; --resume goes on there")
        count = thread_count(processes) if processes != 0 else 0
        tell = progress or (lambda *_: None)

        def finish(step: str, jobs: Iterable[Job | None]) -> set[str]:
            """Compute those of the jobs that are not finished, those of one log together."""
            wanted = {job.id: job for job in jobs if job is not None}
            units: dict[str, list[Job]] = {}
            for job in wanted.values():
                if job.id not in finished:
                    units.setdefault(job.group, []).append(job)
            done = len(wanted) - sum(map(len, units.values()))
            tell(step, done, len(wanted))
            for job, entry in compute_units([units[key] for key in sorted(units)], count):
                journal.add(entry, job.identity)
                done += 1
                tell(step, done, len(wanted))
            return set(wanted)

        planners = _planners(specs, data, relevant_from)
        searches = [{cell: p.tuning_job(cell) for cell in p.cells()} for p in planners]
        ids = finish("tuning", (job for search in searches for job in search.values()))
        plans = [
            {cell: planner.job(cell, _chosen(job, journal)) for cell, job in search.items()}
            for planner, search in zip(planners, searches, strict=True)
        ]
        ids |= finish("measuring", (job for plan in plans for job in plan.values()))
        results = [
            Results.of_jobs(planner, plan, finished)
            for planner, plan in zip(planners, plans, strict=True)
        ]
        write_frame(results, out)
    return Run(
        {each.spec.id: each for each in results},
        computed=len(finished) - before,
        reused=len(ids) - len(finished) + before,
        cpu_seconds=sum(finished[job].cpu_seconds for job in ids),
        titles={planner.source.name: planner.source.title for planner in planners},
    )


def _planners(specs: Sequence[Spec], data: str, relevant_from: float | None) -> list[Planner]:
    sources: dict[str, Source] = {}
    for spec in sorted(specs, key=lambda spec: -spec.folds):
        # a data set that a spec names is the spec's to judge
        name, least = spec.data or data, None if spec.data else relevant_from
        if name not in sources:
            sources[name] = read_source(name, spec.folds, least)
    planners = []
    for spec in specs:
        source = sources[spec.data or data]
        folds = min(spec.folds, len(source.fingerprints))
        notes = (*spec.notes, *filter(None, [source.note]))
        changed = possible(replace(spec, notes=notes, folds=folds))
        planners.append(Planner(changed, source, f"{__version__}/{RESULTS_VERSION}"))
    return planners


def possible(spec: Spec) -> Spec:
    """Take methods that need a library that is not installed from all panels, with a note."""
    if importlib.util.find_spec("torch") is not None:
        return spec
    without = {panel.name for panel in spec.panels if uses_torch(panel.ranker)}
    methods = []
    for method in spec.methods:
        none = uses_torch(method.ranker)
        left = () if none else tuple(p for p in method.panels if method.ranker or p not in without)
        methods.append(replace(method, panels=left))
    if methods == list(spec.methods):
        return spec
    return replace(spec, methods=tuple(methods), notes=(*spec.notes, _WITHOUT_TORCH))


def _chosen(search: Job | None, journal: Journal) -> Setting | None:
    return None if search is None else journal.finished[search.id].details["chosen"]


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
