"""Running experiments: jobs that are not finished yet, in processes, into the journal."""

import importlib.util
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prsrank.errors import InputError
from prsrank.experiment.jobs import RESULTS_VERSION, Job, Place, Planner, Source
from prsrank.experiment.journal import Finished, Journal, locked
from prsrank.experiment.results import PLAN, Results
from prsrank.experiment.spec import Spec
from prsrank.experiment.tuning import short_form
from prsrank.experiment.workers import Workers
from prsrank.files import write_json
from prsrank.threads import thread_count

Progress = Callable[[str, int, int], object]
"""Is told what is being done, how many jobs of it are done, and how many there are."""

_NEURAL = ("dla", "dnn")


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
        planners = _planners(specs, data)
        before = len(journal.finished)
        count = thread_count(processes) if processes != 0 else 0
        with journal.writing(), Workers(count) as workers:
            plans, wanted = _everything(planners, _Work(journal, workers, progress))
        plan = {
            "experiments": plans,
            "queries": {p.source.name: [list(q) for q in p.source.queries] for p in planners},
        }
        _write(plan, journal.finished, out)
    return Run(
        [planner.spec for planner in planners],
        {name: Results.of_plan(name, part, journal.finished) for name, part in plans.items()},
        computed=len(journal.finished) - before,
        reused=len(wanted) - (len(journal.finished) - before),
        seconds=time.perf_counter() - started,
        cpu_seconds=sum(journal.finished[job].cpu_seconds for job in wanted),
        sources={planner.spec.id: planner.source for planner in planners},
    )


def _write(plan: Mapping[str, Any], finished: Mapping[str, Finished], out: Path) -> None:
    from prsrank.experiment.tidy_table import write_table, write_timings

    write_json(out / PLAN, dict(plan))
    write_table(plan, finished, out)
    write_timings(plan, finished, out)


def _planners(specs: Sequence[Spec], data: str) -> list[Planner]:
    from prsrank import __version__
    from prsrank.experiment.shared_inputs import read_source

    code = f"{__version__}/{RESULTS_VERSION}"
    sources: dict[str, Source] = {}
    for name in dict.fromkeys(spec.data or data for spec in specs):
        folds = max(spec.folds for spec in specs if (spec.data or data) == name)
        sources[name] = read_source(name, folds)
    return [
        Planner(
            possible(_with_note(spec, sources[spec.data or data])), sources[spec.data or data], code
        )
        for spec in specs
    ]


def possible(spec: Spec) -> Spec:
    """Leave out methods that need a library that is not installed, with a note."""
    if importlib.util.find_spec("torch") is not None:
        return spec
    rankers = {panel.name: panel.ranker for panel in spec.panels}
    kept = []
    for method in spec.methods:
        panels = tuple(
            panel for panel in method.panels if (method.ranker or rankers[panel]) not in _NEURAL
        )
        if panels:
            kept.append(replace(method, panels=panels))
    if len(kept) == len(spec.methods) and all(
        a.panels == b.panels for a, b in zip(kept, spec.methods, strict=True)
    ):
        return spec
    note = "The neural rankers are left out: they need PyTorch (pip install 'prsrank[dnn]')."
    inside = {panel for method in kept for panel in method.panels}
    return replace(
        spec,
        methods=tuple(kept),
        panels=tuple(panel for panel in spec.panels if panel.name in inside),
        test=tuple(entry for entry in spec.test if _still_there(entry, kept, inside)),
        notes=(*spec.notes, note),
    )


def _still_there(entry: Mapping[str, Any], methods: Sequence[Any], panels: set[str]) -> bool:
    names = {method.name for method in methods}
    named = [entry.get(verb) for verb in ("better", "above", "below")]
    rivals = entry.get("than", [])
    named += rivals if isinstance(rivals, list) else [rivals]
    there = all(name in names for name in named if isinstance(name, str))
    listed = entry.get("panels", [])
    return there and (not isinstance(listed, list) or not listed or bool(set(listed) & panels))


def _with_note(spec: Spec, source: Source) -> Spec:
    notes = (*spec.notes, source.note) if source.note else spec.notes
    return replace(spec, notes=notes, folds=min(spec.folds, source.folds))


@dataclass
class _Work:
    journal: Journal
    workers: Workers
    progress: Progress | None

    def finish(self, what: str, jobs: Iterable[Job]) -> None:
        """Compute those of the jobs that are not finished."""
        wanted = {job.id: job for job in jobs}
        missing = [job for job in wanted.values() if job.id not in self.journal.finished]
        units: dict[str, list[Job]] = {}
        for job in missing:
            units.setdefault(f"{job.identity['fold']:03} {job.group}", []).append(job)
        done, total = len(wanted) - len(missing), len(wanted)
        self._tell(what, done, total)
        if not missing:
            return
        ordered = [units[key] for key in sorted(units)]
        for job, finished in self.workers.compute(ordered):
            self.journal.add(finished, job.identity)
            done += 1
            self._tell(what, done, total)

    def _tell(self, what: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(what, done, total)


def _everything(
    planners: Sequence[Planner], work: _Work
) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """Tune, then measure; return the plan of each experiment and the ids of all its jobs."""
    tuning = [
        {place: planner.tuning_job(place) for place in planner.places()} for planner in planners
    ]
    searches = [job for found in tuning for job in found.values() if job is not None]
    work.finish("tuning", searches)
    finished = work.journal.finished
    jobs: list[dict[Place, Job]] = []
    for planner, found in zip(planners, tuning, strict=True):
        chosen = {
            place: None if job is None else finished[job.id].details["chosen"]
            for place, job in found.items()
        }
        jobs.append({place: planner.job(place, chosen[place]) for place in planner.places()})
    work.finish("measuring", (job for found in jobs for job in found.values()))
    plans = {
        planner.spec.id: _plan(planner, found, searched, finished)
        for planner, found, searched in zip(planners, jobs, tuning, strict=True)
    }
    wanted = {job.id for found in jobs for job in found.values()} | {job.id for job in searches}
    return plans, wanted


def _plan(
    planner: Planner,
    jobs: Mapping[Place, Job],
    tuning: Mapping[Place, Job | None],
    finished: Mapping[str, Finished],
) -> dict[str, Any]:
    spec = planner.spec
    learning = [m.name for m in spec.methods if m.ranker in ("dla", "unbiased_lambdamart")]
    return {
        "data": planner.source.name,
        "metrics": list(spec.metrics),
        "points": list(spec.axis.points),
        "axis": spec.axis.title,
        "source": spec.propensity.get("source", "known"),
        "learning": learning,
        "chosen": _chosen(tuning, finished),
        "rows": [
            [place.panel, place.method, place.point, place.fold, place.run, job.id]
            for place, job in jobs.items()
        ],
    }


def _chosen(
    tuning: Mapping[Place, Job | None], finished: Mapping[str, Finished]
) -> dict[str, dict[str, Any]]:
    """Return the chosen values by "panel method": a list over folds where they differ."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for place, job in tuning.items():
        if job is None:
            continue
        details = finished[job.id].details
        name = " ".join(filter(None, (place.panel, place.method)))
        values = short_form(details["chosen"], details["tried"])
        found.setdefault(name, {})[job.id] = values
    result: dict[str, dict[str, Any]] = {}
    for name, by_job in found.items():
        rows = list(by_job.values())
        result[name] = {}
        for key in rows[0]:
            every = [row[key] for row in rows]
            result[name][key] = every[0] if all(one == every[0] for one in every) else every
    return result
