from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from prsrank.errors import InputError
from prsrank.propensity.cells import count_cells
from prsrank.propensity.harvest import HarvestEstimator, all_pairs, pair_statistics
from prsrank.propensity.regression_em import RegressionEM

TRUTH = np.array([1, 0.7, 0.5, 0.4, 0.3, 0.2])


def plain_statistics(log):
    """METHOD's sums, event by event."""
    shown, clicked = {}, {}
    offsets = log.click_offsets
    for session, ranking in enumerate(log.session_ranking):
        slots = range(log.ranking_offsets[ranking], log.ranking_offsets[ranking + 1])
        clicks = set(log.clicks[offsets[session] : offsets[session + 1]].tolist())
        for i, slot in enumerate(slots):
            key = int(log.ranking_docs[slot]), int(log.ranking_positions[slot])
            shown[key] = shown.get(key, 0) + 1
            clicked[key] = clicked.get(key, 0) + (i in clicks)
    depth = log.max_position
    rates, docs = np.zeros((depth, depth)), np.zeros((depth, depth))
    for doc in {doc for doc, _ in shown}:
        places = [k for d, k in shown if d == doc]
        for k, other in product(places, places):
            if k != other:
                rates[k - 1, other - 1] += clicked[doc, k] / shown[doc, k]
                docs[k - 1, other - 1] += 1
    return rates, docs


def test_statistics_are_those_of_single_events(simulated_log):
    log = simulated_log(TRUTH, queries=9, sessions=800, rankers=3)
    for found, expected in zip(
        pair_statistics(count_cells(log)), plain_statistics(log), strict=True
    ):
        np.testing.assert_allclose(found, expected)


def test_chain_by_hand(tiny_log):
    # doc 0: at 1 two of two sessions clicked, at 2 one of two; doc 1: at 2 none, at 1 one of two
    log = tiny_log(
        [(0, [0, 1], [1, 2]), (0, [1, 0], [1, 2])],
        [(0, [1]), (0, [1]), (1, [1, 2]), (1, [])],
        docs_per_query=2,
    )
    curve = HarvestEstimator(form="adjacent-chain").estimate(log)
    np.testing.assert_allclose(curve.propensity, [1, (0.5 + 0) / (1 + 0.5)])
    assert curve.clicks.tolist() == [3, 1]


def test_all_pairs_of_two_positions_is_their_ratio():
    rates = np.array([[0, 6.0], [2.0, 0]])
    docs = np.array([[0, 10.0], [10.0, 0]])
    np.testing.assert_allclose(all_pairs(rates, docs).propensity, [1, 1 / 3], rtol=1e-6)


@pytest.mark.parametrize("one_sided", [False, True])
def test_all_pairs_maximises_the_stated_likelihood(one_sided):
    """Also where a pair of positions has clicks at one of them only: that says something, too."""
    rng = np.random.default_rng(0)
    docs = np.triu(rng.integers(20, 60, (4, 4)), 1).astype(float)
    docs += docs.T
    rates = docs * np.array([0.6, 0.4, 0.3, 0.2])[:, None] * rng.uniform(0.8, 1.2, (4, 4))
    if one_sided:
        rates[3, 1] = 0.0
    k, other = np.triu_indices(4, 1)

    def loss(x):
        p, r = 1 / (1 + np.exp(-x[:4])), 1 / (1 + np.exp(-x[4:]))
        total = 0.0
        for a, b in ((k, other), (other, k)):
            c, n = rates[a, b], docs[a, b]
            total -= (c * np.log(p[a] * r) + (n - c) * np.log(1 - p[a] * r)).sum()
        return total

    best = minimize(loss, np.zeros(10), method="BFGS", options={"gtol": 1e-8})
    p = 1 / (1 + np.exp(-best.x[:4]))
    np.testing.assert_allclose(all_pairs(rates, docs).propensity, p / p[0], rtol=1e-4)


def test_few_clicks_do_not_flatten_the_curve(simulated_log):
    """Far down most pairs of positions have clicks above only: left out, p would be too high."""
    truth = 1 / np.arange(1.0, 21)
    curves = [
        HarvestEstimator().estimate(
            simulated_log(truth, queries=60, sessions=900, rankers=2, seed=seed)
        )
        for seed in range(20)
    ]
    ratios = np.nanmean([np.log(curve.propensity[9:15] / truth[9:15]) for curve in curves], axis=1)
    assert np.mean(ratios) == pytest.approx(0.0, abs=3 * np.std(ratios) / 20**0.5)


@pytest.mark.parametrize("form", ["all-pairs", "adjacent-chain"])
def test_recovery(simulated_log, form):
    log = simulated_log(TRUTH, queries=150, rankers=3, sessions=150_000, seed=3)
    curve = HarvestEstimator(form=form).estimate(log)
    assert np.median(np.abs(curve.propensity / TRUTH - 1)[1:]) < 0.05
    assert np.abs(curve.propensity / TRUTH - 1).max() < 0.12
    assert curve.verdict == "identified"


@pytest.mark.parametrize("form", ["all-pairs", "adjacent-chain"])
@pytest.mark.parametrize("queries", [12, 80])
def test_coverage_of_the_intervals(simulated_log, form, queries):
    held = []
    for seed in range(40):
        log = simulated_log(TRUTH, queries=queries, rankers=3, sessions=8000, seed=seed)
        curve = HarvestEstimator(form=form).estimate(log, seed=seed)
        held.append(((curve.low <= TRUTH) & (curve.high >= TRUTH))[1:])
    assert 0.88 <= np.mean(held) <= 0.995


def test_influences_are_those_of_leaving_out_a_query(simulated_log):
    log = simulated_log(TRUTH, queries=200, rankers=3, sessions=60_000, seed=4)
    for form in ("all-pairs", "adjacent-chain"):
        estimator = HarvestEstimator(form=form, replicates=4000)
        curve = estimator.estimate(log)
        left_out = [
            np.log(
                estimator.estimate(
                    log.select(log.ranking_query[log.session_ranking] % 20 != g)
                ).propensity
            )
            for g in range(20)
        ]
        # the delete-a-group jackknife, 20 groups of queries
        jackknife = np.std(left_out, axis=0) * np.sqrt(19)
        width = np.log(curve.high / curve.low)[1:] / (2 * 1.97)
        assert np.median(width / jackknife[1:]) == pytest.approx(1, abs=0.35)


def test_every_doc_at_one_position_is_not_identified(simulated_log):
    curve = HarvestEstimator().estimate(simulated_log(TRUTH, rankers=1, sessions=500))
    assert curve.verdict == (
        "not identified: every doc was only ever shown at one position; log sessions of a second "
        "ranker or randomise a share"
    )
    assert np.isnan(curve.propensity[1:]).all()


def test_positions_that_no_doc_links_are_unknown(tiny_log):
    log = tiny_log(
        [(0, [0, 1, 2], [1, 2, 3]), (0, [1, 0, 2], [1, 2, 3])],
        [(0, [1, 2, 3]), (1, [1, 2, 3])] * 50,
    )
    for form in ("all-pairs", "adjacent-chain"):
        curve = HarvestEstimator(form=form).estimate(log)
        assert np.isnan(curve.propensity).tolist() == [False, False, True]
        assert curve.verdict == (
            "weak: positions 2: carried by 2 queries or fewer; "
            "positions 3: no clicked docs link them to position 1"
        )


def test_few_clicks_are_weak(simulated_log):
    log = simulated_log(TRUTH, queries=50, rankers=2, sessions=300, seed=1)
    assert HarvestEstimator().estimate(log).verdict.startswith("weak: positions")


def test_bad_form():
    with pytest.raises(InputError, match="unknown form 'chain'"):
        HarvestEstimator(form="chain")


@pytest.fixture
def lone_log(tiny_log):
    """Docs 0 and 1 change positions 1 and 2 in 30 queries; one query alone shows them at 2 and 3.

    There doc 0 has 4 clicks of 10 at position 2 and 3 of 10 at position 3.
    """
    rankings = [(q, docs, (1, 2)) for q in range(30) for docs in ((0, 1), (1, 0))]
    rankings += [(30, (0,), (2,)), (30, (0,), (3,))]
    rng = np.random.default_rng(0)
    sessions = [
        (ranking, [k for k in (1, 2) if rng.random() < 0.6 / k])
        for ranking in range(60)
        for _ in range(20)
    ]
    sessions += [(60, [2] * (i < 4)) for i in range(10)] + [(61, [3] * (i < 3)) for i in range(10)]
    return tiny_log(rankings, sessions)


@pytest.mark.parametrize("estimator", [HarvestEstimator(), RegressionEM()])
def test_a_position_that_one_query_links_is_weak(lone_log, estimator):
    curve = estimator.estimate(lone_log)
    assert curve.verdict == "weak: positions 3: carried by 2 queries or fewer"
    # no narrower than chance in 3 clicks by those of position 1
    chance = np.sqrt(1 / curve.clicks[2] + 1 / curve.clicks[0])
    assert np.log(curve.high / curve.low)[2] / 2 >= 1.96 * chance


def test_a_position_that_one_query_links_does_not_rule_the_monotone_curve(lone_log):
    """There p_3 / p_2 is 3 / 4; swapped it is above 1, and the pool is position 2's."""
    above = replace(HarvestEstimator(), shape="monotone")
    log = replace(lone_log, ranking_positions=np.r_[lone_log.ranking_positions[:-2], 3, 2])
    free, fitted = HarvestEstimator().estimate(log), above.estimate(log)
    assert free.propensity[2] > free.propensity[1]
    assert fitted.propensity[2] == fitted.propensity[1]
    distance = np.abs(np.log(fitted.propensity[2] / free.propensity))
    assert distance[1] < 0.1 * distance[2]


def test_the_monotone_curve_does_not_depend_on_the_seed(simulated_log):
    log = simulated_log(TRUTH, queries=30, rankers=2, sessions=600, noise=1, seed=0)
    estimator = HarvestEstimator(shape="monotone")
    one, two = (estimator.estimate(log, seed=seed).propensity for seed in (0, 1))
    assert (HarvestEstimator().estimate(log).propensity != one)[1:].any()
    np.testing.assert_array_equal(one, two)
