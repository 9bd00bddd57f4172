"""The finished jobs of an experiment, as arrays to compare and as one tidy table on disk."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.errors import InputError
from prsrank.experiment.journal import Finished, Journal
from prsrank.experiment.spec import Point, Spec
from prsrank.files import read_json
from prsrank.types import Floats

PLAN = "plan.json"
TABLE = "results.parquet"
TIMINGS = "timings.csv"

_Key = tuple[str, str, Point, str]
COLUMNS = ("experiment", "panel", "method", "point", "fold", "run", "metric", "query", "value")
"""Columns of the tidy table, one row for each value; NULL where a metric has no meaning."""


@dataclass(frozen=True, eq=False)
class Results:
    """The finished jobs of one experiment.

    Attributes:
        experiment: its id.
        arrays: values by (panel, method, point, metric); see `values`.
        axis_points: points of the axis, in the spec's order.
        chosen: hyper-parameters by "panel method" (by fold where folds differ).
        details: plain JSON: propensity curves, weight diagnostics, feature importance,
            clicks per training query, seconds.

    >>> rows = [("x", "", "prs", 1.0, 1, run, "map", query, 0.5) for run in (0, 1) for query in "ab"]
    >>> Results.from_rows("x", rows).values("", "prs", 1.0, "map").shape
    (2, 2)
    """

    experiment: str
    arrays: Mapping[_Key, Floats]
    axis_points: tuple[Point, ...]
    chosen: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def panels(self) -> list[str]:
        """Return the panels, in order."""
        return list(dict.fromkeys(key[0] for key in self.arrays))

    def methods(self, panel: str) -> list[str]:
        """Return the methods of a panel, in order."""
        return list(dict.fromkeys(key[1] for key in self.arrays if key[0] == panel))

    def points(self) -> list[Point]:
        """Return the points, in the spec's order."""
        return list(self.axis_points)

    def metrics(self) -> list[str]:
        """Return the metrics, in order."""
        return list(dict.fromkeys(key[3] for key in self.arrays))

    def values(self, panel: str, method: str, point: Point, metric: str) -> Floats:
        """Return the values of a method at a point (runs x queries).

        The queries of all folds stand side by side, in the same order for every method; NaN
        where the metric has no meaning for the query.
        """
        return self.arrays[panel, method, point, metric]

    @classmethod
    def of(cls, spec: Spec, folder: Path) -> "Results":
        """Read the finished jobs of an experiment from the folder of a run."""
        plan = read_json(Path(folder) / PLAN)["experiments"].get(spec.id)
        if plan is None:
            raise InputError(f"{folder}: holds no results of {spec.id}")
        return cls.of_plan(spec.id, plan, Journal(Path(folder)).finished)

    @classmethod
    def of_plan(
        cls, experiment: str, plan: Mapping[str, Any], finished: Mapping[str, Finished]
    ) -> "Results":
        """Put finished jobs where the plan of a run says they belong."""
        cells: dict[_Key, dict[tuple[int, int], Floats]] = {}
        for panel, method, point, fold, run, job in plan["rows"]:
            if job not in finished:
                raise InputError(f"{experiment}: not all jobs are finished; run it again")
            for metric in plan["metrics"]:
                values = finished[job].values[metric]
                cells.setdefault((panel, method, point, metric), {})[run, fold] = values
        arrays = {key: _joined(cell) for key, cell in cells.items()}
        return cls(
            experiment, arrays, tuple(plan["points"]), plan["chosen"], _details(plan, finished)
        )

    @classmethod
    def from_rows(
        cls,
        experiment: str,
        rows: Iterable[Sequence[Any]],
        *,
        points: Sequence[Point] | None = None,
        chosen: Mapping[str, Mapping[str, object]] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> "Results":
        """Make results of rows of the tidy table (`COLUMNS`)."""
        found: dict[_Key, dict[tuple[int, int], dict[str, float]]] = {}
        queries: dict[int, dict[str, None]] = {}
        for _, panel, method, point, fold, run, metric, query, value in rows:
            cell = found.setdefault((panel, method, point, metric), {})
            measured = np.nan if value is None else float(value)
            cell.setdefault((run, fold), {})[str(query)] = measured
            queries.setdefault(fold, {})[str(query)] = None
        arrays = {
            key: _joined(
                {
                    place: np.array([values.get(query, np.nan) for query in queries[place[1]]])
                    for place, values in cell.items()
                }
            )
            for key, cell in found.items()
        }
        ordered = tuple(points) if points is not None else tuple(dict.fromkeys(k[2] for k in found))
        return cls(experiment, arrays, ordered, chosen or {}, details or {})


def _joined(cell: Mapping[tuple[int, int], Floats]) -> Floats:
    """Put folds side by side, runs below one another."""
    runs = sorted({run for run, _ in cell})
    folds = sorted({fold for _, fold in cell})
    return np.array([np.concatenate([cell[run, fold] for fold in folds]) for run in runs])


def _details(plan: Mapping[str, Any], finished: Mapping[str, Finished]) -> dict[str, Any]:
    """Gather what single jobs say beside their values."""
    per_query: dict[str, list[float]] = {}
    curves: dict[str, dict[str, Any]] = {}
    blocks: dict[str, dict[str, Any]] = {"weights": {}, "importance": {}}
    trees: dict[str, list[int]] = {}
    several = len(plan["points"]) > 1
    shown = {plan["points"][0], plan["points"][-1]}
    jobs: dict[str, Finished] = {}
    for panel, method, point, fold, run, job in plan["rows"]:
        details = finished[job].details
        jobs[job] = finished[job]
        place = f"{plan['axis']} {point:g}" if several else ""
        if "clicks_per_query" in details:
            per_query.setdefault(place or "all", []).append(details["clicks_per_query"])
        name = " ".join(filter(None, (panel, method)))
        if "trees" in details:
            trees.setdefault(name, []).append(details["trees"])
        if fold != 1 or run != 0:
            continue
        where = ", ".join(filter(None, (name, place)))
        for block in blocks:
            if block in details and point in shown:
                blocks[block][where] = details[block]
        if "propensities" in details:
            curve = details["propensities"]
            known = {"positions": list(range(1, len(curve) + 1)), "values": curve}
            curves.setdefault(_curve_name(plan, method), {})[place] = known
    return {
        "clicks_per_query": {k: round(float(np.mean(v)), 2) for k, v in per_query.items()},
        "propensities": _named_curves(curves),
        **blocks,
        "trees": {k: round(float(np.mean(v)), 1) for k, v in trees.items()},
        "jobs": len(jobs),
    }


def _curve_name(plan: Mapping[str, Any], method: str) -> str:
    if method in plan["learning"]:
        return f"learned by {method}"
    return "estimated by randomisation" if plan["source"] == "randomised" else "known"


def _named_curves(curves: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Name curves by their points only where points differ."""
    named = {}
    for name, by_place in curves.items():
        different = [
            by_place[p]
            for i, p in enumerate(by_place)
            if by_place[p] not in list(by_place.values())[:i]
        ]
        if len(different) == 1:
            named[name] = different[0]
        else:
            named |= {f"{name}, {place}": curve for place, curve in by_place.items()}
    return named
