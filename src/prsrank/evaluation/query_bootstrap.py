r"""Intervals for ratios of sums over queries, whose sessions stay together.

An estimate over sessions is $V = \sum_q x_q / \sum_q d_q$, with x and d summed over the
sessions of query q. Sessions of one query are not independent, queries are. The standard error
is that of the linear part,
$s = \sqrt{\tfrac{n}{n-1} \sum_q (x_q - V d_q)^2} / \sum_q d_q$, and the interval is a
bootstrap-t: from $V - a\,s$ to $V + b\,s$, with the quantiles of $t = (V^* - V) / s^*$ over samples
of n queries drawn with replacement: a the larger of the 95 % quantile of |t| (symmetric) and the
97.5 % quantile of t (equal tails), b the larger of the former and the 97.5 % quantile of -t.
Weights of clicks are skewed: percentile intervals and Student's t then cover too little, the
symmetric ones miss at the heavy side, and those of equal tails are too short at the light side.

A click at position k weighs $1 / p_k$. If the curve that was estimated is off by $\delta_k$ in
log p, sums over the clicks at k are off by the factor $e^{-\delta_k}$: with $M_k$ the part of a
sum X that moves with position k, that is $X + \sum_k (e^{-\delta_k} - 1) M_k$. The estimators of
curves give the covariance of log p, from which $\delta$ is drawn. The curve comes from other
sessions than those that are judged, so both doubts are independent: every
sample of queries also draws a curve. It moves $V^*$ by what the curve does to V, and to $s^2$ and
$s^{*2}$ comes the variance of V with the curve, at the curve estimated and at the one drawn.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.propensity.curve import Propensities
from prsrank.types import Floats, Longs

# What is smaller than this, relative to the terms it comes from, is rounding.
_ROUNDING = 1e-12
# Of the largest variance, added to each: too little to widen anything.
_OWN_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class CurveDoubt:
    """How uncertain a curve is: the covariance of its log p.

    Its entries are position after position, of the shared curve, then of each context's.

    Attributes:
        curves: the shared curve and those of contexts; empty where the curve is known.
        contexts: the context values that have curves of their own.
    """

    curves: tuple[Propensities, ...] = ()
    contexts: tuple[str, ...] = ()

    @classmethod
    def of_curve(cls, curve: object) -> "CurveDoubt":
        """Return the doubt about a curve; none where it is known."""
        if not isinstance(curve, Propensities):
            return cls()
        curves = (curve, *curve.contexts.values())
        doubted = any(part.log_covariance.any() for part in curves)
        return cls(curves, tuple(curve.contexts)) if doubted else cls()

    @cached_property
    def depth(self) -> int:
        """Positions of each curve whose errors are known."""
        return max((len(curve.log_covariance) for curve in self.curves), default=0)

    @cached_property
    def factors(self) -> tuple[Floats, ...]:
        """F of each curve, with $F F^T$ its covariance (positions x positions)."""
        return tuple(_factor(curve, self.depth) for curve in self.curves)

    def entries(self, positions: Longs, context: str | None = None) -> Longs:
        """Return the entry of each position in a context; -1 where there is none."""
        own = self.contexts.index(context) + 1 if context in self.contexts else 0
        return np.where(positions <= self.depth, own * self.depth + positions - 1, -1)

    def sums(self, entries: Longs, values: Floats) -> Floats:
        """Add up values by entry (entries)."""
        there = entries >= 0
        size = len(self.curves) * self.depth
        return np.bincount(entries[there], values[there], size).astype(np.float64)

    def draws(self, samples: int, seed: int) -> Floats:
        """Draw deviations of log p (samples x entries)."""
        # not the draws of the queries: those have the seed itself
        rng = np.random.default_rng([seed, 1])
        parts = [rng.normal(size=(samples, f.shape[1])) @ f.T for f in self.factors]
        return np.concatenate([np.zeros((samples, 0)), *parts], axis=1)

    def deviation(self, moves: Floats) -> Floats:
        """Return the standard deviation of sums that move so (rows x entries) with log p."""
        variance, start = np.zeros(len(moves)), 0
        for factor in self.factors:
            part = moves[:, start : start + len(factor)]
            # a factor is triangular, and few positions of a long list have clicks
            used = np.flatnonzero(part.any(axis=0))
            part = part[:, used] @ factor[used, : used.max(initial=-1) + 1]
            variance += (part * part).sum(axis=1)
            start += len(factor)
        return np.sqrt(variance)


def _factor(curve: Propensities, depth: int) -> Floats:
    covariance = np.array(curve.log_covariance)
    # Positions on one step of a curve move as one. With a little doubt of its own for each there
    # is a factor all the same, and one that hardly moves with the rounding of the covariance.
    covariance[np.diag_indices_from(covariance)] += _OWN_SHARE * covariance.diagonal().max()
    factor = np.linalg.cholesky(covariance) if covariance.any() else covariance
    return np.pad(factor, (0, depth - len(factor)))


class CurveMoves(NamedTuple):
    """How the sums over queries move with an uncertain curve.

    Attributes:
        doubt: about the curve.
        numerators: what moves with each entry of the curve (entries x columns).
        denominators: the same of the denominators (entries).
    """

    doubt: CurveDoubt
    numerators: Floats
    denominators: Floats

    def deviations(self, x: Floats, d: float, factors: Floats) -> tuple[Floats, Floats]:
        r"""Return ratios, and their standard deviations, at curves that were drawn.

        With $f_k = e^{-\delta_k}$, the ratio is $V = (x + \sum (f_k - 1) M_k) / (d + \sum
        (f_k - 1) m_k)$, and moves with log p_k by $-f_k (M_k - V m_k)$ over its denominator.

        Args:
            x: sums of the numerators (columns).
            d: sum of the denominators.
            factors: f of each draw and entry (draws x entries).
        """
        total = d + (factors - 1) @ self.denominators
        values = (x + (factors - 1) @ self.numerators) / total[:, None]
        spread = np.empty_like(values)
        for column, moves in enumerate(self.numerators.T):
            slope = factors * (moves - values[:, column, None] * self.denominators)
            spread[:, column] = self.doubt.deviation(slope) / total
        return values, spread


class Sampling(TypedDict, total=False):
    """How intervals are bootstrapped; what is left out is as in `SAMPLING`.

    Attributes:
        samples: number of bootstrap samples.
        seed: their seed; same seed, same outcome.
        confidence: share of the intervals.
    """

    samples: int
    seed: int
    confidence: float


SAMPLING: Sampling = {"samples": 1000, "seed": 0, "confidence": 0.95}


class RatioIntervals(NamedTuple):
    """Ratios with intervals, one per column.

    Attributes:
        values: the ratios.
        low: lower ends of the intervals; -inf where the queries are too few for one.
        high: upper ends.
        p_values: two-sided, of the hypothesis that the ratio is 0.
    """

    values: Floats
    low: Floats
    high: Floats
    p_values: Floats


def ratio_intervals(
    numerators: npt.ArrayLike,
    denominators: npt.ArrayLike,
    curve: CurveMoves | None = None,
    **sampling: Unpack[Sampling],
) -> RatioIntervals:
    """Return the ratio of the sums of each column of numerators, with bootstrap intervals.

    Args:
        numerators: x of each query and column (queries x columns).
        denominators: d of each query, at least 0.
        curve: how the sums move with the curve; None where it is known.
        sampling: number of samples, seed and confidence; see `Sampling`.

    >>> result = ratio_intervals([[1.0], [2.0], [4.0], [3.0]] * 25, [2, 2, 4, 3] * 25)
    >>> result.values.round(3).tolist(), bool(result.low[0] < 0.909 < result.high[0])
    ([0.909], True)
    """
    settings: Sampling = {**SAMPLING, **sampling}
    samples, confidence = settings["samples"], settings["confidence"]
    if samples < 100:
        raise InputError(f"samples must be at least 100, not {samples}")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence must be between 0 and 1, not {confidence}")
    x, d = np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)
    units, total = len(d), d.sum()
    if total == 0:
        nothing = np.full(x.shape[1], np.nan)
        return RatioIntervals(nothing, nothing, nothing, nothing)
    values, errors = _ratios(np.ones((1, units)), x, d)
    values, errors = values[0], errors[0]
    shift, doubt = np.zeros((1, 1)), np.zeros((1, 1))
    if curve is not None and curve.doubt.curves:
        drawn = np.exp(-curve.doubt.draws(samples, settings["seed"]))
        still, own = curve.deviations(x.sum(axis=0), float(total), np.ones((1, drawn.shape[1])))
        shift, doubt = curve.deviations(x.sum(axis=0), float(total), drawn)
        shift, errors = shift - still, np.hypot(errors, own[0])
    # terms that cancel leave their rounding, whose sign and size depend on the order of the sum
    rounding = _ROUNDING * np.abs(x).sum(axis=0) / total
    values[np.abs(values) <= rounding] = 0.0
    errors[errors <= rounding] = 0.0
    if units < 2:
        # one query says nothing of how queries differ
        wide = np.where(x[0] == 0, 0.0, np.inf)
        return RatioIntervals(values, values - wide, values + wide, np.ones(x.shape[1]))
    ratios, spread = _ratios(_drawn(units, samples, settings["seed"]), x, d)
    spread = np.hypot(spread, doubt)
    spread[spread <= rounding] = 0.0
    steps = _steps(ratios + shift, spread, values)
    # "higher", never between two samples: rather too wide than too short
    both = np.quantile(np.abs(steps), confidence, axis=0, method="higher")
    with np.errstate(invalid="ignore"):
        below, above = (
            np.where(errors > 0, np.maximum(both, _tail(side, confidence)) * errors, 0.0)
            for side in (steps, -steps)
        )
        shares = _far_share(steps * errors, values)
    p_values = np.where(errors > 0, shares, 1 / (1 + samples))
    p_values[values == 0] = 1.0
    return RatioIntervals(values, values - below, values + above, p_values)


@lru_cache(maxsize=2)
def _drawn(units: int, samples: int, seed: int) -> Floats:
    """Return how often each unit is in each sample: the same for all that is estimated of a log."""
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(units, np.full(units, 1 / units), samples).astype(np.float64)
    drawn.flags.writeable = False  # it is handed out again
    return drawn


def _tail(steps: Floats, confidence: float) -> Floats:
    return np.asarray(np.quantile(steps, (1 + confidence) / 2, axis=0, method="higher"))


def _far_share(moved: Floats, values: Floats) -> Floats:
    """Return the level at which the interval just holds 0: the p-value."""
    samples = len(moved)
    away = np.abs(values) * (1 - _ROUNDING)
    both = np.count_nonzero(np.abs(moved) >= away, axis=0)
    beyond = np.count_nonzero(moved * np.sign(values) >= away, axis=0)
    return np.asarray(np.minimum(np.maximum(1 + both, 2 * (1 + beyond)) / (1 + samples), 1.0))


def _ratios(drawn: Floats, x: Floats, d: Floats) -> tuple[Floats, Floats]:
    """Return the ratios and their standard errors when query q is drawn n_q times."""
    units = len(d)
    total = (drawn @ d)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        values = (drawn @ x) / total
        squares = drawn @ (x * x)
        residual = squares - 2 * values * (drawn @ (x * d[:, None]))
        residual += values**2 * (drawn @ (d * d))[:, None]
        # Expanded into products, a sample costs a few matrix products. Where all residuals are
        # 0, what the expansion leaves is rounding.
        residual[residual <= _ROUNDING * squares] = 0.0
        errors = np.sqrt(residual * units / max(units - 1, 1)) / total
    return values, errors


def _steps(values: Floats, errors: Floats, centre: Floats) -> Floats:
    """Return (V* - V) / s* of each sample; infinite where s* is 0 and V* is not V."""
    moved = values - centre
    moved[np.abs(moved) <= _ROUNDING * np.abs(centre)] = 0.0
    steps = np.copysign(np.inf, moved)
    np.divide(moved, errors, out=steps, where=errors > 0)
    steps[moved == 0] = 0.0
    return steps
