from statistics import NormalDist

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.planner import plan_experiment
from prsrank.propensity.randomised import RandomisedEstimator, SwapEstimator

TRUTH = np.arange(1, 6) ** -1.0
Z = NormalDist().inv_cdf(0.975)


def test_shuffle_by_hand():
    # relevance 0.4 and 0.2 at both positions in turn: mean 0.3, product 0.08
    plan = plan_experiment([0.4, 0.1], position=2, precision=0.2, curve=PowerLaw(1))
    here, first, both = 0.5 * 0.3, 0.3, 0.5 * 0.08
    variance = 1 / here + 1 / first - 2 * both / here / first
    assert plan.sessions == np.ceil((Z / 0.2) ** 2 * variance)
    # logged 0.4 + 0.1, shuffled 0.3 * 1.5
    assert plan.clicks_lost == pytest.approx(plan.sessions * 0.05)
    assert plan.share_lost == pytest.approx(0.1)
    assert plan.to_json_dict()["design"] == "uniform"


def test_a_swap_by_hand():
    # docs of relevance 0.4 and 0.2 change places in half of the sessions: mean 0.3 at each
    plan = plan_experiment(
        [0.4, 0.1], position=2, precision=0.2, design="pivot", k=2, curve=PowerLaw(1)
    )
    here, first, both = 0.5 * 0.3, 0.3, 0.5 * 0.08
    variance = 1 / here + 1 / first - 2 * both / here / first
    assert plan.sessions == np.ceil((Z / 0.2) ** 2 * variance)
    assert plan.clicks_at_position == pytest.approx(plan.sessions * here)


def test_half_the_precision_takes_four_times_the_sessions():
    coarse, fine = (
        plan_experiment(
            [0.5, 0.2, 0.1], position=3, precision=h, design="top-k", k=3, curve=PowerLaw(1)
        ).sessions
        for h in (0.2, 0.1)
    )
    assert fine == pytest.approx(4 * coarse, rel=0.01)


DESIGNS = [
    ("uniform", {"design": "uniform"}, RandomisedEstimator(replicates=20)),
    ("top-k", {"design": "top-k:4"}, RandomisedEstimator(replicates=20)),
    ("adjacent", {"swaps": [(1, 2), (2, 3), (3, 4)]}, SwapEstimator(replicates=20)),
    ("pivot", {"swaps": [(1, 2), (1, 3), (1, 4)]}, SwapEstimator(replicates=20)),
]


@pytest.mark.parametrize(("design", "options", "estimator"), DESIGNS)
def test_plans_hold_in_simulation(simulated_log, design, options, estimator):
    relevance = np.random.default_rng(0).beta(1, 1.5, size=(50, 5))
    common = {"queries": 50, "relevance": relevance, "noise": 0.0}
    log = simulated_log(TRUTH, sessions=200_000, seed=1, **common)
    plan = plan_experiment(log, position=4, precision=0.2, design=design, k=4, curve=PowerLaw(1))
    found, clicks = [], []
    for seed in range(120):
        trial = simulated_log(TRUTH, sessions=plan.sessions, seed=100 + seed, **common, **options)
        found.append(np.log(estimator.estimate(trial).propensity[3]))
        clicks.append(trial.clicks.size)
    # the standard deviation of 120 draws is known to 6.5 %, the mean of log p is log p
    assert Z * np.std(found) == pytest.approx(0.2, rel=0.2)
    assert np.mean(found) == pytest.approx(np.log(TRUTH[3]), abs=0.04)
    lost = plan.sessions * plan.clicks_per_session - np.mean(clicks)
    assert lost == pytest.approx(plan.clicks_lost, rel=0.1, abs=0.005 * np.mean(clicks))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": 1}, "at least 2"),
        ({"position": 4}, "never shown"),
        ({"precision": 0}, "precision"),
        ({"confidence": 1}, "confidence"),
        ({"design": "odd"}, "unknown design"),
        ({"design": "pivot", "k": 2, "position": 3}, "does not reach"),
        ({"design": "pivot", "k": 1}, "k must be"),
        ({"log_or_ctr": [0.1, 2.0]}, "between 0 and 1"),
        ({"log_or_ctr": [0.0, 0.0, 0.0]}, "no clicks are to be expected"),
    ],
)
def test_bad_plans(changes, message):
    values = {"log_or_ctr": [0.3, 0.2, 0.1], "position": 2, "precision": 0.1} | changes
    with pytest.raises(InputError, match=message):
        plan_experiment(values.pop("log_or_ctr"), curve=PowerLaw(1), **values)


def test_a_log_of_randomised_sessions_only(simulated_log):
    log = simulated_log(TRUTH, design="uniform", sessions=100)
    with pytest.raises(InputError, match="without randomisation"):
        plan_experiment(log, position=2, precision=0.1, curve=PowerLaw(1))


def test_a_gain_from_shuffling_is_flagged():
    # clicks fall more slowly than the curve: relevance would have to rise with the position
    steep = plan_experiment([0.4, 0.3], position=2, precision=0.2, curve=PowerLaw(1))
    assert steep.clicks_lost < 0
    assert "worse than chance" in steep.warning
    flat = plan_experiment([0.4, 0.3], position=2, precision=0.2, curve=PowerLaw(0.1))
    assert flat.clicks_lost > 0
    assert flat.warning == flat.to_json_dict()["warning"] == ""
