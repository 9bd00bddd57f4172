r"""Whether the weights of clicks can bear an estimate, and a plain warning where they cannot."""

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
            unseen=statistics.unseen_share * len(log.ranking_docs),
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


def weight_diagnostics(
    statistics: ClickStatistics, part: str, clicks: Longs, sessions: Longs
) -> WeightDiagnostics:
    """Describe the weights of a part of the clicks; the arguments are those of `WeightSums.of`."""
    return diagnostics_of_sums(part, WeightSums.of(statistics, clicks, sessions))


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
        warnings=tuple(_warnings(numbers, count, _share(sums.unseen, sums.ranked))),
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _heaviest(sums: WeightSums) -> float:
    """Return the summed weight of the heaviest 1 % of clicks, at least one click."""
    order = np.argsort(-sums.bins)
    clicks = sums.bin_clicks[order]
    wanted = max(1, round(0.01 * sums.clicks))
    taken = np.clip(wanted - (np.cumsum(clicks) - clicks), 0, clicks)
    return float((taken / clicks) @ sums.bin_weights[order])


def _warnings(numbers: dict[str, float], clicks: int, unseen: float) -> list[str]:
    if clicks == 0:
        return ["there are no clicks here: nothing can be said"]
    found = []
    if numbers["effective_clicks"] < LEAST_EFFECTIVE_CLICKS:
        found.append(
            f"the {clicks} clicks are worth {numbers['effective_clicks']:.0f} of equal weight: "
            "too few, the interval may miss the truth"
        )
    if numbers["effective_queries"] < LEAST_EFFECTIVE_QUERIES:
        found.append(
            f"the weight is that of {numbers['effective_queries']:.0f} queries: too few, the "
            "interval may miss the truth"
        )
    if numbers["largest_share"] > LARGEST_CLICK_SHARE:
        found.append(
            f"one click (weight {numbers['largest_weight']:.6g}) holds "
            f"{numbers['largest_share']:.0%} of the weight: consider a clip (tau)"
        )
    if numbers["heaviest_share"] > LARGEST_HEAVIEST_SHARE and clicks >= 100:
        found.append(
            f"the heaviest 1 % of clicks hold {numbers['heaviest_share']:.0%} of the weight: "
            "consider a clip (tau)"
        )
    if numbers["cut_weight"] > LARGEST_CUT_SHARE:
        found.append(
            f"the clip takes away {numbers['cut_weight']:.0%} of the weight: the estimate is "
            "biased, and docs shown low count too little"
        )
    if unseen > 0:
        found.append(
            f"{unseen:.1%} of the shown docs have propensity 0: nothing is known of them, and "
            "they count as irrelevant"
        )
    if numbers["shown_share"] < 1:
        found.append(
            f"sessions show {numbers['shown_share']:.1%} of their lists' docs: the estimate is of "
            "re-ordering the shown docs, not of bringing up others"
        )
    return found
