"""Jobs: what an experiment asks to be computed, each named by all that decides its result.

A job's identity is plain JSON; its id is the SHA-256 of the canonical form. Two experiments that
ask for the same thing so ask for one job. An identity holds only what matters: a ranker trained
on labels is the same for every click setting, and `naive` the same whatever propensities are
assumed.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from prsrank.experiment.spec import AXES, Method, Panel, Point, Spec

Identity = Mapping[str, Any]

RESULTS_VERSION = 1
"""Raised when the same identity would give other results than before."""

_ESTIMATE_VERSION = 3
"""Raised when the same randomised sessions would give other propensities than before."""

_PRODUCTION = ("production_share", "production_ranker")
_SETTINGS_OF_CLICKS = ("clicks", "eta", "mu", "one_click")
_STOPPING = ("lambdamart", "unbiased_lambdamart", "dla", "dnn")
_LEARN_PROPENSITIES = ("dla", "unbiased_lambdamart")


@dataclass(frozen=True, eq=False)
class Job:
    """One thing to compute.

    Attributes:
        identity: all that decides the result, as plain JSON.
        data: name of the data set to read; its content, not its name, is in the identity.
    """

    identity: Identity
    data: str

    @cached_property
    def id(self) -> str:
        """The SHA-256 of the identity."""
        return hashlib.sha256(canonical(self.identity).encode()).hexdigest()

    @property
    def group(self) -> str:
        """What jobs that share a click log have in common."""
        keys = ("data", "fold", "production", "clicks")
        return canonical({key: self.identity.get(key) for key in keys})


@dataclass(frozen=True)
class Place:
    """Where a result belongs in an experiment."""

    panel: str
    method: str
    point: Point
    fold: int
    run: int


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
    """

    name: str
    fingerprints: tuple[str, ...]
    queries: tuple[tuple[str, ...], ...]
    lists: tuple[int, ...]
    title: str
    note: str = ""

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.fingerprints)


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

    def places(self) -> Iterable[Place]:
        """Yield every place of the experiment's table, in order."""
        for panel in self.spec.panels:
            for method in self.spec.methods_of(panel.name):
                for point in self.spec.axis.points:
                    for fold in range(1, self.folds + 1):
                        for run in range(self.spec.runs):
                            yield Place(panel.name, method.name, point, fold, run)

    def tuning_job(self, place: Place) -> Job | None:
        """Return the job that chooses the hyper-parameters for a place; None: none to choose."""
        from prsrank.experiment.tuning import configurations

        panel, method = self._named(place)
        if self.spec.kind not in ("ranking", "clicks") or method.name == "production":
            return None
        tried = configurations(self.spec, panel, method)
        if len(tried) == 1:
            return None
        here = replace(place, run=0)
        if self.spec.tuning.at == "default":
            here = replace(here, point="")
        identity = self._trained(panel, method, here)
        del identity["settings"], identity["parameters"]
        identity |= {
            "kind": "tuning",
            "tried": tried,
            "tune_on": "labels" if method.weighting == "labels" else self.spec.tuning.on,
            "metric": self.spec.main_metric,
        }
        return Job(identity, self.source.name)

    def job(self, place: Place, chosen: Mapping[str, Any] | None) -> Job:
        """Return the job of a place.

        Args:
            place: where the result belongs.
            chosen: the chosen settings and parameters; None where there was nothing to choose.
        """
        panel, method = self._named(place)
        if self.spec.kind in ("observations", "bounds"):
            return Job(self._untrained(panel, method, place), self.source.name)
        if method.name == "production":
            identity = self._common(place) | {
                "ranker": "production",
                "production": self._production(panel, place),
            }
        else:
            identity = self._trained(panel, method, place, chosen)
        identity |= {"kind": self.spec.kind, "metrics": sorted(self.spec.metrics)}
        if self.spec.kind == "clicks":
            identity |= {
                "production": self._production(panel, place),
                "test_clicks": self._clicks(panel, place),
                "test_propensity": self._propensity(panel, place),
            }
        return Job(identity, self.source.name)

    def _named(self, place: Place) -> tuple[Panel, Method]:
        panel = self.spec.panel(place.panel)
        return panel, next(m for m in self.spec.methods_of(panel.name) if m.name == place.method)

    def _common(self, place: Place) -> dict[str, Any]:
        return {
            "code": self.code,
            "data": self.source.fingerprints[place.fold - 1],
            "fold": place.fold,
            "seed": self.spec.seed,
            "production": None,
            "clicks": None,
        }

    def _trained(
        self,
        panel: Panel,
        method: Method,
        place: Place,
        chosen: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        from prsrank.experiment.tuning import configurations
        from prsrank.weighting import WEIGHTINGS

        ranker = method.ranker or panel.ranker
        setting = chosen or configurations(self.spec, panel, method)[0]
        on_labels = method.weighting == "labels"
        weighted = bool(method.weighting) and WEIGHTINGS[method.weighting].needs_propensities
        # without clicks a seed may depend on nothing of the run: the model is one for all runs
        stop_on = self.spec.tuning.on if ranker in _STOPPING else ""
        if on_labels and stop_on == "clicks":
            stop_on = "labels"
        identity = self._common(place) | {
            "ranker": ranker,
            "settings": setting["settings"],
            "weighting": method.weighting,
            "parameters": self._parameters(setting["parameters"], method, place),
            "stop_on": stop_on,
            "propensity": None,
        }
        if not on_labels:
            identity["production"] = self._production(panel, place)
            identity["clicks"] = self._clicks(panel, place)
            uses = (
                weighted and ranker not in _LEARN_PROPENSITIES
            ) or self.spec.tuning.on == "clicks"
            identity["propensity"] = self._propensity(panel, place) if uses else None
        return identity

    def _untrained(self, panel: Panel, method: Method, place: Place) -> dict[str, Any]:
        """Identity of a job that trains nothing."""
        clicks = self._clicks(panel, place)
        identity = self._common(place) | {
            "kind": self.spec.kind,
            "production": self._production(panel, place),
            "clicks": clicks,
            "metrics": sorted(self.spec.metrics),
        }
        if self.spec.kind == "observations":
            return identity | {"panel": panel.name, "method": method.name, "part": "test"}
        return identity | {
            "clicks": {"eta": clicks["eta"], "sessions": self.spec.clicks["sessions"]},
            "weighting": method.weighting,
            "parameters": self._parameters(dict(method.parameters), method, place),
        }

    def _parameters(
        self, parameters: Mapping[str, Any], method: Method, place: Place
    ) -> dict[str, Any]:
        part, key = AXES[self.spec.axis.name]
        if part == "parameters" and place.point != "" and method.weighting:
            return {**parameters, key: float(place.point)}
        return dict(parameters)

    def _production(self, panel: Panel, place: Place) -> dict[str, Any]:
        settings = self._settings(panel, place)
        return {"run": place.run} | {key: settings[key] for key in _PRODUCTION}

    def _clicks(self, panel: Panel, place: Place) -> dict[str, Any]:
        settings = self._settings(panel, place)
        return {key: settings[key] for key in _SETTINGS_OF_CLICKS}

    def _propensity(self, panel: Panel, place: Place) -> dict[str, Any]:
        settings = dict(self.spec.propensity)
        part, key = AXES[self.spec.axis.name]
        if part == "propensity" and place.point != "":
            settings[key] = place.point
        if settings["source"] == "randomised":
            return {
                "source": "randomised",
                "clicks": settings["clicks"],
                "version": _ESTIMATE_VERSION,
            }
        eta = settings["eta"]
        known = self._settings(panel, place)["eta"] if eta is None else eta
        return {"source": "known", "eta": float(known)}

    def _settings(self, panel: Panel, place: Place) -> dict[str, Any]:
        settings = {**self.spec.clicks, **panel.clicks}
        part, key = AXES[self.spec.axis.name]
        if part == "clicks" and place.point != "":
            settings[key] = place.point
        clicks, density = int(settings["clicks"]), settings["clicks_per_query"]
        if density is not None:
            clicks = max(round(float(density) * self.source.lists[place.fold - 1]), 1)
        return {
            **settings,
            "clicks": clicks,
            "eta": float(settings["eta"]),
            "mu": float(settings["mu"]),
            "production_share": float(settings["production_share"]),
        }
