"""A model under other assumptions: does its ranking move, and does its estimated gain?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.assumptions import (
    DEFAULT_VALUES,
    AffineJudge,
    Assumption,
    Interval,
    alternatives,
    slot_propensities,
)
from prsrank.evaluation.counterfactual import ClickStatistics
from prsrank.evaluation.query_bootstrap import SAMPLING, Sampling
from prsrank.evaluation.results import ALL
from prsrank.evaluation.weight_diagnostics import (
    WeightSums,
    diagnostics_of_sums,
    estimate_warnings,
)
from prsrank.files import plain_json
from prsrank.logs.click_log import ClickLog
from prsrank.logs.coverage import covered_log, known_lists
from prsrank.logs.held_out import hold_out
from prsrank.metrics.significance import kendall_tau, rank_change
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker, ranker_class
from prsrank.types import Floats

Train = Callable[[Assumption], npt.ArrayLike]
"""Trains a ranker under an assumption and returns its scores of the docs judged."""


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
        gain_by_base: gain of that model, judged under the base assumption.
        kendall_tau: of its ranking and the model's, mean over held-out lists.
        rank_change: by how many ranks the model's top 10 move, mean over held-out lists.
    """

    kind: str
    value: float
    is_base: bool
    value_of_model: Interval
    gain_of_model: Interval
    gain_retrained: Interval | None = None
    gain_by_base: Interval | None = None
    kendall_tau: float | None = None
    rank_change: float | None = None

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
        return {kind: self.of(kind) for kind in kinds}

    def of(self, kind: str) -> list[Point]:
        """Return the points of one kind, by rising value."""
        return [point for point in self.points if point.kind == kind]

    def turns(self, kind: str) -> list[float]:
        """Return where the gain of the model changes its sign, between neighbours on a line."""
        return [
            left.value + (right.value - left.value) * low / (low - high)
            for left, right in pairwise(self.of(kind))
            for low, high in [(left.gain_of_model.value, right.gain_of_model.value)]
            if low * high < 0
        ]

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts; a number that is not finite becomes None."""
        turns = {kind: self.turns(kind) for kind in self.by_kind()}
        plain: dict[str, Any] = plain_json({**asdict(self), "turns": turns})
        return plain


class StudyOptions(Sampling, total=False):
    """What a study tries and measures.

    Attributes:
        values: the values to try, by kind; default `DEFAULT_VALUES`.
        metric: of values and gains; default "dcg@10".
    """

    values: Mapping[str, Sequence[float]]
    metric: str


def study_sensitivity(
    held_out: ClickLog,
    dataset: RankingDataset,
    curve: PropensityCurve | None,
    scores: npt.ArrayLike,
    *,
    train: Train | None = None,
    base: Assumption | None = None,
    **options: Unpack[StudyOptions],
) -> Sensitivity:
    """Judge a model, and models trained otherwise, under assumptions that may be wrong.

    Args:
        held_out: sessions that the model did not learn from.
        dataset: the lists that are scored; all queries of `held_out`.
        curve: the propensities, or None for those in the log.
        scores: the model's score of each doc of the data set.
        train: trains rankers; None judges the model only. Noise changes nothing of what prs
            learns, and it is asked without.
        base: what the model itself was trained with.
        options: what is tried and measured, and how intervals are bootstrapped.
    """
    values = options.pop("values", None) or DEFAULT_VALUES
    metric = options.pop("metric", "dcg@10")
    sampling: Sampling = {**SAMPLING, **options}  # type: ignore[typeddict-unknown-key]
    propensities = slot_propensities(held_out, curve)
    judge = AffineJudge(held_out, dataset, propensities, metric=metric, **sampling)
    start, model = base or Assumption(), np.asarray(scores, np.float64)
    points = []
    for kind, chosen in values.items():
        for value, assumption in alternatives(kind, chosen, base=start):
            point = Point(kind, value, assumption == start, *judge(model, assumption))
            if train is not None:
                # noise leaves all ratios of slopes alone, so that prs learns the same
                other = np.asarray(train(replace(assumption, noise=0.0)), np.float64)
                point = replace(
                    point,
                    gain_retrained=judge(other, assumption).gain,
                    gain_by_base=judge(other, start).gain,
                    kendall_tau=_mean(kendall_tau(model, other, dataset.offsets)),
                    rank_change=_mean(rank_change(model, other, dataset.offsets)),
                )
            points.append(point)
    return Sensitivity(metric, sampling["confidence"], tuple(points))


def study_log(
    log: ClickLog,
    dataset: RankingDataset,
    curve: PropensityCurve | None,
    *,
    model: Ranker | None = None,
    ranker: str = "lambdamart",
    settings: Mapping[str, Any] | None = None,
    hold_out_by: tuple[str, float] = ("query", 0.2),
    trained_on: str | None = None,
    **options: Unpack[StudyOptions],
) -> Sensitivity:
    """Study a model, or one trained here, under other assumptions.

    Sessions that show docs which the data set lacks are left out, and a warning says so.

    Args:
        log: the sessions.
        dataset: the lists, with the features of the log's docs.
        curve: the propensities, or None for those in the log.
        model: the model to judge; default: the ranker, trained under the base assumption.
        ranker: name of the ranker to train.
        settings: its parameters.
        hold_out_by: "query" or "time", and the share to hold out.
        trained_on: name of the model if it was trained on this log, for the warning.
        options: those of `study_sensitivity`; the seed is that of the hold-out, too.
    """
    covered, seed = covered_log(log, dataset), options.get("seed", 0)
    parts = hold_out(covered, by=hold_out_by[0], share=hold_out_by[1], seed=seed)
    judged, lists = (known_lists(part, dataset) for part in (parts.held_out, parts.training))

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
    study = study_sensitivity(parts.held_out, judged, curve, scores, train=train, **options)
    # how far a ranking moves by chance alone: trained alike, on resampled sessions
    sessions = parts.training.sessions
    drawn = np.sort(np.random.default_rng(seed).integers(sessions, size=sessions))
    again = trained(parts.training.select(drawn))(Assumption())
    alike = kendall_tau(train(Assumption()), again, judged.offsets)
    propensities = slot_propensities(parts.held_out, curve)
    statistics = ClickStatistics.of_log(parts.held_out, judged, propensities)
    weights = diagnostics_of_sums(ALL, WeightSums.of(statistics, *statistics.counts()))
    left_out = log.sessions - covered.sessions
    warnings = estimate_warnings(
        weights, parts.held_out, curve, left_out=left_out, trained_on=trained_on
    )
    if parts.dropped_sessions:
        warnings += (
            f"{parts.shared_queries} queries come before and after the cut in time: "
            f"{parts.dropped_sessions} of their sessions are dropped from the training part",
        )
    return replace(study, warnings=warnings, reference_tau=_mean(alike))


def _mean(values: Floats) -> float:
    """Return the mean over lists that have a value; NaN if none has."""
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("nan")
