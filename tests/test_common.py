"""Checks that every ranker, weighting, click model and estimator of the registries passes."""

import inspect

import numpy as np
import pytest

from prsrank import InputError, load_ranker
from prsrank.clicks.models import CLICK_MODELS
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.metrics.ranking import METRICS, metric
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.estimators import ESTIMATORS
from prsrank.rankers.base import RANKERS, ranker_class
from prsrank.rankers.lambdamart import ndcg_of
from prsrank.weighting import WEIGHTINGS

# small enough for a test, large enough to learn something
QUICK = {
    "lambdamart": {"trees": 30, "learning_rate": 0.1},
    "unbiased_lambdamart": {"trees": 30, "learning_rate": 0.1},
    "lightgbm_position": {"trees": 4, "learning_rate": 0.5},
    "dnn": {"hidden": (32,), "epochs": 20},
    "dla": {"hidden": (32,), "epochs": 20},
}


@pytest.fixture(scope="module")
def world():
    data = synthetic_dataset("mq2007", 90, seed=5)
    train, test = data.select(np.arange(60)), data.select(np.arange(60, 90))
    lists, scores = logging_part(train, [production_scores(train, share=0.05)])
    model = CLICK_MODELS["position-based"]()
    log = simulate_clicks(lists, scores, model, clicks=10_000, seed=1, randomised=0.3)
    return lists, test, log


@pytest.fixture(scope="module", params=sorted(RANKERS))
def fitted(request, world):
    lists, _, log = world
    make = ranker_class(request.param)
    ranker = make(**QUICK.get(request.param, {}))
    pairs = ranker.pairs(log, lists, PowerLaw(1.0) if ranker.takes_propensities else None)
    return ranker, ranker.fit(lists, pairs), pairs


def test_fit_returns_self_and_learned_names_end_in_an_underscore(fitted):
    ranker, result, _ = fitted
    assert result is ranker
    public = {n for n in vars(ranker) if not n.startswith("_")} - set(ranker.get_params())
    assert public
    assert all(name.endswith("_") for name in public)


def test_the_constructor_only_stores(fitted):
    kind = type(fitted[0])
    parameters = inspect.signature(kind.__init__).parameters
    made = kind()
    for name, parameter in parameters.items():
        if name != "self":
            assert (
                getattr(made, name) is parameter.default or getattr(made, name) == parameter.default
            )
    assert set(vars(made)) == set(parameters) - {"self"}


def test_parameters_round_trip_and_unknown_ones_are_refused(fitted):
    ranker = fitted[0]
    again = type(ranker)().set_params(**ranker.get_params())
    assert again.get_params() == ranker.get_params()
    with pytest.raises(InputError, match="no parameter 'colour'"):
        again.set_params(colour="red")


def test_scores_rank_better_than_chance(fitted, world):
    test = world[1]
    scores = fitted[0].score(test.features)
    assert scores.shape == (test.docs,)
    assert scores.dtype == np.float64
    assert ndcg_of(test)(scores) > ndcg_of(test)(np.zeros(test.docs)) + 0.1


def test_scores_of_a_doc_do_not_depend_on_the_others(fitted, world):
    features = world[1].features[:50]
    whole = fitted[0].score(features)
    assert np.allclose(fitted[0].score(features[7:9]), whole[7:9], rtol=1e-5, atol=1e-6)


def test_the_same_seed_gives_the_same_model(fitted, world):
    ranker, _, pairs = fitted
    again = type(ranker)(**ranker.get_params()).fit(world[0], pairs)
    assert np.array_equal(ranker.score(world[1].features), again.score(world[1].features))


def test_saved_and_loaded_scores_are_identical(fitted, world, tmp_path):
    ranker = fitted[0]
    about = {"weighting": "prs", "note": "<b>"}
    ranker.save(tmp_path / "model", about=about)
    again = load_ranker(tmp_path / "model")
    assert type(again) is type(ranker)
    assert again.about_ == about
    assert again.get_params() == ranker.get_params()
    assert np.array_equal(ranker.score(world[1].features), again.score(world[1].features))


def test_a_damaged_model_is_refused(fitted, tmp_path):
    fitted[0].save(tmp_path / "model")
    for file in sorted((tmp_path / "model").iterdir()):
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError, match=file.name):
            load_ranker(tmp_path / "model")
        file.write_bytes(whole)
    assert load_ranker(tmp_path / "model")


def test_bad_calls_are_one_line(fitted, world, tmp_path):
    ranker, _, pairs = fitted
    fresh = type(ranker)(**ranker.get_params())
    with pytest.raises(InputError, match="not fitted"):
        fresh.score(world[1].features)
    with pytest.raises(InputError, match="not fitted"):
        fresh.save(tmp_path / "model")
    with pytest.raises(InputError):
        fresh.fit(world[1], pairs)
    with pytest.raises(InputError, match="46"):
        ranker.score(world[1].features[:, :5])


def test_an_unknown_ranker_and_a_foreign_folder(tmp_path):
    with pytest.raises(InputError, match="no ranker 'forest'"):
        ranker_class("forest")
    with pytest.raises(InputError, match="not a saved ranker"):
        load_ranker(tmp_path)


@pytest.mark.parametrize("name", sorted(n for n, one in WEIGHTINGS.items() if not one.of_relevance))
def test_every_weighting_makes_pairs_of_clicked_docs(name, world):
    lists, _, log = world
    pairs = PairSet.from_log(log, lists, PowerLaw(1.0), name)
    assert pairs.winners > 0
    assert np.isfinite(pairs.weights).all()
    assert (pairs.weights >= 0).all()
    own = pairs.weight_offsets[:-1] + pairs.winner_row
    assert (pairs.weights[own] == 0).all()
    numbers = pairs.diagnostics()
    assert 0 < numbers.effective_sample_size <= numbers.pairs * (1 + 1e-9)


@pytest.mark.parametrize("name", sorted(CLICK_MODELS))
def test_every_click_model_favours_relevant_docs_at_the_top(name):
    model = CLICK_MODELS[name]()
    positions = np.arange(1, 6)
    relevant = model.click_probabilities(np.ones(5, int), positions)
    irrelevant = model.click_probabilities(np.zeros(5, int), positions)
    assert ((relevant >= 0) & (relevant <= 1)).all()
    assert (np.diff(relevant) < 0).all()
    assert relevant[0] > irrelevant[0]


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_estimator_returns_a_whole_curve(name, world):
    log = world[2]
    curve = ESTIMATORS[name].estimate(log, seed=3)
    again = ESTIMATORS[name].estimate(log, seed=3)
    size = len(curve.propensity)
    assert curve.propensity[0] == 1
    assert len(curve.low) == len(curve.high) == len(curve.clicks) == size
    assert curve.verdict.split(":")[0] in ("identified", "weak", "not identified")
    known = np.isfinite(curve.low) & np.isfinite(curve.high)
    assert (curve.low[known] <= curve.propensity[known] + 1e-12).all()
    assert (curve.high[known] >= curve.propensity[known] - 1e-12).all()
    assert np.array_equal(curve.propensity, again.propensity, equal_nan=True)
    assert np.array_equal(curve.low, again.low, equal_nan=True)
    assert list(curve.to_json_dict()) == ["propensity", "low", "high", "clicks", "verdict"]


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_prefers_the_right_order(name, world):
    test = world[1]
    measure = metric(f"{name}@5" if name == "precision" else name)
    right = np.nanmean(measure(test.relevance, test.relevance.astype(float), test.offsets))
    wrong = np.nanmean(measure(test.relevance, -test.relevance.astype(float), test.offsets))
    assert right < wrong if name.startswith("arp") else right > wrong
