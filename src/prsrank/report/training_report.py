"""The report of `prsrank train`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.propensity.curve import Propensities
from prsrank.report.parts import feature_importance, importance_figure, section, weight_rows
from prsrank.report.propensity_figure import propensity_figure

if TYPE_CHECKING:
    from prsrank.rankers.base import Ranker

Part = dict[str, Any]

_POSITIONS = 20


def training_report(
    model: "Ranker",
    pairs: Any,
    curve: Any,
    *,
    settings: Mapping[str, Any],
    about: Sequence[Sequence[Any]],
) -> Part:
    """Return the report of a trained ranker.

    Args:
        model: the ranker.
        pairs: what it was trained on.
        curve: the propensities used; None for those in the log, or for none.
        settings: data, log, weighting and the like, by name.
        about: rows of name and value: command, seed, wall time, versions.
    """
    rows = [[key.replace("_", " "), value] for key, value in settings.items()]
    rows += [[f"ranker: {name}", value] for name, value in model.get_params().items()]
    parts = [
        _learning(model),
        _propensities(model, curve),
        _weights(pairs),
        _importance(model),
    ]
    described = {
        "id": "settings", "title": "Settings", "caption": "All that the ranker was trained with.",
        "columns": ["setting", "value"], "rows": [[name, _plain(value)] for name, value in rows],
    }  # fmt: skip
    return {
        "title": f"Ranker: {model.name}",
        "subtitle": f"trained on {settings['clicks']:,} clicks of {settings['log']}",
        "lead": [], "verdicts": [], "about": [list(row) for row in about],
        "sections": [
            *(part for part in parts if part is not None),
            section("settings", "Settings", tables=[described]),
        ],
    }  # fmt: skip


def _learning(model: "Ranker") -> Part | None:
    """Draw the values after each tree or epoch, if the ranker kept them."""
    history: list[Any] = list(getattr(model, "history_", []) or [])
    if not history:
        return None
    records = history if isinstance(history[0], Mapping) else [{"validation": v} for v in history]
    step = "epoch" if isinstance(history[0], Mapping) else "tree"
    panels = []
    for name in records[0]:
        y = [record.get(name) for record in records]
        series = {"name": name, "x": list(range(1, len(y) + 1)), "y": y, "low": None, "high": None}
        panels.append({"title": name if len(records[0]) > 1 else "", "series": [series]})
    figure = {
        "id": "learning", "title": f"Value after each {step}",
        "caption": "The value on the validation part, on which training stops, and the loss on "
        "the training part, where the ranker keeps them.",
        "alt": f"{', '.join(records[0])} over {len(records)} {step}s.",
        "x": {"title": step, "scale": "linear"}, "y": {"title": "value", "zero": False},
        "kind": "lines", "panels": panels,
    }  # fmt: skip
    return section("learning", "Training", figures=[figure])


def _propensities(model: "Ranker", curve: Any) -> Part | None:
    learned = getattr(model, "propensities_", None)
    if isinstance(curve, Propensities):
        return section(
            "propensities", "Propensities", text=[f"Verdict on the estimate: {curve.verdict}."],
            figures=[propensity_figure({curve.method: curve}, positions=_POSITIONS)],
        )  # fmt: skip
    if curve is not None:
        values, name = curve.at(np.arange(1, _POSITIONS + 1)), "known"
    elif learned is not None and np.ndim(learned) == 1:
        values, name = np.asarray(learned, np.float64), "learned"
    else:
        return None
    shown = Propensities(
        values / values[0], np.full(len(values), np.nan), np.full(len(values), np.nan),
        np.zeros(len(values), np.int64), name, name,
    )  # fmt: skip
    figure = propensity_figure({name: shown}, positions=_POSITIONS)
    figure["caption"] = "Relative to position 1."
    return section("propensities", "Propensities", figures=[figure])


def _weights(pairs: Any) -> Part | None:
    if not hasattr(pairs, "diagnostics"):
        return None
    table = {
        "id": "weights", "title": "Weights of the pairs",
        "caption": "A pair is a clicked and a non-clicked doc of one session.",
        "columns": ["measure", "value"], "rows": weight_rows(pairs.diagnostics()),
    }  # fmt: skip
    return section("weights", "Weights", tables=[table])


def _importance(model: "Ranker") -> Part | None:
    found = feature_importance(model)
    if found is None:
        return None
    figure = importance_figure("Most important features", found[0], {model.name: found[1]})
    return section("importance", "Feature importance", figures=[figure])


def _plain(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value
