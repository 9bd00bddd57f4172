"""The whole path from a log to a ranker and an estimate of its gain, where the log lies.

The steps are those of the local fit, on an engine: only aggregates and models come here.
There is no audit; queries are split by a hash of their ids, not by a draw.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsrank.errors import InputError
from prsrank.evaluation.results import LOGGED
from prsrank.files import FileName, atomic_output, write_json
from prsrank.fit.log_parts import VALIDATION_SHARE
from prsrank.fit.manifest import versions
from prsrank.fit.on_engine_propensities import find_propensities
from prsrank.fit.outputs import BEST, chosen_settings
from prsrank.fit.plan import RANDOMISED, Plan
from prsrank.fit.propensities import FitCurves
from prsrank.fit.steps import RANDOM
from prsrank.fit.tuning import VALIDATION_TAU, WEIGHTINGS, Tell, Trial, Tuned, candidates
from prsrank.logs.log_split import EventParts, LogSplit
from prsrank.logs.mapping import LogMapping
from prsrank.rankers.base import Ranker, ranker_class

if TYPE_CHECKING:
    from prsrank.evaluation.log_evaluation import LogEvaluation
    from prsrank.spark.engine_protocol import Engine

SUMMARY = "fit.json"


@dataclass(frozen=True, eq=False)
class EngineParts:
    """Counts of the parts of a log that an engine keeps.

    Attributes:
        way: "query" or "randomised".
        dropped_sessions: sessions of queries that would be in two parts; in none.
    """

    way: str
    dropped_sessions: int
    _counts: Mapping[str, Mapping[str, int]]

    def counts(self) -> dict[str, dict[str, int]]:
        """Return sessions, queries and clicks of each part."""
        return {name: dict(count) for name, count in self._counts.items()}


@dataclass(frozen=True, eq=False)
class EngineFit:
    """What a fit on an engine found.

    Attributes:
        folder: where it was written: `model`, `others`, `propensity.json`, `evaluation.json`,
            `report.html` and `fit.json`.
        engine: name of the engine.
        ranks: how many tasks trained together; trees may depend on it.
        plan: the settings given.
        counts: of the log.
        parts: of the log.
        propensities: those used.
        tuned: the best ranker of each weighting; "prs" is the model.
        evaluation: all of them on the held-out part.
        left_out: sessions that show docs without features: none, as the log has them.
    """

    folder: Path
    engine: str
    ranks: int
    plan: Plan
    counts: Mapping[str, int]
    parts: EngineParts
    propensities: FitCurves
    tuned: Mapping[str, Tuned]
    evaluation: "LogEvaluation"
    left_out: int = 0

    @property
    def baseline(self) -> str:
        """What a gain is measured from: "logged", or "random" where docs were shuffled."""
        return RANDOM if self.plan.holdout == RANDOMISED else LOGGED

    def summary(self) -> dict[str, Any]:
        """Return settings given and chosen, trials and versions: what `fit.json` holds."""
        found = {"pyspark": version("pyspark")} if self.engine == "spark" else {}
        settings = self.plan.to_json_dict()
        if "://" in self.plan.log:  # a place of the cluster's, which needs no folder to start at
            settings["log"] = self.plan.log
        return {
            "engine": self.engine,
            "ranks": self.ranks,
            "settings": settings,
            "counts": dict(self.counts),
            "chosen": chosen_settings(self.propensities, self.tuned, self.parts),
            "trials": {
                name: [vars(trial) for trial in one.trials] for name, one in self.tuned.items()
            },
            "versions": versions() | found,
        }


def engine_plan(
    log: FileName,
    *,
    out: FileName,
    mapping: LogMapping,
    propensity: str = "auto",
    holdout: str = "query:0.2",
    ranker: str = "lambdamart",
    trials: int = 12,
    trees: int = 300,
    seed: int = 0,
) -> Plan:
    """Return the settings of a fit on an engine, checked before any engine starts.

    Args:
        log: as the engine opens it; its columns hold the features that the mapping names.
        out: the folder that will be written.
        mapping: which column means what.
        propensity: "auto": those in the log, else the first method that the log identifies;
            the name of a method; "log"; "power:ETA" or a file.
        holdout: "query:SHARE" or "randomised".
        ranker: "lambdamart" or "linear".
        trials: settings to try for each weighting, at most.
        trees: the most trees of lambdamart.
        seed: of every draw; the split takes none.

    Raises:
        InputError: if the settings, or the folder, cannot be used.
    """
    folder = Path(out)
    if not mapping.features:
        raise InputError("on Spark the features are columns of the log: name them in the mapping")
    plan = Plan(
        str(log),
        mapping=mapping,
        propensity=propensity,
        holdout=holdout,
        ranker=ranker,
        trials=trials,
        trees=trees,
        seed=seed,
    )
    if plan.hold_out_by[0] == "time":
        raise InputError("--holdout time:SHARE is for the local engine: hold out by query")
    if folder.exists() and not (folder / SUMMARY).is_file():
        raise InputError(f"{folder}: is there, and is no fit on an engine")
    return plan


def fit_on_engine(
    engine: "Engine", plan: Plan, *, out: FileName, tell: Tell = lambda _: None
) -> EngineFit:
    """Split, estimate propensities, tune prs, ips and naive rankers, estimate their gain.

    Args:
        engine: where.
        plan: as `engine_plan` gives it.
        out: the folder to write, whole or not at all.
        tell: is told what is going on.
    """
    started = time.perf_counter()
    folder = Path(out)
    way, share = plan.hold_out_by
    with engine.open_log(plan.log, mapping=plan.mapping) as events:
        tell("splitting")
        how = LogSplit(None if way == RANDOMISED else share, VALIDATION_SHARE)
        parts = engine.split(events, how)
        tell("counting")
        counts = dict(engine.counts(events))
        tell("estimating propensities")
        propensities = find_propensities(engine, events, parts, plan, counts["positions"])
        tuned = {name: _tune(engine, name, parts, propensities, plan, tell) for name in WEIGHTINGS}
        tell("evaluating")
        evaluation = _evaluated(engine, parts, propensities, tuned, plan)
    kept = EngineParts(way, parts.dropped_sessions, parts.counts)
    result = EngineFit(
        folder, engine.name, engine.ranks, plan, counts, kept, propensities, tuned, evaluation
    )
    with atomic_output(folder, folder=True) as draft:
        tell("writing")
        _write(result, draft, started)
    return result


def _tune(
    engine: "Engine",
    weighting: str,
    parts: EventParts,
    propensities: FitCurves,
    plan: Plan,
    tell: Tell,
) -> Tuned:
    """Train every candidate, those of the same pairs at once; keep the best on validation."""
    fixed = {"trees": plan.trees, "seed": plan.seed} if plan.ranker == "lambdamart" else {}
    tried = candidates(plan.ranker, weighting, plan.trials)
    found: dict[int, tuple[Trial, Ranker]] = {}
    clips = list(dict.fromkeys(parameters.get("tau") for _, parameters in tried))
    for clip in clips:
        numbers = [n for n, (_, parameters) in enumerate(tried) if parameters.get("tau") == clip]
        tell(f"training {weighting}, {len(found) + len(numbers)} of {len(tried)}")
        models = [ranker_class(plan.ranker)().set_params(**tried[n][0], **fixed) for n in numbers]
        values = engine.train_on_log(
            models,
            parts.train,
            propensities.curve,
            weighting,
            parameters=tried[numbers[0]][1],
            validation=parts.validation,
            tau=VALIDATION_TAU,
        )
        for n, model, value in zip(numbers, models, values, strict=True):
            booster = getattr(model, "booster_", None)
            grown = None if booster is None else booster.num_trees()
            found[n] = Trial(*tried[n], value or 0.0, grown), model
    every = [found[n] for n in range(len(tried))]
    chosen, best = max(every, key=lambda one: one[0].value)
    return Tuned(weighting, best, tuple(trial for trial, _ in every), chosen)


def _evaluated(
    engine: "Engine",
    parts: EventParts,
    propensities: FitCurves,
    tuned: Mapping[str, Tuned],
    plan: Plan,
) -> "LogEvaluation":
    rankers: dict[str, Ranker | None] = {name: one.ranker for name, one in tuned.items()}
    if plan.holdout == RANDOMISED:
        rankers[RANDOM] = None
    return engine.evaluate(
        parts.held_out,
        propensities.judging,
        rankers,
        against=[LOGGED, *(name for name in rankers if name != BEST)],
        context=propensities.context,
        seed=plan.seed,
    )


def _write(result: EngineFit, draft: Path, started: float) -> None:
    from prsrank.fit.on_engine_report import write_engine_report

    curve = result.propensities.curve
    for name, one in result.tuned.items():
        place = draft / "model" if name == BEST else draft / "others" / name
        about = {
            "log": result.plan.log,
            "engine": result.engine,
            "weighting": name,
            "weighting_parameters": dict(one.chosen.weighting_parameters),
            "propensity": "those in the log" if curve is None else curve.to_json_dict(),
            "holdout": result.plan.holdout,
            "seed": result.plan.seed,
        }
        one.ranker.save(place, about=about)
    if curve is not None:
        curve.save(draft / "propensity.json")
    write_json(draft / "evaluation.json", result.evaluation.to_json_dict())
    write_json(draft / SUMMARY, result.summary())
    write_engine_report(result, draft / "report.html", started)
