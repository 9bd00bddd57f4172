"""The finished jobs of an experiment, as arrays to compare and as a tidy table on disk."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.experiment.jobs import Cell, Job, Source
from prsrank.experiment.journal import Finished
from prsrank.experiment.spec import Point, Spec
from prsrank.files import atomic_output
from prsrank.rankers.base import RANKERS
from prsrank.types import Floats

TABLE = "results.parquet"
TIMINGS = "timings.csv"

_CELL = ("experiment", "panel", "method", "point", "fold", "run")
COLUMNS = (*_CELL, "metric", "query", "value")
"""Columns of the tidy table, one row for each value; NULL where a metric has no meaning."""

Key = tuple[str, str, Point, str]
"""Panel, method, point and metric."""


@dataclass(frozen=True, eq=False)
class PlannedJobs:
    """The jobs of an experiment.

    Attributes:
        spec: the experiment.
        source: its data.
        jobs: by where their values belong.
        chosen: hyper-parameters by "panel method" (by fold where folds differ).
    """

    spec: Spec
    source: Source
    jobs: Mapping[Cell, Job]
    chosen: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Results:
    """What the finished jobs of one experiment say.

    Attributes:
        arrays: values by (panel, method, point, metric); see `measured`.
        axis_points: points of the axis, in the spec's order.
        chosen: hyper-parameters by "panel method".
        details: plain JSON: propensity curves, weight diagnostics, feature importance,
            clicks per training query, number of jobs.

    >>> Results({("", "prs", 1.0, "map"): np.zeros((2, 3))}, (1.0,)).methods("")
    ['prs']
    """

    arrays: Mapping[Key, Floats]
    axis_points: tuple[Point, ...]
    chosen: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_jobs(cls, planned: PlannedJobs, finished: Mapping[str, Finished]) -> "Results":
        """Put finished jobs where an experiment says they belong."""
        parts: dict[Key, dict[int, list[Floats]]] = {}
        for cell, job in planned.jobs.items():  # of each run, the folds follow one another
            for metric in planned.spec.metrics:
                runs = parts.setdefault((cell.panel, cell.method, cell.point, metric), {})
                runs.setdefault(cell.run, []).append(finished[job.id].values[metric])
        arrays = {
            key: np.array([np.concatenate(runs[run]) for run in sorted(runs)])
            for key, runs in parts.items()
        }
        details = _details(planned, finished)
        return cls(arrays, planned.spec.axis.points, planned.chosen, details)

    def panels(self) -> list[str]:
        """Return the panels, in order."""
        return list(dict.fromkeys(key[0] for key in self.arrays))

    def methods(self, panel: str) -> list[str]:
        """Return the methods of a panel, in order."""
        return list(dict.fromkeys(key[1] for key in self.arrays if key[0] == panel))

    def measured(self, panel: str, method: str, point: Point, metric: str) -> Floats | None:
        """Return the values of a method at a point (runs x queries); None if there are none.

        The queries of all folds stand side by side, in the same order for every method; NaN
        where the metric has no meaning for the query.
        """
        values = self.arrays.get((panel, method, point, metric))
        return None if values is None or np.isnan(values).all() else values


_Row = tuple[Cell, str, Mapping[str, Any]]
"""A cell, its point in words where there are several, and the details of its job."""


def _details(planned: PlannedJobs, finished: Mapping[str, Finished]) -> dict[str, Any]:
    """Gather the details of single jobs; curves, weights and importance of the first run only."""
    title, points = planned.spec.axis.title, planned.spec.axis.points
    rows: list[_Row] = []
    for cell, job in planned.jobs.items():
        point = f"{title} {cell.point:g}" if len(points) > 1 else ""
        rows.append((cell, point, finished[job.id].details))
    first = [row for row in rows if (row[0].fold, row[0].run) == (1, 0)]
    ends = [row for row in first if row[0].point in (points[0], points[-1])]
    blocks = {
        key: {
            ", ".join(filter(None, (cell.name, point))): details[key]
            for cell, point, details in ends
            if key in details
        }
        for key in ("weights", "importance")
    }
    clicks = ((point or "all", details.get("clicks_per_query")) for _, point, details in rows)
    return {
        "clicks_per_query": _means(clicks, 2),
        "propensities": _curves(planned.spec, first),
        **blocks,
        "trees": _means(((cell.name, details.get("trees")) for cell, _, details in rows), 1),
        "jobs": len({job.id for job in planned.jobs.values()}),
    }


def _means(named: Iterable[tuple[str, float | None]], digits: int) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for name, value in named:
        if value is not None:
            values.setdefault(name, []).append(value)
    return {name: round(float(np.mean(some)), digits) for name, some in values.items()}


def _curves(spec: Spec, rows: Iterable[_Row]) -> dict[str, Any]:
    """Return propensity curves by where they come from, and by point only where points differ."""
    rankers = {method.name: method.ranker for method in spec.methods if method.ranker}
    learning = {name for name, of in rankers.items() if not RANKERS[of].takes_propensities}
    randomised = spec.propensity["source"] == "randomised"
    curves: dict[str, dict[str, list[float]]] = {}
    for cell, point, details in rows:
        if "propensities" in details:
            name = "estimated by randomisation" if randomised else "known"
            name = f"learned by {cell.method}" if cell.method in learning else name
            curves.setdefault(name, {})[point] = details["propensities"]
    named: dict[str, list[float]] = {}
    for name, by_point in curves.items():
        first, *others = by_point.values()
        if all(curve == first for curve in others):
            named[name] = first
        else:
            named |= {f"{name}, {point}": curve for point, curve in by_point.items()}
    return {
        name: {"positions": list(range(1, len(curve) + 1)), "values": curve}
        for name, curve in named.items()
    }


def write_table(
    experiments: Sequence[PlannedJobs], finished: Mapping[str, Finished], folder: Path
) -> None:
    """Write `results.parquet`; the same values give the same file, byte for byte.

    Points are text in it, as some experiments have names there. Names are joined on by DuckDB:
    a run has many millions of values, and a text for each would not fit into memory.
    """
    import duckdb

    cells, starts, values = [], [], []
    queries: list[str] = []
    for planned in experiments:
        first_query = {}
        for fold, of_fold in enumerate(planned.source.queries, start=1):
            first_query[fold] = len(queries)
            queries += of_fold
        for cell, job in planned.jobs.items():
            for metric in planned.spec.metrics:
                values.append(finished[job.id].values[metric])
                cells.append((*_cell_row(planned.spec, cell), metric))
                starts.append(first_query[cell.fold])
    lengths = np.array([len(some) for some in values])
    ends = np.cumsum(lengths)
    number = np.arange(ends[-1])
    tables = {
        "cell": {"cell": np.arange(len(cells)), **_columns((*_CELL, "metric"), cells)},
        "query": {"row": np.arange(len(queries)), "query": np.array(queries, np.object_)},
        "value": {
            "number": number,
            "cell": np.repeat(np.arange(len(cells)), lengths),
            "row": number - np.repeat(ends - lengths - np.array(starts), lengths),
            "value": np.concatenate(values),
        },
    }
    with atomic_output(folder / TABLE) as draft, duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for name, columns in tables.items():
            connection.register(name, columns)
        path = str(draft).replace("'", "''")
        connection.execute(
            f"COPY (SELECT {', '.join(COLUMNS)} FROM value JOIN cell USING (cell) "  # noqa: S608
            f"JOIN query USING (row) ORDER BY number) TO '{path}' "
            "(FORMAT parquet, COMPRESSION zstd)"
        )


def write_timings(
    experiments: Sequence[PlannedJobs], finished: Mapping[str, Finished], folder: Path
) -> None:
    """Write what each job of the run took, apart from the results: it differs from run to run."""
    with atomic_output(folder / TIMINGS) as draft, draft.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*_CELL, "seconds", "cpu_seconds", "job"])
        for planned in experiments:
            for cell, job in planned.jobs.items():
                spent = finished[job.id]
                times = f"{spent.seconds:.4f}", f"{spent.cpu_seconds:.4f}"
                writer.writerow([*_cell_row(planned.spec, cell), *times, job.id])


def _cell_row(spec: Spec, cell: Cell) -> tuple[Any, ...]:
    panel, method, point, fold, run = astuple(cell)
    return spec.id, panel, method, str(point), fold, run


def _columns(names: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
    """Return rows as columns: whole numbers as int32, text as objects."""
    return {
        name: np.array(column, np.int32 if isinstance(column[0], int) else object)
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
