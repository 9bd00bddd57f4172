"""The report of a fit: the log, the propensities, the training and the estimated gain."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prsrank.evaluation.log_evaluation import DEFAULT_METRICS, DEFAULT_TAU
from prsrank.evaluation.results import ALL, LOGGED, Difference
from prsrank.notebook.vega_lite import plain_number
from prsrank.propensity.curve import Propensities
from prsrank.report.evaluation_section import ESTIMATORS, gain_figure
from prsrank.report.evaluation_section import report_section as evaluation_section
from prsrank.report.numbers import fixed_text, range_text
from prsrank.report.parts import (
    Part,
    card,
    feature_importance,
    importance_figure,
    page,
    section,
    table,
    weight_table,
)
from prsrank.report.propensity_figure import propensity_figure

if TYPE_CHECKING:
    from prsrank.fit.steps import FitResult
    from prsrank.fit.tuning import Tuned

METRIC = DEFAULT_METRICS[0]

_POSITIONS = 40
RANDOM_ORDER = (
    "The held-out sessions are the randomised ones: 'logged' is a random order there, not the "
    "production ranker's. 'random' is the expectation over all orders of the same docs. A gain "
    "over it is a gain over chance, and says nothing of the production ranker. The two are the "
    "same up to chance if the propensities are right: a difference between them is a sign of "
    "wrong propensities."
)


def conclusions(result: "FitResult") -> list[str]:
    """Return the verdict, and what the evaluation says of the model, in plain sentences."""
    evaluation, name = result.evaluation.evaluation, result.choice.name
    verdict = result.verdict
    gain = _sentence(_title(name), verdict.gain, BASELINES[result.baseline])
    lines = [f"{verdict.title}: {verdict.reason}.", gain, f"{_title(name)}: {result.choice.why}."]
    if result.baseline != LOGGED:
        check = evaluation.difference(
            result.baseline, METRIC, against=LOGGED, estimator=evaluation.narrowest
        )
        lines.append(_sentence("A check: random order", check, "the shuffled order that was shown"))
    if result.evaluation.warnings:
        lines.append(f"Warnings about the estimate: {len(result.evaluation.warnings)}.")
    return [*lines, f"Next: {verdict.next_command}"]


BASELINES = {LOGGED: "the logged ranking", "random": "random order"}


def _title(weighting: str) -> str:
    """Return a weighting's name as a sentence begins with it: abbreviations in capitals."""
    return weighting.upper() if len(weighting) <= 3 else weighting.capitalize()


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
    plan = result.plan
    settings = {k: v for k, v in plan.to_json_dict().items() if v not in (None, {}, [])}
    rows = [[key, v if isinstance(v, str) else json.dumps(v)] for key, v in settings.items()]
    log = {**log, "folded": True}
    sections = [log, _propensities(result), _training(result), _evaluation(result), _parts(result)]
    return page(
        f"Fit: {_title(result.choice.name)}, {plan.ranker}",
        plan.log,
        sections,
        card=_verdict_card(result, explorer=explorer),
        figures=[
            gain_figure(result.evaluation.evaluation, result.choice.name, result.baseline, METRIC)
        ],
        about=[*rows, *(list(row) for row in about)],
    )


_TONES = {"test-online": "good", "no-difference": "open", "too-thin": "bad"}


def _verdict_card(result: "FitResult", *, explorer: str | None) -> Part:
    """Return the verdict with its reason, what to run next, and where queries can be looked at."""
    verdict = result.verdict
    _, *lines, _ = conclusions(result)
    reason = f"{verdict.reason[:1].upper()}{verdict.reason[1:]}."
    links = [] if explorer is None else [("Look at the queries", explorer)]
    command = verdict.next_command
    return card(
        _TONES[verdict.verdict], "", verdict.title, [reason, *lines],
        command=command, links=links,
    )  # fmt: skip


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


def _parts(result: "FitResult") -> Part:
    counts = result.parts.counts()
    rows = [[name, *count.values()] for name, count in counts.items()]
    columns, caption = ["part", "sessions", "queries", "clicks"], "No query is in two of them."
    sizes = table("parts", "Parts of the log", columns, rows, caption=caption)
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
    return section(
        "parts", "Training, validation, held out", text=text, tables=[sizes], folded=True
    )


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
    return section(
        "propensities", "Propensities", text=text,
        figures=[propensity_figure(curves, positions=_POSITIONS)],
        tables=[_curve_table(used.curve)], folded=True,
    )  # fmt: skip


def _curve_table(curve: Propensities) -> Part:
    values = (curve.propensity.tolist(), curve.low.tolist(), curve.high.tolist())
    rows = [
        [k, *map(plain_number, row), int(clicks)]
        for k, (*row, clicks) in enumerate(zip(*values, curve.clicks, strict=True), 1)
    ]
    columns = ["position", "propensity", "low", "high", "clicks"]
    caption = "Relative to position 1, with the ends of 95 % intervals."
    title = "Propensity of each position"
    return table("curve", title, columns, rows[:_POSITIONS], caption=caption)


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
        caption=f"The best of {len(tuned[result.choice.name].search.trials)} trials each, by the estimate on the "
        "validation part, which is too good by the choice.",
    )
    importances: dict[str, Mapping[str, float]] = {}
    measure = ""
    for name, method in tuned.items():
        importance = feature_importance(method.ranker)
        if importance is not None:
            measure, importances[name] = importance
    title = "Most important features"
    weights = {
        name: method.diagnostics for name, method in tuned.items() if method.diagnostics is not None
    }
    return section(
        "training", "Training",
        figures=[importance_figure(title, measure, importances)] if importances else [],
        tables=[chosen, *([weight_table(weights)] if weights else [])],
        details=[{"title": f"Trials: {name}", "rows": _trial_rows(method)} for name, method in tuned.items()],
    )  # fmt: skip


def _trial_rows(tuned: "Tuned") -> list[list[Any]]:
    return [[str(trial.candidate), round(trial.value, 5)] for trial in tuned.search.trials]


def _evaluation(result: "FitResult") -> Part:
    shown = evaluation_section(result.evaluation)
    if {estimate.part for estimate in result.evaluation.evaluation.estimates} == {ALL}:
        shown["figures"] = []  # the gain stands at the top
    if result.baseline != LOGGED:
        shown["text"].append(RANDOM_ORDER)
    return shown
