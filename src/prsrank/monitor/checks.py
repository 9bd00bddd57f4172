"""What is compared between a window and the log trained on: one function a check, one table.

A check yields moves: how far a statistic went, how likely that is by chance, and how large it is
beside what matters. It raises an alarm where a move is both too unlikely and large enough, so
that a huge log does not raise one over trifles.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from prsrank.monitor.curves import Power, power_between
from prsrank.monitor.ratios import chance, normal_chance
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
    """Compare how the features that the model uses are spread over impressions."""
    for name in reference.edges:
        yield from feature_moves(now, reference, matters, name)


def feature_moves(now: Summary, reference: Reference, matters: float, name: str) -> Iterator[Move]:
    """Compare the share of impressions up to each decile of a feature, and of missing values."""
    ends = reference.edges[name]
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


def _heaviest(now: Summary, reference: Reference, matters: float) -> Iterator[Move]:
    """Look at the query, and the client, with most clicks, beside the largest before."""
    from scipy.stats import binom

    total = max(reference.summary.clicks, 1)
    for kind, heaviest in now.heaviest.items():
        before = reference.summary.heaviest.get(kind)
        share = heaviest.clicks / max(now.clicks, 1)
        old = 0.0 if before is None else before.clicks / total
        # the largest of many by chance is above its own mean: three errors more
        usual = old + 3 * math.sqrt(old * (1 - old) / total) + 0.01
        p = float(binom.sf(heaviest.clicks - 1, now.clicks, min(usual, 1.0)))
        text = f"{kind} {heaviest.name} has {share:.0%} of the clicks, the largest before had {old:.0%}"
        size = min(share / matters, share / (2 * old) if old else math.inf)
        yield Move(text, p, size)


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
_HEAVIEST = "look whether it is a robot, or a new favourite"
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
    Check("heaviest", LOOK, False, 0.1, _heaviest, _HEAVIEST),
    Check("randomised", LOOK, False, 0.3, _ratios(_share, "randomised", counts=True), _SHUFFLE),
    Check("clicks", LOOK, True, 0.25, _ratios(_factor, "clicks per session", counts=True), _PAGE),
)
"""The checks, reasons to train again first."""

SPOILT = ("lengths", "gaps", "greedy", "heaviest")
"""Where one of these raises an alarm, what others say of features, curve and gain may come of it."""
