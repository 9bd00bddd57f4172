r"""What the runs of an experiment say: means, deviations, and paired comparisons.

A table of values is runs x queries, NaN where the metric has no meaning for the query. Runs of
one query are not independent, queries are: each query is averaged over the runs, then queries
are compared.

>>> prs = [[0.9, 0.6, 0.7, 0.8], [0.9, 0.8, 0.7, 0.8]]
>>> ips = [[0.8, 0.5, 0.7, 0.6], [0.8, 0.5, 0.7, 0.6]]
>>> result = compare_queries(per_query(prs), per_query(ips))
>>> round(result.difference, 3), round(result.p_value, 3), result.queries
(0.125, 0.08, 4)
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.metrics.significance import PairedTest, average_runs, paired_t_test
from prsrank.types import Floats, Marks

SIGNIFICANT = 0.05

per_query = average_runs


@dataclass(frozen=True)
class RunMean:
    """The mean of a metric over runs, each run being averaged over its queries.

    Attributes:
        mean: the mean; NaN where nothing was measured.
        sd: standard deviation over runs (n - 1); NaN for fewer than 2 runs.
        runs: how many runs have a value.
    """

    mean: float = math.nan
    sd: float = math.nan
    runs: int = 0


def run_mean(values: npt.ArrayLike) -> RunMean:
    """Average each run over its queries, then over runs.

    Args:
        values: runs x queries.

    >>> run_mean([[0.25, 0.75, float("nan")], [0.5, 1.0, float("nan")]])
    RunMean(mean=0.625, sd=0.1767..., runs=2)
    """
    per_run = average_runs(np.asarray(values).T)
    per_run = per_run[~np.isnan(per_run)]
    mean = float(per_run.mean()) if len(per_run) else math.nan
    sd = float(per_run.std(ddof=1)) if len(per_run) > 1 else math.nan
    return RunMean(mean, sd, len(per_run))


def compare_queries(first: Floats, second: Floats, *, margin: float = 0.0) -> PairedTest:
    """Compare two methods over the same queries by Student's paired t-test.

    Args:
        first: one value per query, averaged over the runs.
        second: the same of the other method, the queries in the same order.
        margin: the null hypothesis is that `first` is below `second` by just this much; 0 for no
            difference, below 0 for "above". Difference, interval and effect size are of
            first - second whatever the margin.

    Returns:
        The comparison; without a test, and with the reason, where fewer than two queries have
        both values.

    >>> compare_queries(np.array([0.5]), np.array([0.25])).reason
    '1 of 1 queries can be compared; a test needs 2'
    """
    both = _both_present(first, second)
    count, queries = int(both.sum()), len(first)
    if count < 2:
        mean = float((first - second)[both].mean()) if count else math.nan
        reason = f"{count} of {queries} queries can be compared; a test needs 2"
        nan = math.nan
        return PairedTest(mean, nan, nan, nan, nan, count, queries - count, reason)
    test = paired_t_test(first, second)
    if margin:
        return replace(test, p_value=paired_t_test(first + margin, second).p_value)
    return test


def p_text(value: float) -> str:
    """Return a p value in text.

    >>> p_text(0.0312), p_text(1e-9)
    ('0.031', '< 0.0001')
    """
    return "< 0.0001" if value < 0.0001 else f"{value:.2g}"


def decimal_text(value: float, sign: str = "") -> str:
    """Return a number with four decimals, fewer the larger it is.

    >>> decimal_text(0.5), decimal_text(123.456, "+"), decimal_text(12345.6)
    ('0.5000', '+123.46', '12,346')
    """
    digits = 4 if abs(value) < 10 else 2 if abs(value) < 1000 else 0
    return f"{value:{sign},.{digits}f}"


def difference_text(test: PairedTest) -> str:
    """Return a difference with its 95 % interval, where it has one."""
    text = decimal_text(test.difference, "+")
    return text if math.isnan(test.low) else f"{text} (95 % {interval_text(test)})"


def interval_text(test: PairedTest) -> str:
    """Return the interval of a difference."""
    return f"{decimal_text(test.low, '+')} to {decimal_text(test.high, '+')}"


def _both_present(first: Floats, second: Floats) -> Marks:
    if first.shape != second.shape:
        raise InputError(
            f"methods were measured on different queries: {len(first)} and {len(second)}"
        )
    return np.asarray(~(np.isnan(first) | np.isnan(second)))
