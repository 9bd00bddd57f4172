r"""Ratios of sums over queries, and whether two of them differ by more than chance.

A statistic of a window is $V = \sum_q x_q / \sum_q d_q$. Queries are drawn anew in each window,
their sessions come together: so the standard error is that of the residuals $x_q - V d_q$, and
the two windows of a comparison count as independent. Where the same queries come again it is
too large: alarms are then rarer, never more frequent.
"""

from dataclasses import dataclass

import numpy as np

from prsrank.propensity.bootstrap import degrees_of_freedom
from prsrank.types import Floats


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

    >>> one = Ratio(0.5, 0.03, 100, 50, 100)
    >>> round(chance(one, Ratio(0.4, 0.04, 100, 40, 100)), 3)
    0.047
    """
    own = now.error, now.freedom
    if rare:
        own = before.error * (before.of / now.of) ** 0.5, before.freedom
    found = normal_chance(now.value - before.value, own, (before.error, before.freedom))
    return max(found, _of_counts(now, before)) if counts or rare else found


def normal_chance(
    difference: float, one: tuple[float, float], other: tuple[float, float] = (0.0, 1e9)
) -> float:
    """Return the two-sided probability of a difference, given errors with degrees of freedom."""
    from scipy.stats import t as student

    variance = one[0] ** 2 + other[0] ** 2
    if variance <= 0:
        return 1.0 if difference == 0 else 0.0
    # Welch's: the freedom of a sum of two variances
    freedom = variance**2 / (one[0] ** 4 / one[1] + other[0] ** 4 / other[1])
    return float(2 * student.sf(abs(difference) / variance**0.5, freedom))


def _of_counts(now: Ratio, before: Ratio) -> float:
    """Return the exact probability of two Poisson counts: given their sum, one is binomial."""
    from scipy.stats import binom

    total, share = now.count + before.count, now.of / (now.of + before.of)
    tails = (binom.sf(now.count - 1, total, share), binom.cdf(now.count, total, share))
    return float(min(1.0, 2 * min(tails)))
