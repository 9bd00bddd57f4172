r"""The curve of a window beside another: by what its log identifies, and by what its clicks look like.

A curve that was estimated from a window is compared with the one before as a whole: the power b
with $\log p_k \approx b \log p'_k$, by least squares weighted with the variances of both.
"""

from dataclasses import dataclass

import numpy as np

from prsrank.fit.log import PiecedLog
from prsrank.fit.plan import Plan
from prsrank.propensity.counted_clicks import DOCS_FOR_JUDGING
from prsrank.propensity.curve import Propensities
from prsrank.propensity.curve_of import estimating_methods, monotone_curve
from prsrank.propensity.estimators import ESTIMATORS, estimator
from prsrank.propensity.tempering import temper_sampled
from prsrank.types import Floats

_Z = 1.96
# positions that rest on fewer clicks say nothing of a curve that is compared as a whole
_FEWEST_CLICKS = 5


@dataclass(frozen=True)
class Curve:
    """A curve as a state file keeps it; positions that are not known are None.

    Attributes:
        method: name of the estimator; "" where it was given, or lies in the log.
        propensity: of positions 1, 2, ...
        low: lower ends of the 95 % intervals.
        high: upper ends.
        clicks: behind each position.
    """

    method: str
    propensity: list[float | None]
    low: list[float | None]
    high: list[float | None]
    clicks: list[int]

    @classmethod
    def of(cls, curve: Propensities, depth: int) -> "Curve":
        """Keep the first positions of a curve."""
        ends = (curve.propensity, curve.low, curve.high)
        p, low, high = (
            [x if np.isfinite(x) else None for x in end[:depth].tolist()] for end in ends
        )
        method = curve.method if curve.method in ESTIMATORS else ""
        return cls(method, p, low, high, curve.clicks[:depth].tolist())

    @property
    def columns(self) -> tuple[Floats, Floats]:
        """Log p of each position and its standard deviation; NaN where not known."""
        p, low, high = (
            np.array([np.nan if x is None else x for x in column], np.float64)
            for column in (self.propensity, self.low, self.high)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            values, deviation = np.log(p), (np.log(high) - np.log(low)) / (2 * _Z)
        few = np.array(self.clicks) < _FEWEST_CLICKS
        usable = np.isfinite(values) & np.isfinite(deviation) & ~few
        return np.where(usable, values, np.nan), deviation


@dataclass(frozen=True)
class Power:
    """The power of one curve that another looks like.

    Attributes:
        value: the power.
        error: its standard error.
    """

    value: float
    error: float


def power_between(now: Curve, before: Curve) -> Power | None:
    """Return the power of the curve before that a curve looks like; None where they share nothing."""
    size = min(len(now.propensity), len(before.propensity))
    (y, sy), (x, sx) = ((v[1:size], d[1:size]) for v, d in (now.columns, before.columns))
    there = np.isfinite(y) & np.isfinite(x) & (sy > 0) & (x < 0)
    if not there.any():
        return None
    y, x, own = y[there], x[there], np.nan_to_num(sx[there])
    variance = sy[there] ** 2 + own**2
    weight = x / variance / float((x**2 / variance).sum())
    # neighbouring positions of a monotone curve move together: as if all were the same one
    error = float(np.abs(weight) @ np.sqrt(variance))
    return Power(float(weight @ y), error)


def estimated_curve(log: PiecedLog, plan: Plan, method: str) -> Propensities | None:
    """Return the curve of a log by a method, or by the best that it identifies where none is named.

    Features are left to the likelihood: what they say of a window depends on its size.
    """
    if not log.extent().clicks:
        return None
    names = [
        n for n in ([method] if method else estimating_methods()) if not estimator(n).uses_features
    ]
    curves = (monotone_curve(name, log.pieces, seed=plan.seed) for name in names)
    return next((curve for curve in curves if curve is not None), None)


def likelihood_power(log: PiecedLog, curve: Propensities | None, *, seed: int) -> Power | None:
    """Return the power of the curve that the clicks look like; None where they cannot tell."""
    if curve is None:
        return None
    tempering = temper_sampled(curve, log.counted(DOCS_FOR_JUDGING), seed=seed)
    if tempering is None or not np.isfinite(tempering.high) or tempering.high <= tempering.low:
        return None
    return Power(tempering.power, (tempering.high - tempering.low) / (2 * _Z))
