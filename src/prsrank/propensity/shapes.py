"""Shapes that an estimated curve may be fitted to."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.types import Floats, Marks

Fit = Callable[[Floats], Floats]
"""Takes log p (positions); returns the fitted log p."""

Shape = Callable[[Floats, Floats, Floats | None], Fit]
"""Takes log p, its standard deviation and the impressions of positions without a click, if known;
returns what fits it, and replicates of it, with the weights that they give."""


def monotone_shape(
    log_p: npt.ArrayLike, deviation: npt.ArrayLike, zero_impressions: npt.ArrayLike | None = None
) -> Fit:
    """Return what makes the most likely monotone curve of a curve, with log p_1 = 0.

    Each position counts as clicks among impressions, as many as give its p its precision:
    1 / (p deviation^2). Positions that violate the order are pooled. Those below the last
    click get the p of the position above them, so that no p is 0 where docs may still be
    clicked: that corrects too little rather than too much. Positions that nothing is known of
    (NaN) stay so.

    Args:
        log_p: log p of each position.
        deviation: its standard deviation.
        zero_impressions: those of positions without a click, whose deviation is not known;
            default: as many as at the nearest positions with clicks.

    >>> log_p = np.log([1.0, 0.4, 0.5])
    >>> np.exp(monotone_shape(log_p, [0.0, 0.25, 0.2])(log_p)).round(4).tolist()
    [1.0, 0.4556, 0.4556]
    """
    curve = np.asarray(log_p, dtype=np.float64)
    estimated = np.flatnonzero(~np.isnan(curve))
    p = np.exp(curve[estimated])
    impressions = _impressions(p, np.asarray(deviation, dtype=np.float64)[estimated])
    if zero_impressions is not None:
        impressions = np.where(
            p > 0, impressions, np.asarray(zero_impressions, dtype=np.float64)[estimated]
        )
    return lambda row: _monotone(row, estimated, impressions)


def _monotone(log_p: Floats, estimated: npt.NDArray[np.intp], impressions: Floats) -> Floats:
    from scipy.optimize import isotonic_regression

    curve = np.array(log_p, dtype=np.float64)
    p = np.exp(curve[estimated])
    if np.count_nonzero(p) < 2:
        return curve
    fitted = np.minimum(isotonic_regression(p, weights=impressions, increasing=False).x, 1.0)
    fitted[fitted == 0] = fitted[fitted > 0].min()
    fitted[0] = 1.0
    with np.errstate(divide="ignore"):
        curve[estimated] = np.log(fitted)
    return curve


def power_shape(
    log_p: npt.ArrayLike, deviation: npt.ArrayLike, zero_impressions: npt.ArrayLike | None = None
) -> Fit:
    r"""Return what makes log of $(1/k)^\eta$, also where log p is not finite.

    $\eta$ minimises the squares of log p_k + eta log k, weighted by precision. Positions
    without a click have no log p and do not count, whatever their impressions.

    >>> log_p = np.log([1, 0.25, np.nan, 0.0625])
    >>> power_shape(log_p, [0, 0.1, 0.1, 0.1])(log_p).round(3).tolist()
    [0.0, -1.386, -2.197, -2.773]
    """
    estimated = np.isfinite(np.asarray(log_p, dtype=np.float64))
    estimated[0] = False
    weights = _precision(np.asarray(deviation, dtype=np.float64))[estimated]
    return lambda row: _power(row, estimated, weights)


def _power(log_p: Floats, estimated: Marks, weights: Floats) -> Floats:
    log_k = np.log(np.arange(1, len(log_p) + 1))
    steepness = (weights * log_k[estimated] ** 2).sum()
    eta = -(weights * log_k[estimated] * log_p[estimated]).sum() / steepness if steepness else 0.0
    return np.asarray(0.0 - eta * log_k)


SHAPES: dict[str, Shape] = {"monotone": monotone_shape, "power": power_shape}


def check_shape(shape: str | None) -> None:
    """Raise an InputError unless `shape` is None or a known one."""
    if shape is not None and shape not in SHAPES:
        raise InputError(f"unknown shape '{shape}'; there are: {', '.join(SHAPES)}")


def _impressions(p: Floats, deviation: Floats) -> Floats:
    usable = np.isfinite(deviation) & (deviation > 0) & (p > 0)
    if not usable.any():
        return np.ones(len(p))
    index = np.arange(len(p))
    impressions = np.interp(index, index[usable], 1 / (p[usable] * deviation[usable] ** 2))
    # position 1 is 1 by definition: nothing may move it
    impressions[0] = 1e6 * impressions.max()
    return np.asarray(impressions)


def _precision(deviation: Floats) -> Floats:
    # position 1 is 1 by definition: its deviation is 0, and no weight may be infinite
    positive = deviation[np.isfinite(deviation) & (deviation > 0)]
    least = positive.min() * 1e-3 if positive.size else 1.0
    return np.asarray(np.where(np.isfinite(deviation), np.maximum(deviation, least), 1e3) ** -2.0)
