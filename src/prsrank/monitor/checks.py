"""What is compared between a window and the log trained on, and the verdict: fine, look or retrain.

There is one function for each check, and one table of all.

A check yields moves: how far a statistic went, how likely that is by chance, and how large it is
beside what matters. It raises an alarm where a move is both too unlikely and large enough, so
that a huge log does not raise one over trifles.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from prsrank.monitor.ratios import Power, chance, normal_chance, power_between
from prsrank.monitor.summary import Reference, Summary

LOOK, RETRAIN = "look", "retrain"

_Z = 1.96
# another order explains other clicks: so what is sure enough here is less than for an alarm
_LIKELY = 0.01
_ORDER = 0.1
LIVE = 0.98
"""From this correlation with the order shown on, the model itself is what is shown."""


class Move(NamedTuple):
    """How far a statistic has moved.

    Attributes:
        text: what it is, in words, with both values.
        p_value: probability of such a move by chance alone.
        size: of the move, 1 where it begins to matter.
    """

    text: str
    p_value: float
    size: float


Moves = Callable[[Summary, Reference, float], Iterator[Move]]
"""Yields the moves of a window, given the size from which on one matters."""


class Check(NamedTuple):
    """One thing that is compared.

    Attributes:
        name: of the check.
        verdict: "retrain" where a move makes the model's training wrong, else "look".
        feigned: whether lost rows, or clicks of robots, can feign a move.
        matters: the size of a move from which on it may raise an alarm, however sure it is;
            docs/commands/monitor.md says in which unit.
        moves: yields the moves of a window.
        do: what to do.
    """

    name: str
    verdict: str
    feigned: bool
    matters: float
    moves: Moves
    do: str


def _factor(new: float, old: float, least: float) -> float:
    """Return how far a ratio of two values is from 1, on the log scale, in parts of what matters."""
    if new == old:
        return 0.0
    ratio = abs(math.log(new / old)) if new > 0 and old > 0 else math.inf
    return ratio / math.log1p(least)


def _change(new: float, old: float, least: float) -> float:
    return abs(new - old) / least


def _rise(new: float, old: float, least: float) -> float:
    return max(new - old, 0.0) / least


def _share(new: float, old: float, least: float) -> float:
    return abs(new - old) / max(least * old, 0.02)


_WORDS = {
    "clicks per session": "clicks a session",
    "docs per session": "docs shown a session",
    "gaps": "share of sessions that leave out positions",
    "late": "share of sessions that begin below position 1",
    "left out": "share of sessions with docs that have no features",
    "greedy": "share of sessions that click at least half of the docs, and three",
    "randomised": "share of randomised sessions",
    "order": "correlation of the order shown with the model's",
}


def _ratios(size: Callable[[float, float, float], float], *names: str, **kinds: bool) -> Moves:
    """Return what compares ratios of a summary.

    Args:
        size: of a move from old to new, in parts of what matters.
        names: of the ratios.
        kinds: whether they are of counts, or rare, as `chance` takes it.
    """

    def moves(now: Summary, reference: Reference, matters: float) -> Iterator[Move]:
        for name in names:
            new, old = now.ratios.get(name), reference.summary.ratios.get(name)
            if new is not None and old is not None:
                text = f"{_WORDS[name]}: {new.value:.3g}, was {old.value:.3g}"
                change = size(new.value, old.value, matters)
                yield Move(text, chance(new, old, **kinds), change)

    return moves


def _fall(now: Summary, reference: Reference, matters: float) -> Iterator[Move]:
    r"""Compare the mean log position of clicks: how fast clicks fall down the list.

    With propensities $(1/k)^\eta$ and the same order shown, $\eta$ larger by $\delta$ moves the
    mean by about $-\delta$ times the variance of the log position over clicks. A thin window is
    not sure of that by itself: so the last two are compared together, too.
    """
    spread, old = reference.summary.depth_spread, reference.summary.depths
    new = now.depths
    if not spread or not old or not new or not new.keys or order_changed(now, reference):
        return
    pooled = [] if now.before is None else [(new + now.before, ", over the last two windows")]
    for depths, where in [(new, ""), *pooled]:
        steeper = (old.mean - depths.mean) / spread
        text = (
            f"clicks fall with the position as if the curve's exponent were {abs(steeper):.2f} "
            f"{'larger' if steeper > 0 else 'smaller'}, in the same order of docs{where}"
        )
        yield Move(text, depths.chance(old), abs(steeper) / matters)


def _curve(now: Summary, reference: Reference, matters: float) -> Iterator[Move]:
    """Compare the curve that the window identifies with that of the log trained on."""
    before = reference.summary.curve or reference.curve
    power = None if now.curve is None or before is None else power_between(now.curve, before)
    if power is not None and now.curve is not None:
        text = f"the curve by {now.curve.method} is the power {power.value:.2f} of the one before"
        yield _power_move(text, power, Power(1.0, 0.0), matters)


def _likelihood(now: Summary, reference: Reference, matters: float) -> Iterator[Move]:
    """Compare the power of the curve trained on that the clicks look like."""
    new, old = now.power, reference.summary.power
    if new is not None and old is not None:
        text = f"the clicks look like the power {new.value:.2f} of the curve, was {old.value:.2f}"
        yield _power_move(text, new, old, matters)


def _power_move(text: str, new: Power, old: Power, matters: float) -> Move:
    p = normal_chance(new.value - old.value, (new.error, 1e9), (old.error, 1e9))
    return Move(text, p, _change(new.value, old.value, matters))


def _features(now: Summary, reference: Reference, matters: float) -> Iterator[Move]:
    """Compare how the features that the model uses are spread over impressions.

    Compared is the share of impressions up to each decile of a feature, and of missing values.
    """
    for name, ends in reference.edges.items():
        shares = zip(now.features.get(name, []), reference.summary.features[name], strict=False)
        for index, (new, old) in enumerate(shares):
            at = f"up to {ends[index]:.4g}" if index < len(ends) else "missing"
            text = f"feature {name}: {new.value:.0%} of impressions {at}, was {old.value:.0%}"
            yield Move(text, chance(new, old), _change(new.value, old.value, matters))


def _gain(now: Summary, reference: Reference, matters: float) -> Iterator[Move]:
    """Compare the gain of the model over what is shown: has it fallen by half?"""
    new, old = now.gain, reference.gain
    if new is None or old is None or old.difference <= 0 or is_live(now):
        return
    if order_changed(now, reference) and new.high >= 0:
        return  # over another ranking the gain is another: that is no fault of the model
    errors = [((gain.high - gain.low) / (2 * _Z), 1e9) for gain in (new, old)]
    text = (
        f"gain of the model {new.difference:+.4f} ({new.low:+.4f} to {new.high:+.4f}), was "
        f"{old.difference:+.4f}"
    )
    p = normal_chance(min(new.difference - old.difference, 0.0), *errors)
    lost = (old.difference - new.difference) / old.difference
    yield Move(text, p, max(lost, 0.0) / matters)


def _order(now: Summary, reference: Reference, matters: float) -> Iterator[Move]:
    """Compare what the order shown goes with: the model's own order, and the features it uses most."""
    if is_live(now):
        return
    yield from _ratios(_change, "order")(now, reference, matters)
    for name, new in now.orders.items():
        old = reference.summary.orders.get(name)
        if old is not None:
            text = f"correlation of the order shown with feature {name}: {new.value:.2f}, was {old.value:.2f}"
            yield Move(text, chance(new, old), _change(new.value, old.value, matters))


def is_live(now: Summary) -> bool:
    """Tell whether the order shown is the model's own: then it has no gain over it."""
    order = now.ratios.get("order")
    return order is not None and order.value >= LIVE


def order_changed(now: Summary, reference: Reference) -> bool:
    """Tell whether docs are likely shown in another order than in the log of the fit."""
    moves = list(_order(now, reference, _ORDER))
    sure = _LIKELY / max(len(moves), 1)
    return is_live(now) or any(move.size >= 1 and move.p_value < sure for move in moves)


_NEW = "train again on sessions since the change: 'prsrank fit'"
_EXPORT = "look at how the log is written: docs that were shown are not logged"
_FEATURE = "compare how the feature is made then and now"
_RANKER = "another ranker is shown: is that meant?"
_ROBOTS = "'prsrank audit' names sessions and clients: robots?"
_PAGE = "look what changed in the page, or in the traffic"
_SHUFFLE = "check what randomises, and what marks it"
_ADD = "add the docs to the table of features"

CHECKS = (
    Check("features", RETRAIN, True, 0.1, _features, _FEATURE),
    Check("fall", RETRAIN, True, 0.15, _fall, _NEW),
    Check("curve", RETRAIN, True, 0.2, _curve, _NEW),
    Check("likelihood", RETRAIN, True, 0.25, _likelihood, _NEW),
    Check("gain", RETRAIN, True, 0.5, _gain, _NEW),
    Check("order", LOOK, True, _ORDER, _order, _RANKER),
    Check("lengths", LOOK, False, 0.1, _ratios(_factor, "docs per session"), _EXPORT),
    Check("gaps", LOOK, False, 0.02, _ratios(_change, "gaps", "late", rare=True), _EXPORT),
    Check("left out", LOOK, False, 0.02, _ratios(_rise, "left out", rare=True), _ADD),
    Check("greedy", LOOK, False, 0.01, _ratios(_rise, "greedy", rare=True), _ROBOTS),
    Check("randomised", LOOK, False, 0.3, _ratios(_share, "randomised", counts=True), _SHUFFLE),
    Check("clicks", LOOK, True, 0.25, _ratios(_factor, "clicks per session", counts=True), _PAGE),
)
"""The checks, reasons to train again first."""

SPOILT = ("lengths", "gaps", "greedy")
"""Where one of these raises an alarm, what others say of features, curve and gain may come of it."""


FINE = "fine"
FALSE_ALARMS = 0.05
"""Probability of any alarm in the first windows, if nothing changes."""

HORIZON = 100
"""So many windows are the first ones: three months of nights, or two years of weeks."""

SHARES = {"fall": 0.5}
"""What a check has of the level of a window; the others have equal shares of the rest."""


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
class Window:
    """A window that was looked at.

    Attributes:
        summary: its statistics.
        verdict: "fine", "look" or "retrain".
        reasons: why, the gravest first.
        notes: what could not be judged, or is worth knowing.
    """

    summary: Summary
    verdict: str
    reasons: list[Reason]
    notes: list[str]


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
    return Window(kept, verdict, reasons, _notes(now))


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
