"""The reports of `prsrank fit`, from the log to the estimated gain, and of `prsrank train`."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prsrank.evaluation.log_evaluation import DEFAULT_METRICS, DEFAULT_TAU
from prsrank.evaluation.results import ALL, LOGGED, Difference
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.curve_of import KnownPropensity
from prsrank.report.evaluation_section import ESTIMATORS, gain_figure
from prsrank.report.evaluation_section import report_section as evaluation_section
from prsrank.report.numbers import fixed_text, range_text
from prsrank.report.parts import (
    Part,
    card,
    figure,
    importance_figures,
    page,
    section,
    series,
    table,
    weight_tables,
)
from prsrank.report.propensity_figure import curve_table, propensity_figure

if TYPE_CHECKING:
    from prsrank.fit.steps import FitResult
    from prsrank.pairs.weighted_pairs import PairDiagnostics
    from prsrank.propensity.curve import Propensities
    from prsrank.rankers.base import Ranker

METRIC = DEFAULT_METRICS[0]
BASELINES = {LOGGED: "the logged ranking", "random": "random order"}

_POSITIONS = 40
_TONES = {"test-online": "good", "no-difference": "open", "too-thin": "bad"}
RANDOM_ORDER = (
    "The held-out sessions are the randomised ones: 'logged' is a random order there, not the "
    "production ranker's. 'random' is the expectation over all orders of the same docs. A gain "
    "over it is a gain over chance, and says nothing of the production ranker. The two are the "
    "same up to chance if the propensities are right: a difference between them is a sign of "
    "wrong propensities."
)


def conclusions(result: "FitResult") -> list[str]:
    """Return the verdict, and what the evaluation says of the model, in plain sentences."""
    evaluation, verdict = result.evaluation.evaluation, result.verdict
    title = _title(result.choice.name)
    gain = _sentence(title, verdict.gain, BASELINES[result.baseline])
    lines = [f"{verdict.title}: {verdict.reason}.", gain, f"{title}: {result.choice.why}."]
    fitted = result.parts.train.posterior
    if fitted is None or fitted.choice is None:
        lines.append("Click model: position-based, taken for granted, as no posterior was tried.")
    else:
        lines.append(f"{fitted.choice.sentence[:1].upper()}{fitted.choice.sentence[1:]}.")
    if result.baseline != LOGGED:
        check = evaluation.difference(
            result.baseline, METRIC, against=LOGGED, estimator=evaluation.narrowest
        )
        lines.append(_sentence("A check: random order", check, "the shuffled order that was shown"))
    if result.evaluation.warnings:
        lines.append(f"Warnings about the estimate: {len(result.evaluation.warnings)}.")
    return [*lines, f"Next: {verdict.next_command}"]


def _title(weighting: str) -> str:
    """Return a weighting's name as a sentence begins with it: abbreviations in capitals."""
    return weighting.upper() if len(weighting) <= 3 else weighting.capitalize()


def _sentence(subject: str, gain: Difference, name: str) -> str:
    relative = f" ({gain.relative:+.1%})" if math.isfinite(gain.relative) else ""
    if not math.isfinite(gain.low) or not math.isfinite(gain.high):
        shown = "too few queries for an interval"
    elif gain.low > 0:
        shown = "the 95 % interval lies above 0"
    elif gain.high < 0:
        shown = "the 95 % interval lies below 0"
    else:
        shown = "the 95 % interval holds 0: no difference shown"
    return (
        f"{subject} against {name}: {METRIC} ({ESTIMATORS[gain.estimator]}) "
        f"{fixed_text(gain.difference, '+.4f')}{relative}, "
        f"{range_text(gain.low, gain.high, '+.4f')}; {shown}."
    )


def fit_report(
    result: "FitResult",
    *,
    log: Part,
    about: Sequence[Sequence[Any]],
    explorer: str | None = None,
) -> Part:
    """Return the report of a fit.

    Args:
        result: of the fit; it need not be on disk yet.
        log: the section about the log.
        about: rows of name and value: command, seed, wall time, versions.
        explorer: the file beside the report that shows queries, if there is one.
    """
    verdict, plan = result.verdict, result.plan
    _, *lines, _ = conclusions(result)
    evaluation = result.evaluation.evaluation
    return page(
        f"Fit: {_title(result.choice.name)}, {plan.ranker}",
        plan.log,
        [
            {**log, "folded": True},
            _propensities(result),
            _training(result),
            _evaluation(result),
            _parts(result),
        ],
        card=card(
            _TONES[verdict.verdict],
            "",
            verdict.title,
            [f"{verdict.reason[:1].upper()}{verdict.reason[1:]}.", *lines],
            command=verdict.next_command,
            links=[] if explorer is None else [("Look at the queries", explorer)],
        ),
        figures=[gain_figure(evaluation, result.choice.name, result.baseline, METRIC)],
        about=[*setting_rows(plan.to_json_dict().items()), *(list(row) for row in about)],
    )


def _parts(result: "FitResult") -> Part:
    rows = [[name, *count.values()] for name, count in result.parts.counts().items()]
    columns, caption = ["part", "sessions", "queries", "clicks"], "No query is in two of them."
    text = [
        f"Rankers learn from the training part, their settings are chosen by {METRIC} estimated "
        f"from the clicks of the validation part (propensities raised to at least "
        f"{DEFAULT_TAU}), and they are judged by the held-out part ({result.plan.holdout}).",
        "Settings that are changed after a look at the held-out part make its estimate too good.",
        f"The model is {result.choice.name}, trained again on all sessions with the settings chosen; "
        "the rankers that were judged are in the folder 'judged'."
        if result.verdict.ships
        else "No model is written; the rankers that were judged are in the folder 'judged'.",
    ]
    if result.parts.dropped_sessions:
        text.append(
            f"{result.parts.dropped_sessions:,} sessions of queries on both sides are in no part."
        )
    if result.left_out:
        text.append(f"{result.left_out:,} sessions show docs without features: left out.")
    sizes = table("parts", "Parts of the log", columns, rows, caption=caption)
    title = "Training, validation, held out"
    return section("parts", title, text=text, tables=[sizes], folded=True)


def _propensities(result: "FitResult") -> Part:
    used = result.propensities
    text = [f"Propensities: {used.how}."]
    if used.curve is None:
        return section("propensities", "Propensities", text=text)
    curves = {used.curve.method: used.curve}
    if used.judging is not None:
        curves |= {f"for half {name}": c for name, c in used.judging.contexts.items()}
    text.append(f"Verdict on the estimate: {used.curve.verdict}.")
    if used.check:
        text.append(f"{'Warning: ' if used.warning else 'Checked by the clicks: '}{used.check}.")
    figures = [propensity_figure(curves, positions=_POSITIONS)]
    tables = [curve_table(curves, positions=_POSITIONS)]
    title = "Propensities"
    return section("propensities", title, text=text, figures=figures, tables=tables, folded=True)


def _training(result: "FitResult") -> Part:
    tuned = result.tuned
    chosen = table(
        "chosen",
        "Chosen settings",
        ["method", "settings", "trees", f"validation {METRIC}"],
        [
            [name, str(method.chosen.candidate), method.ranker.trees_, method.chosen.value]
            for name, method in tuned.items()
        ],
        caption=f"The best of {len(tuned[result.choice.name].search.trials)} trials each, by the "
        "estimate on the validation part, which is too good by the choice.",
    )
    trials = [
        {
            "title": f"Trials: {name}",
            "rows": [[str(t.candidate), round(t.value, 5)] for t in method.search.trials],
        }
        for name, method in tuned.items()
    ]
    return section(
        "training",
        "Training",
        figures=importance_figures({name: method.ranker for name, method in tuned.items()}),
        tables=[
            chosen,
            *weight_tables({name: method.diagnostics for name, method in tuned.items()}),
        ],
        details=trials,
    )


def _evaluation(result: "FitResult") -> Part:
    shown = evaluation_section(result.evaluation)
    if {estimate.part for estimate in result.evaluation.evaluation.estimates} == {ALL}:
        shown["figures"] = []  # the gain stands at the top
    if result.baseline != LOGGED:
        shown["text"].append(RANDOM_ORDER)
    return shown


_TRAINING_POSITIONS = 20


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
        KnownPropensity(curve.eta).at_depth(_TRAINING_POSITIONS)
        if isinstance(curve, PowerLaw)
        else curve
    )
    shown = shown or model.propensities()
    if shown is not None:
        text = f"Verdict on the estimate: {shown.verdict}."
        drawn = propensity_figure({shown.method: shown}, positions=_TRAINING_POSITIONS)
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
