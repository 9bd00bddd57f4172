"""The finished jobs of an experiment, as arrays to compare."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from prsrank.errors import InputError
from prsrank.experiment.journal import Finished
from prsrank.experiment.spec import Point
from prsrank.types import Floats

PLAN = "plan.json"

Key = tuple[str, str, Point, str]
"""Panel, method, point and metric."""


@dataclass(frozen=True, eq=False)
class Results:
    """The finished jobs of one experiment.

    Attributes:
        arrays: values by (panel, method, point, metric); see `measured`.
        axis_points: points of the axis, in the spec's order.
        chosen: hyper-parameters by "panel method" (by fold where folds differ).
        details: plain JSON: propensity curves, weight diagnostics, feature importance,
            clicks per training query, seconds.

    >>> Results({("", "prs", 1.0, "map"): np.zeros((2, 3))}, (1.0,)).methods("")
    ['prs']
    """

    arrays: Mapping[Key, Floats]
    axis_points: tuple[Point, ...]
    chosen: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

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

    @classmethod
    def of_plan(cls, plan: Mapping[str, Any], finished: Mapping[str, Finished]) -> "Results":
        """Put finished jobs where the plan of an experiment says they belong."""
        cells: dict[Key, dict[tuple[int, int], Floats]] = {}
        for panel, method, point, fold, run, job in plan["rows"]:
            if job not in finished:
                raise InputError("not all jobs are finished; run it again")
            for metric in plan["metrics"]:
                values = finished[job].values[metric]
                cells.setdefault((panel, method, point, metric), {})[run, fold] = values
        arrays = {key: _joined(cell) for key, cell in cells.items()}
        return cls(arrays, tuple(plan["points"]), plan["chosen"], _details(plan, finished))


def _joined(cell: Mapping[tuple[int, int], Floats]) -> Floats:
    """Put folds side by side, runs below one another."""
    runs = sorted({run for run, _ in cell})
    folds = sorted({fold for _, fold in cell})
    return np.array([np.concatenate([cell[run, fold] for fold in folds]) for run in runs])


class _Told(NamedTuple):
    """What one job says beside its values, and where it belongs."""

    name: str
    method: str
    point: Point
    at: str
    details: Mapping[str, Any]


def _details(plan: Mapping[str, Any], finished: Mapping[str, Finished]) -> dict[str, Any]:
    """Gather what single jobs say; curves, weights and importance of the first run only."""
    every, first = [], []
    for panel, method, point, fold, run, job in plan["rows"]:
        at = f"{plan['axis']} {point:g}" if len(plan["points"]) > 1 else ""
        name = " ".join(filter(None, (panel, method)))
        every.append(_Told(name, method, point, at, finished[job].details))
        if (fold, run) == (1, 0):
            first.append(every[-1])
    ends = [one for one in first if one.point in (plan["points"][0], plan["points"][-1])]
    blocks = {
        key: {
            ", ".join(filter(None, (one.name, one.at))): one.details[key]
            for one in ends
            if key in one.details
        }
        for key in ("weights", "importance")
    }
    clicks = ((one.at or "all", one.details.get("clicks_per_query")) for one in every)
    trees = ((one.name, one.details.get("trees")) for one in every)
    return {
        "clicks_per_query": _means(clicks, 2),
        "propensities": _curves(plan, first),
        **blocks,
        "trees": _means(trees, 1),
        "jobs": len({row[-1] for row in plan["rows"]}),
    }


def _means(values: Iterable[tuple[str, float | None]], digits: int) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for name, value in values:
        if value is not None:
            found.setdefault(name, []).append(value)
    return {name: round(float(np.mean(some)), digits) for name, some in found.items()}


def _curves(plan: Mapping[str, Any], told: Iterable[_Told]) -> dict[str, Any]:
    """Return propensity curves by where they come from, and by point only where points differ."""
    given = "estimated by randomisation" if plan["source"] == "randomised" else "known"
    found: dict[str, dict[str, Any]] = {}
    for one in told:
        if "propensities" in one.details:
            curve = one.details["propensities"]
            name = f"learned by {one.method}" if one.method in plan["learning"] else given
            known = {"positions": list(range(1, len(curve) + 1)), "values": curve}
            found.setdefault(name, {})[one.at] = known
    named = {}
    for name, by_point in found.items():
        first, *others = by_point.values()
        if all(other == first for other in others):
            named[name] = first
        else:
            named |= {f"{name}, {at}": curve for at, curve in by_point.items()}
    return named
