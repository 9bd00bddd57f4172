"""The production ranker."""

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize

from prsrank.clicks.production import PRODUCTION_RANKERS, logging_part, production_scores
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError


def dataset(lists=200, docs=20, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(lists * docs, 5)) * [1, 100, 1, 1e-3, 1]
    truth = x[:, 0] + x[:, 1] / 100 - 1000 * x[:, 3] + rng.normal(size=len(x))
    return RankingDataset(x, np.arange(0, len(x) + 1, docs), labels=truth > 1.5)


def pair_order(data, scores):
    """Return the share of (relevant, irrelevant) pairs of one list in the right order."""
    right = []
    for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        relevant = data.relevance[start:stop] == 1
        s = scores[start:stop]
        right.extend((s[relevant][:, None] > s[~relevant]).ravel())
    return np.mean(right)


@pytest.mark.parametrize("ranker", PRODUCTION_RANKERS)
def test_ranks_far_better_than_chance(ranker):
    data, test = dataset(), dataset(seed=1)
    production = production_scores(data, share=0.05, ranker=ranker)
    assert pair_order(test, production.score(test.features)) > 0.75
    np.testing.assert_allclose(production.score(data.features), production.scores)
    again = production_scores(data, share=0.05, ranker=ranker)
    np.testing.assert_array_equal(production.scores, again.scores)


@pytest.mark.parametrize("ranker", PRODUCTION_RANKERS)
def test_trains_on_its_lists_only(ranker):
    data = dataset()
    production = production_scores(data, share=0.05, ranker=ranker, seed=3)
    lists = production.training_lists
    assert len(lists) == 10
    assert sorted([*lists, *production.remaining]) == list(range(200))
    elsewhere = np.repeat(~np.isin(np.arange(200), lists), 20)
    labels = np.where(elsewhere, 1 - data.labels, data.labels)
    spoiled = RankingDataset(data.features, data.offsets, labels=labels)
    same = production_scores(spoiled, share=0.05, ranker=ranker, seed=3)
    np.testing.assert_array_equal(same.training_lists, lists)
    np.testing.assert_array_equal(same.scores, production.scores)


def test_linear_is_the_optimum():
    """Against the loss on explicit differences, solved by a derivative-free start."""
    data = dataset()
    production = production_scores(data, share=0.03)
    training = data.select(production.training_lists)
    x = training.features.astype(float)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    rows = [
        x[i] - x[j]
        for start, stop in zip(training.offsets[:-1], training.offsets[1:], strict=True)
        for i in range(start, stop)
        for j in range(start, stop)
        if training.relevance[i] > training.relevance[j]
    ]
    d = np.array(rows)

    def loss(w):
        return np.log1p(np.exp(-d @ w)).mean() + 0.005 * w @ w

    def slope(w):
        return -(d / (1 + np.exp(d @ w))[:, None]).mean(axis=0) + 0.01 * w

    assert check_grad(loss, slope, np.ones(5)) < 1e-6
    best = minimize(loss, np.zeros(5), jac=slope, method="BFGS", options={"gtol": 1e-10})
    got = production.score(training.features)
    np.testing.assert_allclose(got, x @ best.x, atol=1e-3)


def test_missing_and_constant_features():
    data = dataset()
    x = data.features.copy()
    x[::3, 1] = np.nan
    x[:, 2] = np.nan
    x[:, 4] = 7
    x[5, 0] = np.inf
    holed = RankingDataset(x, data.offsets, labels=data.labels)
    for ranker in PRODUCTION_RANKERS:
        production = production_scores(holed, share=0.05, ranker=ranker)
        assert np.isfinite(production.scores).all()
        assert pair_order(holed, production.scores) > 0.6


def test_one_usable_list_is_found():
    labels = np.zeros(500)
    labels[433] = 1
    x = np.random.default_rng(0).normal(size=(500, 2))
    data = RankingDataset(x, np.arange(0, 501, 5), labels=labels)
    for seed in range(3):
        assert production_scores(data, seed=seed).training_lists.tolist() == [86]


def test_several_rankers_log_lists_that_none_has_seen():
    data = dataset()
    rankers = [production_scores(data, share=0.1, seed=seed) for seed in range(3)]
    rest, scores = logging_part(data, rankers)
    seen = np.concatenate([ranker.training_lists for ranker in rankers])
    assert rest.query_ids.tolist() == np.setdiff1d(np.arange(200), seen).tolist()
    for ranker, values in zip(rankers, scores, strict=True):
        np.testing.assert_allclose(values, ranker.score(rest.features))


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (dataset(), {"share": 0}, "share"),
        (dataset(), {"share": 1}, "share"),
        (dataset(), {"ranker": "oracle"}, "unknown production ranker 'oracle'"),
        (dataset(), {"seed": -1}, "seed"),
        (dataset(lists=1), {}, "two lists"),
        (RankingDataset(np.eye(4), [0, 2, 4], labels=[0, 0, 1, 1]), {}, "irrelevant doc"),
        (RankingDataset(np.eye(4), [0, 2, 4]), {}, "no labels"),
    ],
)
def test_bad_input(data, options, message):
    with pytest.raises(InputError, match=message):
        production_scores(data, **options)


def test_nothing_left():
    data = dataset(lists=2)
    rankers = [production_scores(data, share=0.5, seed=seed) for seed in range(12)]
    with pytest.raises(InputError, match="none is left"):
        logging_part(data, rankers)
