import sys
from pathlib import Path

import numpy as np
import pytest

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.losses.lambdas import LambdaObjective
from prsrank.losses.logistic import logistic_hessian_product, logistic_loss
from prsrank.pairs.fold import SessionConstant
from prsrank.pairs.fold_kernels import SUM
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker

sys.path.insert(0, str(Path(__file__).parent))
from definitions import lambda_definition, logistic_loss_definition


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    rng = np.random.default_rng(0)
    lengths = np.array([1, 7, 0, 30, 2, 55])
    return RankingDataset(
        rng.normal(size=(lengths.sum(), 4)), np.concatenate([[0], np.cumsum(lengths)])
    )


def pairs_of(
    data: RankingDataset, normalise: str | None = None, one_way: float = 0.0
) -> OuterPairs:
    theta = np.random.default_rng(1).uniform(0, 1, data.docs)
    return OuterPairs.from_relevance(data, theta, normalise=normalise, one_way=one_way)


ONE_WAY = pytest.mark.parametrize("one_way", [0.0, 0.4, 1.0])


@ONE_WAY
def test_weights_of_both_directions(data: RankingDataset, one_way: float) -> None:
    theta = np.random.default_rng(1).uniform(0, 1, data.docs)[1:8]
    got = pairs_of(data, one_way=one_way).dense().weights[: 7 * 7].reshape(7, 7)
    for i, first in enumerate(theta):
        for j, second in enumerate(theta):
            right, wrong = first * (1 - second), second * (1 - first)
            assert got[i, j] == pytest.approx((i != j) * (right - one_way * min(right, wrong)))
    if one_way == 1:
        np.testing.assert_allclose(got, np.maximum(theta[:, None] - theta, 0), atol=1e-12)


def double_precision(objective: LambdaObjective, pairs: OuterPairs) -> LambdaObjective:
    objective.pairs = pairs
    objective._discounts = objective._discounts.astype(np.float64)
    return objective


@pytest.mark.parametrize("metric", ["ndcg", "arp"])
@pytest.mark.parametrize("truncation", [None, 5])
@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0])
@pytest.mark.parametrize("norm", [False, True])
@ONE_WAY
def test_lambdas_are_those_of_the_dense_pairs(
    data: RankingDataset,
    metric: str,
    truncation: int | None,
    scale: float,
    norm: bool,
    one_way: float,
) -> None:
    pairs = pairs_of(data, metric, one_way)
    scores = scale * np.random.default_rng(2).normal(size=data.docs).round(1)
    options = {"metric": metric, "sigma": 1.3, "truncation": truncation, "seed": 4, "norm": norm}
    expected = lambda_definition(scores, pairs.dense(), **options)
    plain = LambdaObjective(pairs, **options)
    for got, right in zip(plain(scores), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=2e-4, atol=2e-4 * np.abs(right).max())
    exact = double_precision(LambdaObjective(pairs, **options), pairs)
    exact._discounts = (
        1 / np.log2(np.arange(2.0, len(exact._discounts) + 2))
        if metric == "ndcg"
        else np.arange(1.0, len(exact._discounts) + 1)
    )
    for got, right in zip(exact.exact(scores), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scale", [0.0, 1.0, 3000.0])
@ONE_WAY
def test_logistic_loss_is_that_of_the_dense_pairs(
    data: RankingDataset, scale: float, one_way: float
) -> None:
    pairs = pairs_of(data, one_way=one_way)
    rng = np.random.default_rng(3)
    scores, vector = scale * rng.normal(size=data.docs), rng.normal(size=data.docs)
    loss, gradient = logistic_loss(scores, pairs)
    for other in (logistic_loss, logistic_loss_definition):
        expected, right = other(scores, pairs.dense())
        assert loss == pytest.approx(expected, rel=1e-10)
        np.testing.assert_allclose(gradient, right, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        logistic_hessian_product(scores, vector, pairs),
        logistic_hessian_product(scores, vector, pairs.dense()),
        rtol=1e-9,
        atol=1e-10,
    )


def test_one_way_keeps_what_pairs_ask_for_and_leaves_out_what_holds_scores_together(
    data: RankingDataset,
) -> None:
    both, half, one = (pairs_of(data, "ndcg", one_way) for one_way in (0.0, 0.5, 1.0))
    pull, bend = (part.copy() for part in LambdaObjective(both)(np.zeros(data.docs)))
    for pairs in (half, one):
        other_pull, other_bend = LambdaObjective(pairs)(np.zeros(data.docs))
        np.testing.assert_allclose(other_pull, pull, atol=1e-5)
        assert np.all(other_bend <= bend + 1e-6)
        assert other_bend.sum() < bend.sum()
        bend = other_bend.copy()


def test_threads_change_nothing() -> None:
    data = RankingDataset(np.zeros((3000, 1)), np.arange(0, 3001, 60))
    pairs = pairs_of(data, "ndcg")
    scores = np.random.default_rng(3).normal(size=data.docs)
    one, two = (LambdaObjective(pairs, threads=t)(scores) for t in (1, 2))
    assert np.array_equal(one[0], two[0])
    assert np.array_equal(one[1], two[1])
    assert logistic_loss(scores, pairs, threads=1)[0] == pytest.approx(
        logistic_loss(scores, pairs, threads=2)[0], rel=1e-15
    )


@ONE_WAY
def test_linear_ranker_finds_the_same_weights(data: RankingDataset, one_way: float) -> None:
    pairs = pairs_of(data, one_way=one_way)
    one = LinearRanker(l2=0.1).fit(data, pairs)
    two = LinearRanker(l2=0.1).fit(data, pairs.dense())
    assert one.converged_
    np.testing.assert_allclose(one.weights_, two.weights_, atol=1e-5)


@ONE_WAY
def test_lambdamart_grows_the_same_trees(data: RankingDataset, one_way: float) -> None:
    ranker = LambdaMART(trees=10, min_docs_in_leaf=5)
    pairs = pairs_of(data, "ndcg", one_way)
    one = ranker.fit(data, pairs).score(data.features)
    two = ranker.fit(data, pairs.dense()).score(data.features)
    np.testing.assert_allclose(one, two, atol=1e-3)


@pytest.mark.neural
@ONE_WAY
def test_the_other_pairwise_rankers_take_the_dense_form(
    data: RankingDataset, one_way: float
) -> None:
    from prsrank.rankers.neural.dnn import NeuralRanker
    from prsrank.rankers.svm import SVMRanker

    pairs = pairs_of(data, one_way=one_way)
    for make in (lambda: SVMRanker(C=1.0), lambda: NeuralRanker(hidden=(8,), epochs=2)):
        one, two = (make().fit(data, p).score(data.features) for p in (pairs, pairs.dense()))
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_constants_of_the_lists(data: RankingDataset) -> None:
    theta = np.random.default_rng(1).uniform(0, 1, data.docs)
    plain, ndcg, arp = (pairs_of(data, n) for n in (None, "ndcg", "arp"))
    begin, end = data.offsets[3:5]
    best = np.sort(theta[begin:end])[::-1]
    ideal = (best / np.log2(np.arange(2, len(best) + 2))).sum()
    np.testing.assert_allclose(ndcg.winning[begin:end], plain.winning[begin:end] / ideal)
    np.testing.assert_allclose(arp.winning[begin:end], plain.winning[begin:end] / (end - begin))
    gains = SessionConstant("ndcg").of_gains(theta, data.offsets)
    assert gains[3] == pytest.approx(1 / ideal)


def test_sums_and_parts(data: RankingDataset) -> None:
    pairs = pairs_of(data)
    dense = pairs.dense()
    sums = np.add.reduceat(np.append(dense.weights, 0.0), dense.work_offsets[:-1])
    filled = np.diff(dense.work_offsets) > 0
    np.testing.assert_allclose(pairs.totals[filled, SUM], sums[filled])
    assert np.array_equal(pairs.paired_lists, filled)
    kept = pairs.keep_lists(np.array([True, False, False, True, False, False]))
    assert kept.docs == 31
    assert dense.diagnostics().pairs == 7 * 6 + 30 * 29 + 2 + 55 * 54


def test_bad_values_are_refused(data: RankingDataset) -> None:
    with pytest.raises(InputError, match="one_way must be from 0 to 1, not 2"):
        pairs_of(data, one_way=2.0)
    with pytest.raises(InputError, match="from 0 to 1"):
        OuterPairs.from_relevance(data, np.full(data.docs, 1.5))
    with pytest.raises(InputError, match="at least 0"):
        OuterPairs.from_relevance(data, np.full(data.docs, 0.5), action_weights=-np.ones(data.docs))
