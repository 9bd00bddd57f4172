"""Bootstrap of ratios against a plain loop, known coverage and limits."""

import numpy as np
import pytest

from prsrank.evaluation.query_bootstrap import ratio_intervals


def plain(x, d, samples, seed):
    """Return interval and p value by drawing queries one sample at a time."""
    n, value = len(x), x.sum() / d.sum()

    def error(x, d):
        residual = x - x.sum() / d.sum() * d
        return np.sqrt(n / (n - 1) * (residual**2).sum()) / d.sum()

    rng = np.random.default_rng(seed)
    steps = []
    for _ in range(samples):
        rows = rng.integers(n, size=n)
        steps.append((x[rows].sum() / d[rows].sum() - value) / error(x[rows], d[rows]))
    steps, own = np.array(steps), error(x, d)
    both = np.quantile(np.abs(steps), 0.95)
    below, above = (max(both, np.quantile(t, 0.975)) for t in (steps, -steps))
    far, one = np.abs(steps) >= abs(value) / own, np.sign(value) * steps >= abs(value) / own
    return value - below * own, value + above * own, max(far.mean(), 2 * one.mean())


def skewed(queries, seed, shift=0.3):
    rng = np.random.default_rng(seed)
    d = rng.integers(1, 8, queries).astype(float)
    return d * (rng.exponential(1, queries) ** 1.5 - 1 + shift), d


def test_equals_a_plain_loop():
    x, d = skewed(60, 1)
    ours = ratio_intervals(x[:, None], d, samples=20_000, seed=1)
    low, high, p = plain(x, d, 20_000, 2)
    assert ours.values[0] == pytest.approx(x.sum() / d.sum())
    half = (high - low) / 2
    assert (ours.low[0], ours.high[0]) == pytest.approx((low, high), abs=0.03 * half)
    assert ours.p_values[0] == pytest.approx(p, abs=0.01)


def test_p_value_agrees_with_the_interval():
    shifts = np.linspace(-0.6, 0.6, 25)
    x, d = skewed(50, 3, 0.0)
    columns = x[:, None] + shifts * d[:, None]
    found = ratio_intervals(columns, d, samples=999)
    outside = (found.low > 0) | (found.high < 0)
    assert 0 < outside.sum() < 25
    np.testing.assert_array_equal(found.p_values <= 0.05, outside)


def test_coverage_and_false_alarms_for_skewed_values():
    mean = 1.3293403881791384  # of exponential(1) ** 1.5: the gamma function at 2.5
    results = []
    for seed in range(300):
        x, d = skewed(60, seed, 1 - mean)
        found = ratio_intervals(x[:, None], d, samples=400, seed=seed)
        results.append((found.low[0] <= 0 <= found.high[0], found.p_values[0] < 0.05))
    covered, alarms = np.mean(results, axis=0)
    assert 0.91 <= covered <= 0.99
    assert 0.01 <= alarms <= 0.09


def test_limits():
    same = ratio_intervals(np.array([[2.0, 0.0]] * 5), np.ones(5))
    assert same.values.tolist() == [2.0, 0.0]
    assert (same.low.tolist(), same.high.tolist()) == ([2.0, 0.0], [2.0, 0.0])
    assert same.p_values.tolist() == [1 / 1001, 1.0]
    two = ratio_intervals([[1.0], [3.0]], [1, 1])
    assert (two.low[0], two.high[0]) == (-np.inf, np.inf)
    assert two.p_values[0] > 0.4
    one = ratio_intervals([[1.0, 0.0]], [1])
    assert one.low.tolist() == [-np.inf, 0.0]
    assert one.p_values.tolist() == [1.0, 1.0]
    assert np.isnan(ratio_intervals([[0.0], [0.0]], [0, 0]).values[0])
    assert ratio_intervals(*wide(1), seed=1).low[0] == ratio_intervals(*wide(1), seed=1).low[0]
    assert ratio_intervals(*wide(1), seed=1).low[0] != ratio_intervals(*wide(1), seed=2).low[0]


def wide(seed):
    x, d = skewed(40, seed)
    return x[:, None], d
