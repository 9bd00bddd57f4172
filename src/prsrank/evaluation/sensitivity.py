"""A model under other assumptions: does its ranking move, and does its estimated gain?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

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
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PropensityCurve
from prsrank.types import Floats


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

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts; a number that is not finite becomes None."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def study_sensitivity(
    held_out: ClickLog,
    dataset: RankingDataset,
    curve: PropensityCurve | None,
    scores: npt.ArrayLike,
    *,
    train: Callable[[Assumption], npt.ArrayLike] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    base: Assumption | None = None,
    metric: str = "dcg@10",
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
    progress: Callable[[str], object] | None = None,
) -> Sensitivity:
    """Judge a model, and models trained otherwise, under assumptions that may be wrong.

    Args:
        held_out: sessions that the model did not learn from.
        dataset: the lists that are scored; all queries of `held_out`.
        curve: the propensities, or None for those in the log.
        scores: the model's score of each doc of the data set.
        train: trains a ranker under an assumption and returns its scores of the data set's
            docs; None judges the model only.
        values: the values to try, by kind; default `DEFAULT_VALUES`.
        base: what the model itself was trained with.
        metric: as for `AffineJudge`, like `samples`, `seed` and `confidence`.
        samples: number of bootstrap samples.
        seed: their seed.
        confidence: share of the intervals.
        progress: is told what is being tried.
    """
    start = base or Assumption()
    judge = AffineJudge(
        held_out,
        dataset,
        slot_propensities(held_out, curve),
        metric=metric,
        samples=samples,
        seed=seed,
        confidence=confidence,
    )
    model = np.asarray(scores, np.float64)
    trained: list[tuple[Assumption, Floats]] = []

    def retrained(assumption: Assumption) -> Floats:
        for known, found in trained:
            if known.trains_as(assumption):
                return found
        assert train is not None  # noqa: S101
        trained.append((assumption, np.asarray(train(assumption), np.float64)))
        return trained[-1][1]

    points = []
    for kind, chosen in (values or DEFAULT_VALUES).items():
        for value, assumption in alternatives(kind, chosen, base=start):
            if progress is not None:
                progress(f"{kind} {value:g}")
            judged = judge(model, assumption)
            more: dict[str, Any] = {}
            if train is not None:
                other = retrained(assumption)
                more = {
                    "gain_retrained": judge(other, assumption).gain,
                    "gain_by_base": judge(other, start).gain,
                    "kendall_tau": mean_known(kendall_tau(model, other, dataset.offsets)),
                    "rank_change": mean_known(rank_change(model, other, dataset.offsets)),
                }
            points.append(
                Point(kind, value, assumption == start, judged.value, judged.gain, **more)
            )
    return Sensitivity(metric, confidence, tuple(points))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
