"""Propensities by the likelihood of the clicks, jointly with relevance from features."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog, LogOrFrame, as_click_log
from prsrank.logs.pieces import Extent, Pieces
from prsrank.propensity.bootstrap import CurveOptions, RawCurve
from prsrank.propensity.cells import Cells, carriers_of, count_cells, queries_of
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.propensity.curve import MOST_POSITIONS, PowerLaw, Propensities
from prsrank.propensity.em_steps import propensity_given_relevance
from prsrank.propensity.regression_em import influence_given_relevance
from prsrank.propensity.tempering import (
    JUDGE,
    WIDEST_INTERVAL,
    Tempering,
    temper_counts,
    tempered,
    within_powers,
)
from prsrank.propensity.verdict import Status, Verdict
from prsrank.relevance.prior import PriorModel, cross_fitting
from prsrank.types import Floats, LogTables

_ONE_POSITION = (
    "every doc was only ever shown at one position, so that only the features tell relevance "
    "from position; log sessions of a second ranker or randomise a share"
)
_NO_FEATURES = "it tells relevance from position by the features: give the data set"
_FLAT = (
    "features explain the clicks about as well with any curve; log sessions of a second ranker "
    "or randomise a share"
)


@dataclass(frozen=True, kw_only=True)
class LikelihoodEstimator(CurveOptions):
    r"""The curve that makes clicks of held-out queries most likely, relevance from features.

    First a power law $(1/k)^\eta$: the power of 1/k that `temper` finds. With shape "power" that
    is the curve. Else every position gets a p of its own: by turns the prior q(x) is
    cross-fitted given p, and p is the most likely given q. Unlike regression EM, the q of a
    doc never comes from its own clicks, so that what features do not know about a doc is not
    taken for a bias of its position. Last, where docs were shown at several positions, the curve
    is raised to the power that these ask for, each compared with itself: features that miss
    what put docs on top would leave it too steep.

    Args:
        rounds: how often prior and curve are fitted in turn.
        prior: how relevance depends on the features.
    """

    method: ClassVar[str] = "likelihood"
    needs: ClassVar[str] = "features of the docs"
    uses_features: ClassVar[bool] = True

    rounds: int = 3
    prior: PriorModel = JUDGE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < 1:
            raise InputError(f"rounds must be at least 1, not {self.rounds}")

    def identify(self, tables: LogTables) -> None:
        """Return None: counts alone cannot tell, the features must."""

    def raw_curve(self, pieces: Pieces[ClickLog], depth: int) -> RawCurve:
        """Say that sessions alone do not identify the curve."""
        return RawCurve.unknown(np.zeros(depth, np.int64), _NO_FEATURES)

    def estimate(
        self, log: LogOrFrame, *, dataset: RankingDataset | None = None, seed: int = 0
    ) -> Propensities:
        """Return the curve of the log; see `Estimator`."""
        log = as_click_log(log)
        if dataset is None:
            return super().estimate(log, seed=seed)
        depth = self.depth(Extent.of(log))
        cells = count_cells(log, dataset, depth=min(MOST_POSITIONS, log.max_position))
        at = cells.clicks_at[:depth]
        counted = CountedClicks(cells, 1.0 / cells.positions)
        tempering = temper_counts(counted, dataset, prior=self.prior, seed=seed)
        if depth < 2 or not tempering.decides:
            return self.with_intervals(RawCurve.unknown(at, _FLAT), seed)
        curve = (
            _power_curve(*_ends(tempering), cells, depth)
            if self.shape == "power"
            else self._free(cells, dataset, tempering.power, seed, depth)
        )
        one_position = bool((np.diff(cells.offsets) < 2).all())
        if one_position and not curve.verdict.unknown:
            # more to the point than few clicks at some positions
            why = f"positions 2-{depth}: {_ONE_POSITION}"
            return replace(curve, verdict=Verdict.of(Status.WEAK, why))
        return curve

    def _free(
        self, cells: Cells, dataset: RankingDataset, eta: float, seed: int, depth: int
    ) -> Propensities:
        p = PowerLaw(eta).at(np.arange(1, cells.depth + 1))
        q: Floats = np.zeros(cells.docs)
        fit = cross_fitting(dataset, float(cells.clicked.sum()), self.prior, fits=1, seed=seed)
        for _ in range(self.rounds):
            q = fit(CountedClicks(cells, p[cells.positions - 1]).evidence()).q
            p = propensity_given_relevance(cells, p, q)
            # a position without clicks would be impossible to see, and its docs free of evidence
            p = np.maximum(p / p[0], 1e-6)
        power, error = _power_within(cells, dataset, p, seed)
        with np.errstate(divide="ignore"):
            log_p = np.where(cells.clicks_at > 0, np.log(p), np.nan)[:depth]
        influence = influence_given_relevance(cells, p, q)[:, :depth]
        clicks, carriers = cells.clicks_at[:depth], carriers_of(queries_of(cells))[:depth]
        raw = RawCurve(log_p, influence, clicks, "no clicks", carriers=carriers)
        curve: Propensities = tempered(self.with_intervals(raw, seed), power, error)
        return curve


# The powers of a curve to compare: features miss some of what put docs on top, not all of it.
_POWERS = np.linspace(0.3, 2.0, 18)


def _power_within(
    cells: Cells, dataset: RankingDataset, p: Floats, seed: int
) -> tuple[float, float]:
    """Return the power of a curve that docs shown at several positions ask for, and its error.

    What features do not tell of relevance, and the ranker that was logged knew, makes a curve
    too steep. These docs are compared with themselves, so that it does not matter there. Where
    they are too few to tell, the curve stays as it is.
    """
    counted = CountedClicks(cells, p[cells.positions - 1])
    drawn = within_powers(counted, dataset, _POWERS, seed=seed)
    if drawn is None or np.ptp(np.quantile(drawn, [0.025, 0.975])) > WIDEST_INTERVAL:
        return 1.0, 0.0
    return float(np.mean(drawn)), float(np.std(drawn))


def _ends(tempering: Tempering) -> tuple[float, float, float]:
    """Return the exponent and its interval: by docs at several positions where they can tell."""
    low, high = tempering.within
    if high - low > WIDEST_INTERVAL:
        return tempering.power, tempering.low, tempering.high
    return (low + high) / 2, low, high


def _power_curve(power: float, least: float, most: float, cells: Cells, depth: int) -> Propensities:
    k = np.arange(1, depth + 1)
    p, low, high = (PowerLaw(eta).at(k) for eta in (power, most, least))
    # one exponent: all positions move together
    moves = np.log(k[:MOST_POSITIONS]) * (most - least) / (2 * 1.96)
    return Propensities(
        p,
        low,
        high,
        cells.clicks_at[:depth],
        Verdict(Status.IDENTIFIED),
        LikelihoodEstimator.method,
        covariance=np.outer(moves, moves),
    )


LIKELIHOOD = LikelihoodEstimator()
