"""Running experiments: jobs that are not finished yet, in processes, into the journal."""

import importlib.util
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prsrank import __version__
from prsrank.errors import InputError
from prsrank.experiment.jobs import RESULTS_VERSION, Cell, Job, Planner, Source, varied
from prsrank.experiment.journal import Journal, open_journal
from prsrank.experiment.methods import uses_torch
from prsrank.experiment.results import PlannedJobs, Results, write_table, write_timings
from prsrank.experiment.shared_inputs import read_source
from prsrank.experiment.spec import Spec
from prsrank.experiment.workers import compute_units
from prsrank.threads import thread_count

Progress = Callable[[str, int, int], object]
"""Is told what is being done, how many jobs of it are done, and how many there are."""


@dataclass(frozen=True, eq=False)
class Run:
    """What came of a run.

    Attributes:
        specs: the experiments as they were run, with notes of what was left out.
        results: by experiment.
        computed: number of jobs that were computed now.
        reused: number of jobs that were finished before.
        seconds: wall time of this run.
        cpu_seconds: processor time of all jobs, whenever they were computed.
        sources: the data sets.
    """

    specs: Sequence[Spec]
    results: Mapping[str, Results]
    computed: int
    reused: int
    seconds: float
    cpu_seconds: float
    sources: Mapping[str, Source] = field(default_factory=dict)


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
    started = time.perf_counter()
    with open_journal(out) as journal:
        finished = journal.finished
        before = len(finished)
        if before and not resume:
            raise InputError(f"{out}: holds {before} results; --resume goes on there")
        count = thread_count(processes) if processes != 0 else 0

        def finish(step: str, jobs: Iterable[Job | None]) -> set[str]:
            """Compute those of the jobs that are not finished, those of one log together."""
            wanted = {job.id: job for job in jobs if job is not None}
            _finish(step, wanted, journal, count, progress or (lambda *_: None))
            return set(wanted)

        planners = _planners(specs, data, relevant_from)
        searches = [{cell: p.tuning_job(cell) for cell in p.cells()} for p in planners]
        ids = finish("tuning", (job for each in searches for job in each.values()))
        experiments = [
            _planned(planner, search, journal)
            for planner, search in zip(planners, searches, strict=True)
        ]
        ids |= finish("measuring", (job for each in experiments for job in each.jobs.values()))
        write_table(experiments, finished, out)
        write_timings(experiments, finished, out)
    return Run(
        [planned.spec for planned in experiments],
        {planned.spec.id: Results.of_jobs(planned, finished) for planned in experiments},
        computed=len(finished) - before,
        reused=len(ids) - len(finished) + before,
        seconds=time.perf_counter() - started,
        cpu_seconds=sum(finished[job].cpu_seconds for job in ids),
        sources={planned.spec.id: planned.source for planned in experiments},
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
    """Leave out methods that need a library that is not installed, with a note."""
    if importlib.util.find_spec("torch") is not None:
        return spec
    rankers = {panel.name: panel.ranker for panel in spec.panels}
    left = [
        replace(m, panels=tuple(p for p in m.panels if not uses_torch(m.ranker or rankers[p])))
        for m in spec.methods
    ]
    if left == list(spec.methods):
        return spec
    note = "The neural rankers are left out: they need PyTorch (pip install 'prsrank[dnn]')."
    methods = tuple(method for method in left if method.panels)
    names = {method.name for method in methods}
    panels = {panel for method in methods for panel in method.panels}
    return replace(
        spec,
        methods=methods,
        panels=tuple(panel for panel in spec.panels if panel.name in panels),
        test=tuple(c for c in spec.test if names >= c.methods and panels & {*(c.panels or panels)}),
        notes=(*spec.notes, note),
    )


def _finish(
    step: str, wanted: Mapping[str, Job], journal: Journal, processes: int, progress: Progress
) -> None:
    units: dict[str, list[Job]] = {}
    for job in wanted.values():
        if job.id not in journal.finished:
            units.setdefault(f"{job.identity['fold']:03} {job.group}", []).append(job)
    done = len(wanted) - sum(map(len, units.values()))
    progress(step, done, len(wanted))
    for job, finished in compute_units([units[key] for key in sorted(units)], processes):
        journal.add(finished, job.identity)
        done += 1
        progress(step, done, len(wanted))


def _planned(planner: Planner, search: Mapping[Cell, Job | None], journal: Journal) -> PlannedJobs:
    """Plan the jobs with the hyper-parameters that were chosen: listed where folds differ."""
    jobs: dict[Cell, Job] = {}
    by_search: dict[str, dict[str, dict[str, Any]]] = {}
    for cell, job in search.items():
        details = None if job is None else journal.finished[job.id].details
        jobs[cell] = planner.job(cell, None if details is None else details["chosen"])
        if job is not None and details is not None:
            values = varied(details["chosen"], details["tried"])
            by_search.setdefault(cell.name, {})[job.id] = values
    chosen: dict[str, dict[str, Any]] = {}
    for name, of_searches in by_search.items():
        columns = {
            key: [values[key] for values in of_searches.values()]
            for key in next(iter(of_searches.values()))
        }
        chosen[name] = {
            key: every[0] if all(value == every[0] for value in every) else every
            for key, every in columns.items()
        }
    return PlannedJobs(planner.spec, planner.source, jobs, chosen)
