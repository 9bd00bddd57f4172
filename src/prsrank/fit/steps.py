"""The whole path from a log to a ranker and an estimate of its gain."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.audit.findings import Audit
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.log_evaluation import LogEvaluation
from prsrank.evaluation.results import LOGGED
from prsrank.files import FileName, atomic_output, write_json
from prsrank.fit.log_parts import LogParts, split_log
from prsrank.fit.manifest import (
    MANIFEST,
    check_inputs,
    hashed_inputs,
    is_fit,
    make_manifest,
    output_differences,
    read_manifest,
    version_differences,
)
from prsrank.fit.outputs import BEST, chosen_settings, write_results
from prsrank.fit.plan import RANDOMISED, Plan
from prsrank.fit.propensities import FitPropensities, find_propensities
from prsrank.fit.reading import read_inputs, warn
from prsrank.fit.tuning import METRIC, VALIDATION_TAU, WEIGHTINGS, Tell, Tuned, tune
from prsrank.logs.coverage import known_lists
from prsrank.logs.mapping import LogMapping
from prsrank.types import Floats

RANDOM = "random"
"""The ranker that puts docs in random order, where it is judged too."""


@dataclass(frozen=True, eq=False)
class FitResult:
    """What a fit found.

    Attributes:
        folder: where it was written.
        plan: the settings given.
        audit: of the log.
        parts: the sessions trained on, tuned on and held out.
        left_out: sessions that show docs without features; in no part.
        propensities: those used.
        tuned: the best ranker of each weighting; "prs" is the model.
        evaluation: all of them on the held-out part, against the logged ranking; where that is
            in random order, also against "random", the expectation over all orders.
        manifest: inputs, versions, settings given and chosen.
        differs: outputs that are not those of the fit that was repeated; empty if none.
    """

    folder: Path
    plan: Plan
    audit: Audit
    parts: LogParts
    left_out: int
    propensities: FitPropensities
    tuned: Mapping[str, Tuned]
    evaluation: LogEvaluation
    manifest: Mapping[str, Any]
    differs: tuple[str, ...] = ()

    @property
    def baseline(self) -> str:
        """What a gain is measured from: "logged", or "random" where docs were shuffled."""
        return RANDOM if self.plan.holdout == RANDOMISED else LOGGED


def fit_log(
    log: FileName,
    *,
    out: FileName,
    data: str | None = None,
    features: FileName | None = None,
    mapping: LogMapping | None = None,
    lists: str = "query",
    memory: str | None = None,
    propensity: str = "auto",
    holdout: str = "query:0.2",
    ranker: str = "lambdamart",
    trials: int = 12,
    trees: int = 300,
    seed: int = 0,
    tell: Tell | None = None,
) -> FitResult:
    """Audit a log, train a ranker on it by PRS, and estimate its gain on held-out clicks.

    Naive and ips rankers with as many trials stand beside it. Everything is written to one
    folder, which appears whole or not at all: `model`, `others` (ips and naive),
    `propensity.json`, `evaluation.json`, `held_out` (log and lists), `report.html` and
    `manifest.json`, from which `repeat_fit` repeats the fit.

    Args:
        log: as `prsrank.logs.sources.open_events` takes it.
        out: the folder to write. One that holds an earlier fit is replaced.
        data: data set with the features of the docs; or
        features: table of features keyed by query and doc; or columns that the mapping names.
        mapping: which column of the log means what.
        lists: "query" or "session"; see `prsrank.logs.reading.read_log`.
        memory: how much to hold while reading, such as "4GB".
        propensity: "auto": those in the log, else the best method that the log identifies;
            the name of a method; "log"; "power:ETA" or a file that `prsrank propensity` wrote.
        holdout: "query:SHARE", "time:SHARE" or "randomised".
        ranker: "lambdamart" or "linear".
        trials: settings to try for each weighting, at most.
        trees: the most trees of lambdamart.
        seed: of every draw.
        tell: is told what is going on.

    Raises:
        InputError: if the audit finds errors, or an input cannot be used. Nothing is written.
    """
    plan = Plan(
        str(log),
        data=data,
        features=None if features is None else str(features),
        lists=lists,
        mapping=mapping or LogMapping(),
        memory=memory,
        propensity=propensity,
        holdout=holdout,
        ranker=ranker,
        trials=trials,
        trees=trees,
        seed=seed,
    )
    return _run(plan, out, tell or _silent)


def repeat_fit(
    manifest: FileName,
    *,
    out: FileName,
    moved: Mapping[str, str] | None = None,
    tell: Tell | None = None,
) -> FitResult:
    """Repeat a fit from its manifest; with the same versions the result is the same bit for bit.

    A DataWarning names versions and outputs that differ.

    Args:
        manifest: the file, or the folder that the fit wrote.
        out: the folder to write.
        moved: where inputs ("log", "data", "features", "propensity") are now, if elsewhere.
        tell: is told what is going on.

    Raises:
        InputError: if an input has changed.
    """
    recorded = read_manifest(manifest)
    before = Plan.from_json_dict(recorded["settings"], manifest)
    plan = before.at(moved or {})
    for role, place in (moved or {}).items():
        if role not in before.inputs() or role not in plan.inputs():
            raise InputError(f"{place}: the fit of {manifest} read no such {role}")
    differences = version_differences(recorded["versions"])
    if differences:
        warn(f"versions differ from those of the fit: {'; '.join(differences)}")
    return _run(plan, out, tell or _silent, recorded)


def _run(
    plan: Plan, out: FileName, tell: Tell, recorded: Mapping[str, Any] | None = None
) -> FitResult:
    started = time.perf_counter()
    folder = Path(out)
    _check_free(folder)
    tell("hashing the inputs")
    inputs = hashed_inputs(plan)
    if recorded is not None:
        check_inputs(recorded["inputs"], inputs, plan)
    read = read_inputs(plan, tell)
    lists = read.lists
    parts = split_log(read.log, plan)
    tell("estimating propensities")
    propensities = find_propensities(plan, read.audit, read.log, parts, lists)
    tuned = _tuned(plan, parts, lists, propensities, tell)
    tell("evaluating")
    evaluation = _evaluated(plan, lists, propensities, tuned)
    with atomic_output(folder, folder=True) as draft:
        tell("writing")
        write_results(draft, plan, parts, lists, propensities, tuned, evaluation)
        manifest = make_manifest(plan, inputs, chosen_settings(propensities, tuned, parts), draft)
        differs = () if recorded is None else tuple(output_differences(recorded, manifest))
        result = FitResult(
            folder,
            plan,
            read.audit,
            parts,
            read.left_out,
            propensities,
            tuned,
            evaluation,
            manifest,
            differs,
        )
        _write_report(draft, result, started)
        write_json(draft / MANIFEST, manifest)
    if differs:
        warn(f"not the same as the fit that was repeated: {', '.join(differs)}")
    return result


def _silent(_: str) -> None:
    pass


def _check_free(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not is_fit(folder):
        raise InputError(f"{folder}: is a folder with other things in it")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: exists and is not a folder")


def _tuned(
    plan: Plan,
    parts: LogParts,
    lists: RankingDataset,
    propensities: FitPropensities,
    tell: Tell,
) -> dict[str, Tuned]:
    from prsrank.evaluation.counterfactual import CounterfactualMetric

    judged = known_lists(parts.validation, lists)
    metric = CounterfactualMetric(
        parts.validation, judged, propensities.curve, metric=METRIC, tau=VALIDATION_TAU
    )
    learned = known_lists(parts.train, lists)
    return {
        weighting: tune(
            weighting,
            parts.train,
            learned,
            propensities.curve,
            (judged, metric),
            ranker=plan.ranker,
            trials=plan.trials,
            trees=plan.trees,
            seed=plan.seed,
            tell=tell,
        )
        for weighting in WEIGHTINGS
    }


def _evaluated(
    plan: Plan,
    lists: RankingDataset,
    propensities: FitPropensities,
    tuned: Mapping[str, Tuned],
) -> LogEvaluation:
    from prsrank.evaluation.log_evaluation import evaluate_on_log

    judged = known_lists(propensities.held_out, lists)
    scores: dict[str, Floats] = {
        name: one.ranker.score(judged.features) for name, one in tuned.items()
    }
    if plan.holdout == RANDOMISED:  # equal scores count by the expectation over all orders
        scores[RANDOM] = np.zeros(judged.docs)
    return evaluate_on_log(
        propensities.held_out,
        judged,
        propensities.judging,
        scores,
        against=[LOGGED, *(name for name in scores if name != BEST)],
        context=propensities.context,
        seed=plan.seed,
    )


def _write_report(draft: Path, result: FitResult, started: float) -> None:
    from prsrank.report.audit_section import section
    from prsrank.report.fit_report import fit_report
    from prsrank.report.html import write_report
    from prsrank.report.parts import about_rows

    command = f"prsrank fit --from {result.folder / MANIFEST} --out DIR"
    about = about_rows(seed=result.plan.seed, started=started, command=command)
    page = fit_report(result, log=section(result.audit), about=about)
    write_report(page, draft / "report.html")
