"""Means and paired comparisons against SciPy and formulas written out."""

import math

import numpy as np
import pytest
import scipy.stats

from prsrank.errors import InputError
from prsrank.experiment.statistics import (
    compare_queries,
    per_query,
    run_mean,
)


def compare(first, second, **options):
    return compare_queries(per_query(first), per_query(second), **options)


def tables(seed=0, runs=3, queries=40, shift=0.05):
    rng = np.random.default_rng(seed)
    base = rng.random(queries)
    first = base + rng.normal(shift, 0.1, size=(runs, queries))
    second = base + rng.normal(0, 0.1, size=(runs, queries))
    return first, second


def test_mean_and_deviation_are_those_of_the_runs():
    first, _ = tables()
    first[:, [3, 7]] = np.nan
    first[1, 5] = np.nan
    runs = [np.mean([v for v in run if not math.isnan(v)]) for run in first]
    ours = run_mean(first)
    assert ours.mean == pytest.approx(np.mean(runs))
    assert ours.sd == pytest.approx(np.std(runs, ddof=1))
    assert ours.runs == 3


def test_mean_of_nothing_and_of_one_run():
    nothing = run_mean(np.full((2, 3), np.nan))
    assert math.isnan(nothing.mean)
    assert nothing.runs == 0
    one = run_mean([[0.2, 0.4]])
    assert one.mean == pytest.approx(0.3)
    assert math.isnan(one.sd)
    assert run_mean(np.empty((0, 4))).runs == 0


def test_queries_are_averaged_over_runs_then_tested_as_scipy_does():
    first, second = tables()
    theirs = scipy.stats.ttest_rel(first.mean(axis=0), second.mean(axis=0))
    low, high = theirs.confidence_interval(0.95)
    ours = compare(first, second)
    differences = first.mean(axis=0) - second.mean(axis=0)
    assert ours.p_value == pytest.approx(theirs.pvalue)
    assert (ours.low, ours.high) == pytest.approx((low, high))
    assert ours.difference == pytest.approx(differences.mean())
    assert ours.effect_size == pytest.approx(differences.mean() / differences.std(ddof=1))
    assert (ours.queries, ours.reason) == (40, "")


def test_runs_are_not_taken_for_independent():
    first, second = tables(runs=1)
    once = compare(first, second)
    copied = compare(np.repeat(first, 20, axis=0), np.repeat(second, 20, axis=0))
    assert copied.p_value == pytest.approx(once.p_value)


def test_queries_without_a_value_on_either_side_are_dropped_from_both():
    first, second = tables()
    first[:, 4] = np.nan
    second[:, [4, 9]] = np.nan
    kept = np.setdiff1d(np.arange(40), [4, 9])
    ours, expected = compare(first, second), compare(first[:, kept], second[:, kept])
    assert ours.p_value == expected.p_value
    assert (ours.queries, ours.skipped) == (38, 2)


@pytest.mark.parametrize("queries", [40, 1])
def test_more_runs_of_the_same_queries_are_no_more_evidence(queries):
    first, second = (table[:, :queries] for table in tables())
    again = compare(np.tile(first, (9, 1)), np.tile(second, (9, 1)))
    assert again.queries == queries
    np.testing.assert_allclose(again.p_value, compare(first, second).p_value)


def test_comparison_with_a_constant():
    first, _ = tables()
    theirs = scipy.stats.ttest_1samp(first.mean(axis=0), 0.5)
    assert compare(first, np.full(first.shape, 0.5)).p_value == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("lower", [False, True])
def test_margin_shifts_the_null_hypothesis_towards_worse(lower):
    first, second = tables(shift=0.0)
    differences = first.mean(axis=0) - second.mean(axis=0)
    null = 0.03 if lower else -0.03
    theirs = scipy.stats.ttest_1samp(differences, null).pvalue
    ours = compare(first, second, margin=-0.03 if lower else 0.03)
    assert ours.p_value == pytest.approx(theirs)
    plain = compare(first, second)
    assert (ours.difference, ours.low, ours.effect_size) == (
        plain.difference,
        plain.low,
        plain.effect_size,
    )


@pytest.mark.parametrize(
    ("first", "second", "difference", "reason"),
    [
        ([[0.5]], [[0.25]], 0.25, "1 of 1 queries"),
        ([[0.5, np.nan]], [[0.25, 0.5]], 0.25, "1 of 2 queries"),
        ([[np.nan, 0.5]], [[0.25, np.nan]], np.nan, "0 of 2 queries"),
    ],
)
def test_too_little_to_test_is_said(first, second, difference, reason):
    ours = compare(first, second)
    np.testing.assert_equal(ours.difference, difference)
    assert all(math.isnan(v) for v in (ours.low, ours.high, ours.p_value, ours.effect_size))
    assert reason in ours.reason


def test_shapes_that_cannot_be_compared():
    with pytest.raises(InputError, match="different queries: 3 and 2"):
        compare(np.ones((1, 3)), np.ones((2, 2)))
    with pytest.raises(InputError, match="runs x queries"):
        compare([0.5, 0.7], [[0.5, 0.7]])


def test_a_wrong_number_of_queries_is_named():
    with pytest.raises(InputError, match="different queries: 3 and 2"):
        compare_queries(np.ones(3), np.ones(2))
