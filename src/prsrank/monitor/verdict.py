"""From the moves of a window to a verdict: fine, look or retrain, with reasons."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from prsrank.monitor.checks import (
    CHECKS,
    LOOK,
    RETRAIN,
    SPOILT,
    Move,
    feature_moves,
    is_live,
    order_changed,
)
from prsrank.monitor.summary import Reference, Summary

FINE = "fine"
FALSE_ALARMS = 0.05
"""Probability of any alarm in the first windows, if nothing changes."""

HORIZON = 100
"""So many windows are the first ones: three months of nights, or two years of weeks."""

SHARES = {"fall": 0.5}
"""What a check has of the level of a window; the others have equal shares of the rest."""

_MOST_DRIFTS = 20


@dataclass(frozen=True)
class Reason:
    """Why a window is not fine.

    Attributes:
        check: name of the check.
        verdict: what it calls for: "look" or "retrain".
        what: in a sentence.
        p_value: of all moves of the check together.
        do: what to do.
    """

    check: str
    verdict: str
    what: str
    p_value: float
    do: str


@dataclass(frozen=True)
class Drift:
    """The largest move of a feature.

    Attributes:
        feature: name of it.
        importance: its share in the model.
        shift: by how much a share of impressions moved.
        p_value: of that move.
        what: in a sentence.
    """

    feature: str
    importance: float
    shift: float
    p_value: float
    what: str


@dataclass(frozen=True)
class Window:
    """A window that was looked at.

    Attributes:
        summary: its statistics; those of features are in `drift`.
        verdict: "fine", "look" or "retrain".
        reasons: why, the gravest first.
        notes: what could not be judged, or is worth knowing.
        drift: of the features that the model uses most.
    """

    summary: Summary
    verdict: str
    reasons: list[Reason]
    notes: list[str]
    drift: list[Drift]


def level(number: int) -> float:
    r"""Return the probability of a false alarm that window t = 1, 2, ... may have.

    $\alpha / (t H)$ with $H = \sum_{t \le 100} 1 / t$: the first 100 windows sum up to $\alpha$. Later
    ones have as much as the 100th, so that a change is still found after years.

    >>> [round(sum(level(t) for t in range(first, first + 100)), 4) for first in (1, 101, 201)]
    [0.05, 0.0096, 0.0096]
    """
    total = sum(1 / t for t in range(1, HORIZON + 1))
    return FALSE_ALARMS / (min(number, HORIZON) * total)


def judge(now: Summary, reference: Reference, number: int) -> Window:
    """Compare a window with the reference.

    Args:
        now: the window.
        reference: what the model was trained on.
        number: of the window, from 1.
    """
    moved = {check: list(check.moves(now, reference, check.matters)) for check in CHECKS}
    shares = _shares([check.name for check, moves in moved.items() if moves])
    alarms = {
        check: (alarm, min(1.0, alarm.p_value * len(moves)))
        for check, moves in moved.items()
        if (alarm := _worst(moves, level(number) * shares.get(check.name, 0.0))) is not None
    }
    spoilt = any(check.name in SPOILT for check in alarms)
    reasons = [
        Reason(check.name, LOOK, f"{alarm.text} (may come of the above)", p, check.do)
        if spoilt and check.feigned
        else Reason(check.name, check.verdict, alarm.text, p, check.do)
        for check, (alarm, p) in alarms.items()
    ]
    reasons.sort(key=lambda reason: (reason.verdict != RETRAIN, "may come of" in reason.what))
    verdict = reasons[0].verdict if reasons else FINE
    # clicks of robots, or on docs in another order, are not added to those of the next window
    kept = replace(now, depths=None) if spoilt or order_changed(now, reference) else now
    return Window(kept, verdict, reasons, _notes(now), _drifts(now, reference))


def _shares(names: Sequence[str]) -> dict[str, float]:
    """Return what each check that was made has of the level.

    >>> _shares(["clicks", "fall", "gaps"])
    {'clicks': 0.25, 'fall': 0.5, 'gaps': 0.25}
    """
    own = {name: SHARES[name] for name in names if name in SHARES}
    rest = (1 - sum(own.values())) / max(len(names) - len(own), 1)
    return {name: own.get(name, rest) for name in names}


def _worst(moves: Sequence[Move], allowed: float) -> Move | None:
    """Return the likeliest true move that is large enough, by Bonferroni over all of the check."""
    large = [move for move in moves if move.size >= 1 and move.p_value * len(moves) < allowed]
    return min(large, key=lambda move: (move.p_value, -move.size), default=None)


def _notes(now: Summary) -> list[str]:
    notes = []
    if now.gain is None:
        notes.append(f"{now.clicks} clicks are too few to judge curve and gain by")
    if is_live(now):
        notes.append("the order shown is the model's own: it has no gain over itself")
    if now.gain is not None and now.power is None:
        notes.append("the clicks cannot tell the power of the curve")
    return notes


def _drifts(now: Summary, reference: Reference) -> list[Drift]:
    drifts = []
    for name in list(reference.edges)[:_MOST_DRIFTS]:
        moves = list(feature_moves(now, reference, 1.0, name))
        if moves:
            worst = max(moves, key=lambda move: move.size)
            share = reference.importance[name]
            drifts.append(Drift(name, share, worst.size, worst.p_value, worst.text))
    return drifts
