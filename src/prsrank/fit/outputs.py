"""The files that a fit writes."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.storage import EVERY_SPLIT, StoredCollection, write_stored
from prsrank.files import write_json
from prsrank.fit.log import HALF
from prsrank.fit.manifest import MANIFEST
from prsrank.fit.plan import METRIC
from prsrank.fit.tuning import Tuned
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_files import write_events
from prsrank.logs.features import known_lists
from prsrank.report.audit_section import section
from prsrank.report.explorer import PageTexts, explorer_html, write_explorer
from prsrank.report.explorer_data import explore_log
from prsrank.report.fit_report import fit_report
from prsrank.report.html import write_report
from prsrank.report.parts import about_rows

if TYPE_CHECKING:
    from prsrank.fit.steps import FitResult

EXPLORER = "explore.html"
MOST_DOCS = 200_000
"""Of a held-out part with more docs, some queries, by a hash of their ids, are looked at."""

_QUERIES = 300
_NOTE = "No ranker on this page learned from these clicks: the queries are held out."


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
    _write_held_out(draft / "held_out", result)


def _write_held_out(folder: Path, result: "FitResult") -> None:
    """Write the sessions as events, and their lists, if this process can hold them."""
    held = result.parts.held_out.sessions.in_memory()
    if held is None:
        return
    log, lists = held
    folder.mkdir()
    contexts = {name: context for name, context in log.contexts.items() if name != HALF}
    write_events(replace(log, contexts=contexts), folder / "log.parquet")
    splits = np.full((1, lists.lists), EVERY_SPLIT, np.int8)
    write_stored(StoredCollection("held out", lists, splits), folder / "lists")


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


def write_pages(draft: Path, result: "FitResult", started: float) -> None:
    """Write the report, and the page to look at held-out queries where the log is at hand."""
    held = result.parts.held_out.sessions.in_memory()
    if held is not None:
        write_explorer(_explorer_page(result, *held), draft / EXPLORER)
    command = f"prsrank fit --from {result.folder / MANIFEST} --out DIR"
    about = about_rows(seed=result.plan.seed, started=started, command=command)
    share = result.parts.learning.share
    if share < 1:
        about.insert(
            0, ["trees learned from", f"{share:.1%} of the queries, by a hash of their ids"]
        )
    explorer = None if held is None else EXPLORER
    page = fit_report(result, log=section(result.audit), about=about, explorer=explorer)
    write_report(page, draft / "report.html")


def _explorer_page(result: "FitResult", log: ClickLog, lists: RankingDataset) -> str:
    """Return the page of the judged rankers, the chosen one first."""
    curve, seed = result.propensities.curve, result.plan.seed
    share = MOST_DOCS / max(lists.docs, 1)
    if share < 1:  # so that looking at them takes seconds
        log, _ = log.split_by_query(share, seed=seed)
        lists = known_lists(log, lists)
    names = sorted(result.tuned, key=lambda name: name != result.choice.name)
    rankers = {name: result.tuned[name].ranker for name in names}
    like = result.parts.train.posterior
    explored = explore_log(log, lists, curve, rankers, queries=_QUERIES, seed=seed, like=like)
    chosen = {result.choice.name: f"{result.choice.name} (chosen)"}
    source = f"{result.plan.log}, held-out part"
    texts = PageTexts(source=source, curve=result.propensities.how, note=_NOTE, titles=chosen)
    return explorer_html(explored, lists, rankers, texts)
