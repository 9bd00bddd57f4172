"""The files that a fit writes, but for its report and manifest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prsrank.evaluation.log_evaluation import LogEvaluation
from prsrank.files import write_json
from prsrank.fit.engine import METRIC
from prsrank.fit.parts import LogParts
from prsrank.fit.plan import Plan
from prsrank.fit.propensities import FitCurves
from prsrank.fit.tuning import Tuned


def chosen_settings(
    propensities: FitCurves, tuned: Mapping[str, Tuned], parts: LogParts
) -> dict[str, Any]:
    """Return what a fit chose, and all that it tried, for the manifest."""
    judged = propensities.judged
    return {
        "propensities": propensities.how,
        "curve_check": judged and {**judged.to_json_dict(), "used": propensities.power},
        "parts": parts.counts(),
        "rankers": {
            name: {
                "settings": dict(one.chosen.candidate.settings),
                "weighting_parameters": dict(one.chosen.candidate.parameters),
                "trees": one.ranker.trees_,
                f"validation {METRIC}": one.chosen.value,
                "trials": [[str(trial.candidate), trial.value] for trial in one.search.trials],
            }
            for name, one in tuned.items()
        },
    }


def write_results(
    draft: Path,
    plan: Plan,
    parts: LogParts,
    propensities: FitCurves,
    tuned: Mapping[str, Tuned],
    evaluation: LogEvaluation,
) -> None:
    """Write models, propensities, evaluation and the held-out part into a folder."""
    curve = propensities.curve
    settings = plan.to_json_dict()
    for name, one in tuned.items():
        about = {
            "log": settings["log"],
            "data": settings["data"] or settings["features"] or settings["log"],
            "weighting": name,
            "weighting_parameters": dict(one.chosen.candidate.parameters),
            "propensity": "those in the log" if curve is None else curve.to_json_dict(),
            "holdout": plan.holdout,
            "seed": plan.seed,
        }
        path = draft / "model" if name == plan.weighting else draft / "others" / name
        one.ranker.save(path, about=about)
    if curve is not None:
        curve.save(draft / "propensity.json")
    write_json(draft / "evaluation.json", evaluation.to_json_dict())
    parts.held_out.write(draft / "held_out")
