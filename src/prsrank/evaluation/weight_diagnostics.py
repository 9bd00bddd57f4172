r"""Whether held-out clicks can bear an estimate, and a plain warning where they cannot."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from prsrank.evaluation.counterfactual import ClickStatistics
from prsrank.pairs.log_on_lists import PropensitySource
from prsrank.propensity.curve import Propensities
from prsrank.propensity.verdict import WIDE, in_words
from prsrank.types import Floats, Longs, Marks

LEAST_EFFECTIVE_CLICKS = 100
LEAST_EFFECTIVE_QUERIES = 30
LARGEST_CLICK_SHARE = 0.05
LARGEST_HEAVIEST_SHARE = 0.3
LARGEST_UNSURE_SHARE = 0.05

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
        part: which clicks.
        totals: sums by name: of sessions, of the queries that they belong to, of clicks; of their
            "weight" w, of its "squares", of the squares of a query's ("query_squares"), of weights
            as a clip leaves them ("kept") and of clicks that it changes ("clipped"); of docs
            "shown", "listed" in their lists, "ranked" in distinct rankings, and of those "unseen"
            at propensity 0.
        largest: the largest weight.
        bins: weights in steps of 0.1 %: that of bin b is about exp(b / 1024).
        in_bins: clicks in each bin, and their weight (2 x bins).
    """

    part: str
    totals: dict[str, float]
    largest: float
    bins: Longs
    in_bins: Floats

    @classmethod
    def of(
        cls, part: str, statistics: ClickStatistics, clicks: Longs, sessions: Longs, tau: float = 0
    ) -> "WeightSums":
        """Sum up a part of the clicks.

        Args:
            part: its name.
            statistics: the clicked slots, whose weights have no clip.
            clicks: how many of the part's clicks each slot has.
            sessions: how many of the part's sessions each query has.
            tau: of the clip that is told of.
        """
        log, weights, clip = statistics.log, statistics.weights, replace(statistics, tau=tau)
        per_query = np.bincount(statistics.query, weights * clicks)
        clicked = clicks > 0
        # in bins, so that sums over several logs still tell the heaviest clicks
        steps = np.round(np.log(weights[clicked]) * _STEPS).astype(np.int64)
        ranked = float(len(log.ranking_docs))
        totals = {
            "sessions": float(sessions.sum()),
            "queries": float(np.count_nonzero(sessions)),
            "clicks": float(clicks.sum()),
            "weight": float(weights @ clicks),
            "squares": float(weights**2 @ clicks),
            "query_squares": float(per_query @ per_query),
            "free": float(statistics.free_weights @ clicks),
            "kept": float(clip.weights @ clicks),
            "clipped": float(clicks[clip.clipped].sum()),
            "shown": float(np.diff(log.ranking_offsets)[log.session_ranking].sum()),
            "listed": float(statistics.listed[log.session_ranking].sum()),
            "unseen": float((statistics.propensities == 0).mean()) * ranked,
            "ranked": ranked,
        }
        values = np.stack([clicks, weights * clicks])[:, clicked]
        return cls(part, totals, float(weights[clicked].max(initial=0.0)), *_binned(steps, values))

    def __add__(self, other: "WeightSums") -> "WeightSums":
        """Return the sums over the clicks of both."""
        return WeightSums(
            self.part,
            {name: total + other.totals[name] for name, total in self.totals.items()},
            max(self.largest, other.largest),
            *_binned(
                np.concatenate([self.bins, other.bins]),
                np.concatenate([self.in_bins, other.in_bins], axis=1),
            ),
        )

    def diagnostics(self) -> WeightDiagnostics:
        """Describe the weights."""
        t, weight = self.totals, self.totals["weight"]
        numbers = {
            "effective_clicks": _share(weight**2, t["squares"]),
            "effective_queries": _share(weight**2, t["query_squares"]),
            "largest_weight": self.largest,
            "largest_share": _share(self.largest, weight),
            "heaviest_share": _share(self._heaviest(), weight),
            "clipped_clicks": _share(t["clipped"], t["clicks"]),
            "cut_weight": 1 - _share(t["kept"], t["free"]),
            "shown_share": _share(t["shown"], t["listed"]),
        }
        sessions, queries, clicks = (round(t[name]) for name in ("sessions", "queries", "clicks"))
        named = {**numbers, "clicks": clicks, "unseen": _share(t["unseen"], t["ranked"])}
        warnings = tuple(text.format(**named) for broken, text in _RULES if broken(named))
        if not clicks:
            warnings = ("there are no clicks here: nothing can be said",)
        return WeightDiagnostics(self.part, sessions, queries, clicks, **numbers, warnings=warnings)

    def _heaviest(self) -> float:
        """Return the summed weight of the heaviest 1 % of clicks, at least one click."""
        clicks, weights = (row[np.argsort(-self.bins)] for row in self.in_bins)
        wanted = max(1, round(0.01 * self.totals["clicks"]))
        taken = np.clip(wanted - (np.cumsum(clicks) - clicks), 0, clicks)
        return float((taken / clicks) @ weights)


def _binned(bins: Longs, values: Floats) -> tuple[Longs, Floats]:
    """Return the distinct bins, rising, and the sums of values by them (rows x bins)."""
    names, index = np.unique(bins, return_inverse=True)
    return names, np.array([np.bincount(index, row, len(names)) for row in values], np.float64)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def estimate_warnings(
    diagnostics: WeightDiagnostics,
    clicked: Longs,
    propensities: PropensitySource,
    *,
    left_out: int = 0,
    trained_on: str | None = None,
) -> tuple[str, ...]:
    """Return why an estimate cannot be trusted, worst first; nothing if it can.

    | rule                                                        | limit                    |
    | ----------------------------------------------------------- | ------------------------ |
    | the model has learned from the log                          | at all                   |
    | sessions left out, because docs have no features            | at all                   |
    | the propensities are not identified                         | verdict of the curve     |
    | weight at positions without clicks behind the curve, or     | 5 %                      |
    | with a wide interval (half of it above half the propensity) |                          |
    | effective clicks; effective queries                         | below 100; below 30      |
    | weight of the heaviest click; of the heaviest 1 % of clicks | above 5 %; above 30 %    |
    | docs that could not be seen; lists not shown whole          | at all                   |

    The last three rows are those of `WeightSums.diagnostics`.

    Args:
        diagnostics: of all clicks.
        clicked: clicks at positions 1, 2, ...
        propensities: where clicks were likely.
        left_out: number of sessions that do not count, for want of features.
        trained_on: name of a model that was trained on the same log.
    """
    warnings = []
    if trained_on is not None:
        warnings.append(
            f"{trained_on} was trained on this log: its estimate is not held out, and too good"
        )
    if left_out:
        share = left_out / (left_out + diagnostics.sessions)
        warnings.append(
            f"{left_out} sessions ({share:.1%}) show docs that the data set does not have: they "
            "are left out, and the estimate is of the others"
        )
    if isinstance(propensities, Propensities):
        warnings += _curve_warnings(propensities, clicked)
    return (*warnings, *diagnostics.warnings)


def _curve_warnings(curve: Propensities, clicks: Longs) -> list[str]:
    if curve.verdict.unknown:
        return [f"the propensities are {curve.verdict}"]
    if curve.clicks.sum() == 0:  # given, not estimated
        return []
    clicked = np.flatnonzero(clicks)
    unsure = _unsure(curve)[clicked]
    weights = clicks[clicked] / curve.propensity[clicked]
    share = float(weights[unsure].sum() / weights.sum()) if len(weights) else 0.0
    if share <= LARGEST_UNSURE_SHARE:
        return []
    return [
        f"{share:.0%} of the weight is that of clicks at positions {in_words(clicked[unsure] + 1)}, "
        "where the propensity is extrapolated or has a wide interval"
    ]


def _unsure(curve: Propensities) -> Marks:
    with np.errstate(invalid="ignore"):
        narrow = (curve.high - curve.low) / 2 <= WIDE * curve.propensity
    unsure = (curve.clicks == 0) | ~narrow
    unsure[0] = False  # position 1 is 1 by convention
    return np.asarray(unsure)
