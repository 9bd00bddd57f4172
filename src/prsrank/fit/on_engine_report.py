"""The report of a fit on an engine: the sections of the local fit's, with counts for the audit."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from prsrank.fit.report import _evaluation, _parts, _propensities, _trial_rows, _words, conclusions
from prsrank.fit.tuning import METRIC
from prsrank.report.parts import about_rows, feature_importance, importance_figure, section

if TYPE_CHECKING:
    from prsrank.fit.on_engine import EngineFit

_SPLIT = (
    "Queries are split by a hash of their ids: the same queries are held out whatever the seed."
)


def write_engine_report(result: "EngineFit", file: Path, started: float) -> None:
    """Write the report of a fit on an engine."""
    from prsrank.report.html import write_report

    like: Any = cast(Any, result)  # has what these sections read of the local fit's result
    plan = result.plan
    parts = _parts(like)
    parts["text"] = [*parts["text"], _SPLIT]
    command = f"prsrank fit {plan.log} --engine {result.engine} ..."
    settings = {"holdout": plan.holdout, "propensity": plan.propensity, "ranker": plan.ranker}
    rows = [[name, str(value)] for name, value in settings.items()]
    rows += [["trials", str(plan.trials)], ["trees", str(plan.trees)]]
    page = {
        "title": f"Fit: PRS, {plan.ranker}, where the log lies",
        "subtitle": plan.log,
        "lead": conclusions(like),
        "verdicts": [],
        "sections": [_log(result), parts, _propensities(like), _training(result), _evaluation(like)],
        "about": [*rows, *about_rows(seed=plan.seed, started=started, command=command)],
    }  # fmt: skip
    write_report(page, file)


def _log(result: "EngineFit") -> dict[str, Any]:
    counts = [[name.replace("_", " "), count] for name, count in result.counts.items()]
    text = [f"On engine {result.engine} the rows of the log are checked, but not audited."]
    return section("log", "The log", text=text, details=[{"title": "Counts", "rows": counts}])


def _training(result: "EngineFit") -> dict[str, Any]:
    tuned: dict[str, Any] = dict(result.tuned)
    table = {
        "id": "chosen", "title": "Chosen settings",
        "caption": f"The best of {len(tuned['prs'].trials)} trials each, by the estimate on the "
        "validation part, which is too good by the choice.",
        "columns": ["weighting", "settings", "trees", f"validation {METRIC}"],
        "rows": [
            [name, _words(one), one.chosen.trees, one.chosen.value] for name, one in tuned.items()
        ],
    }  # fmt: skip
    found = {name: feature_importance(one.ranker) for name, one in tuned.items()}
    known = {name: one for name, one in found.items() if one is not None}
    measure = next((one[0] for one in known.values()), "")
    shares = {name: one[1] for name, one in known.items()}
    return section(
        "training", "Training",
        figures=[importance_figure("Most important features", measure, shares)] if shares else [],
        tables=[table],
        details=[{"title": f"Trials: {name}", "rows": _trial_rows(one)} for name, one in tuned.items()],
    )  # fmt: skip
