r"""What may be assumed of clicks, as a line: P(click) of a doc = floor, plus slope if relevant.

With the propensity p of a slot at position k, raised to the power s (another severity), noise
mu, and trust t, where a user trusts position k blindly with probability t / k:

$$\text{slope} = p^s (1 - 2\mu)(1 - t/k), \qquad
  \text{floor} = p^s (\mu + (1 - \mu)\,t/k).$$

These are the clicks of `PositionBasedModel` (t = 0) and `TrustBiasModel`, for a curve p. An
unbiased estimate of a doc's relevance is then (click - floor) / slope (Vardasbi, Oosterhuis, de
Rijke, CIKM 2020); with mu = t = 0 it is click / p, inverse propensity scoring.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.counterfactual import ClickStatistics, check_clicks
from prsrank.evaluation.log_sums import QueryUnits
from prsrank.evaluation.query_bootstrap import Sampling, ratio_intervals
from prsrank.evaluation.rank_values import find_rank_value
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PropensityCurve
from prsrank.ragged import row_in_list
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


def alternatives(
    kind: str, values: Sequence[float], *, base: Assumption | None = None
) -> list[tuple[float, Assumption]]:
    """Return the base and its alternatives in one respect, by rising value.

    >>> [value for value, _ in alternatives("eta", [1.5, 0.5])]
    [0.5, 1.0, 1.5]
    """
    if kind not in KINDS:
        raise InputError(f"no assumption '{kind}': one of {', '.join(KINDS)}")
    start = base or Assumption()
    chosen = sorted({float(v) for v in values} | {float(getattr(start, kind))})
    return [(value, replace(start, **{kind: value})) for value in chosen]


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


class JudgedRanker(NamedTuple):
    """A ranker's value under an assumption, and its gain over the logged ranking."""

    value: Interval
    gain: Interval


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
        propensities: one per slot of the log.
        metric: "dcg@10" or another that is not self-normalised.
        sampling: how intervals are bootstrapped.
    """

    def __init__(
        self,
        log: ClickLog,
        dataset: RankingDataset,
        propensities: npt.ArrayLike,
        *,
        metric: str = "dcg@10",
        **sampling: Unpack[Sampling],
    ) -> None:
        self._form = find_rank_value(metric)
        if self._form.self_normalised:
            raise InputError(f"{metric} is self-normalised: take dcg@K, dcg or arp")
        check_clicks(len(log.clicks), log.sessions)
        self.statistics = ClickStatistics.of_log(log, dataset, propensities, every_doc=True)
        self._shown, _ = log.slot_statistics()
        self._weight = log.slot_click_weights()
        self._units, self._sampling = QueryUnits.of(log), sampling
        # by the same running sums as other orders: what ranks alike has no gain at all
        pools, doc = self.statistics.pools, self.statistics.pool_doc
        values = np.diff(np.cumsum(self._form.of_ranks(pools.longest)), prepend=0.0)
        divisors = self._form.divisors(pools.lengths[doc])
        self._logged = values[row_in_list(log.ranking_offsets)] / divisors

    def __call__(self, scores: npt.ArrayLike, assumption: Assumption) -> JudgedRanker:
        """Judge a ranker by its scores of the data set's docs."""
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
        *sums, shown = self._units.table(
            [*((statistics.slot_query, column) for column in columns), sessions]
        ).values.T
        used = shown > 0
        intervals = ratio_intervals(np.stack(sums, 1)[used], shown[used], **self._sampling)
        ends = np.stack([intervals.values, intervals.low, intervals.high], axis=1).tolist()
        return JudgedRanker(*(Interval(*column) for column in ends))
