"""The report of `prsrank train`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.curve_of import KnownPropensity
from prsrank.report.parts import (
    Part,
    figure,
    importance_figures,
    page,
    section,
    series,
    weight_tables,
)
from prsrank.report.propensity_figure import propensity_figure

if TYPE_CHECKING:
    from prsrank.pairs.weighted_pairs import PairDiagnostics
    from prsrank.propensity.curve import Propensities
    from prsrank.rankers.base import Ranker

_POSITIONS = 20


def training_report(
    model: "Ranker",
    weights: "PairDiagnostics | None",
    curve: "PowerLaw | Propensities | None",
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
    sections = [
        section("training", "Training", figures=_learning(model)),
        section(
            "model",
            "Model",
            figures=importance_figures({model.name: model}),
            tables=weight_tables({settings["weighting"]: weights}),
        ),
    ]
    shown = (
        KnownPropensity(curve.eta).at_depth(_POSITIONS) if isinstance(curve, PowerLaw) else curve
    )
    shown = shown or model.propensities()
    if shown is not None:
        text = f"Verdict on the estimate: {shown.verdict}."
        drawn = propensity_figure({shown.method: shown}, positions=_POSITIONS)
        title = "Propensities"
        sections.insert(1, section("propensities", title, text=[text], figures=[drawn]))
    rows = [[key.replace("_", " "), value] for key, value in settings.items()]
    rows += [[f"ranker: {name}", value] for name, value in model.get_params().items()]
    return page(
        f"Ranker: {model.name}",
        f"trained on {settings['clicks']:,} clicks of {settings['log']}",
        [each for each in sections if each["figures"] or each["tables"]],
        about=[*setting_rows(rows), *about],
    )


def setting_rows(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Return the settings that say something: text as it is, all else as JSON."""
    said = [(name, value) for name, value in rows if value not in (None, {}, [])]
    return [[name, value if isinstance(value, str) else json.dumps(value)] for name, value in said]


def _learning(model: "Ranker") -> list[Part]:
    """Draw the values after each tree or epoch, if the ranker kept them."""
    history: list[Any] = list(getattr(model, "history_", []) or [])
    if not history:
        return []
    by_epoch = isinstance(history[0], Mapping)
    records = history if by_epoch else [{"validation": value} for value in history]
    step = "epoch" if by_epoch else "tree"
    panels = {
        name if len(records[0]) > 1 else "": [
            series(name, enumerate((record.get(name) for record in records), 1))
        ]
        for name in records[0]
    }
    caption = (
        "The value on the validation part, on which training stops, and the loss on the training "
        "part, where the ranker keeps them."
    )
    title = f"Value after each {step}"
    return [figure("learning", title, (step, "value"), panels, zero=False, caption=caption)]
