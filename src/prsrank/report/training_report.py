"""The report of `prsrank train`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.propensity.curve import Propensities, learned_curve
from prsrank.report.parts import (
    Part,
    feature_importance,
    figure,
    importance_figure,
    page,
    section,
    series,
    table,
    weight_rows,
)
from prsrank.report.propensity_figure import propensity_figure

if TYPE_CHECKING:
    from prsrank.pairs.weighted_pairs import PairDiagnostics
    from prsrank.rankers.base import Ranker

_POSITIONS = 20


def training_report(
    model: "Ranker",
    weights: "PairDiagnostics | None",
    curve: Any,
    *,
    settings: Mapping[str, Any],
    about: Sequence[Sequence[Any]],
) -> Part:
    """Return the report of a trained ranker.

    Args:
        model: the ranker.
        weights: of the pairs that it was trained on, if they are known.
        curve: the propensities used; None for those in the log, or for none.
        settings: data, log, weighting and the like, by name.
        about: rows of name and value: command, seed, wall time, versions.
    """
    rows = [[key.replace("_", " "), value] for key, value in settings.items()]
    rows += [[f"ranker: {name}", value] for name, value in model.get_params().items()]
    plain = [[name, _plain(value)] for name, value in rows]
    caption = "All that the ranker was trained with."
    described = table("settings", "Settings", ["setting", "value"], plain, caption=caption)
    sections = [
        _learning(model),
        _propensities(model, curve),
        _weights(weights),
        _importance(model),
    ]
    return page(
        f"Ranker: {model.name}",
        f"trained on {settings['clicks']:,} clicks of {settings['log']}",
        [
            *(part for part in sections if part is not None),
            section("settings", "Settings", tables=[described]),
        ],
        about=[list(row) for row in about],
    )


def _learning(model: "Ranker") -> Part | None:
    """Draw the values after each tree or epoch, if the ranker kept them."""
    history: list[Any] = list(getattr(model, "history_", []) or [])
    if not history:
        return None
    records = history if isinstance(history[0], Mapping) else [{"validation": v} for v in history]
    step = "epoch" if isinstance(history[0], Mapping) else "tree"
    panels = {
        name if len(records[0]) > 1 else "": [
            series(name, enumerate((record.get(name) for record in records), 1))
        ]
        for name in records[0]
    }
    learning = figure(
        "learning",
        f"Value after each {step}",
        (step, "value"),
        panels,
        zero=False,
        caption="The value on the validation part, on which training stops, and the loss on "
        "the training part, where the ranker keeps them.",
        alt=f"{', '.join(records[0])} over {len(records)} {step}s.",
    )
    return section("learning", "Training", figures=[learning])


def _propensities(model: "Ranker", curve: Any) -> Part | None:
    if isinstance(curve, Propensities):
        return section(
            "propensities", "Propensities", text=[f"Verdict on the estimate: {curve.verdict}."],
            figures=[propensity_figure({curve.method: curve}, positions=_POSITIONS)],
        )  # fmt: skip
    learned = model.propensities()
    if curve is not None:
        values, name = curve.at(np.arange(1, _POSITIONS + 1)), "known"
    elif learned is not None:
        values, name = learned.propensity, "learned"
    else:
        return None
    shown = learned_curve(values / values[0], None, name)
    drawn = propensity_figure({name: shown}, positions=_POSITIONS)
    drawn["caption"] = "Relative to position 1."
    return section("propensities", "Propensities", figures=[drawn])


def _weights(diagnostics: "PairDiagnostics | None") -> Part | None:
    if diagnostics is None:
        return None
    rows = weight_rows(diagnostics)
    caption = "A pair is a clicked and a non-clicked doc of one session."
    weights = table("weights", "Weights of the pairs", ["measure", "value"], rows, caption=caption)
    return section("weights", "Weights", tables=[weights])


def _importance(model: "Ranker") -> Part | None:
    importance = feature_importance(model)
    if importance is None:
        return None
    drawn = importance_figure("Most important features", importance[0], {model.name: importance[1]})
    return section("importance", "Feature importance", figures=[drawn])


def _plain(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value
