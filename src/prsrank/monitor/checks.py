"""What is compared between a window and the log trained on: one function a check, one table.

A check yields moves: how far a statistic went, how likely that is by chance, and how large it is
beside what matters. It raises an alarm where a move is both too unlikely and large enough, so
that a huge log does not raise one over trifles.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prsrank.monitor.curves import power_between
from prsrank.monitor.ratios import chance, normal_chance
from prsrank.monitor.reference import Reference
from prsrank.monitor.summary import Summary

LOOK, RETRAIN = "look", "retrain"

SIZES = {
    "clicks": 0.25,
    "click rates": 0.5,
    "fall": 0.15,
    "curve": 0.2,
    "likelihood": 0.25,
    "features": 0.1,
    "gain": 0.5,
    "order": 0.1,
    "lengths": 0.1,
    "gaps": 0.02,
    "left out": 0.02,
    "randomised": 0.3,
    "greedy": 0.01,
    "heaviest": 0.1,
}
"""What matters: a move below this raises no alarm, however sure it is; docs/commands/monitor.md
says in which unit."""

_EXPECTED = 20
_Z = 1.96
# another order explains other clicks: so what is sure enough here is less than for an alarm
_LIKELY = 0.01
LIVE = 0.98
"""From this correlation with the order shown on, the model itself is what is shown."""


@dataclass(frozen=True)
class Move:
    """How far a statistic has moved.

    Attributes:
        what: it is, in words, with both values.
        p_value: probability of such a move by chance alone.
        size: of the move, 1 where it begins to matter.
    """

    what: str
    p_value: float
    size: float


@dataclass(frozen=True)
class Check:
    """One thing that is compared.

    Attributes:
        name: of the check.
        verdict: "retrain" where a move makes the model's training wrong, else "look".
        feigned: whether lost rows, or clicks of robots, can feign a move.
        moves: yields the moves of a window.
        do: what to do.
    """

    name: str
    verdict: str
    feigned: bool
    moves: Callable[[Summary, Reference], Iterator[Move]]
    do: str


def _ratio_moves(
    now: Summary, reference: Reference, name: str, words: str, **how: bool
) -> Iterator[tuple[float, float, str, float]]:
    """Yield both values of a ratio, the words for them, and their probability."""
    new, old = now.ratios.get(name), reference.summary.ratios.get(name)
    if new is None or old is None:
        return
    text = f"{words}: {new.value:.3g}, was {old.value:.3g}"
    yield new.value, old.value, text, chance(new, old, **how)


def clicks(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare clicks per session, by their ratio."""
    for new, old, what, p in _ratio_moves(
        now, reference, "clicks per session", "clicks a session", counts=True
    ):
        yield Move(what, p, _factor(new, old) / math.log1p(SIZES["clicks"]))


def click_rates(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare the click rate of each band of positions, where clicks enough are expected."""
    for band, old in reference.summary.click_rates.items():
        new = now.click_rates.get(band)
        if new is not None and old.value * new.of >= _EXPECTED:
            what = f"click rate at position {band}: {new.value:.2%}, was {old.value:.2%}"
            size = _factor(new.value, old.value) / math.log1p(SIZES["click rates"])
            yield Move(what, chance(new, old, counts=True), size)


def fall(now: Summary, reference: Reference) -> Iterator[Move]:
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
        what = (
            f"clicks fall with the position as if the curve's exponent were {abs(steeper):.2f} "
            f"{'larger' if steeper > 0 else 'smaller'}, in the same order of docs{where}"
        )
        yield Move(what, depths.chance(old), abs(steeper) / SIZES["fall"])


def curve(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare the curve that the window identifies with that of the log trained on."""
    before = reference.summary.curve or reference.curve
    if now.curve is None or before is None:
        return
    power = power_between(now.curve, before)
    if power is None:
        return
    what = f"the curve by {now.curve.method} is the power {power.value:.2f} of the one before"
    p = normal_chance(power.value - 1, (power.error, 1e9))
    yield Move(what, p, abs(power.value - 1) / SIZES["curve"])


def likelihood(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare the power of the curve trained on that the clicks look like."""
    new, old = now.power, reference.summary.power
    if new is None or old is None:
        return
    what = f"the clicks look like the power {new.value:.2f} of the curve, was {old.value:.2f}"
    p = normal_chance(new.value - old.value, (new.error, 1e9), (old.error, 1e9))
    yield Move(what, p, abs(new.value - old.value) / SIZES["likelihood"])


def features(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare how the features that the model uses are spread over impressions."""
    for name in reference.edges:
        yield from feature_moves(now, reference, name)


def feature_moves(now: Summary, reference: Reference, name: str) -> Iterator[Move]:
    """Compare the share of impressions up to each decile of a feature, and of missing values."""
    ends = reference.edges[name]
    shares = zip(now.features.get(name, []), reference.summary.features[name], strict=False)
    for index, (new, old) in enumerate(shares):
        at = f"up to {ends[index]:.4g}" if index < len(ends) else "missing"
        what = f"feature {name}: {new.value:.0%} of impressions {at}, was {old.value:.0%}"
        yield Move(what, chance(new, old), abs(new.value - old.value) / SIZES["features"])


def gain(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare the gain of the model over what is shown: has it fallen by half?"""
    new, old = now.gain, reference.gain
    if new is None or old is None or old.difference <= 0 or is_live(now):
        return
    if order_changed(now, reference) and new.high >= 0:
        return  # over another ranking the gain is another: that is no fault of the model
    errors = [(one.high - one.low) / (2 * _Z) for one in (new, old)]
    what = (
        f"gain of the model {new.difference:+.4f} ({new.low:+.4f} to {new.high:+.4f}), was "
        f"{old.difference:+.4f}"
    )
    p = normal_chance(min(new.difference - old.difference, 0.0), *((e, 1e9) for e in errors))
    lost = (old.difference - new.difference) / old.difference
    yield Move(what, p, max(lost, 0.0) / SIZES["gain"])


def order(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare what the order shown goes with: the model's own order, and the features it uses most."""
    if is_live(now):
        return
    words = "correlation of the order shown with the model's"
    for new, old, what, p in _ratio_moves(now, reference, "order", words):
        yield Move(what, p, abs(new - old) / SIZES["order"])
    for name, after in now.orders.items():
        before = reference.summary.orders.get(name)
        if before is not None:
            what = f"correlation of the order shown with feature {name}: {after.value:.2f}, was {before.value:.2f}"
            size = abs(after.value - before.value) / SIZES["order"]
            yield Move(what, chance(after, before), size)


def lengths(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare how many docs a session shows."""
    words = "docs shown a session"
    for new, old, what, p in _ratio_moves(now, reference, "docs per session", words):
        yield Move(what, p, _factor(new, old) / math.log1p(SIZES["lengths"]))


def gaps(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare the share of sessions with positions left out, at the top or in between."""
    for name, words in (
        ("gaps", "share of sessions that leave out positions"),
        ("late", "share of sessions that begin below position 1"),
    ):
        for new, old, what, p in _ratio_moves(now, reference, name, words, rare=True):
            yield Move(what, p, abs(new - old) / SIZES["gaps"])


def left_out(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare the share of sessions with docs that have no features."""
    words = "share of sessions with docs that have no features"
    for new, old, what, p in _ratio_moves(now, reference, "left out", words, rare=True):
        yield Move(what, p, max(new - old, 0.0) / SIZES["left out"])


def randomised(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare the share of randomised sessions."""
    words = "share of randomised sessions"
    for new, old, what, p in _ratio_moves(now, reference, "randomised", words, counts=True):
        yield Move(what, p, abs(new - old) / max(SIZES["randomised"] * old, 0.02))


def uniform(now: Summary, reference: Reference) -> Iterator[Move]:
    """Ask the audit whether randomised sessions are shuffled; it is sure at 5 standard errors."""
    if now.not_random and not reference.summary.not_random:
        yield Move(now.not_random, 0.0, 1.0)


def greedy(now: Summary, reference: Reference) -> Iterator[Move]:
    """Compare the share of sessions that click most of what they are shown."""
    words = "share of sessions that click at least half of the docs, and three"
    for new, old, what, p in _ratio_moves(now, reference, "greedy", words, rare=True):
        yield Move(what, p, max(new - old, 0.0) / SIZES["greedy"])


def heaviest(now: Summary, reference: Reference) -> Iterator[Move]:
    """Look at the query, and the client, with most clicks, beside the largest before."""
    from scipy.stats import binom

    for kind, one in now.heaviest.items():
        before = reference.summary.heaviest.get(kind)
        share = one.clicks / max(now.clicks, 1)
        old = 0.0 if before is None else before.clicks / max(reference.summary.clicks, 1)
        # the largest of many by chance is above its own mean: three errors more
        usual = old + 3 * math.sqrt(old * (1 - old) / max(reference.summary.clicks, 1)) + 0.01
        p = float(binom.sf(one.clicks - 1, now.clicks, min(usual, 1.0)))
        what = f"{kind} {one.name} has {share:.0%} of the clicks, the largest before had {old:.0%}"
        yield Move(what, p, min(share / SIZES["heaviest"], share / (2 * old) if old else math.inf))


def is_live(now: Summary) -> bool:
    """Tell whether the order shown is the model's own: then it has no gain over it."""
    order = now.ratios.get("order")
    return order is not None and order.value >= LIVE


def order_changed(now: Summary, reference: Reference) -> bool:
    """Tell whether docs are likely shown in another order than in the log of the fit."""
    moves = list(order(now, reference))
    sure = _LIKELY / max(len(moves), 1)
    return is_live(now) or any(move.size >= 1 and move.p_value < sure for move in moves)


def _factor(new: float, old: float) -> float:
    """Return how far a ratio of two values is from 1, on the log scale."""
    if new == old:
        return 0.0
    return abs(math.log(new / old)) if new > 0 and old > 0 else math.inf


_EXPORT = "look at how the log is written: docs that were shown are not logged"
_NEW = "train again on sessions since the change: 'prsrank fit'"

CHECKS = (
    Check("features", RETRAIN, True, features, "compare how the feature is made then and now"),
    Check("fall", RETRAIN, True, fall, _NEW),
    Check("curve", RETRAIN, True, curve, _NEW),
    Check("likelihood", RETRAIN, True, likelihood, _NEW),
    Check("gain", RETRAIN, True, gain, _NEW),
    Check("order", LOOK, True, order, "another ranker is shown: is that meant?"),
    Check("lengths", LOOK, False, lengths, _EXPORT),
    Check("gaps", LOOK, False, gaps, _EXPORT),
    Check("left out", LOOK, False, left_out, "add the docs to the table of features"),
    Check("greedy", LOOK, False, greedy, "'prsrank audit' names sessions and clients: robots?"),
    Check("heaviest", LOOK, False, heaviest, "look whether it is a robot, or a new favourite"),
    Check("randomised", LOOK, False, randomised, "check what randomises, and what marks it"),
    Check("uniform", LOOK, False, uniform, "check what randomises, and what marks it"),
    Check(
        "click rates", LOOK, True, click_rates, "look what changed in the page, or in the traffic"
    ),
    Check("clicks", LOOK, True, clicks, "look what changed in the page, or in the traffic"),
)
"""The checks, reasons to train again first."""

SPOILT = ("lengths", "gaps", "greedy", "heaviest")
"""Where one of these raises an alarm, what others say of features, curve and gain may come of it."""
