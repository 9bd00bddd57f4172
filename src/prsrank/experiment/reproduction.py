"""From the name of an experiment to its report: what `prsrank reproduce` does."""

import csv
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from prsrank.errors import InputError
from prsrank.experiment.runner import Progress, run_experiments
from prsrank.experiment.spec import Point, RankerSettings, Spec
from prsrank.experiment.spec_files import load_specs
from prsrank.experiment.summary import summarise
from prsrank.files import atomic_output, write_json
from prsrank.rankers.base import ranker_class
from prsrank.report.charts import write_figures
from prsrank.report.html import write_report
from prsrank.report.parts import Part, about_rows, page

REPORT = "report.html"
TRIAL = "A trial in tiny sizes: the numbers and verdicts mean nothing."

_SMOKE_SETTINGS = {"trees": 10, "patience": 5, "epochs": 2, "hidden": [8], "max_iterations": 50}
_SMOKE_VALUES = 2
_SMOKE_CLICKS = 2000
_SMOKE_LISTS = 60


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a user changes of the experiments; None leaves it as the spec has it.

    Attributes:
        folds: folds at most.
        runs: runs.
        points: points of the axis.
        seed: base of all seeds.
        tune_on: "labels" or "clicks"; "" leaves that as well.
        smoke: tiny sizes, to see that all works; the numbers mean nothing.
        relevant_from: the least label of the data set that counts as relevant.
    """

    folds: int | None = None
    runs: int | None = None
    points: tuple[Point, ...] | None = None
    seed: int | None = None
    tune_on: Literal["", "labels", "clicks"] = ""
    smoke: bool = False
    relevant_from: float | None = None

    def applied(self, spec: Spec) -> Spec:
        """Return the experiment with the changes."""
        if self.points is not None:
            if not spec.has_axis:
                raise InputError(f"{spec.id} has no axis: it takes no points")
            spec = replace(spec, axis=replace(spec.axis, points=self.points))
        if self.smoke:
            spec = small(spec)
        if self.tune_on:
            spec = replace(spec, tuning=replace(spec.tuning, on=self.tune_on))
        own = {name: getattr(self, name) for name in ("folds", "runs", "seed")}
        return replace(spec, **{name: value for name, value in own.items() if value is not None})


def small(spec: Spec) -> Spec:
    """Return the experiment in tiny: 1 fold, 2 runs, 2 points, few clicks, small grids."""
    points = spec.axis.points
    first = next((point for claim in spec.test for point in claim.fixed_points), points[0])
    clicks, propensity = spec.clicks, spec.propensity
    kept = tuple(point for point in points if point in (first, points[-1]))
    return replace(
        spec,
        axis=replace(spec.axis, points=kept),
        folds=1,
        runs=2,
        clicks=replace(
            clicks, clicks=min(clicks.clicks, _SMOKE_CLICKS), sessions=min(clicks.sessions, 50)
        ),
        propensity=replace(propensity, clicks=min(propensity.clicks, _SMOKE_CLICKS)),
        rankers={name: _small_ranker(name, ranker) for name, ranker in spec.rankers.items()},
        methods=tuple(replace(method, grid=_few(method.grid)) for method in spec.methods),
        tuning=replace(spec.tuning, budget=_SMOKE_VALUES),
        data=re.sub(r"^(synthetic:\w+):\d+", rf"\1:{_SMOKE_LISTS}", spec.data),
        notes=(*spec.notes, TRIAL),
    )


def _small_ranker(name: str, ranker: RankerSettings) -> RankerSettings:
    tiny = ranker_class(name).accepted(**_SMOKE_SETTINGS)
    return RankerSettings({**ranker.settings, **tiny}, _few(ranker.grid))


def _few(grid: Any) -> dict[str, list[Any]]:
    return {key: values[:_SMOKE_VALUES] for key, values in grid.items()}


def parse_points(text: str) -> tuple[Point, ...]:
    """Read points of an axis, separated by commas.

    >>> parse_points("1000,2000"), parse_points("0.5, 1.0")
    ((1000, 2000), (0.5, 1.0))
    """
    parts = text.split(",")
    try:
        points = tuple(int(p) if p.strip().isdecimal() else float(p) for p in parts)
    except ValueError:
        raise InputError(f"points must be numbers separated by commas, not '{text}'") from None
    if len(set(points)) < len(points):
        raise InputError(f"a point is given twice in '{text}'")
    return points


def reproduce(
    name: str,
    data: str,
    out: Path,
    *,
    changes: Changes | None = None,
    resume: bool = False,
    processes: int | None = None,
    progress: Progress | None = None,
    command: str = "",
) -> Part:
    """Run an experiment, or all, and write results, tables, figures and the report.

    Args:
        name: of an experiment that comes with the library, "all", or a TOML file.
        data: the data set, for experiments that have none of their own.
        out: the folder for everything.
        changes: what to change of the specs.
        resume: go on where an earlier run into this folder stopped.
        processes: number of processes, default one per core; 0 computes in this one.
        progress: is told how it goes.
        command: the command line, for the report.

    Returns:
        The report.
    """
    started, specs = time.perf_counter(), load_specs(name)
    changes, progress = changes or Changes(), progress or (lambda *_: None)
    if changes.points is not None and len(specs) > 1:
        raise InputError("points can be given for one experiment, not for all")
    specs = [changes.applied(spec) for spec in specs]
    run = run_experiments(
        specs,
        data,
        out,
        resume=resume,
        processes=processes,
        progress=progress,
        relevant_from=changes.relevant_from,
    )
    progress("writing the report", 0, 1)
    sections = [summarise(results) for results in run.results.values()]
    reused = f" and {run.reused:,} found finished" if run.reused else ""
    about = [
        ["data", run.titles.get(data, data)],
        ["jobs", f"{run.computed:,} computed{reused}"],
        ["processor time of all jobs", f"{run.cpu_seconds:,.0f} s"],
        *about_rows(seed=specs[0].seed, started=started, command=command),
    ]
    report = report_of(sections, about, [TRIAL] if changes.smoke else [])
    write_json(out / "report.json", report)
    write_tables(report, out / "tables")
    write_figures(report, out / "figures")
    write_report(report, out / REPORT)
    progress("writing the report", 1, 1)
    return report


def report_of(
    sections: Sequence[Part], about: Sequence[Sequence[Any]], lead: Sequence[str] = ()
) -> Part:
    """Return the whole report.

    Args:
        sections: one for each experiment.
        about: rows of name and value: data set, jobs, versions, seed, wall time, command.
        lead: opening paragraphs.
    """
    verdicts = [
        {"section": part["id"], "title": part["title"], "claim": part["claim"], **part["verdict"]}
        for part in sections
        if part["verdict"] is not None
    ]
    title = "The PRS paper's experiments"
    return page(title, f"on {about[0][1]}", sections, lead=lead, verdicts=verdicts, about=about)


def write_tables(report: Mapping[str, Any], folder: Path) -> None:
    """Write each table of a report as a CSV file, whole or not at all.

    A table of results is written as its statistics, one row for each cell; other tables as
    they are shown.
    """
    for part in (part for section in report["sections"] for part in section["tables"]):
        content = part.get("data", part)
        with (
            atomic_output(folder / f"{part['id']}.csv") as draft,
            draft.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([content["columns"], *content["rows"]])
