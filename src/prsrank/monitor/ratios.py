r"""Ratios of sums over queries and powers of curves: do two of them differ by more than chance?

A statistic of a window is $V = \sum_q x_q / \sum_q d_q$. Queries are drawn anew in each window,
their sessions come together: so the standard error is that of the residuals $x_q - V d_q$, and
the two windows of a comparison count as independent. Where the same queries come again it is
too large: alarms are then rarer, never more frequent.

A curve that was estimated from a window is compared with the one before as a whole: the power b
with $\log p_k \approx b \log p'_k$, by least squares weighted with the variances of both.
"""

from dataclasses import dataclass

import numpy as np

from prsrank.fit.log import PiecedLog
from prsrank.fit.plan import Plan
from prsrank.propensity.bootstrap import UnitSums, degrees_of_freedom
from prsrank.propensity.counted_clicks import DOCS_FOR_JUDGING
from prsrank.propensity.curve import Propensities
from prsrank.propensity.curve_of import estimating_methods, monotone_curve
from prsrank.propensity.estimators import ESTIMATORS, estimator
from prsrank.propensity.tempering import temper_sampled
from prsrank.types import Floats, Longs


@dataclass(frozen=True)
class Ratio:
    """A ratio of sums, with its standard error.

    Attributes:
        value: the ratio.
        error: its standard error over queries.
        freedom: degrees of freedom of the error: few where few queries carry the sums.
        count: the sum above the line.
        of: the sum below.
    """

    value: float
    error: float
    freedom: float
    count: float
    of: float

    @classmethod
    def of_sums(cls, numerator: Floats, denominator: Floats) -> "Ratio | None":
        """Divide two sums over units (units each); None where there is nothing to divide by.

        >>> Ratio.of_sums(np.array([1.0, 3.0]), np.array([2.0, 2.0]))
        Ratio(value=1.0, error=0.5, freedom=6.0, count=4.0, of=4.0)
        """
        count, of = float(numerator.sum()), float(denominator.sum())
        if of <= 0:
            return None
        residual = numerator - count / of * denominator
        units = max(int(np.count_nonzero((denominator != 0) | (numerator != 0))), 1)
        # a single unit shows no spread: chance is then told by the counts alone
        variance = float((residual**2).sum()) * units / max(units - 1, 1)
        freedom = float(degrees_of_freedom(residual[:, None])[0])
        return cls(count / of, variance**0.5 / of, freedom, count, of)

    @classmethod
    def of_counts(cls, count: float, of: float) -> "Ratio | None":
        """Divide two counts of independent things."""
        if of <= 0:
            return None
        share = count / of
        return cls(share, (max(share * (1 - share), 0.0) / of) ** 0.5, max(of - 1, 3.0), count, of)


def chance(now: Ratio, before: Ratio, *, counts: bool = False, rare: bool = False) -> float:
    """Return the probability of such a difference, or a larger one, if nothing has changed.

    Args:
        now: of a window.
        before: of the reference.
        counts: both divide numbers of events: the answer is then no less than that of
            Poisson counts, for a handful of them shows no spread.
        rare: hardly any event is expected: chance is told by the spread before alone. That of
            the window is as large as the change itself, if a few queries carry it.

    >>> ratio = Ratio(0.5, 0.03, 100, 50, 100)
    >>> round(chance(ratio, Ratio(0.4, 0.04, 100, 40, 100)), 3)
    0.047
    """
    own = now.error, now.freedom
    if rare:
        own = before.error * (before.of / now.of) ** 0.5, before.freedom
    spread = normal_chance(now.value - before.value, own, (before.error, before.freedom))
    return max(spread, _of_counts(now, before)) if counts or rare else spread


def normal_chance(
    difference: float, now: tuple[float, float], before: tuple[float, float] = (0.0, 1e9)
) -> float:
    """Return the two-sided probability of a difference, given errors with degrees of freedom."""
    from scipy.stats import t as student

    variance = now[0] ** 2 + before[0] ** 2
    if variance <= 0:
        return 1.0 if difference == 0 else 0.0
    # Welch's: the freedom of a sum of two variances
    freedom = variance**2 / (now[0] ** 4 / now[1] + before[0] ** 4 / before[1])
    return float(2 * student.sf(abs(difference) / variance**0.5, freedom))


def _of_counts(now: Ratio, before: Ratio) -> float:
    """Return the exact probability of two Poisson counts: given their sum, one is binomial."""
    from scipy.stats import binom

    total, share = now.count + before.count, now.of / (now.of + before.of)
    tails = (binom.sf(now.count - 1, total, share), binom.cdf(now.count, total, share))
    return float(min(1.0, 2 * min(tails)))


@dataclass(frozen=True)
class Depths:
    r"""Sums over clicks by query; those of two windows add up with `+`.

    The mean log position of clicks is $V = \sum_q x_q / \sum_q d_q$, with the log positions x and the
    clicks d of each query. Where most clicks of a query lie is the query's own, so two logs that
    share queries move together: the variance of the difference of their means is

    $$\sum_q \Big(\frac{x_q - V d_q}{\sum d} - \frac{x'_q - V' d'_q}{\sum d'}\Big)^2,$$

    where a query that one of them lacks counts 0 there. It is right whether they share all queries
    or none, and for two windows added up, whose queries may be the same.

    Attributes:
        keys: of the queries that have clicks, or of groups of queries by their hash.
        clicks: number of clicks.
        depth: sum of the log positions of clicks.
    """

    keys: list[int]
    clicks: list[float]
    depth: list[float]

    @classmethod
    def of(cls, keys: Longs, clicks: Floats, depth: Floats) -> "Depths":
        """Keep the queries that have clicks."""
        there = clicks > 0
        return cls(keys[there].tolist(), clicks[there].tolist(), depth[there].tolist())

    def __add__(self, other: "Depths") -> "Depths":
        """Return the sums of two windows, one after the other.

        >>> Depths([5], [2.0], [0.5]) + Depths([5, 6], [1.0, 1.0], [0.0, 0.7])
        Depths(keys=[5, 6], clicks=[3.0, 1.0], depth=[0.5, 0.7])
        """
        both = self._sums() + other._sums()
        return Depths.of(both.keys, both.values[:, 0], both.values[:, 1])

    @property
    def mean(self) -> float:
        """The mean log position of clicks."""
        return sum(self.depth) / sum(self.clicks)

    def chance(self, before: "Depths") -> float:
        """Return the probability of such a difference of the means if nothing has changed.

        >>> depths = Depths([1, 2, 3], [9.0, 9.0, 9.0], [3.0, 9.0, 15.0])
        >>> round(depths.chance(Depths([1, 2, 3], [9.0, 9.0, 9.0], [3.0, 9.0, 15.0])), 3)
        1.0
        """
        both = self._influence() + before._influence(-1.0)
        error = float((both.values**2).sum()) ** 0.5
        freedom = float(degrees_of_freedom(both.values)[0])
        return normal_chance(self.mean - before.mean, (error, freedom))

    def _sums(self) -> UnitSums:
        return UnitSums.of(np.array(self.keys, np.int64), np.c_[self.clicks, self.depth])

    def _influence(self, sign: float = 1.0) -> UnitSums:
        """Return what each query adds to the error of the mean."""
        clicks, depth = np.array(self.clicks), np.array(self.depth)
        units = len(clicks)
        residual = (depth - self.mean * clicks) / clicks.sum()
        residual *= sign * (units / max(units - 1, 1)) ** 0.5
        return UnitSums.of(np.array(self.keys, np.int64), residual[:, None])


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
