"""The whole path from a log to a ranker and an estimate of its gain, on any engine."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import Any

from prsrank.audit import audit
from prsrank.audit.findings import Audit
from prsrank.errors import DataWarning, InputError
from prsrank.evaluation.log_evaluation import LogEvaluation
from prsrank.evaluation.results import LOGGED
from prsrank.files import FileName, atomic_output, check_writable, write_json
from prsrank.fit.engine import Engine, LocalEngine
from prsrank.fit.log import LogParts, PiecedLog
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
from prsrank.fit.outputs import chosen_settings, write_pages, write_results
from prsrank.fit.plan import METRIC, FitSettings, Plan
from prsrank.fit.propensities import FitCurves, find_propensities
from prsrank.fit.settings import called_with
from prsrank.fit.tuning import Choice, Tell, Tuned, choose, methods, refit, tune
from prsrank.fit.verdict import Agreement, Evidence, Verdict, decide
from prsrank.logs.click_log import ClickLog
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import is_in_memory, open_events, write_frame
from prsrank.logs.split import RANDOMISED
from prsrank.notebook import Chart, Columns, Shown
from prsrank.propensity.counted_clicks import DOCS_FOR_JUDGING
from prsrank.rankers.base import Ranker
from prsrank.report.fit_report import BASELINES

RANDOM = "random"
"""The ranker that puts docs in random order, where it is judged too."""


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Shown):
    """What a fit found.

    Attributes:
        folder: where it was written.
        plan: the settings given.
        audit: of the log.
        parts: the sessions trained on, tuned on and held out.
        left_out: sessions that show docs without features; in no part.
        propensities: those used.
        tuned: the best ranker of each method.
        choice: which of them is shipped, and why.
        model: the one that is shipped: trained again on all sessions with the settings chosen.
        evaluation: all of them on the held-out part, against the logged ranking; where that is
            in random order, also against "random", the expectation over all orders.
        verdict: what to do with the model.
        manifest: inputs, versions, settings given and chosen.
        differs: outputs that are not those of the fit that was repeated; empty if none.
    """

    folder: Path
    plan: Plan
    audit: Audit
    parts: LogParts
    left_out: int
    propensities: FitCurves
    tuned: Mapping[str, Tuned]
    choice: Choice
    model: Ranker
    evaluation: LogEvaluation
    verdict: Verdict
    manifest: Mapping[str, Any]
    differs: tuple[str, ...] = ()

    @property
    def baseline(self) -> str:
        """What a gain is measured from: "logged", or "random" where docs were shuffled."""
        return _baseline(self.plan)

    def _line(self) -> str:
        return f"{self.verdict.title}: {self.choice.name}, {self.verdict.reason}; in {self.folder}"

    def _table(self) -> Columns:
        """Return the gain of each method over the baseline on the held-out part."""
        evaluated = self.evaluation.evaluation
        kind = evaluated.narrowest
        gains = [
            evaluated.difference(name, METRIC, against=self.baseline, estimator=kind)
            for name in self.tuned
        ]
        return {
            "method": list(self.tuned),
            "chosen": [name == self.choice.name for name in self.tuned],
            METRIC: [evaluated.estimate(name, METRIC, estimator=kind).value for name in self.tuned],
            "gain": [gain.difference for gain in gains],
            "low": [gain.low for gain in gains],
            "high": [gain.high for gain in gains],
        }

    def _chart(self) -> Chart:
        title = f"gain in {METRIC} over {self.baseline}"
        return Chart("intervals", self._table(), "method", "gain", "low", "high", title=title)


@dataclass(frozen=True)
class _FitCall(FitSettings):
    """What `fit_log` is called with."""

    log: Any
    _: KW_ONLY
    out: FileName
    data: str | None = None
    features: Any = None
    mapping: LogMapping | None = None
    engine: Engine | None = None
    tell: Tell | None = None


@called_with(_FitCall)
def fit_log(call: _FitCall) -> FitResult:
    """Audit a log, train the best ranker it can give, and say what to do with it.

    Several methods are tuned with as many trials each, one is chosen by clicks that none learned
    from (`prsrank.fit.tuning`), its gain is estimated on held-out clicks, and it is trained again
    on all sessions. Everything is written to one folder, which appears whole or not at all:
    `model` (but for a log that is too thin; see `prsrank.fit.verdict`), `judged` (the rankers of
    all methods, as they were judged), `propensity.json`, `evaluation.json`, `held_out` (log and
    lists), `report.html`, `explore.html` (to look at held-out queries) and `manifest.json`, from
    which `repeat_fit` repeats the fit.

    Args:
        log: as `prsrank.logs.reading.open_events` takes it. A frame, of this or of features, is
            kept as a file in the folder `OUT-inputs`, from which the fit can be repeated.
        out: the folder to write. One that holds an earlier fit is replaced.
        data: data set with the features of the docs; or
        features: table of features keyed by query and doc, files or a frame; or columns that the
            mapping names.
        mapping: which column of the log means what.
        {settings}
        engine: where it runs, such as `prsrank.spark.SparkEngine`; default: this process.
        tell: is told what is going on.

    Raises:
        InputError: if the audit finds errors, or an input cannot be used. Nothing is written.
    """
    kept = {
        Path(f"{Path(call.out)}-inputs", f"{name}.parquet"): getattr(call, name)
        for name in ("log", "features")
    }
    log, table = (
        None if source is None else str(path if is_in_memory(source) else source)
        for path, source in kept.items()
    )
    settings = {field.name: getattr(call, field.name) for field in fields(FitSettings)}
    mapping = call.mapping or LogMapping()
    plan = Plan(str(log), data=call.data, features=table, mapping=mapping, **settings)
    if is_in_memory(call.log) and not isinstance(call.log, ClickLog):
        with open_events(call.log, mapping=mapping):
            pass  # names a column that is missing, before anything is written
    for path, frame in kept.items():
        if is_in_memory(frame):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_frame(frame, path)
    return _run(plan, call.out, call.engine, call.tell)


def repeat_fit(
    manifest: FileName,
    *,
    out: FileName,
    moved: Mapping[str, str] | None = None,
    engine: Engine | None = None,
    tell: Tell | None = None,
) -> FitResult:
    """Repeat a fit from its manifest; with the same versions the result is the same bit for bit.

    A DataWarning names versions and outputs that differ.

    Args:
        manifest: the file, or the folder that the fit wrote.
        out: the folder to write.
        moved: where inputs ("log", "data", "features", "propensity") are now, if elsewhere.
        engine: where it runs; default: this process.
        tell: is told what is going on.

    Raises:
        InputError: if an input has changed.
    """
    recorded = read_manifest(manifest)
    before = Plan.from_json_dict(recorded["settings"], manifest)
    plan = replace(before, **(moved or {}))  # type: ignore[arg-type]
    for role, path in (moved or {}).items():
        if role not in before.inputs() or role not in plan.inputs():
            raise InputError(f"{path}: the fit of {manifest} read no such {role}")
    differences = version_differences(recorded["versions"])
    if differences:
        warn(f"versions differ from those of the fit: {'; '.join(differences)}")
    return _run(plan, out, engine, tell, recorded)


def _run(
    plan: Plan,
    out: FileName,
    engine: Engine | None,
    tell: Tell | None,
    recorded: Mapping[str, Any] | None = None,
) -> FitResult:
    started = time.perf_counter()
    tell = tell or (lambda _: None)
    folder = Path(out)
    _check_free(folder)
    with engine or LocalEngine() as runner:
        runner.check(plan)
        tell("hashing the inputs")
        inputs = hashed_inputs(plan)
        if recorded is not None:
            check_inputs(recorded["inputs"], inputs, plan)
        with runner.open_log(plan.log, mapping=plan.mapping, memory=plan.memory) as source:
            result = _fitted(runner, source, plan, folder, tell)
            with atomic_output(folder, folder=True) as draft:
                tell("writing")
                write_results(draft, result)
                chosen = chosen_settings(result)
                where = {
                    "name": runner.name,
                    "share of the queries learned from": result.parts.learning.share,
                }
                manifest = make_manifest(plan, inputs, chosen, where, draft)
                differs = () if recorded is None else tuple(output_differences(recorded, manifest))
                result = replace(result, manifest=manifest, differs=differs)
                write_pages(draft, result, started)
                write_json(draft / MANIFEST, manifest)
    if differs:
        warn(f"not the same as the fit that was repeated: {', '.join(differs)}")
    return result


def _fitted(runner: Engine, source: Any, plan: Plan, folder: Path, tell: Tell) -> FitResult:
    """Return all that a fit finds, before anything is written."""
    audited = _audited(source, plan, tell)
    tell(f"reading {plan.log}")
    log = _loaded(runner, source, plan)
    parts = log.split(plan.split)
    tell("estimating propensities")
    propensities = find_propensities(plan, audited, log, parts)
    curve = propensities.curve
    tuned = {
        method.name: tune(method, parts, curve, plan, tell)
        for method in methods(plan, audited, parts.train, tell)
    }
    tell("choosing")
    choice = choose(parts, curve, tuned, plan)
    tell("evaluating")
    evaluation = _evaluated(plan, parts, propensities, tuned, choice.name)
    tell(f"training {choice.name} on all sessions")
    model = refit(tuned[choice.name], log, curve, parts.train.posterior)
    judged = tuned[choice.name].ranker
    verdict = decide(
        _evidence(plan, parts, propensities, judged, evaluation, choice.name),
        run=str(folder),
        forced=plan.force,
    )
    return FitResult(
        folder=folder, plan=plan, audit=audited, parts=parts,
        left_out=log.left_out, propensities=propensities, tuned=tuned, choice=choice, model=model,
        evaluation=evaluation, verdict=verdict, manifest={},
    )  # fmt: skip


def _baseline(plan: Plan) -> str:
    return RANDOM if plan.holdout == RANDOMISED else LOGGED


def _evidence(
    plan: Plan,
    parts: LogParts,
    propensities: FitCurves,
    judged: Ranker,
    evaluation: LogEvaluation,
    name: str,
) -> Evidence:
    """Return what the verdict rests on."""
    base, evaluated = _baseline(plan), evaluation.evaluation
    return Evidence(
        learned=parts.train.extent().clicks,
        judged=parts.held_out.extent().clicks,
        gain=evaluated.difference(name, METRIC, against=base, estimator=evaluated.narrowest),
        baseline=BASELINES[base],
        trees=judged.trees_,
        agreement=Agreement.of(judged, parts.validation.counted(DOCS_FOR_JUDGING)),
        curve=propensities.curve,
    )


def _audited(source: Any, plan: Plan, tell: Tell) -> Audit:
    """Return the audit of a log; an InputError that names the worst of its errors."""
    tell(f"auditing {plan.log}")
    audited = audit(source, table=plan.table, mapping=plan.mapping)
    if audited.errors:
        worst = audited.errors[0]
        where = f", such as {worst.where}" if worst.where else ""
        more = f" ({len(audited.errors)} errors in all)" if len(audited.errors) > 1 else ""
        raise InputError(
            f"{plan.log}: not usable: {worst.code}: {worst.what}{where}{more}; "
            "'prsrank audit' says what to do"
        )
    return audited


def _loaded(engine: Engine, source: Any, plan: Plan) -> PiecedLog:
    log = engine.load(source, mapping=plan.mapping, data=plan.collection(), table=plan.table)
    if log.left_out:
        warn(
            f"{log.left_out} sessions show docs that {plan.data or plan.table} does not have: they "
            "are left out"
        )
    return log


def _check_free(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not is_fit(folder):
        raise InputError(f"{folder}: is a folder with other things in it")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: exists and is not a folder")
    check_writable(folder)


def _evaluated(
    plan: Plan, parts: LogParts, propensities: FitCurves, tuned: Mapping[str, Tuned], model: str
) -> LogEvaluation:
    rankers: dict[str, Ranker | None] = {name: method.ranker for name, method in tuned.items()}
    if plan.holdout == RANDOMISED:
        rankers[RANDOM] = None
    return parts.held_out.evaluate(
        propensities.judging,
        rankers,
        against=[LOGGED, *(name for name in rankers if name != model)],
        context=propensities.context,
        seed=plan.seed,
    )


def warn(message: str) -> None:
    """Warn of a reservation about the input."""
    warnings.warn(DataWarning(message), stacklevel=3)
