"""Means over clicks by query: sums of windows, and how likely a difference is by chance."""

import numpy as np
import pytest
from scipy.stats import t as student

from prsrank.monitor.depths import Depths


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
