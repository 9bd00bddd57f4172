"""A curve for each value of a context column, such as the device."""

from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.events import check_few_values
from prsrank.propensity.curve import Propensities
from prsrank.propensity.verdict import verdict_of
from prsrank.types import Estimator, Floats

_Z = float(ndtri(0.975))


def estimate_by_context(
    log: ClickLog,
    estimator: Estimator,
    context: str,
    *,
    dataset: RankingDataset | None = None,
    seed: int = 0,
) -> Propensities:
    """Estimate the shared curve, and one per context value, shrunk to the shared one.

    Args:
        log: the log; `log.contexts` must have the column.
        estimator: how to estimate each curve.
        context: name of the column.
        dataset: features of the docs, for estimators that use them.
        seed: seed of the bootstrap.

    Returns:
        The shared curve with `contexts` filled. A value without clicks has no curve of its own.
    """
    if context not in log.contexts:
        names = ", ".join(log.contexts) or "none"
        raise InputError(f"the log has no context column '{context}'; there are: {names}")
    column = log.contexts[context]
    check_few_values(context, len(column.values))
    shared = estimator.estimate(log, dataset=dataset, seed=seed)
    own = {}
    for code, value in enumerate(column.values):
        part = log.select(column.codes == code) if (column.codes == code).any() else None
        if part is not None and part.clicks.size:
            own[value] = _stretched(
                estimator.estimate(part, dataset=dataset, seed=seed), shared.positions
            )
    return replace(shared, contexts=shrink_to_shared(shared, own))


def shrink_to_shared(shared: Propensities, own: dict[str, Propensities]) -> dict[str, Propensities]:
    r"""Shrink each value's log p to the shared one, by how much chance there is in it.

    True curves are taken to lie around the shared one with variance $\tau^2 \log^2 k$ of
    log p_k (as power laws of different steepness do); then the best guess weighs own and
    shared curve by $1 / s^2$ and $1 / (\tau^2 \log^2 k)$, s being the own standard
    deviation. $\tau^2$ comes from the spread between the curves (DerSimonian and Laird).
    A position that a value knows nothing about gets the shared propensity.
    """
    if not own:
        return {}
    values = np.array([_log(curve.propensity) for curve in own.values()])
    variances = np.array([_deviation(curve) ** 2 for curve in own.values()])
    scale = np.log(np.arange(1, shared.positions + 1)) ** 2
    spread = between_variance(values, variances, scale) * scale
    centre, centre_variance = _log(shared.propensity), _deviation(shared) ** 2
    result = {}
    for (name, curve), value, variance in zip(own.items(), values, variances, strict=True):
        with np.errstate(invalid="ignore", divide="ignore"):
            trust = np.nan_to_num(spread / (spread + variance))
            log_p = np.where(trust > 0, trust * value + (1 - trust) * centre, centre)
            deviation = np.sqrt(
                np.where(trust > 0, trust * variance, spread) + (1 - trust) ** 2 * centre_variance
            )
        result[name] = _curve(log_p, deviation, curve, shared)
    return result


def between_variance(values: Floats, variances: Floats, scale: Floats) -> float:
    r"""Return $\tau^2$ of values that differ with variance $\tau^2$ scale + their own.

    Args:
        values: log p (curves x positions); NaN where unknown.
        variances: their sampling variances.
        scale: of each position.
    """
    usable = np.isfinite(values) & np.isfinite(variances) & (variances > 0) & (scale > 0)
    weights = np.where(usable, 1 / np.where(usable, variances, 1.0), 0.0)
    total = weights.sum(axis=0)
    several = usable.sum(axis=0) > 1
    if not several.any():
        return 0.0
    w, x, total = weights[:, several], np.where(usable, values, 0.0)[:, several], total[several]
    squares = (w * (x - (w * x).sum(axis=0) / total) ** 2).sum()
    by_chance = (usable[:, several].sum(axis=0) - 1).sum()
    expected = (scale[several] * (total - (w**2).sum(axis=0) / total)).sum()
    return max(0.0, float((squares - by_chance) / expected))


def _curve(
    log_p: Floats, deviation: Floats, own: Propensities, shared: Propensities
) -> Propensities:
    with np.errstate(invalid="ignore", over="ignore"):
        low, p, high = (np.exp(log_p + z * deviation) for z in (-_Z, 0.0, _Z))
    p[0] = low[0] = high[0] = 1.0
    high[np.isinf(high)] = np.nan
    verdict = verdict_of(p, low, high, why_unknown="neither this value's sessions nor all tell")
    return Propensities(p, low, high, own.clicks, verdict, shared.method)


def _stretched(curve: Propensities, positions: int) -> Propensities:
    more = (0, positions - curve.positions)
    p, low, high = (
        np.pad(x, more, constant_values=np.nan) for x in (curve.propensity, curve.low, curve.high)
    )
    clicks = np.pad(curve.clicks, more)
    return replace(curve, propensity=p, low=low, high=high, clicks=clicks, covariance=None)


def _log(p: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(p > 0, np.log(p), np.nan))


def _deviation(curve: Propensities) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((np.log(curve.high) - np.log(curve.low)) / (2 * _Z))
