import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.propensity.context import between_variance, estimate_by_context, shrink_to_shared
from prsrank.propensity.curve import Propensities
from prsrank.propensity.randomised import RandomisedEstimator


def curve(log_p, deviation):
    p, reach = np.exp(log_p), np.exp(1.959964 * np.asarray(deviation))
    return Propensities(p, p / reach, p * reach, np.ones(len(p)), "identified", "x")


def test_each_context_gets_its_own_curve(simulated_log):
    steep, flat = np.arange(1, 7) ** -1.5, np.arange(1, 7) ** -0.3
    log = simulated_log(steep, context=[steep, flat], design="uniform", sessions=120_000)
    found = estimate_by_context(log, RandomisedEstimator(), "device")
    assert list(found.contexts) == ["d0", "d1"]
    assert np.abs(found.at(range(1, 7), context="d0") / steep - 1).max() < 0.12
    assert np.abs(found.at(range(1, 7), context="d1") / flat - 1).max() < 0.06
    assert (found.propensity[1:] > steep[1:]).all()
    assert (found.propensity[1:] < flat[1:]).all()


def test_contexts_that_do_not_differ_are_shrunk_towards_the_shared_curve(simulated_log):
    truth = np.arange(1, 7) ** -1.0
    errors, own_errors = [], []
    for seed in range(6):
        log = simulated_log(truth, context=[truth] * 4, design="uniform", sessions=6000, seed=seed)
        found = estimate_by_context(log, RandomisedEstimator(), "device")
        for code, value in enumerate(found.contexts):
            own = RandomisedEstimator().estimate(log.select(log.contexts["device"].codes == code))
            errors.append(np.log(found.contexts[value].propensity / truth))
            own_errors.append(np.log(own.propensity / truth))
    assert np.std(errors) < 0.8 * np.std(own_errors)


def test_shrinkage_by_hand():
    # log p at position 2 of two values: 0.8 apart, each with standard deviation 0.2
    shared = curve([0, -1.0], [0, 0.05])
    found = shrink_to_shared(
        shared, {"a": curve([0, -0.6], [0, 0.2]), "b": curve([0, -1.4], [0, 0.2])}
    )
    # DerSimonian and Laird: Q = 2 (0.4/0.2)^2 = 8, tau^2 scale = (8 - 1) / (50 - 25) = 0.28
    trust = 0.28 / (0.28 + 0.04)
    assert np.log(found["a"].propensity[1]) == pytest.approx(-1 + trust * 0.4)
    assert np.log(found["b"].propensity[1]) == pytest.approx(-1 - trust * 0.4)
    deviation = np.sqrt(trust * 0.04 + (1 - trust) ** 2 * 0.05**2)
    assert np.log(found["a"].high[1]) - np.log(found["a"].propensity[1]) == pytest.approx(
        1.959964 * deviation
    )


def test_a_position_unknown_to_a_value_gets_the_shared_propensity():
    shared = curve([0, -1.0, -1.5], [0, 0.05, 0.1])
    own = {
        "a": curve([0, -0.6, np.nan], [0, 0.2, np.nan]),
        "b": curve([0, -1.4, -1.5], [0, 0.2, 0.2]),
    }
    found = shrink_to_shared(shared, own)
    assert np.log(found["a"].propensity[2]) == pytest.approx(-1.5)
    assert found["a"].high[2] > shared.high[2]


def test_between_variance_is_not_negative_and_finds_the_spread():
    rng = np.random.default_rng(0)
    scale, variance = np.array([0, 1.0, 2.0]), np.full((3000, 3), 0.3)
    same = rng.normal(scale=np.sqrt(variance))
    assert between_variance(same, variance, scale) < 0.03
    apart = same + rng.normal(size=same.shape) * np.sqrt(0.5 * scale)
    assert between_variance(apart, variance, scale) == pytest.approx(0.5, rel=0.1)
    assert between_variance(same[:1], variance[:1], scale) == 0


def test_unknown_column(simulated_log):
    with pytest.raises(InputError, match="no context column 'x'; there are: none"):
        estimate_by_context(simulated_log([1, 0.5], sessions=50), RandomisedEstimator(), "x")
