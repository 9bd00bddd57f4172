"""From an experiment to the jobs that it asks for: one for each cell of its table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prsrank.experiment.jobs import Cell, Job, Source
from prsrank.experiment.spec import AXES, Method, Panel, Spec
from prsrank.experiment.tuning import configurations
from prsrank.rankers.base import ranker_class
from prsrank.weighting import WEIGHTINGS

_ESTIMATE_VERSION = 3
"""Raised when the same randomised sessions would give other propensities than before."""

_POSTERIOR_VERSION = 2
"""Raised when the same clicks would give other posterior pairs than before."""

_PRODUCTION = ("production_share", "production_ranker")
_SETTINGS_OF_CLICKS = ("clicks", "model", "eta", "mu", "one_click")


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

    @property
    def folds(self) -> int:
        """Folds that are used."""
        return min(self.spec.folds, self.source.folds)

    def cells(self) -> Iterable[Cell]:
        """Yield every cell of the experiment's table, in order."""
        for panel in self.spec.panels:
            for method in self.spec.methods_of(panel.name):
                for point in self.spec.axis.points:
                    for fold in range(1, self.folds + 1):
                        for run in range(self.spec.runs):
                            yield Cell(panel.name, method.name, point, fold, run)

    def tuning_job(self, cell: Cell) -> Job | None:
        """Return the job that chooses the hyper-parameters for a cell; None: none to choose."""
        panel, method = self._named(cell)
        if self.spec.kind not in ("ranking", "clicks") or method.name == "production":
            return None
        tried = configurations(self.spec, panel, method)
        if len(tried) == 1:
            return None
        at_default = self.spec.tuning.at == "default"
        here = replace(cell, run=0, point="" if at_default else cell.point)
        identity = self._trained(here, tried[0])
        del identity["settings"], identity["parameters"]
        identity |= {
            "kind": "tuning",
            "tried": tried,
            "tune_on": "labels" if method.weighting == "labels" else self.spec.tuning.on,
            "metric": self.spec.main_metric,
        }
        return Job(identity, self.source.name, self.source.relevant_from)

    def job(self, cell: Cell, chosen: Mapping[str, Any] | None) -> Job:
        """Return the job of a cell.

        Args:
            cell: where the result belongs.
            chosen: the chosen settings and parameters; None where there was nothing to choose.
        """
        if self.spec.kind in ("observations", "bounds"):
            identity = self._untrained(cell)
        elif cell.method == "production":
            made_by = {"ranker": "production", "production": self._production(cell)}
            identity = self._common(cell) | made_by
        else:
            identity = self._trained(cell, chosen)
        identity |= {"kind": self.spec.kind, "metrics": sorted(self.spec.metrics)}
        if self.spec.kind == "clicks":
            identity |= {
                "production": self._production(cell),
                "test_clicks": self._clicks(cell),
                "test_propensity": self._propensity(cell),
            }
        return Job(identity, self.source.name, self.source.relevant_from)

    def _named(self, cell: Cell) -> tuple[Panel, Method]:
        panel = self.spec.panel(cell.panel)
        return panel, next(m for m in self.spec.methods_of(panel.name) if m.name == cell.method)

    def _common(self, cell: Cell) -> dict[str, Any]:
        return {
            "code": self.code,
            "data": self.source.fingerprints[cell.fold - 1],
            "fold": cell.fold,
            "seed": self.spec.seed,
            "production": None,
            "clicks": None,
        }

    def _trained(self, cell: Cell, chosen: Mapping[str, Any] | None) -> dict[str, Any]:
        panel, method = self._named(cell)
        ranker, on = method.ranker or panel.ranker, self.spec.tuning.on
        kind = ranker_class(ranker)
        setting = chosen or configurations(self.spec, panel, method)[0]
        on_labels = method.weighting == "labels"
        identity = self._common(cell) | {
            "ranker": ranker,
            "settings": setting["settings"],
            "weighting": method.weighting,
            "parameters": self._parameters(setting["parameters"], cell),
            "stop_on": "" if not kind.stops_early else "labels" if on_labels else on,
            "propensity": None,
        }
        if method.weighting == "posterior":
            identity["version"] = _POSTERIOR_VERSION
        # without clicks a seed may depend on nothing of the run: the model is one for all runs
        if not on_labels:
            identity["production"] = self._production(cell)
            identity["clicks"] = self._clicks(cell)
            weighted = bool(method.weighting) and WEIGHTINGS[method.weighting].needs_propensities
            if (weighted and kind.takes_propensities) or on == "clicks":
                identity["propensity"] = self._propensity(cell)
        return identity

    def _untrained(self, cell: Cell) -> dict[str, Any]:
        """Identity of a job that trains nothing."""
        clicks = self._clicks(cell)
        identity = self._common(cell) | {"production": self._production(cell), "clicks": clicks}
        if self.spec.kind == "observations":
            return identity | {"panel": cell.panel, "method": cell.method, "part": "test"}
        _, method = self._named(cell)
        return identity | {
            "clicks": {"eta": clicks["eta"], "sessions": self.spec.clicks["sessions"]},
            "weighting": method.weighting,
            "parameters": self._parameters(method.parameters, cell),
        }

    def _parameters(self, parameters: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
        moved = self._moved("parameters", cell) if self._named(cell)[1].weighting else {}
        return {**parameters, **{key: float(value) for key, value in moved.items()}}

    def _production(self, cell: Cell) -> dict[str, Any]:
        settings = self._settings(cell)
        return {"run": cell.run} | {key: settings[key] for key in _PRODUCTION}

    def _clicks(self, cell: Cell) -> dict[str, Any]:
        settings = self._settings(cell)
        return {key: settings[key] for key in _SETTINGS_OF_CLICKS}

    def _propensity(self, cell: Cell) -> dict[str, Any]:
        settings = {**self.spec.propensity, **self._moved("propensity", cell)}
        source = settings["source"]
        if source == "randomised":
            return {"source": source, "clicks": settings["clicks"], "version": _ESTIMATE_VERSION}
        eta = settings["eta"]
        return {"source": source, "eta": float(self._settings(cell)["eta"] if eta is None else eta)}

    def _settings(self, cell: Cell) -> dict[str, Any]:
        panel = self.spec.panel(cell.panel)
        settings = {**self.spec.clicks, **panel.clicks, **self._moved("clicks", cell)}
        clicks, density = int(settings["clicks"]), settings["clicks_per_query"]
        if density is not None:
            clicks = max(round(float(density) * self.source.lists[cell.fold - 1]), 1)
        numbers = {key: float(settings[key]) for key in ("eta", "mu", "production_share")}
        return {**settings, "clicks": clicks, **numbers}

    def _moved(self, group: str, cell: Cell) -> dict[str, Any]:
        """Return the setting that the axis changes at a cell, if it is one of the group."""
        of, key = AXES[self.spec.axis.name]
        return {key: cell.point} if of == group and cell.point != "" else {}
