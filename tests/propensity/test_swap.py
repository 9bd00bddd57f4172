import numpy as np
import pytest

from prsrank.propensity.randomised import SwapEstimator, curve_of_pairs

TRUTH = np.array([1, 0.6, 0.4, 0.3, 0.2])
ADJACENT = [(k, k + 1) for k in range(1, 5)]
PIVOT = [(1, k) for k in range(2, 6)]


def test_ratios_multiply_up_by_hand(tiny_log):
    log = tiny_log(
        [(0, [0, 1, 2], [1, 2, 3]), (0, [1, 0, 2], [1, 2, 3]), (0, [0, 1, 2], [1, 2, 3])],
        [(0, [1, 3]), (0, [1, 2]), (1, [1, 2]), (1, [1, 2, 3]), (2, [2, 3]), (2, [1, 2])],
        designs=("", "swap:1:2", "swap:2:3"),
        ranking_design=[1, 1, 2],
    )
    # 1 and 2: 4 and 3 clicks; 2 and 3: 2 and 1 clicks
    curve = SwapEstimator().estimate(log)
    np.testing.assert_allclose(curve.propensity, [1, 3 / 4, 3 / 8])
    assert curve.clicks.tolist() == [4, 5, 1]


def test_lists_without_both_positions_do_not_count(tiny_log):
    log = tiny_log(
        [(0, [0, 1], [1, 2]), (0, [0], [1])],
        [(0, [1, 2]), (0, [1]), (1, [1]), (1, [1])],
        designs=("", "swap:1:2"),
        ranking_design=[1, 1],
    )
    np.testing.assert_allclose(SwapEstimator().estimate(log).propensity, [1, 0.5])


def test_several_ways_are_weighted_least_squares():
    pairs = np.array([[1, 2], [2, 3], [1, 3]])
    counts = np.array([[[100, 60], [80, 50], [90, 30]]], dtype=float)
    log_p, _ = curve_of_pairs(pairs, counts, depth=3)
    ratio = np.log(counts[0, :, 1] / counts[0, :, 0])
    weight = np.sqrt(counts[0].prod(axis=1) / counts[0].sum(axis=1))
    design = np.array([[1, 0], [-1, 1], [0, 1]])
    expected = np.linalg.lstsq(design * weight[:, None], ratio * weight, rcond=None)[0]
    np.testing.assert_allclose(log_p, [0, *expected])


@pytest.mark.parametrize("swaps", [ADJACENT, PIVOT, ADJACENT + PIVOT[1:]])
def test_recovery(simulated_log, swaps):
    log = simulated_log(TRUTH, swaps=swaps, sessions=120_000, seed=2)
    curve = SwapEstimator().estimate(log)
    assert np.abs(curve.propensity / TRUTH - 1).max() < 0.08
    assert curve.verdict == "identified"


@pytest.mark.parametrize("swaps", [ADJACENT, PIVOT])
def test_coverage_of_the_intervals(simulated_log, swaps):
    held = []
    for seed in range(30):
        log = simulated_log(TRUTH, swaps=swaps, sessions=4000, seed=seed)
        curve = SwapEstimator().estimate(log, seed=seed)
        held.append(((curve.low <= TRUTH) & (curve.high >= TRUTH))[1:])
    assert 0.90 <= np.mean(held) <= 0.995


def test_positions_that_no_swap_reaches_are_unknown(simulated_log):
    log = simulated_log(TRUTH, swaps=[(1, 2), (4, 5)], sessions=20_000)
    curve = SwapEstimator().estimate(log)
    assert np.isnan(curve.propensity).tolist() == [False, False, True, True, True]
    assert curve.verdict == "weak: positions 3-5: no swaps with clicks link them to position 1"


def test_without_swaps_it_is_not_identified(simulated_log):
    curve = SwapEstimator().estimate(simulated_log(TRUTH, sessions=100))
    assert curve.verdict.startswith("not identified: no session is marked as a swap")
