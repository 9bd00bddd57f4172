"""The curve that a log gives to a plan: given, logged, or estimated as `fit` would."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from prsrank.audit import audit
from prsrank.cli.arguments import working
from prsrank.cli.log_inputs import LogOptions
from prsrank.errors import InputError
from prsrank.fit.propensities import covering, given_curve
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PowerLaw, Propensities, learned_curve, parse_propensity
from prsrank.propensity.estimators import ESTIMATORS, estimator
from prsrank.propensity.identification import Identified
from prsrank.types import Floats

PlanCurve = Annotated[
    str | None,
    typer.Option(
        "--propensity",
        metavar="FILE|power:ETA",
        help="The propensities as far as known. Default: those in the log, else the best estimate "
        "that it allows.",
    ),
]


@dataclass(frozen=True, eq=False)
class LogCurve:
    """A curve, and where it comes from in a sentence."""

    curve: Propensities
    how: str


def read_curve(text: str | None) -> PowerLaw | Propensities | None:
    """Return the curve that --propensity names, if it names one."""
    if text is None:
        return None
    _refuse_method(text)
    return parse_propensity(text)


def _refuse_method(text: str) -> None:
    """Raise an InputError for the name of a method where a curve is asked for."""
    if Path(text).exists() or text.startswith("power:"):
        return
    if text in ESTIMATORS:
        raise InputError(
            f"'{text}' is a method, not a curve: 'prsrank propensity --method {text} --out FILE' "
            "writes one"
        )
    close = difflib.get_close_matches(text, ESTIMATORS, n=1)
    if close:
        raise InputError(f"{text}: no such file; did you mean the method '{close[0]}'?")


def curve_of(log: LogOptions, clicks: ClickLog, given: str | None) -> LogCurve:
    """Return the curve for a plan, by the choice of `fit`, from all sessions of the log.

    Args:
        log: how the log was named; the audit of it says which methods it identifies.
        clicks: its sessions.
        given: a file or "power:ETA"; None: the log's own propensities, else an estimate.

    Raises:
        InputError: if the log identifies nothing and nothing is given.
    """
    if given is not None:
        _refuse_method(given)
        return LogCurve(given_curve(given, clicks.max_position), f"given: {given}")
    logged = clicks.ranking_propensities
    if logged is not None:
        return LogCurve(
            _logged(clicks, logged), "the propensities in the log, their mean by position"
        )
    with working(f"auditing {log.path}"), log.opened() as source:
        methods = audit(source).estimators
    with working("estimating propensities"):
        for status in ("identified", "weak"):
            for one in methods:
                found = _estimated(one.method, clicks) if one.status == status else None
                if found is not None:
                    how = f"{one.method}, from {clicks.sessions:,} sessions: {found.verdict}"
                    return LogCurve(found, how)
    raise InputError(f"{log.path}: {_nothing(methods)}")


def _estimated(method: str, clicks: ClickLog) -> Propensities | None:
    """Return a monotone curve of all positions, or None where the sessions give none."""
    chosen: Any = replace(estimator(method), shape="monotone")  # type: ignore[type-var]
    curve: Propensities = chosen.estimate(clicks)
    with np.errstate(invalid="ignore"):
        known = (curve.propensity[1:] > 0).any()
    if not known or curve.verdict.startswith("not identified"):
        return None
    return covering(curve, clicks.max_position)


def _logged(clicks: ClickLog, logged: Floats) -> Propensities:
    """Return the mean of the logged propensities by position, relative to position 1."""
    shown, clicked = clicks.slot_statistics()
    index = clicks.ranking_positions - 1
    sums = np.bincount(index, shown * logged)
    counts = np.bincount(index, shown)
    with np.errstate(invalid="ignore"):
        mean = sums / counts
        curve = learned_curve(mean / mean[0], np.bincount(index, clicked), "logged")
    return covering(replace(curve, verdict="logged"), clicks.max_position, fewest=0)


def _nothing(methods: Sequence[Identified]) -> str:
    reasons = "; ".join(f"{one.method}: {one.reason}" for one in methods[:3])
    return (
        "identifies no propensities: give --propensity FILE or power:ETA (an assumption); "
        f"{reasons}"
    )
