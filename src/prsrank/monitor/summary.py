"""What is known of a window once its rows are gone: statistics with their errors, all plain."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from prsrank.audit.chance_checks import check_randomised
from prsrank.audit.event_tables import open_tables
from prsrank.errors import InputError
from prsrank.evaluation.results import LOGGED
from prsrank.fit.engine import METRIC
from prsrank.fit.local import LocalLog
from prsrank.fit.plan import Plan
from prsrank.fit.verdict import FEWEST_JUDGED
from prsrank.logs.click_log import ClickLog
from prsrank.logs.mapping import CLIENTS
from prsrank.logs.sources import open_events
from prsrank.monitor.curves import Curve, Power, estimated_curve, likelihood_power
from prsrank.monitor.depths import Depths
from prsrank.monitor.ratios import Ratio
from prsrank.monitor.window_sums import DEPTH, WindowSums
from prsrank.monitor.windows import time_span
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
class Heaviest:
    """The query, or client, with most clicks.

    Attributes:
        name: of it.
        clicks: number of its clicks.
    """

    name: str
    clicks: int


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
        click_rates: by band of positions.
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
        heaviest: the query, and the client, with most clicks.
        not_random: what the audit says of sessions marked as randomised; "" if all is well.
    """

    name: str
    begin: str
    end: str
    sessions: int
    queries: int
    clicks: int
    ratios: dict[str, Ratio]
    click_rates: dict[str, Ratio]
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
    heaviest: dict[str, Heaviest]
    not_random: str


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


def summarise(log: LocalLog, watched: Watched, name: str, *, left_out: int = 0) -> Summary:
    """Measure a window, or the log of the fit: one pass over its sessions for each kind of sum."""
    extent = log.extent()
    if not extent.sessions:
        raise InputError(f"{name}: the window has no sessions")
    scores = np.asarray(watched.model.score(log.lists.features))
    sums = log.pieces.total(lambda one: WindowSums.of(one, log.lists, scores, watched.edges))
    shown, clicked = (column.sum(axis=0).astype(int).tolist() for column in sums.positions)
    last = min(extent.depth, DEPTH)
    enough = extent.clicks >= FEWEST_JUDGED
    curve = watched.curve if watched.curve is None else covering(watched.curve, extent.depth)
    found = estimated_curve(log, watched.plan, watched.method) if enough else None
    gain, effective = _gain(log, curve, watched) if enough else (None, (0.0, 0.0))
    begin, end = time_span(log)
    return Summary(
        name=name,
        begin=begin,
        end=end,
        sessions=extent.sessions,
        queries=extent.queries,
        clicks=extent.clicks,
        ratios=_ratios(sums, extent.sessions, left_out),
        click_rates=sums.click_rates(),
        shown=shown[:last],
        clicked=clicked[:last],
        depth_spread=_spread(sums),
        depths=Depths.of(sums.totals.keys, sums.column("clicks"), sums.column("depth")),
        before=None,
        features=sums.feature_shares(watched.edges),
        orders=sums.orders(watched.edges),
        curve=None if found is None else Curve.of(found, DEPTH),
        power=likelihood_power(log, curve, seed=watched.plan.seed) if enough else None,
        gain=gain,
        effective_clicks=effective[0],
        effective_queries=effective[1],
        heaviest=_heaviest(log),
        not_random=_not_random(log),
    )


def _ratios(sums: WindowSums, sessions: int, left_out: int) -> dict[str, Ratio]:
    found = {name: sums.ratio(*columns) for name, columns in _RATIOS.items()}
    found["left out"] = Ratio.of_counts(left_out, sessions + left_out)
    return {name: one for name, one in found.items() if one is not None}


def _spread(sums: WindowSums) -> float:
    clicks, depth, squares = (
        float(sums.column(name).sum()) for name in ("clicks", "depth", "depth_squared")
    )
    return max(squares / clicks - (depth / clicks) ** 2, 0.0) if clicks else 0.0


def _gain(
    log: LocalLog, curve: Propensities | None, watched: Watched
) -> tuple[Gain | None, tuple[float, float]]:
    """Return the gain of the model, None without an interval; and the effective sample sizes."""
    found = log.evaluate(
        curve, {_MODEL: watched.model}, against=[LOGGED], seed=watched.plan.seed
    ).evaluation
    kind, about = found.narrowest, found.diagnostics[0]
    one = found.difference(_MODEL, METRIC, estimator=kind)
    effective = about.effective_clicks, about.effective_queries
    if not np.isfinite([one.low, one.high]).all():
        return None, effective
    logged = found.estimate(LOGGED, METRIC, estimator=kind).value
    return Gain(one.difference, one.low, one.high, logged), effective


def _heaviest(log: LocalLog) -> dict[str, Heaviest]:
    """Return the query with most clicks, and the client where the log names clients."""
    best: dict[str, Heaviest] = {}
    totals: dict[str, int] = {}
    for piece in log.pieces:
        by_query = np.bincount(
            piece.ranking_query[piece.session_ranking], piece.session_clicks, piece.queries
        )
        top = int(by_query.argmax())
        one = Heaviest(str(piece.query_ids[top]), int(by_query[top]))
        if "query" not in best or one.clicks > best["query"].clicks:
            best["query"] = one
        for client, clicks in _by_client(piece).items():
            totals[client] = totals.get(client, 0) + clicks
    if totals:
        client = max(totals, key=lambda name: (totals[name], name))
        best["client"] = Heaviest(client, totals[client])
    return best


def _by_client(log: ClickLog) -> dict[str, int]:
    column = next((log.contexts[name] for name in CLIENTS if name in log.contexts), None)
    if column is None:
        return {}
    clicks = np.bincount(column.codes, log.session_clicks, len(column.values)).astype(int)
    named = zip(column.values, clicks.tolist(), strict=True)
    return {name: count for name, count in named if name}  # "" is nobody's


def _not_random(log: LocalLog) -> str:
    """Return what the audit finds of the sessions marked as randomised, of the first piece."""
    piece = next(iter(log.pieces))
    marked = (piece.ranking_design > 0)[piece.session_ranking]
    if not marked.any():
        return ""
    with (
        open_events(replace(piece, contexts={})) as source,
        open_tables(source, contexts=(), features=(), base=1) as tables,
    ):
        return next((finding.what for finding in check_randomised(tables)), "")
