r"""How many sessions an online test of an expected gain takes: A/B, or team-draft interleaving.

Both compare means, so n sessions find a difference $\delta$ at the two-sided level $\alpha$ with
power $1 - \beta$ if $n = (z_{1 - \alpha/2} + z_{1 - \beta})^2 \, v / \delta^2$, with v the variance
of a session: in an A/B test of each arm's clicks, in interleaving of the difference of credit.
"""

from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from prsrank.errors import InputError
from prsrank.evaluation.interleaving import best_first, check_by, draft_by_coins
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PropensityCurve
from prsrank.ragged import list_of_row, ragged_rows
from prsrank.types import Floats, Longs

_LISTS = 2_000
"""Lists of the log that are interleaved for a plan, drawn as the sessions showed them."""
_COINS = 10
"""Drafts of each list; each once more with every coin turned over, so that luck cancels out."""

_SMALL_NOISE, _LARGE_NOISE = 0.2, 2.0
"""Standard deviations, in log positions, of the moves that a better ranker makes for no reason."""
_AS_SHOWN, _BY_RELEVANCE = 1e-4, 1e8
"""Values of lambda that move no doc, and that order by relevance alone."""


@dataclass(frozen=True)
class InterleavingPlan:
    """What an interleaving test takes.

    Attributes:
        sessions: how many it takes; None where `reason` says why there is no number.
        credit_share: share of the clicks that the new ranker is expected to get.
        reason: why no test could be planned; "" if one could.
    """

    sessions: int | None
    credit_share: float | None
    reason: str = ""


@dataclass(frozen=True)
class OnlinePlan:
    """What an online test of an expected gain takes.

    Attributes:
        gain: expected gain in clicks per session, as a share.
        level: two-sided level of the test: how often it may find a difference that is not there.
        power: how often it is to find the gain.
        by: what is taken to be independent: "session" or "query".
        clicks_per_session: as logged.
        variance: of a session's clicks, as logged.
        ab_sessions: sessions of an A/B test, both arms together.
        small_change: interleaving with a ranker that moves few docs without reason.
        reordered: interleaving with a ranker that orders the docs shown anew. One that brings
            many other docs may take as many sessions as the A/B test: where the lists have no
            doc in common, nothing cancels out.
    """

    gain: float
    level: float
    power: float
    by: str
    clicks_per_session: float
    variance: float
    ab_sessions: int
    small_change: InterleavingPlan
    reordered: InterleavingPlan

    def to_json_dict(self) -> dict[str, Any]:
        """Return the plan as a plain dict."""
        return asdict(self)


def plan_test(
    log: ClickLog,
    *,
    gain: float,
    curve: PropensityCurve,
    level: float = 0.05,
    power: float = 0.8,
    by: str = "session",
    seed: int = 0,
) -> OnlinePlan:
    """Return how many sessions show an expected gain online.

    Clicks per session and their variance are those of the log's sessions that were not randomised;
    the variance of the arm with the new ranker is taken to grow as its mean does. What
    interleaving shows of a gain depends on which docs move. `ImprovedLists` says what is assumed.

    Args:
        log: sessions of the production ranker.
        gain: expected gain in clicks per session: 0.03 is 3 %.
        curve: the propensities.
        level: two-sided level of the test.
        power: how often the test is to find the gain.
        by: "session": sessions are independent. "query": sessions of a query move together, an
            A/B test assigns whole queries, and the test has as many sessions a query as the log.
        seed: of the lists and coins drawn.

    Raises:
        InputError: if the log has no clicks in sessions that were not randomised.
    """
    _check(gain, level, power)
    check_by(by)
    used = (np.array(log.designs)[log.ranking_design] == "")[log.session_ranking]
    clicks, queries = log.session_clicks[used], log.ranking_query[log.session_ranking[used]]
    if not clicks.any():
        raise InputError("the log has no clicks in sessions without randomisation to plan from")
    factor = float(ndtri(1 - level / 2) + ndtri(power)) ** 2
    mean, variance = float(clicks.mean()), float(clicks.var())
    spread = variance if by == "session" else _variance_by_query(clicks - mean, queries)
    arm = ceil(factor * spread * (2 + gain) / (gain * mean) ** 2)
    lists = ImprovedLists.drawn(log, np.flatnonzero(used), curve, seed)
    small, large = (
        _interleaved(lists.with_noise(noise, seed), gain, factor, _crowding(queries, by), seed)
        for noise in (_SMALL_NOISE, _LARGE_NOISE)
    )
    return OnlinePlan(gain, level, power, by, mean, variance, 2 * arm, small, large)


@dataclass(frozen=True, eq=False)
class ImprovedLists:
    """Lists as the log showed them, and how a better ranker would order them.

    A doc's relevance is what its clicks say, (clicks + m) / (sum of p_k over its impressions + 1),
    with m the mean relevance: a prior worth one impression at position 1. The better ranker
    orders by -log k + lambda * relevance + noise with k the position shown: the larger lambda is,
    the more docs move towards the order by relevance, everywhere in the lists; some move for no
    reason, as those of any real ranker do. Users are position-based.

    Attributes:
        relevance: of each doc, list after list in the order shown (docs).
        p: propensity of each position (docs).
        merit: -log k of each doc, with or without noise (docs).
        offsets: where each list begins, and the end (lists + 1).
    """

    relevance: Floats
    p: Floats
    merit: Floats
    offsets: Longs

    @classmethod
    def drawn(
        cls, log: ClickLog, sessions: Longs, curve: PropensityCurve, seed: int
    ) -> "ImprovedLists":
        """Draw lists of a log, as often as these sessions showed them."""
        chosen = np.random.default_rng(seed).choice(sessions, _LISTS)
        slots, offsets = ragged_rows(log.ranking_offsets, log.session_ranking[chosen])
        p = curve.at(log.ranking_positions)
        relevance = _relevance(log, p)[log.ranking_docs]
        return cls(relevance[slots], p[slots], -np.log(log.ranking_positions[slots]), offsets)

    def with_noise(self, noise: float, seed: int) -> "ImprovedLists":
        """Return the lists with noise in the merit of each doc."""
        drawn = np.random.default_rng([seed, 2]).normal(scale=noise, size=len(self.merit))
        return replace(self, merit=self.merit + drawn)

    def order(self, strength: float) -> Longs:
        """Return the rows of each list as the better ranker orders them."""
        return best_first(self.merit + strength * self.relevance, self.offsets)

    def gain(self, order: Longs) -> float:
        """Return the gain in expected clicks of an order over that shown, as a share."""
        return float(self.p @ self.relevance[order] / (self.p @ self.relevance)) - 1

    def credit(self, order: Longs, seed: int) -> "_Credit":
        """Return what to expect of the credit of a session."""
        shown, rng = np.arange(len(self.p)), np.random.default_rng([seed, 1])
        owner, lists = list_of_row(self.offsets), len(self.offsets) - 1
        means = np.zeros((2 * _COINS, lists))
        total = within = 0.0
        for draw in range(_COINS):
            coins = rng.random(len(self.p)) < 0.5
            for turn, thrown in enumerate((coins, ~coins)):
                rows, new = draft_by_coins(shown, order, self.offsets, thrown)
                clicked = self.p * self.relevance[rows]
                means[2 * draw + turn] = np.bincount(owner, np.where(new, clicked, -clicked))
                total += float(clicked.sum())
                within += float((clicked * (1 - clicked)).sum())
        # clicks given the list shown, and the coins and lists themselves
        variance = within / means.size + float(means.var())
        between = float(means.mean(axis=0).var())
        return _Credit(total / means.size, float(means.mean()), variance, between)


class _Credit(NamedTuple):
    """Of a session: its clicks, the difference of credit, its variance, and that between lists."""

    clicks: float
    difference: float
    variance: float
    between: float


def _interleaved(
    lists: ImprovedLists, gain: float, factor: float, crowding: float, seed: int
) -> InterleavingPlan:
    """Return the sessions that show the gain of a better ranker of these lists."""
    order = _order_with(lists, gain)
    if order is None:
        most = lists.gain(lists.order(_BY_RELEVANCE))
        reason = f"no order of the docs shown gains {gain:.1%}: the most is {most:.1%}"
        return InterleavingPlan(None, None, reason)
    credit = lists.credit(order, seed)
    if credit.difference <= 0:
        reason = "team-draft interleaving would not show such a change of order"
        return InterleavingPlan(None, None, reason)
    variance = credit.variance + crowding * credit.between
    share = 0.5 + credit.difference / credit.clicks / 2
    return InterleavingPlan(ceil(factor * variance / credit.difference**2), share)


def _order_with(lists: ImprovedLists, gain: float) -> Longs | None:
    """Return the order of the better ranker that has the gain, or None where none has."""
    low, high = np.log([_AS_SHOWN, _BY_RELEVANCE])
    if lists.gain(lists.order(_BY_RELEVANCE)) < gain:
        return None
    for _ in range(20):
        middle = (low + high) / 2
        enough = lists.gain(lists.order(np.exp(middle))) >= gain
        low, high = (low, middle) if enough else (middle, high)
    return lists.order(np.exp(high))


def _relevance(log: ClickLog, p: Floats) -> Floats:
    """Return the relevance of each doc of a log, as its clicks say."""
    shown, clicked = log.slot_statistics()
    docs = len(log.doc_ids)
    clicks = np.bincount(log.ranking_docs, clicked, docs)
    seen = np.bincount(log.ranking_docs, shown * p, docs)
    prior = clicks.sum() / seen.sum()
    relevance: Floats = np.minimum((clicks + prior) / (seen + 1), 1.0)
    return relevance


def _variance_by_query(deviations: Floats, queries: Longs) -> float:
    """Return the variance of a session's clicks where sessions of a query move together."""
    sums = np.bincount(queries, deviations)
    return float((sums**2).sum()) / len(deviations)


def _crowding(queries: Longs, by: str) -> float:
    """Return how many sessions of its query a session has beside it, on average."""
    if by == "session":
        return 0.0
    counts = np.bincount(queries)
    return float((counts.astype(np.float64) ** 2).sum() / counts.sum()) - 1


def _check(gain: float, level: float, power: float) -> None:
    if not (gain > 0 and np.isfinite(gain)):
        raise InputError(f"gain must be above 0, not {gain}: 3 % is 0.03")
    for name, value in (("level", level), ("power", power)):
        if not 0 < value < 1:
            raise InputError(f"{name} must be between 0 and 1, not {value}")
