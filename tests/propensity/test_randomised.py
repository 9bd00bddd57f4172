import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.propensity.randomised import RandomisedEstimator

TRUTH = np.array([1, 0.6, 0.4, 0.3, 0.2, 0.15])


def test_ratio_over_lists_long_enough_by_hand(tiny_log):
    # list 0 has three docs, list 1 two: position 3 is compared within list 0 only
    log = tiny_log(
        [(0, [0, 1, 2], [1, 2, 3]), (0, [2, 1, 0], [1, 2, 3]), (1, [1, 0], [1, 2])],
        [(0, [1, 2]), (0, [1]), (1, [3]), (2, [1]), (2, [1, 2])],
        designs=("", "uniform"),
        ranking_design=[1, 1, 1],
    )
    curve = RandomisedEstimator().estimate(log)
    np.testing.assert_allclose(curve.propensity, [1, 2 / 4, 1 / 2])
    assert curve.clicks.tolist() == [4, 2, 1]


def test_top_k_sessions_count_down_to_k_only(tiny_log):
    log = tiny_log(
        [(0, [0, 1, 2], [1, 2, 3]), (0, [1, 0, 2], [1, 2, 3]), (0, [2, 0, 1], [1, 2, 3])],
        [(0, [1, 3]), (1, [1, 2, 3]), (1, [2]), (2, [1, 2, 3])],
        designs=("", "top-k:2"),
        ranking_design=[1, 1, 0],
    )
    curve = RandomisedEstimator().estimate(log)
    np.testing.assert_allclose(curve.propensity, [1, 2 / 2, np.nan])
    assert curve.verdict.startswith("weak: positions 2: few clicks")
    assert "positions 3: no shuffled list reaches them" in curve.verdict


def test_sessions_without_position_1_are_left_out(tiny_log):
    log = tiny_log(
        [(0, [0, 1], [1, 3]), (0, [0, 1], [2, 3])],
        [(0, [1]), (0, [1]), (0, [3]), (1, [3]), (1, [2])],
        designs=("", "uniform"),
        ranking_design=[1, 1],
    )
    np.testing.assert_allclose(RandomisedEstimator().estimate(log).propensity, [1, np.nan, 0.5])


@pytest.mark.parametrize("design", ["uniform", "top-k:6"])
def test_recovery(simulated_log, design):
    log = simulated_log(TRUTH, design=design, sessions=80_000, seed=1)
    curve = RandomisedEstimator().estimate(log, seed=3)
    assert np.abs(curve.propensity / TRUTH - 1).max() < 0.08
    assert curve.verdict == "identified"


def test_coverage_of_the_intervals(simulated_log):
    held = []
    for seed in range(40):
        log = simulated_log(TRUTH, design="uniform", sessions=4000, seed=seed)
        curve = RandomisedEstimator().estimate(log, seed=seed)
        held.append(((curve.low <= TRUTH) & (curve.high >= TRUTH))[1:])
    assert 0.90 <= np.mean(held) <= 0.99


def test_no_click_at_a_position_is_weak_with_an_upper_end(tiny_log):
    log = tiny_log(
        [(0, [0, 1], [1, 2]), (0, [1, 0], [1, 2])],
        [(0, [1]), (1, [1]), (0, [])],
        designs=("", "uniform"),
        ranking_design=[1, 1],
    )
    curve = RandomisedEstimator().estimate(log)
    assert curve.propensity.tolist() == [1, 0]
    assert curve.low[1] == 0
    # P(no click among Poisson(x)) = 5 % at x = -log 0.05, against 2 clicks at position 1
    assert curve.high[1] == pytest.approx(-np.log(0.05) / 2)
    assert curve.verdict.startswith("weak: positions 2")


def test_a_monotone_curve_without_a_click_at_position_1_is_not_identified(tiny_log):
    log = tiny_log(
        [(0, [0, 1], [1, 2]), (0, [1, 0], [1, 2])],
        [(0, [2]), (1, [])],
        designs=("", "uniform"),
        ranking_design=[1, 1],
    )
    curve = RandomisedEstimator(shape="monotone").estimate(log)
    assert curve.verdict.startswith("not identified")


def test_without_shuffled_sessions_it_is_not_identified(simulated_log):
    curve = RandomisedEstimator().estimate(simulated_log(TRUTH, sessions=100))
    assert curve.verdict.startswith("not identified: no session is marked as shuffled")
    assert "random order" in curve.verdict
    assert np.isnan(curve.propensity[1:]).all()
    assert curve.propensity[0] == 1


def test_one_position_only_is_not_identified(simulated_log):
    log = simulated_log([1.0], design="uniform", sessions=100)
    curve = RandomisedEstimator().estimate(log)
    assert curve.verdict.startswith("not identified: only position 1")


def test_no_clicks_at_all_is_an_error(tiny_log):
    with pytest.raises(InputError, match="no clicks at all"):
        RandomisedEstimator().estimate(tiny_log([(0, [0], [1])], [(0, [])]))


def test_positions_cuts_the_curve(simulated_log):
    log = simulated_log(TRUTH, design="uniform", sessions=5000)
    whole, cut = RandomisedEstimator().estimate(log), RandomisedEstimator(positions=3).estimate(log)
    assert cut.propensity.tolist() == whole.propensity[:3].tolist()
