"""The settings of an experiment and what its jobs tell beside the values, as rows."""

from collections.abc import Mapping
from typing import Any

from prsrank.experiment.number_texts import number_text
from prsrank.experiment.spec import Spec
from prsrank.report.numbers import point_text
from prsrank.report.parts import Part

MOST_FEATURES = 10
TUNED_AT = {"default": "the default setting, once; reused at all points", "point": "each point"}

_TITLES = {
    "weights": "Weight diagnostics",
    "importance": f"Feature importance, the {MOST_FEATURES} largest",
    "trees": "Trees, mean over jobs",
    "clicks_per_query": "Clicks per training query",
}


def section_details(
    spec: Spec, chosen: Mapping[str, Mapping[str, object]], details: Mapping[str, Any]
) -> list[Part]:
    """Return blocks of rows: settings, chosen hyper-parameters, and all details but curves.

    Args:
        spec: the experiment.
        chosen: hyper-parameters, by "panel method".
        details: plain values by name; see `Results.details`.
    """
    blocks = [{"title": "Settings", "rows": _settings(spec)}]
    if chosen:
        rows = [[name, value_line(values)] for name, values in chosen.items()]
        blocks.append({"title": "Chosen hyper-parameters", "rows": rows})
    single = []
    for name, value in details.items():
        if name == "propensities" or value is None:
            continue
        if isinstance(value, Mapping):
            blocks.append({"title": _TITLES.get(name, name), "rows": _rows(name, value)})
        else:
            single.append([name.replace("_", " "), value_line(value)])
    if single:
        blocks.append({"title": "Run", "rows": single})
    return [block for block in blocks if block["rows"]]


def value_line(value: Any) -> str:
    """Return any plain value in one line.

    >>> value_line({"l2": 0.01, "tau": [0.0, 0.1]}), value_line(128000)
    ('l2 0.01, tau 0; 0.1', '128,000')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {value_line(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(value_line(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    return number_text(value) if abs(value) >= 1000 else point_text(value)


def _settings(spec: Spec) -> list[list[str]]:
    rows = [["data", spec.data]] if spec.data else []
    for part, values in (("clicks", spec.clicks), ("propensity", spec.propensity)):
        known = {name: value for name, value in values.items() if value is not None}
        rows += [[f"{part}: {name}", value_line(value)] for name, value in known.items()]
    for panel in spec.panels:
        if panel.clicks:
            rows.append([f"clicks in {panel.title or panel.name}", value_line(panel.clicks)])
    rows += [["ranker: " + name, _ranker(one)] for name, one in spec.rankers.items()]
    if spec.rankers:
        tuning = spec.tuning
        rows.append(["tuned on", f"{tuning.on} of the validation part, never on the test part"])
        rows.append(["tuned at", TUNED_AT.get(tuning.at, tuning.at)])
        rows.append(["settings tried", f"at most {tuning.budget} for each method"])
    rows += [["folds", str(spec.folds)], ["runs", str(spec.runs)], ["seed", str(spec.seed)]]
    return rows


def _ranker(ranker: Any) -> str:
    fixed, tried = value_line(ranker.settings), value_line(ranker.grid)
    return ", ".join(filter(None, (fixed, f"tried {tried}" if tried else "")))


def _rows(name: str, value: Mapping[str, Any]) -> list[list[str]]:
    if name == "importance":
        return [[one, _largest(features)] for one, features in value.items()]
    if name == "weights":
        value = {
            one: {k.replace("_", " "): v for k, v in each.items()} for one, each in value.items()
        }
    return [[str(one), value_line(values)] for one, values in value.items()]


def _largest(features: Mapping[str, float]) -> str:
    ordered = sorted(features.items(), key=lambda one: -abs(one[1]))[:MOST_FEATURES]
    return "; ".join(f"{feature}: {number_text(value)}" for feature, value in ordered)
