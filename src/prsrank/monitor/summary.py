"""What is kept of a window once its rows are gone: statistics with their errors, all plain."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prsrank.errors import InputError
from prsrank.evaluation.results import LOGGED
from prsrank.fit.log import PiecedLog
from prsrank.fit.plan import METRIC, Plan
from prsrank.fit.verdict import FEWEST_JUDGED
from prsrank.monitor.ratios import Curve, Depths, Power, Ratio, estimated_curve, likelihood_power
from prsrank.monitor.windows import DEPTH, WindowSums, feature_edges, impressions_of, time_span
from prsrank.propensity.curve import Propensities, covering
from prsrank.rankers.base import Ranker
from prsrank.types import Floats

_MODEL = "model"
_RATIOS = {
    "clicks per session": ("clicks", "sessions"),
    "docs per session": ("docs", "sessions"),
    "randomised": ("randomised", "sessions"),
    "gaps": ("gaps", "sessions"),
    "late": ("late", "sessions"),
    "greedy": ("greedy", "sessions"),
    "depth": ("depth", "clicks"),
    "order": ("order", "ordinary"),
}


@dataclass(frozen=True)
class Gain:
    """The estimated gain of the model over the ranking shown.

    Attributes:
        difference: in the metric that fit chooses by.
        low: lower end of the 95 % interval.
        high: upper end.
        logged: the metric of the ranking shown.
    """

    difference: float
    low: float
    high: float
    logged: float


@dataclass(frozen=True)
class Summary:
    """A window, or the log that the model was trained on.

    Attributes:
        name: of the window.
        begin: time of the first session; "" where the log has none.
        end: time of the last.
        sessions: with features.
        queries: number of queries.
        clicks: number of clicks.
        ratios: statistics by name; see `prsrank.monitor.checks`.
        shown: docs shown at positions 1, 2, ...
        clicked: docs clicked there.
        depth_spread: variance of the log of the position over clicks.
        depths: clicks and their log positions by query; None where they are not kept.
        before: those of the window before in the same order of docs; None where there is none.
        features: share of impressions up to each edge of each feature, missing ones last.
        orders: correlation of the order shown with each of the features used most.
        curve: by what the log identifies.
        power: of the curve trained on that the clicks look like.
        gain: of the model.
        effective_clicks: effective sample size of the clicks.
        effective_queries: and of queries.
    """

    name: str
    begin: str
    end: str
    sessions: int
    queries: int
    clicks: int
    ratios: dict[str, Ratio]
    shown: list[int]
    clicked: list[int]
    depth_spread: float
    depths: Depths | None
    before: Depths | None
    features: dict[str, list[Ratio]]
    orders: dict[str, Ratio]
    curve: Curve | None
    power: Power | None
    gain: Gain | None
    effective_clicks: float
    effective_queries: float


@dataclass(frozen=True, eq=False)
class Watched:
    """What every window of a run is measured with.

    Attributes:
        plan: of the fit.
        model: what was trained.
        curve: what it was trained with; None: the propensities in the log.
        edges: of the bins of the features that the model uses.
        method: that estimates a window's curve; "": the best that it identifies.
    """

    plan: Plan
    model: Ranker
    curve: Propensities | None
    edges: Mapping[str, Floats]
    method: str = ""


@dataclass(frozen=True)
class Reference:
    """The log of a fit, once and for all.

    Attributes:
        source: which log it is, in words.
        summary: its statistics.
        edges: upper ends of the bins of each feature, those that the model uses most first.
        importance: share of each of these features in the model.
        curve: that the model was trained with; None: the propensities in the log.
        gain: of the judged ranker on held-out clicks, as fit found it.
    """

    source: str
    summary: Summary
    edges: dict[str, list[float]]
    importance: dict[str, float]
    curve: Curve | None
    gain: Gain | None

    def watching(self, watched: Watched) -> Watched:
        """Return what windows are measured with: the same bins, and the same method."""
        method = "" if self.summary.curve is None else self.summary.curve.method
        edges = {name: np.array(ends) for name, ends in self.edges.items()}
        return replace(watched, edges=edges, method=method)


def measure(log: PiecedLog, watched: Watched, *, source: str, gain: Gain | None) -> Reference:
    """Measure the log that a model was trained on.

    Args:
        log: its sessions.
        watched: the model and its curve.
        source: which log it is, in words.
        gain: of the model, by clicks that it did not learn from.
    """
    importance = _importance(watched.model)
    shown = log.pieces.total(lambda piece: impressions_of(piece, log.lists))
    edges = {
        name: feature_edges(
            log.lists.features[:, log.lists.feature_names.index(name)].astype(np.float64), shown
        )
        for name in importance
    }
    return Reference(
        source=source,
        summary=summarise(log, replace(watched, edges=edges), "reference"),
        edges={name: ends.tolist() for name, ends in edges.items()},
        importance=importance,
        curve=None if watched.curve is None else Curve.of(watched.curve, DEPTH),
        gain=gain,
    )


def _importance(model: Ranker) -> dict[str, float]:
    """Return the share of each feature that the model uses, the largest first; all alike if unknown."""
    use = model.feature_importance() or dict.fromkeys(model.feature_names_, 1.0)
    total = sum(abs(value) for value in use.values()) or 1.0
    shares = {name: abs(float(value)) / total for name, value in use.items() if value}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def summarise(log: PiecedLog, watched: Watched, name: str) -> Summary:
    """Measure a window, or the log of the fit: one pass over its sessions for each kind of sum."""
    extent = log.extent()
    if not extent.sessions:
        raise InputError(f"{name}: the window has no sessions")
    scores = np.asarray(watched.model.score(log.lists.features))
    sums = log.pieces.total(lambda piece: WindowSums.of(piece, log.lists, scores, watched.edges))
    ratios = {name: sums.ratio(*columns) for name, columns in _RATIOS.items()}
    ratios["left out"] = Ratio.of_counts(log.left_out, extent.sessions + log.left_out)
    shown, clicked = (
        sums.block(name).sum(axis=0).astype(int).tolist()[: min(extent.depth, DEPTH)]
        for name in ("shown", "clicked")
    )
    begin, end = time_span(log)
    return Summary(
        name=name,
        begin=begin,
        end=end,
        sessions=extent.sessions,
        queries=extent.queries,
        clicks=extent.clicks,
        ratios={key: ratio for key, ratio in ratios.items() if ratio is not None},
        shown=shown,
        clicked=clicked,
        depth_spread=_spread(sums),
        depths=Depths.of(sums.units.keys, sums.column("clicks"), sums.column("depth")),
        before=None,
        features=sums.feature_shares(),
        orders=sums.feature_orders(),
        **_of_curve(log, watched, extent.clicks >= FEWEST_JUDGED, extent.depth),
    )


def _spread(sums: WindowSums) -> float:
    clicks, depth, squares = (
        float(sums.column(name).sum()) for name in ("clicks", "depth", "depth_squared")
    )
    return max(squares / clicks - (depth / clicks) ** 2, 0.0) if clicks else 0.0


def _of_curve(log: PiecedLog, watched: Watched, enough: bool, depth: int) -> dict[str, Any]:
    """Return what clicks enough tell: the curve, its power, the gain, effective sample sizes."""
    if not enough:
        nothing = dict.fromkeys(("curve", "power", "gain"))
        return {**nothing, "effective_clicks": 0.0, "effective_queries": 0.0}
    curve = watched.curve if watched.curve is None else covering(watched.curve, depth)
    estimate = estimated_curve(log, watched.plan, watched.method)
    evaluation = log.evaluate(
        curve, {_MODEL: watched.model}, against=[LOGGED], seed=watched.plan.seed
    ).evaluation
    kind, weights = evaluation.narrowest, evaluation.diagnostics[0]
    gain = evaluation.difference(_MODEL, METRIC, estimator=kind)
    logged = evaluation.estimate(LOGGED, METRIC, estimator=kind).value
    there = np.isfinite([gain.low, gain.high]).all()
    return {
        "curve": None if estimate is None else Curve.of(estimate, DEPTH),
        "power": likelihood_power(log, curve, seed=watched.plan.seed),
        "gain": Gain(gain.difference, gain.low, gain.high, logged) if there else None,
        "effective_clicks": weights.effective_clicks,
        "effective_queries": weights.effective_queries,
    }
