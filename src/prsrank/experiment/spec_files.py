"""Specs on disk: TOML files, checked strictly, with the nearest valid name in every error."""

import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from prsrank.clicks.models import CLICK_MODELS
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import PRODUCTION_RANKERS
from prsrank.errors import InputError
from prsrank.experiment.claims import check_test
from prsrank.experiment.spec import (
    AXES,
    CLICKS,
    KINDS,
    PROPENSITY,
    SHARES,
    SOURCES,
    Axis,
    Method,
    Panel,
    RankerSettings,
    Spec,
    Tuning,
)
from prsrank.experiment.spec_checks import (
    check_keys,
    check_like,
    check_types,
    is_number,
    one_of,
    whole_number,
)
from prsrank.files import existing_file, read_toml
from prsrank.metrics.ranking import metric
from prsrank.rankers.base import RANKERS, ranker_class
from prsrank.weighting import WEIGHTINGS

_ORDER = ("fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "gamma", "table1", "table2", "bounds")
_SCALES = ("linear", "log", "ordinal")


def spec_names() -> list[str]:
    """Return the names of the experiments that come with the library, the paper's order."""
    found = {path.stem for path in _folder().iterdir() if path.suffix == ".toml"}
    return [name for name in _ORDER if name in found] + sorted(found - set(_ORDER))


def load_spec(name: str) -> Spec:
    """Read an experiment by its name, or from a TOML file of one's own.

    >>> load_spec("fig3").main_metric
    'ndcg@10'
    """
    if name.endswith(".toml"):
        return read_spec(existing_file(name))
    return read_spec(_folder() / f"{one_of(name, spec_names(), 'experiment')}.toml")


def load_specs(name: str) -> list[Spec]:
    """Read one experiment, or all of the paper: "all"."""
    names = [one for one in spec_names() if one in _ORDER] if name == "all" else [name]
    return [load_spec(one) for one in names]


def read_spec(path: Path) -> Spec:
    """Read a spec from a TOML file.

    Raises:
        InputError: naming the file, and the nearest valid name where one is not known.
    """
    values = read_toml(path)
    try:
        return parse_spec(values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def parse_spec(values: Mapping[str, Any]) -> Spec:
    """Make a spec of what a TOML file holds; an InputError for anything that is not known."""
    check_keys(values, _keys(Spec), "key")
    for key in ("id", "title", "claim", "metrics", "methods", "axis"):
        if key not in values:
            raise InputError(f"the key '{key}' is missing")
    check_types(values, Spec, "the experiment")
    for key, least in (("folds", 1), ("runs", 1), ("seed", 0)):
        whole_number(values, key, least=least)
    kind = one_of(values.get("kind", "ranking"), KINDS, "kind")
    panels = tuple(_panel(entry) for entry in values.get("panels", [{}]))
    names = [panel.name for panel in panels]
    read = {
        "axis": _axis(values["axis"]),
        "panels": panels,
        "methods": tuple(_method(entry, names, kind) for entry in values["methods"]),
        "metrics": _metrics(values["metrics"], kind),
        "clicks": {**CLICKS, **_clicks(values.get("clicks", {}))},
        "propensity": {**PROPENSITY, **_propensity(values.get("propensity", {}))},
        "rankers": {name: _ranker(name, one) for name, one in values.get("rankers", {}).items()},
        "tuning": _tuning(values.get("tuning", {})),
        "paper": tuple(_paper(entry) for entry in values.get("paper", ())),
        "relative_to": _relative_to(values.get("relative_to")),
        "test": tuple(values.get("test", ())),
        "notes": tuple(values.get("notes", ())),
    }
    spec = Spec(**{**values, **read})
    _check_whole(spec)
    return spec


def _check_whole(spec: Spec) -> None:
    """Check what concerns several parts of a spec at once."""
    names = [method.name for method in spec.methods]
    panels = [panel.name for panel in spec.panels]
    for panel in spec.panels:
        inside = spec.methods_of(panel.name)
        if len({method.name for method in inside}) < len(inside):
            raise InputError(f"panel '{panel.name}' has a method twice")
        for method in inside:
            if spec.kind in ("ranking", "clicks") and method.name != "production":
                _check_grid(spec, panel, method)
    if spec.relative_to is not None:
        one_of(spec.relative_to[0], panels, "panel")
        one_of(spec.relative_to[1], names, "method")
    for entry in spec.paper:
        one_of(entry["method"], names, "method")
        one_of(entry["metric"], spec.metrics, "metric")
    check_test(
        spec.test, methods=names, metrics=spec.metrics, panels=panels, points=spec.axis.points
    )


def _check_grid(spec: Spec, panel: Panel, method: Method) -> None:
    ranker = method.ranker or panel.ranker
    if not ranker:
        raise InputError(f"method '{method.name}' has no ranker, nor has panel '{panel.name}'")
    taken = ranker_class(ranker)().get_params()
    chosen = spec.rankers.get(ranker, RankerSettings())
    check_keys({**chosen.settings, **chosen.grid}, taken, f"parameter of {ranker}")
    weights = WEIGHTINGS[method.weighting].parameters if method.weighting else ()
    check_keys(method.parameters, weights, f"parameter of {method.weighting or method.name}")
    check_keys(method.grid, [*weights, *taken], f"parameter of {method.name}")
    for name, tried in {**chosen.grid, **method.grid}.items():
        if not isinstance(tried, list) or not tried:
            raise InputError(f"grid: {name} must be a list of values, not {tried!r}")
    if spec.axis.name == "gamma" and method.weighting and "gamma" not in weights:
        raise InputError(f"the axis is gamma, which weighting '{method.weighting}' does not have")


def _axis(values: Mapping[str, Any]) -> Axis:
    check_keys(values, _keys(Axis), "key of axis")
    check_types(values, Axis, "axis")
    name = one_of(values.get("name", "none"), AXES, "axis")
    flat = name == "none"
    scale = one_of(values.get("scale", "ordinal" if flat else "linear"), _SCALES, "scale")
    points = tuple(values.get("points", [""] if flat else []))
    if flat and points != ("",):
        raise InputError("an axis 'none' has no points")
    if not points or len(set(points)) < len(points):
        raise InputError("axis: points must be a list of different values")
    if not flat and not all(is_number(point) for point in points):
        raise InputError("axis: points must be numbers")
    return Axis(name, values.get("title", name), scale, points)


def _panel(values: Mapping[str, Any]) -> Panel:
    check_keys(values, _keys(Panel), "key of a panel")
    check_types(values, Panel, "panel")
    if values.get("ranker"):
        one_of(values["ranker"], RANKERS, "ranker")
    _clicks(values.get("clicks", {}))
    return Panel(**{"title": values.get("name", ""), **values})


def _method(values: Mapping[str, Any], panels: Sequence[str], kind: str) -> Method:
    check_keys(values, _keys(Method), "key of a method")
    check_types(values, Method, "method")
    name = values.get("name", "")
    if not name or not isinstance(name, str):
        raise InputError("a method has no name")
    weighting, ranker = values.get("weighting"), values.get("ranker", "")
    if kind == "observations":
        one_of(name, SHARES, "method")
    elif name == "production":
        weighting = ""
    elif weighting is None and not ranker:
        weighting = one_of(name, [*WEIGHTINGS, "production"], "method")
    if weighting:
        one_of(weighting, WEIGHTINGS, "weighting")
    if ranker:
        one_of(ranker, RANKERS, "ranker")
    inside = tuple(values.get("panels", panels))
    for panel in inside:
        one_of(panel, panels, "panel")
    return Method(**{"title": name, **values, "weighting": weighting or "", "panels": inside})


def _metrics(values: Any, kind: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not values:
        raise InputError("metrics must be a list of names")
    for name in values:
        if KINDS[kind]:
            one_of(name, KINDS[kind], "metric")
        else:
            metric(name)
    return tuple(values)


def _clicks(values: Mapping[str, Any]) -> Mapping[str, Any]:
    check_keys(values, CLICKS, "key of clicks")
    check_like(values, CLICKS, "clicks")
    PositionBasedModel(eta=values.get("eta", 1.0), mu=values.get("mu", 0.1))
    one_of(values.get("model", "position-based"), CLICK_MODELS, "click model")
    one_of(values.get("production_ranker", "linear"), PRODUCTION_RANKERS, "production ranker")
    return values


def _propensity(values: Mapping[str, Any]) -> Mapping[str, Any]:
    check_keys(values, PROPENSITY, "key of propensity")
    check_like(values, PROPENSITY, "propensity")
    one_of(values.get("source", "known"), SOURCES, "source of propensities")
    return values


def _ranker(name: str, values: Mapping[str, Any]) -> RankerSettings:
    one_of(name, RANKERS, "ranker")
    check_keys(values, _keys(RankerSettings), f"key of rankers.{name}")
    check_types(values, RankerSettings, f"rankers.{name}")
    return RankerSettings(**values)


def _tuning(values: Mapping[str, Any]) -> Tuning:
    check_keys(values, _keys(Tuning), "key of tuning")
    check_types(values, Tuning, "tuning")
    whole_number(values, "budget")
    tuning = Tuning(**values)
    one_of(tuning.on, ("labels", "clicks"), "tuning.on")
    one_of(tuning.at, ("default", "point"), "tuning.at")
    return tuning


def _paper(values: Mapping[str, Any]) -> Mapping[str, Any]:
    check_keys(values, ("panel", "method", "metric", "value"), "key of paper")
    for key in ("method", "metric", "value"):
        if key not in values:
            raise InputError(f"a number of the paper has no '{key}'")
    if not is_number(values["value"]):
        raise InputError(f"a value of the paper must be a number, not {values['value']!r}")
    return {"panel": "", **values}


def _relative_to(value: Any) -> tuple[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise InputError(f"relative_to must be a panel and a method, not {value!r}")
    return str(value[0]), str(value[1])


def _keys(table: type[Any]) -> list[str]:
    return [one.name for one in fields(table)]


def _folder() -> Any:
    """Return the folder of the specs: in the installed package, or beside src in a checkout."""
    packaged = importlib.resources.files("prsrank") / "experiments"
    if packaged.is_dir():
        return packaged
    checkout = Path(__file__).resolve().parents[3] / "experiments"
    if checkout.is_dir():
        return checkout
    raise InputError("the experiments are not installed with this copy of prsrank")
