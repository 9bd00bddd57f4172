"""Ratios of sums over queries, means over clicks, and the chance of their differences."""

import numpy as np
import pytest
from scipy import stats
from scipy.stats import t as student

from prsrank.monitor.ratios import Depths, Ratio, chance, normal_chance


def test_the_error_is_that_of_the_linear_part_over_queries():
    rng = np.random.default_rng(1)
    d = rng.integers(1, 20, 50).astype(float)
    x = rng.poisson(0.3 * d).astype(float)
    found = Ratio.of_sums(x, d)
    value = x.sum() / d.sum()
    assert found.value == pytest.approx(value)
    expected = np.sqrt(50 / 49 * ((x - value * d) ** 2).sum()) / d.sum()
    assert found.error == pytest.approx(expected)
    assert (found.count, found.of) == (x.sum(), d.sum())


def test_nothing_to_divide_by_is_no_ratio():
    assert Ratio.of_sums(np.zeros(3), np.zeros(3)) is None
    assert Ratio.of_counts(0, 0) is None


def test_units_without_sums_do_not_count():
    x, d = np.array([1.0, 3.0]), np.array([2.0, 4.0])
    more = Ratio.of_sums(np.append(x, [0, 0]), np.append(d, [0, 0]))
    assert more == Ratio.of_sums(x, d)


def test_the_chance_is_welchs():
    one, other = (
        stats.norm.rvs(0.3, 1, 30, random_state=1),
        stats.norm.rvs(0, 2, 20, random_state=2),
    )
    errors = [(x.std(ddof=1) / len(x) ** 0.5, len(x) - 1) for x in (one, other)]
    expected = stats.ttest_ind(one, other, equal_var=False).pvalue
    assert normal_chance(one.mean() - other.mean(), *errors) == pytest.approx(expected)


def test_without_spread_only_equal_values_are_likely():
    assert normal_chance(0.0, (0.0, 9)) == 1
    assert normal_chance(0.1, (0.0, 9)) == 0


def test_a_handful_of_events_is_judged_as_such():
    now, before = Ratio(0.0, 0.0, 99, 0, 200), Ratio(0.01, 0.0005, 99, 100, 10_000)
    assert chance(now, before) < 1e-6  # no click at all shows no spread
    expected = 2 * (10_000 / 10_200) ** 100  # all hundred fell on the other
    assert chance(now, before, counts=True) == pytest.approx(expected)


def test_rare_events_are_judged_by_the_spread_before():
    # twelve robots in twelve queries of sixty: their own spread hides them, that before does not
    x = np.r_[np.ones(12), np.zeros(48)]
    now, before = Ratio.of_sums(x, np.full(60, 10.0)), Ratio(0.0, 0.0, 3, 0, 3000)
    assert chance(now, before, rare=True) < 1e-8 < 1e-4 < chance(now, before, counts=True)


def test_chances_of_equal_logs_are_not_too_small():
    rng = np.random.default_rng(3)

    def drawn(queries):
        rate, d = rng.beta(1, 4, queries), rng.poisson(5, queries).astype(float)
        return Ratio.of_sums(rng.binomial(d.astype(int), rate).astype(float), d)

    chances = [chance(drawn(60), drawn(200), counts=True) for _ in range(1000)]
    assert np.mean(np.array(chances) < 0.05) < 0.07
    assert np.mean(np.array(chances) < 0.001) < 0.006


def depths(rng, keys, effect, clicks=6, shift=0.0):
    """Draw clicks of queries, each with a depth of its own; the noise is small beside that."""
    counts = rng.integers(1, clicks, len(keys)).astype(float)
    noise = rng.normal(0, 0.1, len(keys)) * np.sqrt(counts)
    return Depths.of(np.array(keys), counts, counts * (effect[keys] + shift) + noise)


def test_without_a_query_in_common_the_variances_add_up():
    rng = np.random.default_rng(1)
    effect = rng.normal(0, 1, 80)
    one, two = depths(rng, range(40), effect), depths(rng, range(40, 80), effect)
    parts = []
    for log in (one, two):
        clicks, depth = np.array(log.clicks), np.array(log.depth)
        mean = depth.sum() / clicks.sum()
        parts.append((mean, (depth - mean * clicks) / clicks.sum() * np.sqrt(40 / 39)))
    terms = np.concatenate([parts[0][1], parts[1][1]])
    freedom = 3 * (terms**2).sum() ** 2 / (terms**4).sum()
    z = abs(parts[0][0] - parts[1][0]) / np.sqrt((terms**2).sum())
    assert one.chance(two) == pytest.approx(2 * student.sf(z, freedom))


def test_queries_in_common_make_a_difference_surer():
    rng = np.random.default_rng(2)
    effect = rng.normal(0, 1, 400)
    before = depths(rng, range(200), effect)
    same = depths(rng, range(200), effect, shift=0.3)
    others = depths(
        rng, range(200, 400), effect - effect[200:].mean() + effect[:200].mean(), shift=0.3
    )
    assert same.chance(before) < 0.01 < others.chance(before)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_chance_is_uniform_without_a_change_whatever_is_shared(share):
    rng, found = np.random.default_rng(3), []
    for _ in range(400):
        effect = rng.normal(0, 0.5, 300)
        first = round(100 * (1 - share))
        now = depths(rng, range(first, first + 100), effect) + depths(
            rng, range(first, first + 100), effect
        )
        found.append(now.chance(depths(rng, range(100), effect)))
    for level in (0.05, 0.2, 0.5):
        error = np.sqrt(level * (1 - level) / len(found))
        assert np.mean(np.array(found) < level) < level + 3 * error
    assert np.mean(np.array(found) < 0.5) > 0.4


def test_many_queries_of_one_log_meet_the_groups_of_another():
    rng = np.random.default_rng(4)
    effect = np.zeros(5000)
    grouped = depths(rng, range(5000), effect)
    few = depths(rng, range(50), effect)
    assert sum((grouped + few).clicks) == sum(grouped.clicks) + sum(few.clicks)
    assert min((grouped + few).keys) < 0
    assert 0 < few.chance(grouped + few) <= 1


def test_queries_without_clicks_are_left_out():
    found = Depths.of(np.array([4, 5]), np.array([0.0, 2.0]), np.array([0.0, 1.4]))
    assert (found.keys, found.mean) == ([5], 0.7)
