"""A model under other assumptions: does its ranking move, and does its estimated gain?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.affine import AffineJudge, Interval
from prsrank.evaluation.agreement import kendall_tau, mean_known, rank_change
from prsrank.evaluation.assumptions import (
    DEFAULT_VALUES,
    Assumption,
    alternatives,
    slot_propensities,
)
from prsrank.evaluation.query_bootstrap import SAMPLING, Sampling
from prsrank.files import plain_json
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PropensityCurve


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

    def of(self, kind: str) -> list[Point]:
        """Return the points of one kind, by rising value."""
        return [point for point in self.points if point.kind == kind]

    def turns(self, kind: str) -> list[float]:
        """Return where the gain of the model changes its sign, between neighbours on a line."""
        found = []
        for left, right in pairwise(self.of(kind)):
            low, high = left.gain_of_model.value, right.gain_of_model.value
            if low * high < 0:
                found.append(left.value + (right.value - left.value) * low / (low - high))
        return found

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts; a number that is not finite becomes None."""
        turns = {kind: self.turns(kind) for kind in dict.fromkeys(p.kind for p in self.points)}
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
    train: Callable[[Assumption], npt.ArrayLike] | None = None,
    base: Assumption | None = None,
    **options: Unpack[StudyOptions],
) -> Sensitivity:
    """Judge a model, and models trained otherwise, under assumptions that may be wrong.

    Args:
        held_out: sessions that the model did not learn from.
        dataset: the lists that are scored; all queries of `held_out`.
        curve: the propensities, or None for those in the log.
        scores: the model's score of each doc of the data set.
        train: trains a ranker under an assumption and returns its scores of the data set's
            docs, such as `trainer` gives; None judges the model only. Noise changes nothing of
            what prs learns, and it is asked without.
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
            judged = judge(model, assumption)
            point = Point(kind, value, assumption == start, judged.value, judged.gain)
            if train is not None:
                # noise leaves all ratios of slopes alone, so that prs learns the same
                other = np.asarray(train(replace(assumption, noise=0.0)), np.float64)
                point = replace(
                    point,
                    gain_retrained=judge(other, assumption).gain,
                    gain_by_base=judge(other, start).gain,
                    kendall_tau=mean_known(kendall_tau(model, other, dataset.offsets)),
                    rank_change=mean_known(rank_change(model, other, dataset.offsets)),
                )
            points.append(point)
    return Sensitivity(metric, sampling["confidence"], tuple(points))
