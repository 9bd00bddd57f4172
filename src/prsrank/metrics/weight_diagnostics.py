r"""Whether the weights of clicks can bear an estimate, and a plain warning where they cannot."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prsrank.metrics.click_statistics import ClickStatistics
from prsrank.types import Floats

Longs = npt.NDArray[np.int64]

LEAST_EFFECTIVE_CLICKS = 100
LEAST_EFFECTIVE_QUERIES = 30
LARGEST_CLICK_SHARE = 0.05
LARGEST_HEAVIEST_SHARE = 0.3
LARGEST_CUT_SHARE = 0.1


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


def weight_diagnostics(
    statistics: ClickStatistics, part: str, clicks: Longs, sessions: Longs
) -> WeightDiagnostics:
    """Describe the weights of a part of the clicks.

    Args:
        statistics: the clicked slots.
        part: name of the part.
        clicks: how many of the part's clicks each slot has.
        sessions: how many of the part's sessions each query has.
    """
    weights, count = statistics.weights, int(clicks.sum())
    total = float(weights @ clicks)
    per_query = np.bincount(statistics.query, weights * clicks)
    clicked = clicks > 0
    largest = float(weights[clicked].max(initial=0.0))
    free = statistics.free_weights
    cut = weights < (1 - 1e-12) * free
    numbers: dict[str, float] = {
        "effective_clicks": _share(total**2, float(weights**2 @ clicks)),
        "effective_queries": _share(total**2, float(per_query @ per_query)),
        "largest_weight": largest,
        "largest_share": _share(largest, total),
        "heaviest_share": _share(_heaviest(weights, clicks, count), total),
        "clipped_clicks": _share(float(clicks[cut].sum()), count),
        "cut_weight": 1 - _share(total, float(free @ clicks)),
        "shown_share": statistics.shown_share,
    }
    return WeightDiagnostics(
        part,
        int(sessions.sum()),
        int(np.count_nonzero(sessions)),
        count,
        **numbers,
        warnings=tuple(_warnings(numbers, count, statistics.unseen_share)),
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _heaviest(weights: Floats, clicks: Longs, count: int) -> float:
    """Return the summed weight of the heaviest 1 % of clicks, at least one click."""
    order = np.argsort(-weights, kind="stable")
    wanted = max(1, round(0.01 * count))
    before = np.cumsum(clicks[order]) - clicks[order]
    taken = np.clip(wanted - before, 0, clicks[order])
    return float(taken @ weights[order])


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
