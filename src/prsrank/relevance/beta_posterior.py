r"""The posterior of each doc's theta: a Beta prior around q(x), times the likelihood of its clicks.

$$\theta_d \sim \mathrm{Beta}(a q_d, a (1 - q_d)), \quad
f(\theta_d \mid \text{clicks}) \propto \theta_d^{a q_d - 1} (1 - \theta_d)^{a (1 - q_d) - 1}
L_d(\theta_d)$$

The strength a says how far the features are trusted, in impressions at propensity 1. It is
the one that makes all counts of the log most likely. Integrals are sums over z = logit(theta),
where the density is smooth and has exponential tails, over a range that fits the doc's own
density: as exact for a doc with millions of clicks as for one with none.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.clicks.evidence import ClickEvidence
from prsrank.errors import InputError
from prsrank.threads import for_each_piece
from prsrank.types import Floats, Longs

LEVEL = 0.95
_LEAST_STRENGTH, _GREATEST_STRENGTH = 0.05, 1e4
# So many docs tell the strength to a percent or so.
_DOCS_FOR_STRENGTH = 20_000
_INTERVALS = 48
# The range ends where the density has fallen by this many nats; the tails are added in closed form.
_DROP = 22.0
_LEAST = 1e-300
_WIDEST = 80.0


@dataclass(frozen=True, eq=False)
class BetaPosterior:
    """Each doc's theta given the features and its clicks.

    Attributes:
        mean: its expectation (docs).
        low: lower end of its equal-tailed 95 % interval (docs).
        high: upper end (docs).
        log_marginal: log of the expectation of its likelihood over its prior (docs).
        strength: a.
    """

    mean: Floats
    low: Floats
    high: Floats
    log_marginal: Floats
    strength: float


def beta_posterior(
    evidence: ClickEvidence,
    q: npt.ArrayLike,
    *,
    strength: float | None = None,
    keys: Longs | None = None,
    threads: int | None = None,
) -> BetaPosterior:
    """Return the posterior of each doc.

    Args:
        evidence: the clicks.
        q: the prior expectation of each doc, between 0 and 1, from other docs' clicks.
        strength: a; None for the most likely one.
        keys: hashes of the docs' ids; see `most_likely_strength`.
        threads: default: the cores this process may use. No effect on the result.

    A doc that was shown once, at propensity 1, and not clicked, has theta ~ Beta(a q, a (1 - q) + 1):

    >>> once = ClickEvidence.of([0, 1], shown=[1], clicked=[0], gain=[1.0], floor=[0.0])
    >>> beta_posterior(once, [0.5], strength=2.0).mean.round(6).tolist()  # 1 / 3
    [0.333333]
    """
    prior = _checked(evidence, q)
    if strength is None:
        strength = most_likely_strength(evidence, prior, keys=keys, threads=threads)
    out = _run(evidence, prior, strength, np.arange(evidence.docs), threads)
    return BetaPosterior(out[0], out[1], out[2], out[3], strength)


def most_likely_strength(
    evidence: ClickEvidence,
    q: npt.ArrayLike,
    *,
    keys: Longs | None = None,
    threads: int | None = None,
) -> float:
    """Return the strength a of the greatest marginal likelihood, to about a percent.

    A log of many docs is judged by about 20,000 of those with impressions.

    Args:
        evidence: the clicks.
        q: the prior expectation of each doc.
        keys: a hash of 63 bits of each doc's ids: the docs of the least ones judge. Default: docs evenly spaced.
        threads: default: the cores this process may use. No effect on the result.
    """
    from scipy.optimize import minimize_scalar

    prior = _checked(evidence, q)
    docs = np.flatnonzero(np.diff(evidence.offsets))
    several = len(docs) / _DOCS_FOR_STRENGTH
    if keys is None:
        docs = docs[:: max(math.ceil(several), 1)]
    elif several > 1:
        docs = docs[keys[docs] < 2.0**63 / several]

    def fall(log_a: float) -> float:
        heights = _run(evidence, prior, math.exp(log_a), docs, threads)[3]
        return -float(heights.sum())

    lowest = minimize_scalar(
        fall,
        bounds=(math.log(_LEAST_STRENGTH), math.log(_GREATEST_STRENGTH)),
        method="bounded",
        options={"xatol": 0.01},
    )
    return float(math.exp(lowest.x))


def _checked(evidence: ClickEvidence, q: npt.ArrayLike) -> Floats:
    values = np.ascontiguousarray(q, np.float64)
    if values.shape != (evidence.docs,) or not np.all((values > 0) & (values < 1)):
        raise InputError(f"the prior must be {evidence.docs} values between 0 and 1")
    return values


def _run(
    evidence: ClickEvidence, q: Floats, strength: float, docs: Longs, threads: int | None
) -> Floats:
    """Return mean, low, high and log marginal likelihood of the chosen docs (4 x docs)."""
    if not (strength > 0 and math.isfinite(strength)):
        raise InputError(f"the strength must be finite and above 0, not {strength}")
    out = np.empty((4, len(docs)))
    work = np.arange(len(docs) + 1) * _INTERVALS
    for_each_piece(
        lambda first, last: _posterior_kernel(
            first,
            last,
            docs,
            evidence.offsets,
            evidence.shown,
            evidence.clicked,
            evidence.gain,
            evidence.floor,
            evidence.below,
            q,
            strength,
            out,
        ),
        work,
        threads=threads,
    )
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _parts(z):  # type: ignore[no-untyped-def]
    """Return theta, 1 - theta and log theta at z = logit(theta), each to full precision."""
    small = np.exp(-abs(z))
    share = 1 / (1 + small)
    theta, rest = (share, small * share) if z > 0 else (small * share, share)
    return theta, rest, min(z, 0.0) - np.log1p(small)


@njit(cache=True, nogil=True, error_model="numpy")
def _shape(z, left, right, shown, clicked, gain, floor, below):  # type: ignore[no-untyped-def]
    """Return log density at z, up to a constant of the doc, its slope, and its expected bend."""
    theta, rest, log_theta = _parts(z)
    height, slope = left * log_theta + right * (log_theta - z), left * rest - right * theta
    bend = (left + right) * theta * rest
    for i in range(len(shown)):
        missed, turn = shown[i] - clicked[i], gain[i] * theta * rest
        p = max(floor[i] + gain[i] * theta, _LEAST)
        # 1 - p from 1 - theta: exact also where theta is 1 to rounding
        no_click = max(1 - floor[i] - gain[i] + gain[i] * rest, _LEAST)
        if clicked[i] > 0:
            height += clicked[i] * (log_theta if floor[i] == 0 else np.log(p))
        if missed > 0:
            height += missed * np.log(no_click)
        to_click, to_none = turn / p, turn / no_click
        slope += clicked[i] * to_click - missed * to_none
        information = shown[i] * to_click * to_none
        if below[i] < 1:
            whole = max(p + no_click * below[i], _LEAST)
            height -= shown[i] * np.log(whole)
            slope -= turn * shown[i] * (1 - below[i]) / whole
            information *= below[i] / (whole * whole)
        bend += information
    return height, slope, bend


@njit(cache=True, nogil=True, error_model="numpy")
def _mode(start, left, right, shown, clicked, gain, floor, below):  # type: ignore[no-untyped-def]
    """Return where the density in z is greatest, and about its standard deviation there."""
    low, high, z = -_WIDEST, _WIDEST, start
    bend = 1.0
    for _ in range(60):
        _, slope, bend = _shape(z, left, right, shown, clicked, gain, floor, below)
        move = slope / bend
        if move * move * bend < 1e-4:
            break
        if slope > 0:
            low = z
        else:
            high = z
        # the step of Fisher scoring where it stays inside what is known, else the middle
        z += min(max(move, -4.0), 4.0)
        if not low < z < high:
            z = 0.5 * (low + high)
    return z, 1 / np.sqrt(bend)


@njit(cache=True, nogil=True, error_model="numpy")
def _end(mode, top, move, farthest, left, right, shown, clicked, gain, floor, below):  # type: ignore[no-untyped-def]
    """Return how far the density has fallen by _DROP, in a direction, or `farthest`."""
    near = 0.0
    while abs(move) < farthest:
        if top - _shape(mode + move, left, right, shown, clicked, gain, floor, below)[0] >= _DROP:
            break
        near, move = move, 2 * move
    if abs(move) >= farthest:
        return np.sign(move) * farthest
    for _ in range(3):
        middle = 0.5 * (near + move)
        if top - _shape(mode + middle, left, right, shown, clicked, gain, floor, below)[0] < _DROP:
            near = middle
        else:
            move = middle
    return move


@njit(cache=True, nogil=True, error_model="numpy")
def _quantile(wanted, density, mass, step):  # type: ignore[no-untyped-def]
    """Return at which step, and share of it, the mass from the first one reaches `wanted`."""
    total, k = 0.0, 0
    while k < _INTERVALS - 1 and total + mass[k] < wanted:
        total += mass[k]
        k += 1
    low, high = 0.0, 1.0
    # the mass up to t is the cubic with the densities as its slopes at both ends
    for _ in range(24):
        t = 0.5 * (low + high)
        here = mass[k] * t * t * (3 - 2 * t) + step * t * (1 - t) * (
            density[k] * (1 - t) - density[k + 1] * t
        )
        if total + here < wanted:
            low = t
        else:
            high = t
    return k + 0.5 * (low + high)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _integrals(mode, top, unit, start, step, doubt, density, mass):  # type: ignore[no-untyped-def]
    """Set density and mass by steps of t, z = mode + unit sinh(t); return the sum, and of theta."""
    total, mean = 0.0, 0.0
    last, last_slope, last_theta, last_tilt = 0.0, 0.0, 0.0, 0.0
    for k in range(_INTERVALS + 1):
        grow = np.exp(start + k * step)
        z = mode + unit * 0.5 * (grow - 1 / grow)
        stretch = unit * 0.5 * (grow + 1 / grow)
        theta, rest, _ = _parts(z)
        height, slope, _ = _shape(z, *doubt)
        here = np.exp(height - top) * stretch
        slope = here * (slope * stretch + (z - mode) / stretch)
        tilt = theta * slope + theta * rest * stretch * here
        density[k] = here
        if k > 0:
            # the trapezoid with its first correction: exact to the fifth power of the step
            piece = step / 2 * (last + here) + step**2 / 12 * (last_slope - slope)
            mass[k - 1] = max(piece, 0.0)
            total += mass[k - 1]
            mean += step / 2 * (last_theta + theta * here) + step**2 / 12 * (last_tilt - tilt)
        last, last_slope, last_theta, last_tilt = here, slope, theta * here, tilt
    return total, mean


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _log_constant(strength, doubt):  # type: ignore[no-untyped-def]
    """Return what `_shape` leaves out of the log density of theta and counts."""
    left, right, shown, clicked, gain, floor, below = doubt
    constant = math.lgamma(strength) - math.lgamma(left) - math.lgamma(right)
    for i in range(len(clicked)):
        if clicked[i] > 0 and floor[i] == 0:
            constant += clicked[i] * np.log(gain[i])
        if below[i] < 1 and shown[i] > clicked[i]:
            constant += (shown[i] - clicked[i]) * np.log(max(below[i], _LEAST))
    return constant


@njit(cache=True, nogil=True, error_model="numpy")
def _posterior_kernel(  # type: ignore[no-untyped-def]
    first, last, docs, offsets, shown, clicked, gain, floor, below, q, strength, out
):
    density, mass = np.empty(_INTERVALS + 1), np.empty(_INTERVALS)
    for at in range(first, last):
        doc = docs[at]
        cells = slice(offsets[doc], offsets[doc + 1])
        counts = (shown[cells], clicked[cells], gain[cells], floor[cells], below[cells])
        doubt = (strength * q[doc], strength * (1 - q[doc]), *counts)
        mode, spread = _mode(np.log(q[doc] / (1 - q[doc])), *doubt)
        top = _shape(mode, *doubt)[0]
        # theta, or 1 - theta, is too small there for any count to tell
        nowhere = 18.0 + np.log1p(counts[0].sum())
        begin = _end(mode, top, -4 * spread, max(mode + nowhere, 2.0), *doubt)
        end = _end(mode, top, 4 * spread, max(nowhere - mode, 2.0), *doubt)
        # fine steps at the mode, long ones in the tails
        unit = 2 * min(spread, 1.0)
        start = np.arcsinh(begin / unit)
        step = (np.arcsinh(end / unit) - start) / _INTERVALS
        total, mean = _integrals(mode, top, unit, start, step, doubt, density, mass)
        # beyond both ends the density is exponential in z
        first_height, rise, _ = _shape(mode + begin, *doubt)
        last_height, drop, _ = _shape(mode + end, *doubt)
        fall = -drop
        under, over = np.exp(first_height - top) / rise, np.exp(last_height - top) / fall
        mean += under * rise / (rise + 1) * _parts(mode + begin)[0] + over
        total += under + over
        tail = (1 - LEVEL) / 2 * total
        low = start + step * _quantile(tail - under, density, mass, step)
        high = start + step * _quantile(total - tail - under, density, mass, step)
        low, high = mode + unit * np.sinh(low), mode + unit * np.sinh(high)
        if tail <= under:
            low = mode + begin + np.log(tail / under) / rise
        if tail <= over:
            high = mode + end - np.log(tail / over) / fall
        out[0, at] = min(max(mean / total, 0.0), 1.0)
        out[1, at], out[2, at] = _parts(low)[0], _parts(high)[0]
        out[3, at] = np.log(total) + top + _log_constant(strength, doubt)
