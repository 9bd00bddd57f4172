import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.bootstrap import RawCurve, degrees_of_freedom, replicate_curves
from prsrank.propensity.randomised import RandomisedEstimator
from prsrank.propensity.shapes import monotone_shape, power_shape


def test_monotone_pools_clicks_over_impressions():
    # 30 clicks of 100 looks, then 80 of 200: together 110 of 300
    p = np.array([1.0, 0.3, 0.4, 0.1])
    clicks = np.array([1000, 30, 80, 20])
    fitted = np.exp(monotone_shape(np.log(p), [0, *(clicks[1:] ** -0.5)])(np.log(p)))
    np.testing.assert_allclose(fitted, [1, 110 / 300, 110 / 300, 0.1])


def test_monotone_gives_positions_below_the_last_click_the_one_above():
    with np.errstate(divide="ignore"):
        log_p = np.log([1.0, 0.5, 0.1, 0.0, 0.0])
    fitted = np.exp(monotone_shape(log_p, [0, 50**-0.5, 10**-0.5, np.nan, np.nan])(log_p))
    np.testing.assert_allclose(fitted, [1, 0.5, 0.1, 0.1, 0.1])


def test_monotone_pools_positions_without_clicks_by_their_impressions():
    with np.errstate(divide="ignore"):
        log_p = np.log([1.0, 0.0, 0.1])
    # positions 2 and 3: 10 clicks of 25 + 100 looks
    fitted = np.exp(monotone_shape(log_p, [0, np.nan, 10**-0.5], [1000, 25, 7])(log_p))
    np.testing.assert_allclose(fitted, [1, 10 / 125, 10 / 125])
    power = [power_shape(log_p, [0, np.nan, 0.3], looks)(log_p) for looks in (None, [9, 9, 9])]
    np.testing.assert_array_equal(*power)


def test_few_long_lists_do_not_pull_the_curve_down(tiny_log):
    """2 of 402 shuffled sessions show position 3, without a click there."""
    rankings = [(0, [0, 1], [1, 2]), (0, [0, 1, 2], [1, 2, 3])]
    sessions = [(0, [1])] * 200 + [(0, [2])] * 100 + [(0, [])] * 100 + [(1, [1])] * 2
    log = tiny_log(rankings, sessions, designs=("", "uniform"), ranking_design=[1, 1])
    curve = RandomisedEstimator(shape="monotone").estimate(log)
    np.testing.assert_allclose(curve.propensity, [1, 100 / 202, 100 / 202])


def test_monotone_never_passes_1_and_leaves_the_unknown():
    log_p = np.log([1.0, 1.3, np.nan, 0.5])
    fitted = monotone_shape(log_p, [0, 0.1, np.nan, 0.1])(log_p)
    np.testing.assert_allclose(fitted, np.log([1, 1, np.nan, 0.5]))


def test_power_is_weighted_least_squares():
    log_k = np.log([2, 3])
    log_p, deviation = np.array([-0.5, -1.6]), np.array([0.1, 0.4])
    eta = -np.linalg.lstsq((log_k / deviation)[:, None], log_p / deviation, rcond=None)[0][0]
    curve = np.array([0, *log_p])
    fitted = power_shape(curve, [0, *deviation])(curve)
    np.testing.assert_allclose(fitted, -eta * np.log([1, 2, 3]))


def test_shapes_narrow_the_intervals_and_keep_the_truth(simulated_log):
    truth = np.arange(1, 9) ** -0.8
    log = simulated_log(truth, design="uniform", sessions=40_000, seed=5)
    plain, power, monotone = (
        RandomisedEstimator(shape=shape).estimate(log) for shape in (None, "power", "monotone")
    )
    width = [np.log(c.high / c.low)[1:].mean() for c in (power, monotone, plain)]
    assert width[0] < width[1] * 1.001 < width[2] * 1.01
    assert ((power.low <= truth) & (truth <= power.high)).all()
    assert np.abs(power.propensity / truth - 1).max() < 0.05
    assert (np.diff(monotone.propensity) <= 0).all()


@pytest.mark.parametrize("options", [{"shape": "round"}, {"positions": 0}, {"replicates": 5}])
def test_bad_options(options):
    with pytest.raises(InputError):
        RandomisedEstimator(**options)


def test_replicates_spread_as_the_influences_say():
    rng = np.random.default_rng(0)
    influence = rng.normal(size=(400, 2)) * [0.01, 0.03]
    influence -= influence.mean(axis=0)
    raw = RawCurve(np.zeros(2), influence, np.zeros(2, np.int64), "")
    spread = replicate_curves(raw, replicates=4000, seed=1).std(axis=0)
    np.testing.assert_allclose(spread, np.sqrt((influence**2).sum(axis=0)), rtol=0.05)
    again = replicate_curves(raw, replicates=4000, seed=1).std(axis=0)
    assert again.tolist() == spread.tolist()


def test_degrees_of_freedom_are_those_of_equal_normal_units():
    rng = np.random.default_rng(0)
    equal = rng.normal(size=(20_000, 1))
    assert degrees_of_freedom(equal)[0] == pytest.approx(20_000, rel=0.1)
    lonely = np.zeros((100, 1))
    lonely[0] = 1
    assert degrees_of_freedom(lonely)[0] == 3


def test_intervals_of_thin_positions_are_as_wide_as_they_must_be():
    """400 shuffled sessions of 4 docs, 40 of 12: the last 8 positions have a handful of clicks."""
    rng = np.random.default_rng(7)
    lengths = np.repeat([4, 12], [400, 40])
    session = np.repeat(np.arange(len(lengths)), lengths)
    position = np.concatenate([np.arange(1, n + 1) for n in lengths])
    truth = 1 / np.arange(1, 13)
    held = []
    for _ in range(60):
        log = ClickLog.from_frame(
            {
                "query_id": session,
                "session_id": session,
                "doc_id": position,
                "position": position,
                "click": rng.random(len(session)) < 0.5 * truth[position - 1],
                "randomised": np.ones(len(session), bool),
            }
        )
        curve = RandomisedEstimator(shape="monotone").estimate(log)
        held.append((curve.low <= truth) & (truth <= curve.high))
    share = np.mean(held, axis=0)
    assert (share[1:4] >= 0.9).all()
    assert share[4:].mean() >= 0.9
