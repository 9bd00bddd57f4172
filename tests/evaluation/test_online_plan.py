import sys
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import binom

from prsrank.errors import InputError
from prsrank.evaluation.interleaving import compare_credit
from prsrank.evaluation.online_plan import plan_test
from prsrank.propensity.curve import PowerLaw

sys.path.insert(0, str(Path(__file__).parent))
from simulated_users import interleaved, logged, make_world

CURVE = PowerLaw(1.0)
FACTOR = (NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)) ** 2
RUNS = 400


@pytest.fixture(scope="module")
def world():
    return make_world()


@pytest.fixture(scope="module")
def log(world):
    return logged(world, 60_000, seed=1)


@pytest.fixture(scope="module")
def plan(log):
    return plan_test(log, gain=0.05, curve=CURVE)


def click_counts(world, order):
    """Return the exact distribution of a session's clicks: 0, 1, ..., docs."""
    chance = world.p * np.take_along_axis(world.relevance, order, 1)
    counts = np.zeros((len(chance), chance.shape[1] + 1))
    counts[:, 0] = 1
    for column in chance.T[:, :, None]:
        counts[:, 1:] = counts[:, 1:] * (1 - column) + counts[:, :-1] * column
        counts[:, 0] *= 1 - column[:, 0]
    return counts.mean(axis=0)


def ab_tests(world, order, sessions, seed=0):
    """Return z of each of RUNS A/B tests."""
    rng = np.random.default_rng(seed)
    shown = np.broadcast_to(np.arange(len(world.p)), order.shape)
    clicks = np.arange(len(world.p) + 1)
    moments = []
    for arm in (shown, order):
        drawn = rng.multinomial(sessions // 2, click_counts(world, arm), RUNS) / (sessions // 2)
        mean = drawn @ clicks
        moments.append((mean, (drawn @ clicks**2 - mean**2) / (sessions // 2)))
    (one, error), (other, other_error) = moments
    return (other - one) / np.sqrt(error + other_error)


def test_ab_sessions_by_hand(log, plan):
    mean, variance = log.session_clicks.mean(), log.session_clicks.var()
    arm = FACTOR * (variance + 1.05 * variance) / (0.05 * mean) ** 2
    assert plan.ab_sessions == 2 * np.ceil(arm)
    assert plan.clicks_per_session == pytest.approx(mean)
    assert plan.to_json_dict()["gain"] == 0.05


def test_an_ab_test_as_planned_finds_the_gain_in_80_percent(world, plan):
    found = (ab_tests(world, world.better_order(0.05), plan.ab_sessions) > 1.96).mean()
    # 3 standard deviations of 400 tests, and 2 % for what the log knows of the variance
    assert found == pytest.approx(0.8, abs=3 * np.sqrt(0.16 / RUNS) + 0.02)


def test_an_ab_test_without_a_gain_finds_one_in_5_percent(world, plan):
    same = np.broadcast_to(np.arange(len(world.p)), world.relevance.shape)
    found = (abs(ab_tests(world, same, plan.ab_sessions)) > 1.96).sum()
    assert binom.ppf(0.001, RUNS, 0.05) <= found <= binom.ppf(0.999, RUNS, 0.05)


def interleaving_tests(world, order, sessions):
    drawn = interleaved(world, order, RUNS * sessions, seed=6)
    one, other = (credit.reshape(RUNS, sessions) for credit in drawn.credit)
    verdicts = [compare_credit(a, b).verdict for a, b in zip(one, other, strict=True)]
    return verdicts, other.sum() / (one + other).sum()


@pytest.mark.parametrize(("change", "noise"), [("small_change", 0.2), ("reordered", 2.0)])
def test_interleaving_as_planned_finds_the_gain_in_80_percent(world, plan, change, noise):
    planned = getattr(plan, change)
    verdicts, share = interleaving_tests(
        world, world.better_order(0.05, noise=noise), planned.sessions
    )
    # 3 standard deviations of 400 tests, and 4 % for which docs happen to move
    assert verdicts.count("better") / RUNS == pytest.approx(
        0.8, abs=3 * np.sqrt(0.16 / RUNS) + 0.04
    )
    assert planned.credit_share == pytest.approx(share, abs=0.005)
    assert plan.small_change.sessions < planned.sessions + 1 < plan.ab_sessions / 2


def test_interleaving_as_planned_without_a_gain_finds_one_in_5_percent(world, plan):
    same = np.tile(np.arange(len(world.p)), (len(world.relevance), 1))
    verdicts, _ = interleaving_tests(world, same, plan.small_change.sessions)
    alarms = RUNS - verdicts.count("no-difference")
    assert binom.ppf(0.001, RUNS, 0.05) <= alarms <= binom.ppf(0.999, RUNS, 0.05)


def test_more_power_or_a_smaller_gain_takes_more_sessions(log, plan):
    strict = plan_test(log, gain=0.05, curve=CURVE, power=0.9)
    ratio = (NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.9)) ** 2 / FACTOR
    assert strict.ab_sessions == pytest.approx(ratio * plan.ab_sessions, rel=0.001)
    assert strict.small_change.sessions == pytest.approx(
        ratio * plan.small_change.sessions, rel=0.01
    )
    small = plan_test(log, gain=0.025, curve=CURVE)
    assert small.small_change.sessions > 2 * plan.small_change.sessions


def test_by_query_whole_queries_move_together(log, plan):
    by_query = plan_test(log, gain=0.05, curve=CURVE, by="query")
    queries = log.ranking_query[log.session_ranking]
    deviations = log.session_clicks - log.session_clicks.mean()
    spread = (np.bincount(queries, deviations) ** 2).sum() / log.sessions
    arm = FACTOR * 2.05 * spread / (0.05 * log.session_clicks.mean()) ** 2
    assert by_query.ab_sessions == 2 * np.ceil(arm)
    assert by_query.small_change.sessions > plan.small_change.sessions
    # a query for each session: the same as by session
    alone = logged(make_world(queries=3000), 3000).select(np.arange(3000))
    _, first = np.unique(alone.session_ranking, return_index=True)
    once = alone.select(first)
    assert replace(plan_test(once, gain=0.05, curve=CURVE, by="query"), by="session") == plan_test(
        once, gain=0.05, curve=CURVE
    )


def test_a_gain_that_no_order_has(log):
    plan = plan_test(log, gain=0.9, curve=CURVE)
    assert plan.small_change.sessions is None
    assert plan.small_change.credit_share is None
    assert plan.reordered.reason.startswith("no order of the docs shown gains 90.0%: the most is ")
    assert plan.ab_sessions > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gain": 0}, "gain must be above 0"),
        ({"level": 0}, "level must be between"),
        ({"power": 1}, "power must be between"),
        ({"by": "user"}, "session or query"),
    ],
)
def test_bad_plans(log, changes, message):
    with pytest.raises(InputError, match=message):
        plan_test(log, **{"gain": 0.05, "curve": CURVE, **changes})


def test_a_log_without_clicks(world):
    dark = logged(world._replace(p=world.p * 0), 100)
    with pytest.raises(InputError, match="no clicks"):
        plan_test(dark, gain=0.05, curve=CURVE)
