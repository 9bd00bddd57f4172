"""Specs on disk: TOML files, checked strictly, with the nearest valid name in every error."""

import importlib.resources
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin

from prsrank.clicks.models import CLICK_MODELS
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.errors import InputError, nearest_name
from prsrank.experiment.spec import (
    AXES,
    KINDS,
    SHARES,
    Claim,
    ClickSettings,
    Method,
    Panel,
    RankerSettings,
    Spec,
    direction,
)
from prsrank.files import existing_file, read_toml
from prsrank.files.schema import check, keys_of
from prsrank.metrics.ranking import metric
from prsrank.rankers.base import RANKERS, ranker_class
from prsrank.weighting import WEIGHTINGS

_ORDER = ("fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "gamma", "table1", "table2", "bounds")
_LIMITS = {"folds": (1, 1000), "runs": (1, 100_000), "seed": (0, 2**31 - 1), "budget": (1, 10**6)}


def spec_names() -> list[str]:
    """Return the names of the experiments that come with the library, the paper's order."""
    names = {path.stem for path in _folder().iterdir() if path.suffix == ".toml"}
    return [name for name in _ORDER if name in names] + sorted(names - set(_ORDER))


def load_spec(name: str) -> Spec:
    """Read an experiment by its name, or from a TOML file of one's own.

    Raises:
        InputError: naming the file, and the nearest valid name where one is not known.

    >>> load_spec("fig3").metrics[0]
    'ndcg@10'
    """
    if name.endswith(".toml"):
        path = existing_file(name)
    else:
        _check_names([name], spec_names(), "experiment")
        path = _folder() / f"{name}.toml"
    values = read_toml(path)
    try:
        return parse_spec(values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def load_specs(name: str) -> list[Spec]:
    """Read one experiment, or all of the paper: "all"."""
    return [load_spec(each) for each in (_ORDER if name == "all" else (name,))]


def parse_spec(values: Mapping[str, Any]) -> Spec:
    """Make a spec of what a TOML file holds; an InputError for anything that is not known."""
    check(values, Spec, "the experiment")
    spec: Spec = _made(Spec, values)
    if not spec.metrics:
        raise InputError("metrics must be a list of names")
    panels = tuple(panel.name for panel in spec.panels)
    spec = replace(
        spec,
        axis=replace(spec.axis, title=spec.axis.title or spec.axis.name),
        methods=tuple(_completed(method, panels, spec.kind) for method in spec.methods),
        test=tuple(replace(claim, metric=claim.metric or spec.metrics[:1]) for claim in spec.test),
    )
    _check_all_names(spec)
    _check_numbers(spec)
    for panel in spec.panels:
        _check_panel(spec, panel)
    for claim in spec.test:
        _check_claim(claim, spec)
    return spec


def _made(kind: Any, value: Any) -> Any:
    """Make what a type says of a value that has its form: dataclasses and tuples inside, too."""
    if is_dataclass(kind) and isinstance(kind, type):
        types = keys_of(kind)[0]
        return kind(**{key: _made(types[key], part) for key, part in value.items()})
    if get_origin(kind) is tuple:
        return tuple(_made(get_args(kind)[0], part) for part in value)
    if get_origin(kind) is Mapping:
        return {key: _made(get_args(kind)[1], part) for key, part in value.items()}
    return value


def _completed(method: Method, panels: tuple[str, ...], kind: str) -> Method:
    """Return a method with what its file leaves out: all panels, and its name as weighting."""
    weighting = method.weighting
    if method.name == "production" or kind == "observations":
        weighting = ""
    elif not weighting and not method.ranker:
        weighting = method.name
    return replace(method, weighting=weighting, panels=method.panels or panels)


def _check_all_names(spec: Spec) -> None:
    panels = [panel.name for panel in spec.panels]
    methods = [method.name for method in spec.methods]
    of_metrics = KINDS[spec.kind]
    for panel in spec.panels:
        check(panel.clicks, ClickSettings, f"the clicks of panel '{panel.name}'")
    named: tuple[tuple[str, Iterable[str], Iterable[str]], ...] = (
        ("axis", AXES, [spec.axis.name]),
        ("click model", CLICK_MODELS, [spec.clicks_in(panel).model for panel in spec.panels]),
        ("ranker", RANKERS, [*(part.ranker for part in spec.panels), *spec.rankers]),
        ("ranker", RANKERS, [method.ranker for method in spec.methods]),
        ("weighting", WEIGHTINGS, [method.weighting for method in spec.methods]),
        ("panel", panels, [name for method in spec.methods for name in method.panels]),
        ("method", SHARES, methods if spec.kind == "observations" else []),
        ("metric", of_metrics, spec.metrics if of_metrics else []),
        ("method", methods, [number.method for number in spec.paper]),
        ("metric", spec.metrics, [number.metric for number in spec.paper]),
        ("panel", panels, spec.relative_to[:1]),
        ("method", methods, spec.relative_to[1:]),
    )
    for kind, valid, names in named:
        _check_names(names, valid, kind)
    for name in () if of_metrics else spec.metrics:
        metric(name)


def _check_numbers(spec: Spec) -> None:
    axis = spec.axis
    if len(spec.relative_to) not in (0, 2):
        raise InputError(f"relative_to must be a panel and a method, not {spec.relative_to!r}")
    check_limits(vars(spec))
    check_limits(vars(spec.tuning))
    for panel in spec.panels:
        clicks = spec.clicks_in(panel)
        PositionBasedModel(eta=clicks.eta, mu=clicks.mu)
    if not spec.has_axis and axis.points != ("",):
        raise InputError("an axis 'none' has no points")
    if spec.has_axis and any(isinstance(point, str) for point in axis.points):
        raise InputError("axis: points must be numbers")
    if not axis.points or len(set(axis.points)) < len(axis.points):
        raise InputError("axis: points must be a list of different values")


def check_limits(values: Mapping[str, Any]) -> None:
    """Check those of the numbers of an experiment that have limits."""
    for name, (least, most) in _LIMITS.items():
        value = values.get(name)
        if value is not None and not least <= value <= most:
            raise InputError(f"{name} must be from {least} to {most}, not {value}")


def _check_panel(spec: Spec, panel: Panel) -> None:
    methods = spec.methods_of(panel.name)
    if len({method.name for method in methods}) < len(methods):
        raise InputError(f"panel '{panel.name}' has a method twice")
    for method in methods if spec.kind in ("ranking", "clicks") else ():
        if method.name != "production":
            _check_grid(spec, panel, method)


def _check_grid(spec: Spec, panel: Panel, method: Method) -> None:
    ranker = method.ranker or panel.ranker
    if not ranker:
        raise InputError(f"method '{method.name}' has no ranker, nor has panel '{panel.name}'")
    taken = ranker_class(ranker)().get_params()
    fixed = spec.rankers.get(ranker, RankerSettings())
    weights = WEIGHTINGS[method.weighting].parameters if method.weighting else ()
    _check_names([*fixed.settings, *fixed.grid], taken, f"parameter of {ranker}")
    _check_names(method.parameters, weights, f"parameter of {method.weighting or method.name}")
    _check_names(method.grid, [*weights, *taken], f"parameter of {method.name}")
    for name, values in {**fixed.grid, **method.grid}.items():
        if not values:
            raise InputError(f"grid: {name} must be a list of values, not {values!r}")
    if spec.axis.name == "gamma" and method.weighting and "gamma" not in weights:
        raise InputError(f"the axis is gamma, which weighting '{method.weighting}' does not have")


def _check_claim(claim: Claim, spec: Spec) -> None:
    verbs = [verb for verb in ("better", "above", "below") if getattr(claim, verb)]
    if len(verbs) != 1:
        raise InputError(f"test: give one of better, above, below, not {len(verbs)} of them")
    if not claim.than and claim.at is None:
        raise InputError(f"test: {verbs[0]} = '{claim.winner}' needs than = [methods or numbers]")
    if claim.margin < 0:
        raise InputError(f"test: margin must be a number of 0 or more, not {claim.margin!r}")
    _check_names(sorted(claim.methods), (method.name for method in spec.methods), "method")
    _check_names(claim.metric, spec.metrics, "metric")
    _check_names(claim.panels, (panel.name for panel in spec.panels), "panel")
    for point in (*claim.points, *claim.fixed_points):
        if point not in spec.axis.points:
            points = ", ".join(map(str, spec.axis.points))
            raise InputError(f"test: no point {point} on the axis; there are {points}")
    for name in claim.metric:
        if claim.better and not direction(name):
            raise InputError(
                f"test: whether more or less of '{name}' is better is not known: "
                "write above or below"
            )


def _check_names(names: Iterable[str], valid: Iterable[str], kind: str) -> None:
    every = list(valid)
    for name in names:
        if name and name not in every:
            raise InputError(f"no {kind} '{name}'{nearest_name(name, every)}")


def _folder() -> Any:
    """Return the folder of the specs: in the installed package, or beside src in a checkout."""
    packaged = importlib.resources.files("prsrank") / "experiments"
    if packaged.is_dir():
        return packaged
    checkout = Path(__file__).resolve().parents[3] / "experiments"
    if checkout.is_dir():
        return checkout
    raise InputError("the experiments are not installed with this copy of prsrank")
