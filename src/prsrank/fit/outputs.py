"""The files that a fit writes, but for its report and manifest."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsrank.files import write_json
from prsrank.fit.engine import METRIC
from prsrank.fit.tuning import Tuned

if TYPE_CHECKING:
    from prsrank.fit.steps import FitResult


def chosen_settings(result: "FitResult") -> dict[str, Any]:
    """Return what a fit chose, and all that it tried, for the manifest."""
    propensities = result.propensities
    judged = propensities.judged
    return {
        **result.verdict.to_json_dict(),
        "model": result.choice.to_json_dict(),
        "propensities": propensities.how,
        "curve_check": judged and {**judged.to_json_dict(), "used": propensities.power},
        "parts": result.parts.counts(),
        "rankers": {
            name: {
                "settings": dict(tuned.chosen.candidate.settings),
                "weighting_parameters": dict(tuned.chosen.candidate.parameters),
                "trees": tuned.ranker.trees_,
                f"validation {METRIC}": tuned.chosen.value,
                "trials": [[str(trial.candidate), trial.value] for trial in tuned.search.trials],
            }
            for name, tuned in result.tuned.items()
        },
    }


def write_results(draft: Path, result: "FitResult") -> None:
    """Write models, propensities, evaluation and the held-out part into a folder."""
    curve = result.propensities.curve
    for name, tuned in result.tuned.items():
        tuned.ranker.save(draft / "judged" / name, about=_about(result, tuned, "the training part"))
    if result.verdict.ships:
        chosen = result.tuned[result.choice.name]
        result.model.save(draft / "model", about=_about(result, chosen, "all sessions"))
    if curve is not None:
        curve.save(draft / "propensity.json")
    write_json(draft / "evaluation.json", result.evaluation.to_json_dict())
    result.parts.held_out.write(draft / "held_out")


def _about(result: "FitResult", tuned: Tuned, trained_on: str) -> dict[str, Any]:
    """Return what a model was made from."""
    plan, curve = result.plan, result.propensities.curve
    settings = plan.to_json_dict()
    return {
        "log": settings["log"],
        "data": settings["data"] or settings["features"] or settings["log"],
        "trained_on": trained_on,
        "weighting": tuned.method.weighting,
        "weighting_parameters": dict(tuned.chosen.candidate.parameters),
        "propensity": "those in the log" if curve is None else curve.to_json_dict(),
        "holdout": plan.holdout,
        "seed": plan.seed,
    }
