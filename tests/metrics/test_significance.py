"""The paired test against SciPy and simulated coverage."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from prsrank.errors import InputError
from prsrank.metrics.significance import (
    average_runs,
    holm,
    kendall_tau,
    paired_t_test,
)


def values(queries, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    first = rng.random(queries)
    return first, first + rng.normal(-shift, 0.1, size=queries)


@pytest.mark.parametrize(("queries", "shift"), [(2, 0.0), (5, 0.02), (300, 0.01)])
def test_t_test_equals_scipy(queries, shift):
    first, second = values(queries, queries, shift)
    theirs = scipy.stats.ttest_rel(first, second)
    low, high = theirs.confidence_interval(0.95)
    ours = paired_t_test(first, second)
    assert ours.p_value == pytest.approx(theirs.pvalue)
    assert (ours.low, ours.high) == pytest.approx((low, high))
    assert ours.difference == pytest.approx(np.mean(first - second))
    assert ours.effect_size * np.sqrt(queries) == pytest.approx(theirs.statistic)


def test_false_alarms_and_coverage_are_as_promised():
    rng = np.random.default_rng(0)
    runs, truth = 400, 0.05
    draws = rng.normal(truth, 0.2, size=(runs, 40))
    results = [paired_t_test(d, np.zeros(40)) for d in draws]
    covered = np.mean([r.low <= truth <= r.high for r in results])
    alarms = np.mean([paired_t_test(d, np.full(40, truth)).p_value < 0.05 for d in draws])
    assert 0.90 < covered < 0.99
    assert 0.01 < alarms < 0.10


def test_identical_inputs_give_p_of_one():
    result = paired_t_test([0.1, 0.5, 0.9], [0.1, 0.5, 0.9])
    assert (result.p_value, result.difference, result.effect_size) == (1.0, 0.0, 0.0)
    assert (result.low, result.high) == (0.0, 0.0)


def test_rounding_is_no_difference():
    first = np.random.default_rng(0).random(50)
    assert paired_t_test(first, first * (1 + 2**-52)).p_value == 1.0


def test_a_constant_difference_is_significant():
    first = np.random.default_rng(0).random(50)
    result = paired_t_test(first, first + 0.1)
    assert result.p_value <= 1 / 10_001
    assert result.effect_size == -np.inf
    assert (result.low, result.high) == pytest.approx((-0.1, -0.1))


def test_nan_queries_are_dropped_and_counted():
    first, second = values(30, 4)
    holes = first.copy(), second.copy()
    holes[0][[0, 5]], holes[1][[5, 9]] = np.nan, np.nan
    kept = np.setdiff1d(np.arange(30), [0, 5, 9])
    result, expected = paired_t_test(*holes), paired_t_test(first[kept], second[kept])
    assert (result.queries, result.skipped) == (27, 3)
    assert result.p_value == expected.p_value
    assert (result.low, result.high) == (expected.low, expected.high)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), queries=st.integers(2, 60))
def test_swapping_the_rankers_changes_the_sign_only(seed, queries):
    first, second = values(queries, seed, 0.03)
    one, other = paired_t_test(first, second), paired_t_test(second, first)
    assert one.p_value == pytest.approx(other.p_value)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert one.effect_size == pytest.approx(-other.effect_size)
    assert 0 <= one.p_value <= 1
    assert one.low <= one.high


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([], [], "at least 2 queries; 0 of 0"),
        ([1.0], [0.5], "at least 2 queries; 1 of 1"),
        ([1.0, np.nan, 0.5], [0.5, 1.0, np.nan], "at least 2 queries; 1 of 3"),
        ([1.0, 2.0], [0.5, 1.0, 1.0], "same queries"),
        ([[1.0, 2.0]], [[0.5, 1.0]], "flat"),
        ([1.0, np.inf], [0.5, 1.0], "query 1 is infinite"),
    ],
)
def test_bad_input_is_named(first, second, message):
    with pytest.raises(InputError, match=message):
        paired_t_test(first, second)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 1000))
def test_average_runs_skips_nan(runs, queries, seed):
    rng = np.random.default_rng(seed)
    table = rng.random((runs, queries))
    table[rng.random(table.shape) < 0.4] = np.nan
    expected = [np.mean(c[~np.isnan(c)]) if (~np.isnan(c)).any() else np.nan for c in table.T]
    np.testing.assert_allclose(average_runs(table), expected)


def test_average_runs_needs_runs_and_queries():
    with pytest.raises(InputError, match="runs x queries"):
        average_runs([0.5, 0.7])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.001, 0.999))
def test_holm_rejects_as_the_step_down_procedure_does(p_values, alpha):
    rejected = set()
    for step, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[i] * (len(p_values) - step) > alpha:
            break
        rejected.add(i)
    assert {i for i, p in enumerate(holm(p_values)) if p <= alpha} == rejected


def test_holm_by_hand():
    corrected = holm([0.02, 0.5, 0.001, 0.9, 0.01])
    assert corrected == pytest.approx([0.06, 1.0, 0.005, 1.0, 0.04])


def test_holm_leaves_out_what_was_not_tested():
    np.testing.assert_allclose(holm([np.nan, 0.02, np.nan, 0.03]), [np.nan, 0.04, np.nan, 0.04])
    assert holm([]).shape == (0,)


@pytest.mark.parametrize("p_values", [[1.1], [-0.1, 0.5], [[0.1, 0.2]]])
def test_holm_names_bad_input(p_values):
    with pytest.raises(InputError, match="p values"):
        holm(p_values)


def test_kendall_tau_by_definition():
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 6, 230), rng.integers(0, 6, 230)
    offsets = [0, 1, 9, 30, 230]
    taus = kendall_tau(one, other, offsets)
    assert np.isnan(taus[0])
    for number, (i, j) in enumerate(itertools.pairwise(offsets)):
        a, b = one[i:j], other[i:j]
        signs = [
            (np.sign(a[x] - a[y]), np.sign(b[x] - b[y]))
            for x, y in itertools.combinations(range(j - i), 2)
        ]
        if signs:
            alike, told, told_too = (
                sum(f(s, t) for s, t in signs)
                for f in (lambda s, t: s * t, lambda s, t: s * s, lambda s, t: t * t)
            )
            assert taus[number] == pytest.approx(alike / math.sqrt(told * told_too))
