import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning, InputError
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.svm import SVMRanker


def clicked_lists(seed=0, lists=25, shown_in_part=False):
    """A data set and, from sessions with clicks, pairs of 1/p against all others shown."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 10, lists)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    x = rng.normal(size=(offsets[-1], 4)) * [1, 10, 0.1, 1] + 2
    data = RankingDataset(x, offsets, labels=(x[:, 0] > 2.5))
    rows = {"query_id": [], "session_id": [], "doc_id": [], "position": [], "click": []}
    for session in range(lists * 4):
        q = session % lists
        docs = rng.permutation(lengths[q])
        docs = docs[: rng.integers(1, lengths[q] + 1)] if shown_in_part else docs
        relevant = data.relevance[offsets[q] + docs] == 1
        clicks = rng.random(len(docs)) < np.where(relevant, 0.9, 0.2) / np.arange(1, len(docs) + 1)
        for name, values in zip(
            rows,
            (
                np.full(len(docs), q),
                np.full(len(docs), session),
                docs,
                1 + np.arange(len(docs)),
                clicks,
            ),
            strict=True,
        ):
            rows[name].append(values)
    log = ClickLog.from_frame({name: np.concatenate(parts) for name, parts in rows.items()})
    return data, PairSet.from_log(log, data, 1 / log.ranking_positions, "ips_all")


def differences(x, pairs):
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


def objective(w, C, vectors, weights):
    return w @ w / 2 + C / weights.sum() * weights @ np.maximum(0, 1 - vectors @ w)


def linear_svc(C, vectors, weights):
    """LinearSVC needs two classes: each vector also stands, turned around, on the other side."""
    model = LinearSVC(
        loss="hinge", dual=True, fit_intercept=False, C=C, tol=1e-9, max_iter=1_000_000
    )
    model.fit(
        np.concatenate([vectors, -vectors]),
        np.repeat([1, 0], len(vectors)),
        sample_weight=np.tile(weights / 2 / weights.sum(), 2),
    )
    return model.coef_[0]


@pytest.mark.parametrize("C", [0.1, 10.0, 300.0])
@pytest.mark.parametrize("seed", range(3))
def test_objective_equals_linear_svc(seed, C):
    data, pairs = clicked_lists(seed, shown_in_part=seed == 2)
    ranker = SVMRanker(C=C, tolerance=1e-6).fit(data, pairs)
    vectors, weights = differences(standardised(data), pairs)
    theirs = objective(linear_svc(C, vectors, weights), C, vectors, weights)
    assert ranker.objective_ == pytest.approx(theirs, rel=1e-3)
    assert ranker.objective_ <= theirs * (1 + 1e-5)
    assert objective(ranker.weights_, C, vectors, weights) == pytest.approx(
        ranker.objective_, rel=1e-5
    )


def test_a_gap_that_is_not_reached_is_told():
    """At a C that leaves next to no regularisation, about one small set in a hundred."""
    data, pairs = clicked_lists(366, lists=6)
    with pytest.warns(DataWarning, match="tolerance"):
        ranker = SVMRanker(C=1e6, tolerance=1e-6).fit(data, pairs)
    assert not ranker.converged_


@given(seed=st.integers(0, 10_000), C=st.sampled_from([0.01, 1.0, 1e3, 1e5]))
def test_the_gap_is_reached_and_bounds_the_optimum(seed, C):
    data, pairs = clicked_lists(seed, lists=6)
    if pairs.weights.sum() == 0:
        return
    loose = SVMRanker(C=C, tolerance=0.05).fit(data, pairs)
    tight = SVMRanker(C=C, tolerance=1e-6).fit(data, pairs)
    assert loose.converged_
    assert tight.converged_
    assert tight.gap_ + 1e-12 * C >= 0
    assert tight.objective_ <= loose.objective_ * (1 + 2e-6)
    assert loose.objective_ - loose.gap_ <= tight.objective_ * (1 + 2e-6)


def test_it_is_the_paper_objective():
    """1/2 |w|^2 + C/n sum over the n clicks of 1/p times the hinges against all other docs."""
    x = np.array([[0.0], [1.0], [3.0]])
    data = RankingDataset(x, [0, 3])
    log = ClickLog.from_frame(
        {
            "query_id": np.zeros(6, int),
            "session_id": np.repeat([0, 1], 3),
            "doc_id": np.tile([0, 1, 2], 2),
            "position": np.tile([1, 2, 3], 2),
            "click": np.array([False, True, False, True, False, True]),
        }
    )
    pairs = PairSet.from_log(log, data, 1 / log.ranking_positions, "ips_all")
    ranker = SVMRanker(C=7.0).fit(data, pairs)
    w = ranker.weights_[0] / x.std()
    sums = sum(
        inverse_p * sum(max(0, 1 - w * (x[i, 0] - x[j, 0])) for j in range(3) if j != i)
        for i, inverse_p in ((1, 2), (0, 1), (2, 3))
    )
    clicks = 3
    paper_c = 7.0 * clicks / ranker.weight_sum_
    assert ranker.weight_sum_ == 2 * (2 + 1 + 3)
    assert ranker.objective_ == pytest.approx(
        ranker.weights_[0] ** 2 / 2 + paper_c / clicks * sums, rel=1e-6
    )


def test_threads_change_nothing():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9_000, 6))
    data = RankingDataset(x, np.arange(0, 9_001, 30), labels=(x @ rng.normal(size=6) > 2))
    pairs = PairSet.from_labels(data)
    fits = [SVMRanker(threads=n).fit(data, pairs).weights_.tolist() for n in (1, 2, 3)]
    assert fits[0] == fits[1] == fits[2]


def test_it_learns_what_is_relevant():
    data, pairs = clicked_lists(3, lists=60)
    ranker = SVMRanker(C=100.0).fit(data, pairs)
    assert ranker.converged_
    assert ranker.weights_[0] > 3 * np.abs(ranker.weights_[1:]).max()


def test_learned_state_survives_json():
    data, pairs = clicked_lists(0)
    ranker = SVMRanker().fit(data, pairs)
    values, files = ranker._state()
    again = SVMRanker()
    again._restore(json.loads(json.dumps(values)), files)
    assert again.score(data.features).tolist() == ranker.score(data.features).tolist()
    assert (again.gap_, again.objective_) == (ranker.gap_, ranker.objective_)
    assert again.weight_sum_ == ranker.weight_sum_


def test_missing_values():
    data, pairs = clicked_lists(0)
    x = data.features.copy()
    x[::3, 1] = np.nan
    holes = RankingDataset(x, data.offsets, labels=data.labels)
    with pytest.raises(InputError, match="is missing"):
        SVMRanker().fit(holes, pairs)
    ranker = SVMRanker(missing="impute").fit(holes, pairs)
    assert ranker.weights_.shape == (5,)
    assert ranker.converged_


def test_bad_input():
    data, pairs = clicked_lists(0)
    with pytest.raises(InputError, match="not fitted"):
        SVMRanker().score(data.features)
    with pytest.raises(InputError, match="no pairs"):
        SVMRanker().fit(data, replace(pairs, weights=pairs.weights * 0))
    with pytest.raises(InputError, match="lists differ"):
        SVMRanker().fit(data.select(np.arange(data.lists - 1)), pairs)
    for wrong in ({"C": 0}, {"C": np.inf}, {"tolerance": 0}, {"max_iterations": -1}):
        with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
            SVMRanker(**wrong).fit(data, pairs)
    with pytest.warns(DataWarning, match="stopped after 1 iterations with a duality gap"):
        ranker = SVMRanker(max_iterations=1).fit(data, pairs)
    assert not ranker.converged_
