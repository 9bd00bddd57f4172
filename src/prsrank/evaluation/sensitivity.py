r"""A model under other assumptions: does its ranking move, and does its estimated gain?

What is assumed of clicks is a line: P(click) of a doc = floor, plus slope if relevant. With the
propensity p of a slot at position k, raised to the power s (another severity), noise mu, and trust
t, where a user trusts position k blindly with probability t / k:

$$\text{slope} = p^s (1 - 2\mu)(1 - t/k), \qquad
  \text{floor} = p^s (\mu + (1 - \mu)\,t/k).$$

These are the clicks of `PositionBasedModel` (t = 0) and `TrustBiasModel`, for a curve p. An
unbiased estimate of a doc's relevance is then (click - floor) / slope (Vardasbi, Oosterhuis, de
Rijke, CIKM 2020); with mu = t = 0 it is click / p, inverse propensity scoring.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.counterfactual import ClickStatistics, check_clicks
from prsrank.evaluation.log_sums import QueryUnits
from prsrank.evaluation.query_bootstrap import SAMPLING, Sampling, ratio_intervals
from prsrank.evaluation.rank_values import find_rank_value
from prsrank.evaluation.results import ALL
from prsrank.evaluation.weight_diagnostics import WeightSums, estimate_warnings
from prsrank.files import plain_json
from prsrank.logs.click_log import ClickLog
from prsrank.logs.features import covered_log, known_lists
from prsrank.logs.held_out import hold_out
from prsrank.metrics.significance import kendall_tau
from prsrank.propensity.curve import PropensityCurve
from prsrank.ragged import row_in_list
from prsrank.rankers.base import Ranker, ranker_class
from prsrank.types import Floats

DEFAULT_VALUES: dict[str, tuple[float, ...]] = {
    "eta": (0.5, 0.75, 1.25, 1.5),
    "noise": (0.05, 0.1, 0.2),
    "trust": (0.2, 0.5),
    "gamma": (2.0, 5.0),
}
KINDS = tuple(DEFAULT_VALUES)


@dataclass(frozen=True)
class Assumption:
    """How users click, and how pairs are clipped in training.

    Attributes:
        eta: power of the propensities: 1 is the curve as it is.
        noise: probability of a wrong judgement, in [0, 0.5).
        trust: probability that position 1 is trusted blindly, in [0, 1).
        gamma: clip of the weighting prs; it changes the training only.

    >>> slope, floor = Assumption(noise=0.1).clicks([1.0, 0.5], [1, 2])
    >>> slope.tolist(), floor.tolist()
    ([0.8, 0.4], [0.1, 0.05])
    """

    eta: float = 1.0
    noise: float = 0.0
    trust: float = 0.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        for name, fits, rule in (
            ("eta", 0 <= self.eta < np.inf, "finite and at least 0"),
            ("noise", 0 <= self.noise < 0.5, "in [0, 0.5)"),
            ("trust", 0 <= self.trust < 1, "in [0, 1)"),
            ("gamma", 0 < self.gamma < np.inf, "finite and above 0"),
        ):
            if not fits:
                raise InputError(f"{name} must be {rule}, not {getattr(self, name)}")

    def clicks(
        self, propensities: npt.ArrayLike, positions: npt.ArrayLike
    ) -> tuple[Floats, Floats]:
        """Return slope and floor of slots of these propensities and positions."""
        p = np.asarray(propensities, np.float64) ** self.eta
        trusting = self.trust / np.asarray(positions, np.float64)
        return (
            p * (1 - 2 * self.noise) * (1 - trusting),
            p * (self.noise + (1 - self.noise) * trusting),
        )


def slot_propensities(log: ClickLog, curve: PropensityCurve | None) -> Floats:
    """Return the propensity of each slot of a log, by a curve or by the log itself."""
    if curve is not None:
        # a curve is asked once a position, not once a slot
        positions, index = np.unique(log.ranking_positions, return_inverse=True)
        return np.asarray(np.asarray(curve.at(positions), np.float64)[index])
    if log.ranking_propensities is None:
        raise InputError("the log has no propensities: give --propensity FILE or power:ETA")
    return log.ranking_propensities


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its interval."""

    value: float
    low: float
    high: float


class AffineJudge:
    r"""Estimates of a metric from the slots of a log, clicked or not.

    The estimate is $\frac{1}{N} \sum_{\text{sessions, slots}} v(r) (c - \text{floor}) /
    \text{slope}$, v(r) the value of the slot's rank r under the new scores among the docs shown,
    and N the number of sessions: unbiased where the assumption holds. Without noise and trust it
    is the "ips" estimate of `prsrank.evaluation.counterfactual`, intervals included. Where the log
    weighs its clicks, c is the weight of the click, and the floor is one of clicks of the mean
    weight.

    Args:
        log: held-out sessions.
        dataset: the lists that rankers score.
        curve: the propensities, or None for those in the log.
        metric: "dcg@10" or another that is not self-normalised.
        sampling: how intervals are bootstrapped.
    """

    def __init__(
        self,
        log: ClickLog,
        dataset: RankingDataset,
        curve: PropensityCurve | None,
        *,
        metric: str = "dcg@10",
        **sampling: Unpack[Sampling],
    ) -> None:
        self._form = find_rank_value(metric)
        if self._form.self_normalised:
            raise InputError(f"{metric} is self-normalised: take dcg@K, dcg or arp")
        check_clicks(len(log.clicks), log.sessions)
        propensities = slot_propensities(log, curve)
        self.statistics = ClickStatistics.of_log(log, dataset, propensities, every_doc=True)
        self.metric, self.lists, self._sampling = metric, dataset, sampling
        self._weight, self._shown = log.slot_click_weights(), log.slot_statistics()[0]
        self._units = QueryUnits.of(log)
        # by the same running sums as other orders: what ranks alike has no gain at all
        pools, doc = self.statistics.pools, self.statistics.pool_doc
        values = np.diff(np.cumsum(self._form.of_ranks(pools.longest)), prepend=0.0)
        divisors = self._form.divisors(pools.lengths[doc])
        self._logged = values[row_in_list(log.ranking_offsets)] / divisors

    def __call__(self, scores: npt.ArrayLike, assumption: Assumption) -> tuple[Interval, Interval]:
        """Return the value of a ranker, given its scores, and its gain over the logged ranking."""
        statistics, log = self.statistics, self.statistics.log
        values = self._form.of_pools(statistics.pools, scores)[statistics.pool_doc]
        slope, floor = assumption.clicks(statistics.propensities[0], log.ranking_positions)
        # the clicks that the slot would have without relevance
        expected = self._shown * floor * float(self._weight.sum() / len(log.clicks))
        relevance = np.zeros(len(slope))
        np.divide(self._weight - expected, slope, out=relevance, where=slope > 0)
        # the gain is a column of its own: its interval is that of a paired difference
        columns = [values * relevance, (values - self._logged) * relevance]
        sessions = log.ranking_query[log.session_ranking], np.ones(log.sessions)
        table = self._units.table(
            [*((statistics.slot_query, column) for column in columns), sessions]
        )
        sums = table.values[table.values[:, -1] > 0]
        intervals = ratio_intervals(sums[:, :-1], sums[:, -1], **self._sampling)
        value, gain = np.stack(intervals[:3], axis=1).tolist()
        return Interval(*value), Interval(*gain)


@dataclass(frozen=True)
class Point:
    """What one assumption makes of the model and of its estimate.

    Attributes:
        kind: what is assumed otherwise: "eta", "noise", "trust" or "gamma".
        value: its value.
        is_base: whether it is the value that the model was trained with.
        value_of_model: value of the model, judged under the assumption.
        gain_of_model: its gain over the logged ranking, judged under the assumption.
        gain_retrained: gain of a model trained and judged under the assumption; None if no
            model was trained.
        kendall_tau: of its ranking and the model's, mean over held-out lists.
    """

    kind: str
    value: float
    is_base: bool
    value_of_model: Interval
    gain_of_model: Interval
    gain_retrained: Interval | None = None
    kendall_tau: float | None = None

    @property
    def logged(self) -> float:
        """Value of the logged ranking, judged under the assumption."""
        return self.value_of_model.value - self.gain_of_model.value


@dataclass(frozen=True)
class Sensitivity:
    """A model under several assumptions.

    Attributes:
        metric: the metric of values and gains.
        confidence: share of the intervals.
        points: by kind, then by value.
        reference_tau: Kendall's tau of the rankings of two models trained alike, the second on
            resampled sessions: what chance alone does. None if not measured.
        warnings: why the estimates cannot be trusted even under the base assumption.
    """

    metric: str
    confidence: float
    points: tuple[Point, ...]
    reference_tau: float | None = None
    warnings: tuple[str, ...] = ()

    def by_kind(self) -> dict[str, list[Point]]:
        """Return the points of each kind, by rising value."""
        kinds = dict.fromkeys(point.kind for point in self.points)
        return {kind: [p for p in self.points if p.kind == kind] for kind in kinds}

    def turns(self, kind: str) -> list[float]:
        """Return where the gain of the model changes its sign, between neighbours on a line."""
        return [
            left.value + (right.value - left.value) * low / (low - high)
            for left, right in pairwise(self.by_kind()[kind])
            for low, high in [(left.gain_of_model.value, right.gain_of_model.value)]
            if low * high < 0
        ]

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts; a number that is not finite becomes None."""
        turns = {kind: self.turns(kind) for kind in self.by_kind()}
        plain: dict[str, Any] = plain_json({**asdict(self), "turns": turns})
        return plain


def study_sensitivity(
    judge: AffineJudge,
    scores: npt.ArrayLike,
    *,
    values: Mapping[str, Sequence[float]] = DEFAULT_VALUES,
    train: Callable[[Assumption], Floats] | None = None,
    base: Assumption | None = None,
) -> tuple[Point, ...]:
    """Judge a model, and models trained otherwise, under assumptions that may be wrong.

    Args:
        judge: estimates from sessions that the model did not learn from.
        scores: the model's score of each doc judged.
        values: the values to try, by kind; the base is tried beside them.
        train: trains a ranker under an assumption and returns its scores; None judges the model
            only. Noise changes nothing of what prs learns, and it is asked without.
        base: what the model itself was trained with.
    """
    start, model = base or Assumption(), np.asarray(scores, np.float64)
    offsets, points = judge.lists.offsets, []
    for kind, chosen in values.items():
        if kind not in KINDS:
            raise InputError(f"no assumption '{kind}': one of {', '.join(KINDS)}")
        for value in sorted({float(v) for v in chosen} | {float(getattr(start, kind))}):
            assumption = replace(start, **{kind: value})
            point = Point(kind, value, assumption == start, *judge(model, assumption))
            if train is not None:
                # noise leaves all ratios of slopes alone, so that prs learns the same
                other = train(replace(assumption, noise=0.0))
                tau = _mean(kendall_tau(model, other, offsets))
                _, gain = judge(other, assumption)
                point = replace(point, gain_retrained=gain, kendall_tau=tau)
            points.append(point)
    return tuple(points)


def study_log(
    log: ClickLog,
    dataset: RankingDataset,
    curve: PropensityCurve | None,
    *,
    model: Ranker | None = None,
    ranker: str = "lambdamart",
    settings: Mapping[str, Any] | None = None,
    hold_out_by: tuple[str, float] = ("query", 0.2),
    values: Mapping[str, Sequence[float]] = DEFAULT_VALUES,
    trained_on: str | None = None,
    **sampling: Unpack[Sampling],
) -> Sensitivity:
    """Hold out a part of a log, judge a model there and train others on the rest.

    Sessions that show docs without features are left out and counted in the warnings.

    Args:
        log: the log, from which the model, if given, must not have learned the held-out part.
        dataset: the lists, with the features of the log's docs.
        curve: the propensities, or None for those in the log.
        model: the model to judge; default: the ranker, trained under the base assumption.
        ranker: name of the ranker to train.
        settings: its parameters.
        hold_out_by: "query" or "time", and the share to hold out.
        values: the values to try, by kind.
        trained_on: name of the model if it was trained on this log, for the warning.
        sampling: how intervals are bootstrapped; the seed is that of the hold-out, too.
    """
    covered = covered_log(log, dataset)
    drawing: Sampling = {**SAMPLING, **sampling}
    seed = drawing["seed"]
    parts = hold_out(covered, by=hold_out_by[0], share=hold_out_by[1], seed=seed)
    judged, lists = (known_lists(part, dataset) for part in (parts.held_out, parts.training))
    judge = AffineJudge(parts.held_out, judged, curve, **sampling)

    def trained(sessions: ClickLog) -> Callable[[Assumption], Floats]:
        """Return what trains by prs under an assumption: its slopes are the propensities.

        Seed and settings are the same each time, so that only the assumption differs.
        """
        propensities = slot_propensities(sessions, curve)

        @cache
        def train(assumption: Assumption) -> Floats:
            new: Any = ranker_class(ranker)().set_params(**dict(settings or {}))
            slope, _ = assumption.clicks(propensities, sessions.ranking_positions)
            pairs = new.pairs(sessions, lists, slope, "prs", parameters={"gamma": assumption.gamma})
            return np.asarray(new.fit(lists, pairs).score(judged.features), np.float64)

        return train

    train = trained(parts.training)
    scores = train(Assumption()) if model is None else model.score(judged.features)
    points = study_sensitivity(judge, scores, values=values, train=train)
    # how far a ranking moves by chance alone: trained alike, on resampled sessions
    sessions = parts.training.sessions
    drawn = np.sort(np.random.default_rng(seed).integers(sessions, size=sessions))
    again = trained(parts.training.select(drawn))(Assumption())
    alike = kendall_tau(train(Assumption()), again, judged.offsets)
    statistics = judge.statistics
    warnings = estimate_warnings(
        WeightSums.of(ALL, statistics, *statistics.counts()).diagnostics(),
        parts.held_out.position_counts()[1],
        curve,
        left_out=log.sessions - covered.sessions,
        trained_on=trained_on,
    )
    if parts.dropped_sessions:
        warnings += (
            f"{parts.shared_queries} queries come before and after the cut in time: "
            f"{parts.dropped_sessions} of their sessions are dropped from the training part",
        )
    return Sensitivity(judge.metric, drawing["confidence"], points, _mean(alike), warnings)


def _mean(values: Floats) -> float:
    """Return the mean over lists that have a value; NaN if none has."""
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("nan")
