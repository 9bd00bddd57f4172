r"""Whether two rankers differ: paired tests over the same queries, and how alike they rank.

Where each query was measured in several runs, average it over the runs first
(`average_runs`): runs of one query are not independent, queries are.

>>> ours = average_runs([[0.9, 0.6, 0.7, 0.8], [0.9, 0.8, 0.7, 0.8]])
>>> result = paired_t_test(ours, [0.8, 0.5, 0.7, 0.6])
>>> round(result.difference, 3), round(result.p_value, 3), result.queries
(0.125, 0.08, 4)
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.types import Floats

# What differs by no more than this, relative to the largest value, differs by rounding only.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class PairedTest:
    """The outcome of a paired test of `first` against `second`.

    Attributes:
        difference: mean over queries of first - second.
        low: lower end of the 95 % confidence interval of the difference.
        high: upper end of it.
        p_value: two-sided; the null hypothesis is that the mean difference is 0.
        effect_size: Cohen's d of paired values: the mean difference / the standard deviation
            of the differences (infinite if all queries differ by the same amount).
        queries: how many queries count.
        skipped: how many do not, being NaN in `first` or `second`.
        reason: why it cannot be tested; empty if it can.
    """

    difference: float
    low: float
    high: float
    p_value: float
    effect_size: float
    queries: int
    skipped: int
    reason: str = ""


def paired_t_test(first: npt.ArrayLike, second: npt.ArrayLike) -> PairedTest:
    r"""Student's paired t-test over queries.

    t = mean(d) / (sd(d) / sqrt(n)) with n - 1 degrees of freedom, d = first - second over the
    n queries that have both values.

    Args:
        first: value of a metric for each query.
        second: the other ranker's value for each query, in the same order.

    Returns:
        The outcome; p is 1 if no query differs, 0 if all differ by the same amount.

    >>> paired_t_test([0.5, 0.7], [0.5, 0.7]).p_value
    1.0
    """
    differences, skipped = _differences(first, second)
    mean, queries = float(differences.mean()), len(differences)
    if np.ptp(differences) == 0:
        effect = float(np.copysign(np.inf, mean)) if mean else 0.0
        return PairedTest(mean, mean, mean, float(mean == 0), effect, queries, skipped)
    from scipy.stats import ttest_1samp

    test = ttest_1samp(differences, 0.0)
    low, high = test.confidence_interval(0.95)
    effect = mean / float(differences.std(ddof=1))
    return PairedTest(mean, float(low), float(high), float(test.pvalue), effect, queries, skipped)


def average_runs(values: npt.ArrayLike) -> Floats:
    """Average each query over runs, before any test.

    Args:
        values: value of a metric for each run and query (runs x queries).

    Returns:
        The mean of each query over the runs in which it is not NaN; NaN if it is in all.

    >>> average_runs([[0.5, float("nan")], [1.0, 0.25]])
    array([0.75, 0.25])
    """
    runs = np.asarray(values, dtype=np.float64)
    if runs.ndim != 2:
        raise InputError(f"values must be runs x queries, not of shape {runs.shape}")
    counts = (~np.isnan(runs)).sum(axis=0)
    means: Floats = np.nansum(runs, axis=0) / np.where(counts > 0, counts, np.nan)
    return means


def holm(p_values: npt.ArrayLike) -> Floats:
    r"""Correct the p values of a family of comparisons (Holm 1979).

    The k-th smallest of n is multiplied by n - k + 1; none falls below a smaller one's
    corrected value, none exceeds 1. Whoever calls p <= alpha significant errs in at least one
    comparison of the family with probability alpha at most.

    Args:
        p_values: one for each comparison; NaN where there was nothing to test: stays NaN and
            does not count.

    Returns:
        The corrected p values, in the same order.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or ((p < 0) | (p > 1)).any():
        raise InputError("p values must be a flat array of numbers from 0 to 1")
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]
    factors = np.arange(len(order), 0, -1)
    corrected = np.full(len(p), np.nan)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return corrected


def kendall_tau(scores: npt.ArrayLike, others: npt.ArrayLike, offsets: npt.ArrayLike) -> Floats:
    r"""Return Kendall's tau-b of the scores of each list.

    $\tau_b = (C - D) / \sqrt{T_1 T_2}$: C and D pairs in the same and in the opposite order, T
    the pairs that each ranker tells apart. NaN for a list that one of them leaves all tied.

    >>> kendall_tau([3, 2, 1, 5, 4], [3, 1, 2, 5, 4], [0, 3, 5]).round(3).tolist()
    [0.333, 1.0]
    """
    ours, theirs = np.asarray(scores, np.float64), np.asarray(others, np.float64)
    bounds = pairwise(np.asarray(offsets, np.int64).tolist())
    return np.array([_tau(ours[first:last], theirs[first:last]) for first, last in bounds])


def _tau(scores: Floats, others: Floats) -> float:
    # of all pairs of docs, 1 or -1 for those that the scores tell apart, else 0
    signs, other = (
        np.greater.outer(values, values) * 1.0 - np.less.outer(values, values)
        for values in (scores, others)
    )
    pairs = np.sqrt(np.square(signs).sum() * np.square(other).sum())
    return float((signs * other).sum() / pairs) if pairs else float("nan")


def _differences(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[Floats, int]:
    """Return first - second of the queries that have both, and how many have not."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise InputError(
            f"a paired test needs two flat arrays over the same queries, not {a.shape} and {b.shape}"
        )
    infinite = np.isinf(a) | np.isinf(b)
    if infinite.any():
        raise InputError(f"the value of query {int(infinite.argmax())} is infinite")
    both = ~(np.isnan(a) | np.isnan(b))
    queries = int(both.sum())
    if queries < 2:
        raise InputError(
            f"a paired test needs at least 2 queries; {queries} of {len(a)} have both values"
        )
    return _without_rounding(a[both], b[both]), len(a) - queries


def _without_rounding(first: Floats, second: Floats) -> Floats:
    differences = first - second
    rounding = _ROUNDING * max(np.abs(first).max(), np.abs(second).max())
    differences[np.abs(differences) <= rounding] = 0.0
    if np.ptp(differences) <= rounding:
        differences[:] = differences[0]
    return differences
