"""Uncertain curves: their entries, draws, and what they add to intervals."""

import numpy as np
import pytest

from prsrank.evaluation.query_bootstrap import CurveDoubt, CurveMoves, ratio_intervals
from prsrank.propensity.curve import PowerLaw, Propensities
from prsrank.propensity.curve_of import KnownPropensity


def curve(deviations, correlation=0.0, contexts=None):
    s = np.asarray(deviations)
    matrix = np.outer(s, s) * (correlation + (1 - correlation) * np.eye(len(s)))
    p = 1.0 / np.arange(1, len(s) + 1)
    clicks = np.ones(len(s), np.int64)
    return Propensities(p, p, p, clicks, "", "", contexts=contexts or {}, covariance=matrix)


@pytest.mark.parametrize("known", [None, PowerLaw(1), KnownPropensity().at_depth(4)])
def test_a_known_curve_has_no_doubt(known):
    doubt = CurveDoubt.of_curve(known)
    assert (doubt.depth, doubt.factors) == (0, ())


def test_entries_are_those_of_the_context_first_to_last():
    doubt = CurveDoubt.of_curve(curve([0, 0.2, 0.3], contexts={"a": curve([0, 0.1])}))
    assert doubt.entries(np.array([1, 3, 5]), "a").tolist() == [3, 5, -1]
    assert doubt.entries(np.array([1, 3, 5]), "b").tolist() == [0, 2, -1]


def test_draws_have_the_covariance_of_the_curves():
    other = curve([0, 0.5], 0.0)
    doubt = CurveDoubt.of_curve(curve([0, 0.2, 0.3], 0.5, {"phone": other}))
    drawn = doubt.draws(200_000, 3)
    expected = np.zeros((6, 6))
    expected[1:3, 1:3] = [[0.04, 0.03], [0.03, 0.09]]
    expected[4, 4] = 0.25
    np.testing.assert_allclose(np.cov(drawn.T), expected, atol=3e-3)
    moves = np.array([[1.0, 2.0, -1.0, 0.0, 0.5, 7.0]])
    assert doubt.deviation(moves)[0] == pytest.approx(np.sqrt(moves @ expected @ moves.T).item())


def test_positions_that_move_as_one():
    doubt = CurveDoubt.of_curve(curve([0, 0.3, 0.3], 1.0))
    drawn = doubt.draws(1000, 0)
    np.testing.assert_allclose(drawn[:, 1], drawn[:, 2], atol=1e-3)


def moved(deviation, numerators, denominators=0.0):
    doubt = CurveDoubt.of_curve(curve([0, deviation]))
    moves = np.array([[0.0], [numerators]]), np.array([0.0, denominators])
    return CurveMoves(doubt, *moves)


def test_without_queries_that_differ_the_interval_is_that_of_the_curve():
    """V = 3 / p: log V is as uncertain as log p."""
    x, d = np.full((40, 1), 3.0), np.ones(40)
    found = ratio_intervals(x, d, moved(0.2, 120.0), samples=20_000)
    assert found.high[0] == pytest.approx(3 * np.exp(1.96 * 0.2), rel=0.01)
    assert 0.97 * 3 * np.exp(-1.96 * 0.2) > found.low[0] > 3 * (1 - 1.1 * 1.96 * 0.2)
    assert ratio_intervals(x, d).high[0] == 3.0


def test_what_moves_with_both_sums_cancels():
    x, d = np.full((40, 1), 3.0), np.ones(40)
    found = ratio_intervals(x, d, moved(0.2, 120.0, 40.0), samples=500)
    assert (found.low[0], found.high[0]) == pytest.approx((3.0, 3.0))


def test_both_doubts_add_up_by_their_squares():
    rng = np.random.default_rng(0)
    x, d = rng.normal(5, 1, (400, 1)), np.ones(400)
    queries = ratio_intervals(x, d, samples=20_000)
    # half of the sum moves with the curve
    both = ratio_intervals(x, d, moved(0.02, x.sum() / 2), samples=20_000)
    half = [(r.high[0] - r.low[0]) / 2 for r in (queries, both)]
    expected = np.hypot(half[0], 1.96 * 0.02 * x.mean() / 2)
    assert half[1] == pytest.approx(expected, rel=0.03)
    assert both.values == pytest.approx(queries.values)


def test_coverage_where_the_curve_is_estimated():
    """Truth 3 at p = 1: what was found is 3 / p, with log p drawn around 0."""
    held = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p = np.exp(rng.normal(0, 0.3))
        x = rng.exponential(3, (100, 1)) / p
        about = moved(0.3, x.sum())
        found = ratio_intervals(x, np.ones(100), about, samples=300, seed=seed)
        held.append(found.low[0] <= 3 <= found.high[0])
    assert 0.92 <= np.mean(held) <= 0.985
