"""Running experiments: jobs that are not finished yet, in processes, into the journal."""

import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from prsrank import __version__
from prsrank.errors import InputError
from prsrank.experiment.claims import read_test
from prsrank.experiment.jobs import RESULTS_VERSION, Cell, Job, Source
from prsrank.experiment.journal import Finished, Journal, locked
from prsrank.experiment.methods import uses_torch
from prsrank.experiment.planning import Planner
from prsrank.experiment.results import PLAN, Results
from prsrank.experiment.shared_inputs import read_source
from prsrank.experiment.spec import Spec
from prsrank.experiment.tidy_table import write_table, write_timings
from prsrank.experiment.tuning import short_form
from prsrank.experiment.workers import Workers
from prsrank.files import write_json
from prsrank.rankers.base import RANKERS
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
    with locked(out):
        journal = Journal(out)
        if journal.finished and not resume:
            raise InputError(
                f"{out}: holds {len(journal.finished)} results; --resume goes on there"
            )
        planners = _planners(specs, data, relevant_from)
        before = len(journal.finished)
        count = thread_count(processes) if processes != 0 else 0
        tell = progress or (lambda *_: None)
        with journal.writing(), Workers(count) as workers:
            plans, wanted = _everything(planners, journal, workers, tell)
        plan = {
            "experiments": plans,
            "queries": {p.source.name: [list(q) for q in p.source.queries] for p in planners},
        }
        write_json(out / PLAN, plan)
        write_table(plan, journal.finished, out)
        write_timings(plan, journal.finished, out)
    computed = len(journal.finished) - before
    return Run(
        [planner.spec for planner in planners],
        {name: Results.of_plan(part, journal.finished) for name, part in plans.items()},
        computed=computed,
        reused=len(wanted) - computed,
        seconds=time.perf_counter() - started,
        cpu_seconds=sum(journal.finished[job].cpu_seconds for job in wanted),
        sources={planner.spec.id: planner.source for planner in planners},
    )


def _planners(specs: Sequence[Spec], data: str, relevant_from: float | None) -> list[Planner]:
    code = f"{__version__}/{RESULTS_VERSION}"
    names = [spec.data or data for spec in specs]
    # a data set that a spec names is the spec's to judge
    given = {spec.data or data: None if spec.data else relevant_from for spec in specs}
    sources = {}
    for name in dict.fromkeys(names):
        folds = max(spec.folds for spec, its in zip(specs, names, strict=True) if its == name)
        sources[name] = read_source(name, folds, given[name])
    return [
        Planner(possible(_with_note(spec, sources[name])), sources[name], code)
        for spec, name in zip(specs, names, strict=True)
    ]


def possible(spec: Spec) -> Spec:
    """Leave out methods that need a library that is not installed, with a note."""
    if importlib.util.find_spec("torch") is not None:
        return spec
    rankers = {panel.name: panel.ranker for panel in spec.panels}
    methods = tuple(
        replace(m, panels=tuple(p for p in m.panels if not uses_torch(m.ranker or rankers[p])))
        for m in spec.methods
    )
    if methods == spec.methods:
        return spec
    note = "The neural rankers are left out: they need PyTorch (pip install 'prsrank[dnn]')."
    kept = tuple(method for method in methods if method.panels)
    names = {method.name for method in kept}
    panels = {panel for method in kept for panel in method.panels}
    claims = [read_test(entry, metrics=spec.metrics) for entry in spec.test]
    return replace(
        spec,
        methods=kept,
        panels=tuple(panel for panel in spec.panels if panel.name in panels),
        test=tuple(
            entry
            for entry, claim in zip(spec.test, claims, strict=True)
            if names >= claim.methods and (claim.panels is None or panels & set(claim.panels))
        ),
        notes=(*spec.notes, note),
    )


def _with_note(spec: Spec, source: Source) -> Spec:
    notes = (*spec.notes, source.note) if source.note else spec.notes
    return replace(spec, notes=notes, folds=min(spec.folds, source.folds))


def _everything(
    planners: Sequence[Planner], journal: Journal, workers: Workers, progress: Progress
) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """Tune, then measure; return the plan of each experiment and the ids of all its jobs."""
    tuning = [{cell: planner.tuning_job(cell) for cell in planner.cells()} for planner in planners]
    searches = [job for found in tuning for job in found.values() if job is not None]
    _finish("tuning", searches, journal, workers, progress)
    finished = journal.finished
    jobs = [
        {
            cell: planner.job(cell, None if job is None else finished[job.id].details["chosen"])
            for cell, job in found.items()
        }
        for planner, found in zip(planners, tuning, strict=True)
    ]
    measures = [job for found in jobs for job in found.values()]
    _finish("measuring", measures, journal, workers, progress)
    plans = {
        planner.spec.id: _plan(planner, found, _chosen(searched, finished))
        for planner, found, searched in zip(planners, jobs, tuning, strict=True)
    }
    return plans, {job.id for job in (*searches, *measures)}


def _finish(
    what: str, jobs: Sequence[Job], journal: Journal, workers: Workers, progress: Progress
) -> None:
    """Compute those of the jobs that are not finished, the jobs of one log together."""
    wanted = {job.id: job for job in jobs}
    missing = [job for job in wanted.values() if job.id not in journal.finished]
    units: dict[str, list[Job]] = {}
    for job in missing:
        units.setdefault(f"{job.identity['fold']:03} {job.group}", []).append(job)
    done = len(wanted) - len(missing)
    progress(what, done, len(wanted))
    for job, finished in workers.compute([units[key] for key in sorted(units)]):
        journal.add(finished, job.identity)
        done += 1
        progress(what, done, len(wanted))


def _plan(planner: Planner, jobs: Mapping[Cell, Job], chosen: Mapping[str, Any]) -> dict[str, Any]:
    spec = planner.spec
    return {
        "data": planner.source.name,
        "metrics": list(spec.metrics),
        "points": list(spec.axis.points),
        "axis": spec.axis.title,
        "source": spec.propensity.get("source", "known"),
        "learning": [m.name for m in spec.methods if _learns(m.ranker)],
        "chosen": chosen,
        "rows": [[*astuple(cell), job.id] for cell, job in jobs.items()],
    }


def _learns(ranker: str) -> bool:
    return ranker in RANKERS and not RANKERS[ranker].takes_propensities


def _chosen(
    tuning: Mapping[Cell, Job | None], finished: Mapping[str, Finished]
) -> dict[str, dict[str, Any]]:
    """Return the chosen values by "panel method": a list over folds where they differ."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for cell, job in tuning.items():
        if job is not None:
            details = finished[job.id].details
            name = " ".join(filter(None, (cell.panel, cell.method)))
            values = short_form(details["chosen"], details["tried"])
            found.setdefault(name, {})[job.id] = values
    result: dict[str, dict[str, Any]] = {name: {} for name in found}
    for name, by_job in found.items():
        rows = list(by_job.values())
        for key, first in rows[0].items():
            every = [row[key] for row in rows]
            result[name][key] = first if all(one == first for one in every) else every
    return result
