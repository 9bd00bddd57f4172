import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning, InputError
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.base import RANKERS, load_ranker
from prsrank.rankers.linear import LinearRanker


def random_problem(seed=0, lists=30, columns=5, correlated=False):
    """Lists of 0 to 12 docs, some without winners, with random weights on their pairs."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 13, lists)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    x = rng.normal(size=(offsets[-1], columns)) * 10.0 ** rng.integers(-2, 3, columns) + 3
    if correlated:
        x[:, 1] = x[:, 0] + 0.01 * x[:, 1]
    labels = rng.integers(0, 2, offsets[-1]) * np.repeat(rng.random(lists) < 0.8, lengths)
    data = RankingDataset(x, offsets, labels=labels)
    pairs = PairSet.from_labels(data)
    weights = pairs.weights * rng.exponential(size=len(pairs.weights))
    return data, with_weights(pairs, weights)


def with_weights(pairs, weights):
    from dataclasses import replace

    return replace(pairs, weights=weights)


def differences(x, pairs):
    """x_i - x_j and W_ij of every pair."""
    vectors, weights = [], []
    for v in range(pairs.winners):
        q = pairs.winner_list[v]
        docs = x[pairs.offsets[q] : pairs.offsets[q + 1]]
        row = pairs.row(v)
        vectors.append((docs[pairs.winner_row[v]] - docs)[row > 0])
        weights.append(row[row > 0])
    return np.concatenate(vectors), np.concatenate(weights)


def standardised(data):
    x = data.features.astype(np.float64)
    return (x - x.mean(axis=0)) / x.std(axis=0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("l2", [1e-3, 0.1])
def test_equals_logistic_regression_on_explicit_differences(seed, l2):
    data, pairs = random_problem(seed, correlated=seed % 2 == 1)
    ranker = LinearRanker(l2=l2, tolerance=1e-9).fit(data, pairs)
    d, w = differences(standardised(data), pairs)
    both = np.concatenate([d, -d])
    labels = np.repeat([1, 0], len(d))
    theirs = LogisticRegression(
        C=1 / (l2 * w.sum()), fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(both, labels, sample_weight=np.tile(w / 2, 2))
    np.testing.assert_allclose(ranker.weights_, theirs.coef_[0], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_objective_and_gradient_are_those_of_the_formula(seed):
    data, pairs = random_problem(seed)
    ranker = LinearRanker(l2=0.02).fit(data, pairs)
    d, w = differences(standardised(data), pairs)
    margins = d @ ranker.weights_
    value = w @ np.logaddexp(0, -margins) / w.sum() + 0.01 * ranker.weights_ @ ranker.weights_
    gradient = -(w / (1 + np.exp(margins))) @ d / w.sum() + 0.02 * ranker.weights_
    assert ranker.objective_ == pytest.approx(value, rel=1e-6)
    # the rows are kept in float32, so the gradient in float64 is off by its rounding
    assert np.linalg.norm(gradient) < 2e-6
    assert ranker.converged_
    assert ranker.gradient_norm_ <= 1e-6


def test_scale_of_weights_and_repeated_clicks_do_not_matter():
    data, pairs = random_problem(1)
    once = LinearRanker().fit(data, pairs)
    often = LinearRanker().fit(data, with_weights(pairs, pairs.weights * 1000))
    np.testing.assert_allclose(once.weights_, often.weights_, rtol=1e-4, atol=1e-6)


def test_raw_weights_give_the_scores_up_to_a_constant():
    data, pairs = random_problem(2)
    ranker = LinearRanker().fit(data, pairs)
    shift = ranker.score(data.features) - data.features.astype(float) @ ranker.raw_weights_
    np.testing.assert_allclose(shift, shift[0], atol=1e-4)


def test_raw_scale_of_a_feature_does_not_change_scores():
    data, pairs = random_problem(3)
    changed = RankingDataset(
        data.features * np.array([1, 100, 1, 1, 0.5]) + 7, data.offsets, labels=data.labels
    )
    one = LinearRanker(tolerance=1e-8).fit(data, pairs)
    other = LinearRanker(tolerance=1e-8).fit(changed, pairs)
    np.testing.assert_allclose(
        one.score(data.features), other.score(changed.features), rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(one.raw_weights_[1], 100 * other.raw_weights_[1], rtol=1e-2)


@given(st.integers(0, 1000))
def test_threads_and_lists_without_winners_change_nothing(seed):
    data, pairs = random_problem(seed, lists=12)
    if pairs.weights.sum() == 0:
        return
    one = LinearRanker(threads=1).fit(data, pairs)
    two = LinearRanker(threads=2).fit(data, pairs)
    assert one.weights_.tolist() == two.weights_.tolist()
    assert one.converged_


def test_threads_do_not_change_a_fit_large_enough_to_use_them():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9_000, 6))
    data = RankingDataset(x, np.arange(0, 9_001, 30), labels=(x @ rng.normal(size=6) > 2))
    pairs = PairSet.from_labels(data)
    fits = [LinearRanker(threads=n).fit(data, pairs).weights_.tolist() for n in (1, 2, 3)]
    assert fits[0] == fits[1] == fits[2]


def test_extreme_weights_and_separable_data_converge():
    data, pairs = random_problem(5)
    spread = with_weights(pairs, pairs.weights ** np.linspace(1, 12, len(pairs.weights)))
    assert LinearRanker(l2=1e-6, tolerance=1e-5).fit(data, spread).converged_
    x = np.arange(20.0)[:, None]
    separable = RankingDataset(x, [0, 20], labels=x[:, 0] > 10)
    ranker = LinearRanker(l2=1e-8).fit(separable, PairSet.from_labels(separable))
    assert ranker.converged_
    assert ranker.weights_[0] > 10


def test_constant_features_get_no_weight():
    data, pairs = random_problem(0)
    x = np.column_stack([data.features, np.full(data.docs, 5.0)])
    ranker = LinearRanker().fit(RankingDataset(x, data.offsets, labels=data.labels), pairs)
    assert ranker.weights_[-1] == 0


def test_float32_weights_give_nearly_the_same():
    data, pairs = random_problem(0)
    one, other = (LinearRanker().fit(data, pairs.astype(t)).weights_ for t in ("f4", "f8"))
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def gappy(data, rng):
    x = data.features.copy()
    x[rng.random(x.shape) < 0.2] = np.nan
    x[:, 0] = data.features[:, 0]
    return RankingDataset(x, data.offsets, labels=data.labels)


def test_missing_values_are_refused_or_imputed_with_an_indicator():
    data, pairs = random_problem(0)
    holes = gappy(data, np.random.default_rng(0))
    with pytest.raises(InputError, match="is missing"):
        LinearRanker().fit(holes, pairs)
    ranker = LinearRanker(missing="impute").fit(holes, pairs)
    assert ranker.converged_
    assert len(ranker.weights_) == 5 + 4
    assert len(ranker.raw_weights_) == 5
    assert np.isfinite(ranker.score(holes.features)).all()


def test_an_indicator_is_learned_where_missing_means_relevant():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    x[rng.random(200) < 0.3] = np.nan
    data = RankingDataset(x, np.arange(0, 201, 10), labels=np.isnan(x[:, 0]))
    ranker = LinearRanker(missing="impute", l2=0.01).fit(data, PairSet.from_labels(data))
    assert ranker.weights_[1] > 1
    assert ranker.score([[np.nan]])[0] > ranker.score([[x[~np.isnan(x)].max()]])[0]


@pytest.mark.parametrize("missing", ["error", "impute"])
def test_saved_and_loaded_scores_are_identical(tmp_path, missing):
    data, pairs = random_problem(0)
    if missing == "impute":
        data = gappy(data, np.random.default_rng(1))
    ranker = LinearRanker(missing=missing).fit(data, pairs)
    ranker.save(tmp_path / "model", about={"weighting": "prs"})
    again = load_ranker(tmp_path / "model")
    assert again.score(data.features).tolist() == ranker.score(data.features).tolist()
    assert again.get_params() == ranker.get_params()
    assert again.feature_names_ == ranker.feature_names_
    assert again.raw_weights_.tolist() == ranker.raw_weights_.tolist()
    assert (again.converged_, again.gradient_norm_) == (True, ranker.gradient_norm_)
    assert again.about_ == {"weighting": "prs"}


@pytest.mark.parametrize("change", ["cut", "weights", "name"])
def test_a_damaged_model_is_an_input_error(tmp_path, change):
    data, pairs = random_problem(0)
    LinearRanker().fit(data, pairs).save(tmp_path / "model")
    card = tmp_path / "model" / "ranker.json"
    values = json.loads(card.read_text())
    if change == "cut":
        card.write_text(card.read_text()[:200])
    elif change == "weights":
        values["learned"]["weights_"].pop()
        card.write_text(json.dumps(values))
    else:
        del values["learned"]["scaling_"]
        card.write_text(json.dumps(values))
    with pytest.raises(InputError):
        load_ranker(tmp_path / "model")


def test_bad_input():
    data, pairs = random_problem(0)
    with pytest.raises(InputError, match="not fitted"):
        LinearRanker().score(data.features)
    ranker = LinearRanker()
    with pytest.raises(InputError, match="no pairs"):
        ranker.fit(data, with_weights(pairs, pairs.weights * 0))
    with pytest.raises(InputError, match="not fitted"):
        ranker.score(data.features)
    with pytest.raises(InputError, match="lists differ"):
        LinearRanker().fit(data.select(np.arange(data.lists - 1)), pairs)
    with pytest.raises(InputError, match="finite and at least 0"):
        LinearRanker().fit(data, with_weights(pairs, pairs.weights * -1))
    for wrong in ({"l2": 0}, {"l2": np.nan}, {"tolerance": -1}, {"max_iterations": 0}):
        with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
            LinearRanker(**wrong).fit(data, pairs)
    with pytest.raises(InputError, match="missing must be"):
        LinearRanker(missing="drop").fit(data, pairs)
    ranker = LinearRanker().fit(data, pairs)
    with pytest.raises(InputError, match="5 columns"):
        ranker.score(np.zeros((2, 4)))
    with pytest.raises(InputError, match="is missing"):
        ranker.score(np.full((2, 5), np.nan))


def test_infinite_features_are_refused():
    data, pairs = random_problem(0)
    x = data.features.copy()
    x[3, 2] = np.inf
    with pytest.raises(InputError, match="infinite"):
        LinearRanker().fit(RankingDataset(x, data.offsets, labels=data.labels), pairs)


def test_a_fit_that_stops_early_warns():
    data, pairs = random_problem(0)
    with pytest.warns(DataWarning, match="stopped after 1 iterations"):
        ranker = LinearRanker(max_iterations=1).fit(data, pairs)
    assert not ranker.converged_
    assert ranker.gradient_norm_ > 1e-6


def test_it_is_registered():
    assert RANKERS["linear"] is LinearRanker
