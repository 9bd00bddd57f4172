import lightgbm
import numpy as np
import pytest

from prsrank import InputError
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.losses.lambdas import LambdaObjective
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw
from prsrank.rankers.base import load_ranker
from prsrank.rankers.lambdamart import LambdaMART, ndcg_of


@pytest.fixture(scope="module")
def data():
    return synthetic_dataset("mq2007", 120, seed=4)


@pytest.fixture(scope="module")
def test_lists():
    return synthetic_dataset("mq2007", 200, seed=4).select(np.arange(120, 200))


@pytest.fixture(scope="module")
def production(data):
    return production_scores(data, share=0.02)


@pytest.fixture(scope="module")
def clicked(data, production):
    lists, scores = logging_part(data, [production])
    return lists, simulate_clicks(lists, scores, PositionBasedModel(), clicks=20_000, seed=1)


def label_pairs(ranker, lists):
    return PairSet.from_labels(lists, **ranker.pair_options)


def test_same_trees_as_lightgbms_lambdarank_from_distinct_start_scores(data, test_lists):
    ranker = LambdaMART(trees=50, learning_rate=0.1, min_docs_in_leaf=5, threads=1)

    start = np.random.default_rng(0).normal(scale=1e-3, size=data.docs)
    objective = LambdaObjective(label_pairs(ranker, data))
    ours = lightgbm.train(
        ranker._options() | {"objective": lambda scores, _: objective(scores)},
        lightgbm.Dataset(data.features, init_score=start),
        num_boost_round=50,
    )
    own = {
        "objective": "lambdarank",
        "lambdarank_norm": False,
        "lambdarank_truncation_level": 10_000,
        "label_gain": [0, 1],
    }
    theirs = lightgbm.train(
        ranker._options() | own,
        lightgbm.Dataset(
            data.features, label=data.relevance, group=data.list_lengths, init_score=start
        ),
        num_boost_round=50,
    )
    difference = ours.predict(test_lists.features) - theirs.predict(test_lists.features)
    assert np.abs(difference).max() < 1e-4


@pytest.mark.parametrize("metric", ["ndcg", "arp", "map", "mrr"])
def test_clicks_teach_a_better_ranking_than_the_one_they_came_from(
    clicked, production, test_lists, metric
):
    lists, log = clicked
    ranker = LambdaMART(trees=40, learning_rate=0.1, metric=metric)
    ranker.fit(lists, ranker.pairs(log, lists, PowerLaw(1.0), "prs"))
    quality = ndcg_of(test_lists)
    shown = quality(production.score(test_lists.features))
    shuffled = quality(np.random.default_rng(0).normal(size=test_lists.docs))
    assert shown > shuffled
    assert quality(ranker.score(test_lists.features)) > shown + 0.1


def test_the_number_of_threads_does_not_change_the_model(clicked):
    lists, log = clicked
    scores = []
    for threads in (1, 3):
        ranker = LambdaMART(trees=20, threads=threads)
        ranker.fit(lists, ranker.pairs(log, lists, PowerLaw(1.0)))
        scores.append(ranker.score(lists.features))
    assert np.allclose(scores[0], scores[1], rtol=0, atol=1e-9)


def test_deterministic_for_a_seed(clicked):
    lists, log = clicked
    ranker = LambdaMART(trees=10, seed=3, parameters={"feature_fraction": 0.5})
    pairs = ranker.pairs(log, lists, PowerLaw(1.0))
    one = ranker.fit(lists, pairs).score(lists.features)
    assert np.array_equal(one, ranker.fit(lists, pairs).score(lists.features))
    other = LambdaMART(trees=10, seed=4, parameters={"feature_fraction": 0.5})
    assert not np.array_equal(one, other.fit(lists, pairs).score(lists.features))


def test_early_stopping_keeps_the_best_trees(data, test_lists):
    seen = []
    ranker = LambdaMART(trees=200, learning_rate=0.3, patience=10)
    ranker.fit(
        data,
        label_pairs(ranker, data),
        validation=test_lists,
        progress=lambda tree, value: seen.append((tree, value)),
    )
    best = int(np.argmax(ranker.history_)) + 1
    assert ranker.booster_.current_iteration() == best
    assert ranker.best_value_ == max(ranker.history_)
    assert ndcg_of(test_lists)(ranker.score(test_lists.features)) == pytest.approx(
        ranker.best_value_, abs=1e-12
    )
    assert len(ranker.history_) < 200
    assert seen[-1] == (len(ranker.history_), ranker.history_[-1])


def test_any_function_of_the_scores_can_stop_it(data, test_lists):
    ranker = LambdaMART(trees=30, patience=5)
    falling = iter(range(0, -1000, -1))
    ranker.fit(data, label_pairs(ranker, data), validation=(test_lists, lambda s: next(falling)))
    assert ranker.booster_.current_iteration() == 1


def test_init_model_goes_on_where_the_other_stopped(data):
    whole, half = LambdaMART(trees=20), LambdaMART(trees=10)
    pairs = label_pairs(whole, data)
    whole.fit(data, pairs)
    half.fit(data, pairs)
    rest = LambdaMART(trees=10).fit(data, pairs, init_model=half)
    assert rest.booster_.current_iteration() == 20
    assert np.allclose(whole.score(data.features), rest.score(data.features), atol=1e-6)


def test_save_and_load_give_identical_scores(data, tmp_path):
    ranker = LambdaMART(trees=15, parameters={"lambda_l2": 0.5})
    ranker.fit(data, label_pairs(ranker, data))
    about = {"weighting": "prs", "propensity": "power:1"}
    ranker.save(tmp_path / "model", about=about)
    again = load_ranker(tmp_path / "model")
    assert np.array_equal(again.score(data.features), ranker.score(data.features))
    assert again.get_params() == ranker.get_params()
    assert again.about_ == about
    assert again.feature_importance() == ranker.feature_importance()


def test_feature_importance_is_by_name_and_falling(data):
    ranker = LambdaMART(trees=5)
    importance = ranker.fit(data, label_pairs(ranker, data)).feature_importance()
    assert set(importance) == set(data.feature_names)
    assert list(importance.values()) == sorted(importance.values(), reverse=True)


def test_bad_input(data, test_lists, clicked):
    ranker = LambdaMART(trees=5)
    with pytest.raises(InputError, match="not fitted"):
        ranker.score(data.features)
    with pytest.raises(InputError, match="other lists"):
        ranker.fit(test_lists, label_pairs(ranker, data))
    with pytest.raises(InputError, match="made for no metric, not ndcg"):
        ranker.fit(data, PairSet.from_labels(data))
    with pytest.raises(InputError, match="made for ndcg, not map"):
        LambdaMART(metric="map").fit(data, label_pairs(ranker, data))
    with pytest.raises(InputError, match="trees must be from 1"):
        LambdaMART(trees=0).fit(data, label_pairs(ranker, data))
    ranker.fit(data, label_pairs(ranker, data))
    with pytest.raises(InputError, match="trained on 46 columns"):
        ranker.score(data.features[:, :3])


@pytest.mark.parametrize("truncation", [None, 1, 3])
def test_truncation_reaches_pairs_and_objective(data, truncation):
    ranker = LambdaMART(truncation=truncation, threads=1)
    pairs = PairSet.from_labels(data, **ranker.pair_options)
    assert pairs.truncation == truncation
    scores = np.random.default_rng(0).normal(size=data.docs)
    known = LambdaObjective(pairs, truncation=truncation, threads=1)(scores)
    for one, other in zip(ranker._objective(pairs)(scores), known, strict=True):
        np.testing.assert_array_equal(one, other)
    whole = LambdaObjective(pairs, threads=1)(scores)[0]
    assert np.array_equal(known[0], whole) == (truncation is None)
