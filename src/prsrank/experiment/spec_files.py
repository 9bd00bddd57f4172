"""Specs on disk: TOML files, checked strictly, with the nearest valid name in every error."""

import importlib.resources
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prsrank.errors import InputError, nearest_name
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
from prsrank.files import existing_file

_ORDER = ("fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "gamma", "table1", "table2", "bounds")
_TEXTS = ("id", "title", "claim", "kind", "data", "data_note", "paper_note")
_KEYS = (
    *_TEXTS,
    *("metrics", "notes", "folds", "runs", "seed", "axis", "clicks", "propensity", "tuning"),
    *("panels", "methods", "rankers", "test", "paper", "relative_to"),
)
_AXIS = ("name", "title", "scale", "points")
_PANEL = ("name", "title", "ranker", "clicks")
_METHOD = ("name", "title", "weighting", "ranker", "parameters", "grid", "panels")
_PAPER = ("panel", "method", "metric", "value")
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
    known = spec_names()
    if name not in known:
        raise InputError(f"no experiment '{name}'{nearest_name(name, known)}")
    return read_spec(_folder() / f"{name}.toml")


def load_specs(name: str) -> list[Spec]:
    """Read one experiment, or all of the paper: "all"."""
    names = [one for one in spec_names() if one in _ORDER] if name == "all" else [name]
    return [load_spec(one) for one in names]


def read_spec(path: Path) -> Spec:
    """Read a spec from a TOML file.

    Raises:
        InputError: naming the file, and the nearest valid name where one is not known.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not valid TOML: {error}") from error
    try:
        return parse_spec(values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def parse_spec(values: Mapping[str, Any]) -> Spec:
    """Make a spec of what a TOML file holds; an InputError for anything that is not known."""
    _check_keys(values, _KEYS, "key")
    for key in ("id", "title", "claim", "metrics", "methods", "axis"):
        if key not in values:
            raise InputError(f"the key '{key}' is missing")
    for key in _TEXTS:
        _check_type(values, key, str)
    kind = _one_of(values.get("kind", "ranking"), KINDS, "kind")
    panels = tuple(_panel(entry) for entry in values.get("panels", [{"name": ""}]))
    names = [panel.name for panel in panels]
    spec = Spec(
        id=values["id"],
        title=values["title"],
        claim=values["claim"],
        kind=kind,
        axis=_axis(values["axis"]),
        panels=panels,
        methods=tuple(_method(entry, names, kind) for entry in values["methods"]),
        metrics=_metrics(values["metrics"], kind),
        test=tuple(values.get("test", ())),
        folds=_whole(values, "folds", 5),
        runs=_whole(values, "runs", 5),
        seed=_whole(values, "seed", 0, least=0),
        data=values.get("data", ""),
        data_note=values.get("data_note", ""),
        clicks={**CLICKS, **_clicks(values.get("clicks", {}))},
        propensity={**PROPENSITY, **_propensity(values.get("propensity", {}))},
        rankers={name: _ranker(name, one) for name, one in values.get("rankers", {}).items()},
        tuning=_tuning(values.get("tuning", {})),
        paper=tuple(_paper(entry) for entry in values.get("paper", ())),
        paper_note=values.get("paper_note", ""),
        relative_to=_relative_to(values.get("relative_to")),
        notes=tuple(values.get("notes", ())),
    )
    _check_whole(spec)
    return spec


def _check_whole(spec: Spec) -> None:
    """Check what concerns several parts of a spec at once."""
    from prsrank.experiment.claims import check_test

    names = [method.name for method in spec.methods]
    for panel in spec.panels:
        inside = [method.name for method in spec.methods_of(panel.name)]
        if len(set(inside)) < len(inside):
            raise InputError(f"panel '{panel.name}' has a method twice")
    if spec.kind in ("ranking", "clicks"):
        for panel in spec.panels:
            for method in spec.methods_of(panel.name):
                _check_grid(spec, panel, method)
    if spec.relative_to is not None:
        _one_of(spec.relative_to[0], [panel.name for panel in spec.panels], "panel")
        _one_of(spec.relative_to[1], names, "method")
    for entry in spec.paper:
        _one_of(entry["method"], names, "method")
        _one_of(entry["metric"], spec.metrics, "metric")
    check_test(
        spec.test,
        methods=names,
        metrics=spec.metrics,
        panels=[panel.name for panel in spec.panels],
        points=spec.axis.points,
    )


def _check_grid(spec: Spec, panel: Panel, method: Method) -> None:
    if method.name == "production":
        return
    ranker = method.ranker or panel.ranker
    if not ranker:
        raise InputError(f"method '{method.name}' has no ranker, nor has panel '{panel.name}'")
    taken = _parameters(ranker)
    chosen = spec.rankers.get(ranker, RankerSettings())
    _check_keys({**chosen.settings, **chosen.grid}, taken, f"parameter of {ranker}")
    weights = _weighting_parameters(method.weighting)
    _check_keys(method.parameters, weights, f"parameter of {method.weighting or method.name}")
    _check_keys(method.grid, [*weights, *taken], f"parameter of {method.name}")
    for name, tried in {**chosen.grid, **method.grid}.items():
        if not isinstance(tried, list) or not tried:
            raise InputError(f"grid: {name} must be a list of values, not {tried!r}")
    if spec.axis.name == "gamma" and method.weighting and "gamma" not in weights:
        raise InputError(f"the axis is gamma, which weighting '{method.weighting}' does not have")


def _axis(values: Mapping[str, Any]) -> Axis:
    _check_keys(values, _AXIS, "key of axis")
    name = _one_of(values.get("name", "none"), AXES, "axis")
    scale = _one_of(
        values.get("scale", "linear" if name != "none" else "ordinal"), _SCALES, "scale"
    )
    points = tuple(values.get("points", [""] if name == "none" else []))
    if name == "none" and points != ("",):
        raise InputError("an axis 'none' has no points")
    if not points or len(set(points)) < len(points):
        raise InputError("axis: points must be a list of different values")
    if name != "none" and not all(_is_number(point) for point in points):
        raise InputError("axis: points must be numbers")
    return Axis(name, values.get("title", name), scale, points)


def _panel(values: Mapping[str, Any]) -> Panel:
    _check_keys(values, _PANEL, "key of a panel")
    name = values.get("name", "")
    ranker = values.get("ranker", "")
    if ranker:
        _one_of(ranker, _rankers(), "ranker")
    return Panel(name, values.get("title", name), ranker, _clicks(values.get("clicks", {})))


def _method(values: Mapping[str, Any], panels: Sequence[str], kind: str) -> Method:
    from prsrank.weighting import WEIGHTINGS

    _check_keys(values, _METHOD, "key of a method")
    name = values.get("name", "")
    if not name or not isinstance(name, str):
        raise InputError("a method has no name")
    weighting, ranker = values.get("weighting"), values.get("ranker", "")
    if kind == "observations":
        _one_of(name, SHARES, "method")
    elif name == "production":
        weighting = ""
    elif weighting is None:
        if not ranker:
            weighting = _one_of(name, [*WEIGHTINGS, "production"], "method")
        else:
            weighting = ""
    if weighting:
        _one_of(weighting, WEIGHTINGS, "weighting")
    if ranker:
        _one_of(ranker, _rankers(), "ranker")
    for panel in values.get("panels", ()):
        _one_of(panel, panels, "panel")
    return Method(
        name=name,
        title=values.get("title", name),
        weighting=weighting or "",
        ranker=ranker,
        parameters=values.get("parameters", {}),
        grid=values.get("grid", {}),
        panels=tuple(values.get("panels", panels)),
    )


def _metrics(values: Any, kind: str) -> tuple[str, ...]:
    from prsrank.metrics.ranking import metric

    if not isinstance(values, list) or not values:
        raise InputError("metrics must be a list of names")
    for name in values:
        if KINDS[kind]:
            _one_of(name, KINDS[kind], "metric")
        else:
            metric(name)
    return tuple(values)


def _clicks(values: Mapping[str, Any]) -> Mapping[str, Any]:
    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.production import PRODUCTION_RANKERS

    _check_keys(values, CLICKS, "key of clicks")
    PositionBasedModel(eta=values.get("eta", 1.0), mu=values.get("mu", 0.1))
    _one_of(values.get("production_ranker", "linear"), PRODUCTION_RANKERS, "production ranker")
    return values


def _propensity(values: Mapping[str, Any]) -> Mapping[str, Any]:
    _check_keys(values, PROPENSITY, "key of propensity")
    _one_of(values.get("source", "known"), SOURCES, "source of propensities")
    return values


def _ranker(name: str, values: Mapping[str, Any]) -> RankerSettings:
    _one_of(name, _rankers(), "ranker")
    _check_keys(values, ("settings", "grid"), f"key of rankers.{name}")
    return RankerSettings(values.get("settings", {}), values.get("grid", {}))


def _tuning(values: Mapping[str, Any]) -> Tuning:
    _check_keys(values, ("on", "budget", "at"), "key of tuning")
    return Tuning(
        on=_one_of(values.get("on", "labels"), ("labels", "clicks"), "tuning.on"),
        budget=_whole(values, "budget", 25),
        at=_one_of(values.get("at", "default"), ("default", "point"), "tuning.at"),
    )


def _paper(values: Mapping[str, Any]) -> Mapping[str, Any]:
    _check_keys(values, _PAPER, "key of paper")
    for key in ("method", "metric", "value"):
        if key not in values:
            raise InputError(f"a number of the paper has no '{key}'")
    return {"panel": "", **values}


def _relative_to(value: Any) -> tuple[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise InputError(f"relative_to must be a panel and a method, not {value!r}")
    return str(value[0]), str(value[1])


def _rankers() -> list[str]:
    from prsrank.rankers.base import RANKERS

    return list(RANKERS)


def _parameters(ranker: str) -> list[str]:
    from prsrank.rankers.base import ranker_class

    return list(ranker_class(ranker)().get_params())


def _weighting_parameters(weighting: str) -> list[str]:
    from prsrank.weighting import WEIGHTINGS

    return list(WEIGHTINGS[weighting].parameters) if weighting else []


def _check_keys(values: Any, valid: Iterable[str], what: str) -> None:
    if not isinstance(values, Mapping):
        raise InputError(f"{what}: a table was expected, not {values!r}")
    names = list(valid)
    for key in values:
        if key not in names:
            raise InputError(f"no {what} '{key}'{nearest_name(key, names)}")


def _check_type(values: Mapping[str, Any], key: str, kind: type) -> None:
    if key in values and not isinstance(values[key], kind):
        raise InputError(f"{key} must be a {kind.__name__}, not {values[key]!r}")


def _one_of(value: Any, valid: Iterable[str], what: str) -> str:
    names = list(valid)
    if not isinstance(value, str) or value not in names:
        raise InputError(f"no {what} '{value}'{nearest_name(str(value), names)}")
    return value


def _whole(values: Mapping[str, Any], key: str, default: int, *, least: int = 1) -> int:
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{key} must be a whole number of at least {least}, not {value!r}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _folder() -> Any:
    """Return the folder of the specs: in the installed package, or beside src in a checkout."""
    packaged = importlib.resources.files("prsrank") / "experiments"
    if packaged.is_dir():
        return packaged
    checkout = Path(__file__).resolve().parents[3] / "experiments"
    if checkout.is_dir():
        return checkout
    raise InputError("the experiments are not installed with this copy of prsrank")
