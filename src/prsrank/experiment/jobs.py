"""Jobs: what an experiment asks to be computed, each named by all that decides its result.

A job's identity is plain JSON; its id is the SHA-256 of the canonical form. Two experiments that
ask for the same thing so ask for one job. An identity holds only what matters: a ranker trained
on labels is the same for every click setting, and `naive` the same whatever propensities are
assumed.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from prsrank.experiment.spec import AXES, Method, Panel, Point, RankerSettings, Spec
from prsrank.rankers.base import ranker_class
from prsrank.rankers.search import drawn
from prsrank.weighting import WEIGHTINGS

Identity = Mapping[str, Any]
Setting = dict[str, dict[str, Any]]
"""The `settings` of a ranker and the `parameters` of its weighting."""

RESULTS_VERSION = 1
"""Raised when the same identity would give other results than before."""

_ESTIMATE_VERSION = 3
"""Raised when the same randomised sessions would give other propensities than before."""

_POSTERIOR_VERSION = 2
"""Raised when the same clicks would give other posterior pairs than before."""


@dataclass(frozen=True, eq=False)
class Job:
    """One thing to compute.

    Attributes:
        identity: all that decides the result, as plain JSON.
        data: name of the data set to read; its content, not its name, is in the identity.
        relevant_from: the least label that counts as relevant; None: the collection's.
    """

    identity: Identity
    data: str
    relevant_from: float | None = None

    @cached_property
    def id(self) -> str:
        """The SHA-256 of the identity."""
        return hashlib.sha256(canonical(self.identity).encode()).hexdigest()

    @cached_property
    def group(self) -> str:
        """What jobs that share a click log have in common; it begins with the fold."""
        keys = ("fold", "data", "seed", "production", "clicks")
        return canonical([self.identity.get(key) for key in keys])


@dataclass(frozen=True)
class Cell:
    """Where a result belongs in an experiment."""

    panel: str
    method: str
    point: Point
    fold: int
    run: int

    @property
    def name(self) -> str:
        """The panel and the method."""
        return " ".join(filter(None, (self.panel, self.method)))


@dataclass(frozen=True)
class Source:
    """A data set: its name, and what its folds hold.

    Attributes:
        name: as `prsrank.data.collections.open_collection` takes it.
        fingerprints: SHA-256 of the content of each fold, from fold 1.
        queries: query ids of the test part of each fold.
        lists: number of training lists of each fold.
        title: the collection's name.
        note: what to say of its folds.
        relevant_from: the least label that counts as relevant; None: the collection's.
    """

    name: str
    fingerprints: tuple[str, ...]
    queries: tuple[tuple[str, ...], ...]
    lists: tuple[int, ...]
    title: str
    note: str = ""
    relevant_from: float | None = None


@dataclass(frozen=True)
class Planner:
    """Turns an experiment into jobs.

    Attributes:
        spec: the experiment.
        source: its data.
        code: version of the code, part of every identity.
    """

    spec: Spec
    source: Source
    code: str

    def cells(self) -> Iterator[Cell]:
        """Yield every cell of the experiment's table, in order."""
        folds = range(1, min(self.spec.folds, len(self.source.fingerprints)) + 1)
        for panel in self.spec.panels:
            for method in self.spec.methods_of(panel.name):
                for place in product(self.spec.axis.points, folds, range(self.spec.runs)):
                    yield Cell(panel.name, method.name, *place)

    def tuning_job(self, cell: Cell) -> Job | None:
        """Return the job that chooses the hyper-parameters for a cell; None: none to choose."""
        panel, method = self._named(cell)
        if self.spec.kind not in ("ranking", "clicks") or method.name == "production":
            return None
        tried = configurations(self.spec, panel, method)
        if len(tried) == 1:
            return None
        point = "" if self.spec.tuning.at == "default" else cell.point
        identity = self._trained(replace(cell, run=0, point=point), tried[0])
        del identity["settings"], identity["parameters"]
        tune_on = "labels" if method.weighting == "labels" else self.spec.tuning.on
        more = {"kind": "tuning", "tried": tried, "tune_on": tune_on}
        return self._job(cell, identity | more | {"metric": self.spec.metrics[0]})

    def job(self, cell: Cell, chosen: Setting | None) -> Job:
        """Return the job of a cell.

        Args:
            cell: where the result belongs.
            chosen: the chosen settings and parameters; None where there was nothing to choose.
        """
        settings, kind = self._settings(cell), self.spec.kind
        made = {"production": settings["production"], "clicks": settings["clicks"]}
        if kind == "observations":
            identity = {**made, "panel": cell.panel, "method": cell.method, "part": "test"}
        elif kind == "bounds":
            clicks = {"eta": settings["clicks"]["eta"], "sessions": self.spec.clicks.sessions}
            _, method = self._named(cell)
            parameters = {**method.parameters, **settings["parameters"]}
            rule = {"weighting": method.weighting, "parameters": parameters}
            identity = {**made, "clicks": clicks, **rule}
        elif cell.method == "production":
            identity = {**made, "clicks": None, "ranker": "production"}
        else:
            identity = self._trained(cell, chosen)
        if kind == "clicks":
            test = {"test_clicks": settings["clicks"], "test_propensity": settings["propensity"]}
            identity |= {"production": settings["production"], **test}
        return self._job(cell, identity | {"kind": kind, "metrics": sorted(self.spec.metrics)})

    def _job(self, cell: Cell, identity: dict[str, Any]) -> Job:
        data = {"data": self.source.fingerprints[cell.fold - 1], "fold": cell.fold}
        common = {"code": self.code, **data, "seed": self.spec.seed}
        return Job({**common, **identity}, self.source.name, self.source.relevant_from)

    def _named(self, cell: Cell) -> tuple[Panel, Method]:
        panel = next(panel for panel in self.spec.panels if panel.name == cell.panel)
        methods = self.spec.methods_of(cell.panel)
        return panel, next(method for method in methods if method.name == cell.method)

    def _trained(self, cell: Cell, chosen: Setting | None) -> dict[str, Any]:
        panel, method = self._named(cell)
        ranker, on = method.ranker or panel.ranker, self.spec.tuning.on
        kind, settings = ranker_class(ranker), self._settings(cell)
        setting = chosen or configurations(self.spec, panel, method)[0]
        on_labels = method.weighting == "labels"
        moved = settings["parameters"] if method.weighting else {}
        identity = {
            "ranker": ranker,
            "settings": setting["settings"],
            "weighting": method.weighting,
            "parameters": {**setting["parameters"], **moved},
            "stop_on": "" if not kind.stops_early else "labels" if on_labels else on,
            # without clicks a seed may depend on nothing of the run: the model is one for all runs
            "production": None if on_labels else settings["production"],
            "clicks": None if on_labels else settings["clicks"],
            "propensity": None,
        }
        if method.weighting == "posterior":
            identity["version"] = _POSTERIOR_VERSION
        weighted = bool(method.weighting) and WEIGHTINGS[method.weighting].needs_propensities
        if not on_labels and ((weighted and kind.takes_propensities) or on == "clicks"):
            identity["propensity"] = settings["propensity"]
        return identity

    def _settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings of a cell by group: those of its panel, at its point of the axis."""
        panel = next(panel for panel in self.spec.panels if panel.name == cell.panel)
        groups: dict[str, dict[str, Any]] = {
            "clicks": {**vars(self.spec.clicks_in(panel))},
            "propensity": {**vars(self.spec.propensity)},
            "parameters": {},
        }
        group, key = AXES[self.spec.axis.name]
        if group and cell.point != "":
            groups[group][key] = cell.point
        clicks, propensity = groups["clicks"], groups["propensity"]
        count, eta = int(clicks["clicks"]), float(clicks["eta"])
        if clicks["clicks_per_query"] is not None:
            per_query = float(clicks["clicks_per_query"])
            count = max(round(per_query * self.source.lists[cell.fold - 1]), 1)
        assumed = eta if propensity["eta"] is None else float(propensity["eta"])
        curve = {"source": "known", "eta": assumed}
        if propensity["source"] == "randomised":
            of_log = {"clicks": propensity["clicks"], "version": _ESTIMATE_VERSION}
            curve = {"source": "randomised", **of_log}
        share = float(clicks["production_share"])
        return {
            # the kind of production ranker is one for all, and part of every seed
            "production": {
                "run": cell.run,
                "production_share": share,
                "production_ranker": "linear",
            },
            "clicks": {
                "clicks": count,
                "model": clicks["model"],
                "eta": eta,
                "mu": float(clicks["mu"]),
                "one_click": clicks["one_click"],
            },
            "propensity": curve,
            "parameters": {name: float(value) for name, value in groups["parameters"].items()},
        }


def configurations(spec: Spec, panel: Panel, method: Method) -> list[Setting]:
    """Return the settings that are tried for a method: the product of its grids.

    Every method has the same budget. A larger product is cut down to it at random, by the names
    alone; the first setting stays.

    Returns:
        For each the ranker's `settings` and the weighting's `parameters`; the first is what
        is used where nothing is tuned.
    """
    name = method.ranker or panel.ranker
    ranker = spec.rankers.get(name, RankerSettings())
    grid = {**ranker.grid, **method.grid}
    of_weighting = WEIGHTINGS[method.weighting].parameters if method.weighting else {}
    tried = []
    for values in product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        own = {key: settings.pop(key) for key in grid if key in of_weighting}
        parameters = {**method.parameters, **own}
        tried.append({"settings": {**ranker.settings, **settings}, "parameters": parameters})
    return drawn(tried, spec.tuning.budget, seed_of(spec.seed, method.weighting, name))


def canonical(value: Any) -> str:
    """Return the one JSON text of a value.

    >>> canonical({"b": 1, "a": (0.5,)})
    '{"a":[0.5],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def seed_of(*parts: Any) -> int:
    """Return a seed (31 bits) that depends on all the parts and nothing else."""
    digest = hashlib.sha256(canonical(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") & 0x7FFFFFFF
