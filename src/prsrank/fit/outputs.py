"""The files that a fit writes, but for its report and manifest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.log_evaluation import LogEvaluation
from prsrank.files import write_json
from prsrank.fit.fitted import FittedParts, FittedPropensities
from prsrank.fit.log_parts import LogParts
from prsrank.fit.plan import Plan
from prsrank.fit.propensities import FitPropensities
from prsrank.fit.tuning import METRIC, Tuned
from prsrank.logs.coverage import known_lists

BEST = "prs"


def chosen_settings(
    propensities: FittedPropensities, tuned: Mapping[str, Tuned], parts: FittedParts
) -> dict[str, Any]:
    """Return what a fit chose, for the manifest."""
    return {
        "propensities": propensities.how,
        "parts": parts.counts(),
        "rankers": {
            name: {
                "settings": dict(one.chosen.settings),
                "weighting_parameters": dict(one.chosen.weighting_parameters),
                "trees": one.chosen.trees,
                f"validation {METRIC}": one.chosen.value,
            }
            for name, one in tuned.items()
        },
    }


def write_results(
    draft: Path,
    plan: Plan,
    parts: LogParts,
    lists: RankingDataset,
    propensities: FitPropensities,
    tuned: Mapping[str, Tuned],
    evaluation: LogEvaluation,
) -> None:
    """Write models, propensities, evaluation and the held-out part into a folder."""
    from prsrank.data.storage import EVERY_SPLIT, StoredCollection, write_stored
    from prsrank.logs.click_log_files import write_events

    curve = propensities.curve
    settings = plan.to_json_dict()
    for name, one in tuned.items():
        about = {
            "log": settings["log"],
            "data": settings["data"] or settings["features"] or settings["log"],
            "weighting": name,
            "weighting_parameters": dict(one.chosen.weighting_parameters),
            "propensity": "those in the log" if curve is None else curve.to_json_dict(),
            "holdout": plan.holdout,
            "seed": plan.seed,
        }
        place = draft / "model" if name == BEST else draft / "others" / name
        one.ranker.save(place, about=about)
    if curve is not None:
        curve.save(draft / "propensity.json")
    write_json(draft / "evaluation.json", evaluation.to_json_dict())
    (draft / "held_out").mkdir()
    write_events(parts.held_out, draft / "held_out" / "log.parquet")
    judged = known_lists(parts.held_out, lists)
    splits = np.full((1, judged.lists), EVERY_SPLIT, np.int8)
    write_stored(StoredCollection("held out", judged, splits), draft / "held_out" / "lists")
