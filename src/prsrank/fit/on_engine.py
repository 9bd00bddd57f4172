"""A fit on an engine that keeps the log to itself: propensities and rankers, and no more.

The local fit audits, tunes and estimates the gain on sessions that it holds. Where the log stays
on the executors, the propensities come from its counts, each ranker is trained there with one
setting, and the share of the queries that it stops early on gives a value, which is the best of
all trees and so a little too good. To estimate the gain, evaluate the model on a later log that
one machine can hold.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsrank.errors import InputError
from prsrank.files import FileName, atomic_output, write_json
from prsrank.fit.propensities import covering, given_curve
from prsrank.fit.tuning import WEIGHTINGS, Tell
from prsrank.ingest.mapping import LogMapping
from prsrank.rankers.base import library_versions, ranker_class

if TYPE_CHECKING:
    from prsrank.engines.engine import Engine
    from prsrank.propensity.curve import Propensities

METHODS = ("randomised", "swap", "harvest", "regression-em")
"""What is tried in turn where no propensities are given."""

SUMMARY = "fit.json"
RANKERS = ("lambdamart", "linear")


@dataclass(frozen=True, eq=False)
class EngineFit:
    """What a fit on an engine found.

    Attributes:
        folder: where it was written: `model`, `others`, `propensity.json`, `report.html` and
            `fit.json`.
        counts: of the log.
        curve: the propensities.
        values: for each weighting, the DCG@10 of held-out clicks that training stopped at; None
            for a ranker that does not stop early.
    """

    folder: Path
    counts: Mapping[str, int]
    curve: "Propensities"
    values: Mapping[str, float | None]


def fit_on_engine(
    engine: "Engine",
    log: FileName,
    *,
    out: FileName,
    mapping: LogMapping,
    propensity: str = "auto",
    ranker: str = "lambdamart",
    trees: int = 300,
    held_out: float = 0.2,
    seed: int = 0,
    tell: Tell = lambda _: None,
) -> EngineFit:
    """Estimate propensities and train prs, ips and naive rankers where the log lies.

    Args:
        engine: where.
        log: as the engine opens it; its columns hold the features that the mapping names.
        out: the folder to write, whole or not at all.
        mapping: which column means what.
        propensity: "auto", the name of a method, "power:ETA" or a file.
        ranker: "lambdamart" or "linear".
        trees: the most trees of lambdamart.
        held_out: share of the queries that lambdamart stops early on.
        seed: of every draw.
        tell: is told what is going on.
    """
    started = time.perf_counter()
    folder = Path(out)
    _check(folder, mapping, ranker)
    with engine.open_log(log, mapping=mapping) as events:
        tell("counting")
        counts = dict(engine.counts(events))
        tell("estimating propensities")
        curve = _curve(engine, events, propensity, counts["positions"], seed)
        models: dict[str, Any] = {}
        for weighting in WEIGHTINGS:
            tell(f"training {weighting}")
            model = ranker_class(ranker)()
            settings = {"trees": trees, "seed": seed} if ranker == "lambdamart" else {}
            model.set_params(**settings)
            models[weighting] = engine.train_on_log(
                model, events, curve, weighting, held_out=held_out if settings else 0.0
            )
    values = {name: getattr(model, "best_value_", None) for name, model in models.items()}
    result = EngineFit(folder, counts, curve, values)
    with atomic_output(folder, folder=True) as draft:
        about = {"log": str(log), "propensity": curve.to_json_dict(), "engine": engine.name}
        for name, model in models.items():
            place = draft / "model" if name == WEIGHTINGS[0] else draft / "others" / name
            place.parent.mkdir(exist_ok=True)
            model.save(place, about=about | {"weighting": name})
        curve.save(draft / "propensity.json")
        _write_report(result, draft, seed, started)
        summary = {"counts": counts, "propensities": curve.method, "held_out_dcg@10": values}
        given = {"ranker": ranker, "trees": trees, "held_out": held_out, "seed": seed}
        write_json(draft / SUMMARY, summary | {"settings": given, "versions": library_versions()})
    return result


def _check(folder: Path, mapping: LogMapping, ranker: str) -> None:
    if ranker not in RANKERS:
        raise InputError(f"fit trains one of {', '.join(RANKERS)}, not '{ranker}'")
    if not mapping.features:
        raise InputError("on Spark the features are columns of the log: name them in the mapping")
    if folder.exists() and not (folder / SUMMARY).is_file():
        raise InputError(f"{folder}: is there, and is no fit on an engine")


def _curve(
    engine: "Engine", events: Any, propensity: str, positions: int, seed: int
) -> "Propensities":
    from prsrank.propensity.estimators import ESTIMATORS, estimator

    if propensity != "auto" and propensity not in ESTIMATORS:
        return given_curve(propensity, positions)
    tried = METHODS if propensity == "auto" else (propensity,)
    for method in tried:
        chosen: Any = estimator(method)
        found = engine.propensities(events, replace(chosen, shape="monotone"), seed=seed)
        if not found.verdict.startswith("not identified"):
            return covering(found, positions)
    raise InputError(
        f"the log identifies no propensities by {', '.join(tried)}: give them with --propensity"
    )


def _write_report(result: EngineFit, draft: Path, seed: int, started: float) -> None:
    from prsrank.propensity.plot import propensity_figure
    from prsrank.report.html import write_report
    from prsrank.report.parts import about_rows, section

    rows = [[name, value] for name, value in result.values.items()]
    table = {
        "id": "values", "title": "Held-out clicks",
        "caption": "DCG@10 of the clicks that training stopped early on, weighted by 1 / "
        "propensity: the best value of all trees, so a little too good.",
        "columns": ["weighting", "dcg@10"], "rows": rows,
    }  # fmt: skip
    figure = propensity_figure({result.curve.method: result.curve})
    counts = [[name.replace("_", " "), count] for name, count in result.counts.items()]
    sections = [
        section("log", "The log", details=[{"title": "Counts", "rows": counts}]),
        section("propensities", "Propensities", text=[result.curve.verdict], figures=[figure]),
        section("training", "Training", tables=[table]),
    ]
    page = {
        "title": "A fit where the log lies", "subtitle": "", "verdicts": [], "sections": sections,
        "lead": ["Propensities and rankers. The gain is not estimated here."],
        "about": about_rows(seed=seed, started=started, command="prsrank fit --engine spark ..."),
    }  # fmt: skip
    write_report(page, draft / "report.html")
