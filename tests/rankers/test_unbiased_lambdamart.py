"""Tests of Unbiased LambdaMART."""

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.metrics.ranking import average, ndcg
from prsrank.rankers.base import load_ranker
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.unbiased_lambdamart import UnbiasedLambdaMART


@pytest.fixture(scope="module")
def data():
    whole = synthetic_dataset("mq2007", 120, seed=3)
    return logging_part(whole, [production_scores(whole, seed=1)])


@pytest.fixture(scope="module")
def lists(data):
    return data[0]


@pytest.fixture(scope="module")
def log(data):
    lists, scores = data
    return simulate_clicks(lists, scores, PositionBasedModel(eta=1, mu=0.1), clicks=20_000, seed=2)


@pytest.fixture(scope="module")
def fitted(lists, log):
    return unbiased(trees=15, p=0).fit(lists, log)


def unbiased(**options):
    """Return a ranker of small trees; one thread, as the machine that tests may be busy."""
    return UnbiasedLambdaMART(**{"leaves": 7, "threads": 1} | options)


def quality(ranker, lists):
    return average(ndcg(lists.relevance, ranker.score(lists.features), lists.offsets, k=10)).mean


def test_click_propensities_fall_with_the_position(fitted, log):
    # faster than 1/k: the top positions also hold more relevant docs
    t = fitted.click_propensities_
    assert t[0] == 1
    assert len(t) == len(fitted.non_click_propensities_) == log.max_position
    assert (np.diff(t[:6]) < 0).all()


def test_click_propensities_are_the_truth_where_relevance_is_even():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4000, 5))
    labels = features[:, 0] + 0.3 * rng.normal(size=4000) > 1
    lists = RankingDataset(features, np.arange(0, 4001, 10), labels=labels)
    model = PositionBasedModel(eta=1, mu=0.1)
    log = simulate_clicks(lists, rng.normal(size=4000), model, clicks=40_000, seed=1)
    ranker = unbiased(trees=20, p=0).fit(lists, log)
    np.testing.assert_allclose(ranker.click_propensities_, 1 / np.arange(1, 11), rtol=0.2)
    assert (ranker.non_click_propensities_[1:] > 1).all()


def test_less_biased_clicks_give_flatter_curves(data):
    lists, scores = data
    curves = []
    for eta in (0.0, 0.5, 1.5):
        log = simulate_clicks(lists, scores, PositionBasedModel(eta=eta, mu=0.1), clicks=20_000)
        curves.append(unbiased(trees=10, p=0).fit(lists, log).click_propensities_[:8])
    assert (np.diff(np.mean(curves, axis=1)) < 0).all()


def test_p_makes_the_curve_flatter(lists, log):
    curves = [
        unbiased(trees=10, p=p).fit(lists, log).click_propensities_[1:8]
        for p in (0.0, 1.0, 3.0, np.inf)
    ]
    assert (np.diff(curves, axis=0) > 0).all()
    assert (curves[-1] == 1).all()


def test_large_p_is_lambdamart_on_naive_pairs(lists, log):
    plain = LambdaMART(trees=8, seed=5, leaves=7, threads=1)
    plain.fit(lists, plain.pairs(log, lists, None, "naive"))
    ranker = unbiased(trees=8, p=1e300, seed=5).fit(lists, log)
    np.testing.assert_allclose(
        ranker.score(lists.features), plain.score(lists.features), rtol=1e-3, atol=1e-3
    )


def test_better_than_naive_on_biased_clicks():
    gains = []
    for seed in range(3):
        whole = synthetic_dataset("mq2007", 600, seed=8 + seed)
        train, test = whole.select(np.arange(300)), whole.select(np.arange(300, 600))
        lists, scores = logging_part(train, [production_scores(train, seed=seed)])
        log = simulate_clicks(lists, scores, PositionBasedModel(), clicks=6_000, seed=seed)
        ours, naive = (
            unbiased(trees=25, learning_rate=0.1, **options).fit(lists, log)
            for options in ({}, {"p": np.inf})
        )
        gains.append(quality(ours, test) - quality(naive, test))
    assert np.mean(gains) > 0.01


def test_counts_may_take_the_log_s_place(fitted, lists, log):
    again = unbiased(trees=15, p=0)
    again.fit(lists, again.pairs(log, lists))
    np.testing.assert_array_equal(again.score(lists.features), fitted.score(lists.features))
    np.testing.assert_array_equal(again.click_propensities_, fitted.click_propensities_)


def test_threads_change_nothing(fitted, lists, log):
    again = unbiased(trees=15, p=0, threads=2).fit(lists, log)
    np.testing.assert_array_equal(again.click_propensities_, fitted.click_propensities_)
    np.testing.assert_array_equal(again.score(lists.features), fitted.score(lists.features))


def test_early_stopping_keeps_the_biases_of_the_best_tree(lists, log):
    half = np.arange(lists.lists) % 2 == 0
    ranker = unbiased(trees=30, learning_rate=0.3, patience=3)
    told = []
    ranker.fit(lists, log, validation=lists.select(half), progress=lambda n, v: told.append((n, v)))
    assert ranker.history_ == [value for _, value in told]
    kept = ranker.booster_.current_iteration()
    assert kept == int(np.argmax(ranker.history_)) + 1
    alone = unbiased(trees=kept, learning_rate=0.3).fit(lists, log)
    np.testing.assert_array_equal(alone.click_propensities_, ranker.click_propensities_)
    np.testing.assert_array_equal(alone.non_click_propensities_, ranker.non_click_propensities_)


def test_further_trees_go_on_from_the_biases(lists, log):
    # as in one go, but for the rounding of the scores when the model is read back
    first = unbiased(trees=5).fit(lists, log)
    both = unbiased(trees=5).fit(lists, log, init_model=first)
    whole = unbiased(trees=10).fit(lists, log)
    assert both.booster_.current_iteration() == 10
    np.testing.assert_allclose(both.click_propensities_, whole.click_propensities_, rtol=1e-4)


def test_save_and_load(fitted, lists, tmp_path, monkeypatch):
    from prsrank.rankers.base import RANKERS

    place = "prsrank.rankers.unbiased_lambdamart:UnbiasedLambdaMART"
    monkeypatch.setitem(RANKERS, "unbiased_lambdamart", place)
    fitted.save(tmp_path / "model", about={"log": "x"})
    again = load_ranker(tmp_path / "model")
    assert isinstance(again, UnbiasedLambdaMART)
    assert again.get_params() == fitted.get_params()
    np.testing.assert_array_equal(again.score(lists.features), fitted.score(lists.features))
    for name in ("click_propensities_", "non_click_propensities_", "position_clicks_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name))


def test_positions_without_pairs_are_nan(tmp_path):
    # one list: docs at positions 2, 3 and 5, never a click at 5
    data = RankingDataset(np.arange(9.0).reshape(3, 3), np.array([0, 3]))
    events = {
        "query_id": np.zeros(6, int),
        "session_id": np.array([1, 1, 1, 2, 2, 2]),
        "doc_id": np.array([0, 1, 2, 0, 1, 2]),
        "position": np.array([2, 3, 5, 2, 3, 5]),
        "click": np.array([1, 0, 0, 0, 1, 0]),
    }
    ranker = unbiased(trees=2, min_docs_in_leaf=1, parameters={"min_data_in_bin": 1})
    ranker.fit(data, ClickLog.from_frame(events))
    assert np.isnan(ranker.click_propensities_).tolist() == [True, False, False, True, True]
    assert np.isnan(ranker.non_click_propensities_).tolist() == [True, False, False, True, False]
    assert ranker.click_propensities_[1] == ranker.non_click_propensities_[1] == 1
    ranker.save(tmp_path / "model")


def test_shared_positions(lists, log):
    ranker = unbiased(trees=5, positions=4).fit(lists, log)
    assert len(set(ranker.click_propensities_[3:])) == 1
    assert len(set(ranker.click_propensities_[:4])) == 4


def test_curve_for_plots(fitted, log):
    curve = fitted.propensities()
    np.testing.assert_array_equal(curve.propensity, fitted.click_propensities_)
    np.testing.assert_array_equal(curve.clicks, log.position_counts()[1])
    assert curve.at([1]).tolist() == [1.0]


def test_metric_arp(lists, log):
    ranker = unbiased(trees=5, metric="arp").fit(lists, log)
    assert np.isfinite(ranker.score(lists.features)).all()


def test_clear_errors(lists, log):
    with pytest.raises(InputError, match="map"):
        unbiased(metric="map").fit(lists, log)
    for wrong, message in (
        ({"p": -0.5}, "p must be from 0"),
        ({"p": np.nan}, "p must be from 0"),
        ({"positions": 0}, "positions must be from 1"),
    ):
        with pytest.raises(InputError, match=message):
            unbiased(**wrong).fit(lists, log)
    with pytest.raises(InputError, match="learns its propensities"):
        unbiased().pairs(log, lists, np.ones(len(log.ranking_docs)))
    with pytest.raises(InputError, match="no clicks to learn from"):
        unbiased().fit(lists, log.select(log.session_clicks == 0))
    with pytest.raises(InputError, match="of other lists"):
        unbiased().fit(lists.select([0]), unbiased().pairs(log, lists))
    with pytest.raises(InputError, match="not fitted"):
        unbiased().propensities()
