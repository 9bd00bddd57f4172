r"""Whether the weights of clicks can bear an estimate, and a plain warning where they cannot."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from prsrank.evaluation.click_statistics import ClickStatistics
from prsrank.types import Floats, Longs

LEAST_EFFECTIVE_CLICKS = 100
LEAST_EFFECTIVE_QUERIES = 30
LARGEST_CLICK_SHARE = 0.05
LARGEST_HEAVIEST_SHARE = 0.3
LARGEST_CUT_SHARE = 0.1

# Bins of weights per factor e.
_STEPS = 1024

_RULES: tuple[tuple[Callable[[dict[str, float]], bool], str], ...] = (
    (
        lambda n: n["effective_clicks"] < LEAST_EFFECTIVE_CLICKS,
        "the {clicks} clicks are worth {effective_clicks:.0f} of equal weight: too few, the "
        "interval may miss the truth",
    ),
    (
        lambda n: n["effective_queries"] < LEAST_EFFECTIVE_QUERIES,
        "the weight is that of {effective_queries:.0f} queries: too few, the interval may miss "
        "the truth",
    ),
    (
        lambda n: n["largest_share"] > LARGEST_CLICK_SHARE,
        "one click (weight {largest_weight:.6g}) holds {largest_share:.0%} of the weight: "
        "consider a clip (tau)",
    ),
    (
        # of fewer clicks, the heaviest 1 % is one click: that is the rule above
        lambda n: n["heaviest_share"] > LARGEST_HEAVIEST_SHARE and n["clicks"] >= 100,
        "the heaviest 1 % of clicks hold {heaviest_share:.0%} of the weight: consider a clip (tau)",
    ),
    (
        lambda n: n["cut_weight"] > LARGEST_CUT_SHARE,
        "the clip takes away {cut_weight:.0%} of the weight: the estimate is biased, and docs "
        "shown low count too little",
    ),
    (
        lambda n: n["unseen"] > 0,
        "{unseen:.1%} of the shown docs have propensity 0: nothing is known of them, and they "
        "count as irrelevant",
    ),
    (
        lambda n: n["shown_share"] < 1,
        "sessions show {shown_share:.1%} of their lists' docs: the estimate is of re-ordering the "
        "shown docs, not of bringing up others",
    ),
)
"""What makes an estimate doubtful, and the words for it."""


@dataclass(frozen=True)
class WeightDiagnostics:
    r"""How the weight of a part's clicks is spread.

    Attributes:
        part: which clicks; see `Estimate`.
        sessions: number of sessions.
        queries: number of queries that they belong to.
        clicks: number of clicks.
        effective_clicks: effective sample size $(\sum w)^2 / \sum w^2$ over clicks: as many
            clicks of equal weight would be worth as much.
        effective_queries: the same over the summed weights of queries.
        largest_weight: the heaviest click's weight.
        largest_share: its share of all weight.
        heaviest_share: share of all weight that the heaviest 1 % of clicks hold.
        clipped_clicks: share of clicks whose weight is clipped.
        cut_weight: share of the unclipped weight that the clip takes away: bias.
        shown_share: share of the docs of the data set's lists that sessions show.
        warnings: why estimates cannot be trusted, or what they leave out.
    """

    part: str
    sessions: int
    queries: int
    clicks: int
    effective_clicks: float
    effective_queries: float
    largest_weight: float
    largest_share: float
    heaviest_share: float
    clipped_clicks: float
    cut_weight: float
    shown_share: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class WeightSums:
    """What `WeightDiagnostics` are made of; those of pieces without a common query add up.

    Attributes:
        sessions: number of sessions.
        queries: number of queries that they belong to.
        clicks: number of clicks.
        weight: sum of the weights w of the clicks.
        squares: sum of w^2.
        query_squares: sum over queries of (sum of w)^2.
        free: sum of the weights without clip.
        clipped: clicks whose weight is clipped.
        shown: docs that sessions show.
        listed: docs of their lists.
        unseen: docs shown, in distinct rankings, whose propensity is 0.
        ranked: docs shown in distinct rankings.
        largest: the largest weight.
        bins: weights in steps of 0.1 %: that of bin b is about exp(b / 1024).
        bin_clicks: clicks in each bin.
        bin_weights: their weight.
    """

    sessions: float
    queries: float
    clicks: float
    weight: float
    squares: float
    query_squares: float
    free: float
    clipped: float
    shown: float
    listed: float
    unseen: float
    ranked: float
    largest: float
    bins: Longs
    bin_clicks: Floats
    bin_weights: Floats

    @classmethod
    def of(cls, statistics: ClickStatistics, clicks: Longs, sessions: Longs) -> "WeightSums":
        """Sum up a part of the clicks.

        Args:
            statistics: the clicked slots.
            clicks: how many of the part's clicks each slot has.
            sessions: how many of the part's sessions each query has.
        """
        log, weights, free = statistics.log, statistics.weights, statistics.free_weights
        per_query = np.bincount(statistics.query, weights * clicks)
        clicked = clicks > 0
        # in bins, so that sums over several logs still tell the heaviest clicks
        steps = np.round(np.log(weights[clicked]) * _STEPS).astype(np.int64)
        bins, of_slot = np.unique(steps, return_inverse=True)
        of_bin = [
            np.asarray(np.bincount(of_slot, values[clicked], len(bins)), np.float64)
            for values in (clicks, weights * clicks)
        ]
        shown = float(np.diff(log.ranking_offsets)[log.session_ranking].sum())
        return cls(
            sessions=float(sessions.sum()),
            queries=float(np.count_nonzero(sessions)),
            clicks=float(clicks.sum()),
            weight=float(weights @ clicks),
            squares=float(weights**2 @ clicks),
            query_squares=float(per_query @ per_query),
            free=float(free @ clicks),
            clipped=float(clicks[weights < (1 - 1e-12) * free].sum()),
            shown=shown,
            listed=shown / statistics.shown_share,
            unseen=float((statistics.propensities == 0).mean()) * len(log.ranking_docs),
            ranked=float(len(log.ranking_docs)),
            largest=float(weights[clicked].max(initial=0.0)),
            bins=bins,
            bin_clicks=of_bin[0],
            bin_weights=of_bin[1],
        )

    def __add__(self, other: "WeightSums") -> "WeightSums":
        """Return the sums over the clicks of both."""
        numbers = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in fields(self)
            if field.name not in ("largest", "bins", "bin_clicks", "bin_weights")
        }
        bins, index = np.unique(np.concatenate([self.bins, other.bins]), return_inverse=True)
        clicks, weights = (
            np.bincount(index, np.concatenate(both), len(bins)).astype(np.float64)
            for both in (
                (self.bin_clicks, other.bin_clicks),
                (self.bin_weights, other.bin_weights),
            )
        )
        largest = max(self.largest, other.largest)
        return WeightSums(
            **numbers, largest=largest, bins=bins, bin_clicks=clicks, bin_weights=weights
        )


def diagnostics_of_sums(part: str, sums: WeightSums) -> WeightDiagnostics:
    """Describe the weights of which these are the sums."""
    total, count = sums.weight, round(sums.clicks)
    numbers: dict[str, float] = {
        "effective_clicks": _share(total**2, sums.squares),
        "effective_queries": _share(total**2, sums.query_squares),
        "largest_weight": sums.largest,
        "largest_share": _share(sums.largest, total),
        "heaviest_share": _share(_heaviest(sums), total),
        "clipped_clicks": _share(sums.clipped, count),
        "cut_weight": 1 - _share(total, sums.free),
        "shown_share": _share(sums.shown, sums.listed),
    }
    return WeightDiagnostics(
        part,
        round(sums.sessions),
        round(sums.queries),
        count,
        **numbers,
        warnings=_warnings(numbers | {"clicks": count, "unseen": _share(sums.unseen, sums.ranked)}),
    )


def _warnings(numbers: dict[str, float]) -> tuple[str, ...]:
    if numbers["clicks"] == 0:
        return ("there are no clicks here: nothing can be said",)
    return tuple(text.format(**numbers) for broken, text in _RULES if broken(numbers))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _heaviest(sums: WeightSums) -> float:
    """Return the summed weight of the heaviest 1 % of clicks, at least one click."""
    order = np.argsort(-sums.bins)
    clicks = sums.bin_clicks[order]
    wanted = max(1, round(0.01 * sums.clicks))
    taken = np.clip(wanted - (np.cumsum(clicks) - clicks), 0, clicks)
    return float((taken / clicks) @ sums.bin_weights[order])
