"""The report of a fit: the log, the propensities, the training and the estimated gain."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prsrank.evaluation.log_evaluation import DEFAULT_METRICS, DEFAULT_TAU
from prsrank.evaluation.results import ALL, LOGGED, Difference
from prsrank.report.evaluation_section import ESTIMATORS, gain_figure
from prsrank.report.evaluation_section import report_section as evaluation_section
from prsrank.report.numbers import fixed_text, range_text
from prsrank.report.parts import Part, card, importance_figures, page, section, table, weight_tables
from prsrank.report.propensity_figure import curve_table, propensity_figure
from prsrank.report.training_report import setting_rows

if TYPE_CHECKING:
    from prsrank.fit.steps import FitResult

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
