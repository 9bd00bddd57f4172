"""Kernels against their plain-NumPy definitions, extreme scores included."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.losses.lambdas import LambdaObjective
from prsrank.losses.logistic import logistic_hessian_product, logistic_loss
from prsrank.losses.ranked_objective import tie_order
from prsrank.pairs.pair_set import PairSet

sys.path.insert(0, str(Path(__file__).parent))
from definitions import current_ranks, lambda_definition, logistic_loss_definition

rngs = st.integers(0, 2**32).map(np.random.default_rng)
SCALES = [0.0, 1e-300, 1e-30, 1.0, 30.0, 79.9, 160.0, 700.0, 1e4, 1e8, 1e300]


def random_pairs(rng, *, lists=4, longest=40, dtype=np.float64):
    lengths = rng.integers(1, longest + 1, lists)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    won = rng.random(offsets[-1]) < 0.4
    winner_list = np.repeat(np.arange(lists), lengths)[won]
    weights = rng.gamma(0.5, size=lengths[winner_list].sum()) * 10 ** rng.uniform(-3, 6)
    rows = np.flatnonzero(won) - offsets[winner_list]
    weights[np.cumsum(lengths[winner_list]) - lengths[winner_list] + rows] = 0
    return PairSet(
        offsets=offsets,
        query_ids=np.arange(lists),
        winner_offsets=np.concatenate([[0], np.cumsum(np.bincount(winner_list, minlength=lists))]),
        winner_row=rows.astype(np.int32),
        weights=weights.astype(dtype),
        totals=np.zeros((lists, 5)),
    )


def random_scores(rng, docs, scale):
    """Scores with ties, on a large common offset half of the time."""
    scores = rng.normal(size=docs)
    scores[rng.random(docs) < 0.3] = 0.5
    return scores * scale + (1e3 * (rng.random() < 0.5) if scale < 1e5 else 0.0)


def assert_near(got, expected, tolerance):
    largest = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * largest)


@settings(max_examples=100)
@given(rngs, st.sampled_from(SCALES))
def test_logistic_loss_equals_definition(rng, scale):
    pairs = random_pairs(rng, dtype=rng.choice([np.float32, np.float64]))
    scores = random_scores(rng, pairs.docs, scale)
    loss, gradient = logistic_loss(scores, pairs)
    expected, expected_gradient = logistic_loss_definition(scores, pairs)
    assert loss == pytest.approx(expected, rel=1e-10)
    assert_near(gradient, expected_gradient, 1e-10)


def test_loss_of_a_pair_that_is_right_by_far_keeps_its_digits():
    """log(1 + exp(-d)) is exp(-d) to the last digits, not 0."""
    data = RankingDataset(np.zeros((2, 1)), [0, 2], labels=[1, 0])
    for margin in (40.0, 100.0, 600.0, 740.0):
        loss, gradient = logistic_loss([margin, 0.0], PairSet.from_labels(data))
        assert loss == pytest.approx(np.exp(-margin), rel=1e-10)
        assert gradient[1] == pytest.approx(np.exp(-margin), rel=1e-10)


@settings(max_examples=30)
@given(rngs, st.sampled_from([0.0, 1.0, 5.0]))
def test_gradient_and_hessian_by_differences(rng, scale):
    pairs = random_pairs(rng, longest=8)
    scores = rng.normal(size=pairs.docs) * scale
    direction = rng.normal(size=pairs.docs)
    step = 1e-5
    up, gradient_up = logistic_loss(scores + step * direction, pairs)
    down, gradient_down = logistic_loss(scores - step * direction, pairs)
    _, gradient = logistic_loss(scores, pairs)
    product = logistic_hessian_product(scores, direction, pairs)
    assert gradient @ direction == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-6)
    # a difference of gradients is rounded as they are, which tiny products do not bear
    rounding = 4 * np.finfo(float).eps * np.abs(gradient).max() / step
    differences = (gradient_up - gradient_down) / (2 * step)
    np.testing.assert_allclose(
        product, differences, rtol=1e-5, atol=1e-5 * np.abs(product).max() + rounding
    )


@settings(max_examples=60)
@given(rngs, st.sampled_from(SCALES[:-1]))
def test_hessian_product_equals_definition(rng, scale):
    pairs = random_pairs(rng, longest=12)
    scores = random_scores(rng, pairs.docs, scale)
    hessian = np.zeros((pairs.docs, pairs.docs))
    for v in range(pairs.winners):
        begin, end = pairs.offsets[pairs.winner_list[v] :][:2]
        i = begin + pairs.winner_row[v]
        for j in range(begin, end):
            h = (
                pairs.row(v)[j - begin]
                * expit(scores[i] - scores[j])
                * expit(scores[j] - scores[i])
            )
            hessian[[i, j], [i, j]] += h
            hessian[i, j] -= h
            hessian[j, i] -= h
    vector = rng.normal(size=pairs.docs)
    assert_near(logistic_hessian_product(scores, vector, pairs), hessian @ vector, 1e-10)


@settings(max_examples=150)
@given(
    rngs,
    st.sampled_from(SCALES[:-1]),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from(["ndcg", "arp"]),
    st.sampled_from([None, 1, 5, 100]),
    st.booleans(),
)
def test_lambdas_equal_definition(rng, scale, sigma, metric, truncation, norm):
    pairs = random_pairs(rng)
    scores = random_scores(rng, pairs.docs, scale)
    options = {
        "metric": metric,
        "sigma": sigma,
        "truncation": truncation,
        "seed": 3,
        "norm": norm,
    }
    got = LambdaObjective(pairs, **options)(scores)
    expected = lambda_definition(scores, pairs, **options)
    assert got[0].dtype == got[1].dtype == np.float32
    for a, b in zip(got, expected, strict=True):
        # second derivatives below the range of float32 are 0 there
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=3e-6 * np.abs(b).max(initial=0) + 1e-37)


def test_lambdas_by_hand():
    """Ranks 2, 1, 3: the clicked doc 0 against docs 1 and 2."""
    data = RankingDataset(np.zeros((3, 1)), [0, 3], labels=[1, 0, 0])
    scores = np.array([0.2, 0.9, -0.3])
    gradient, hessian = LambdaObjective(PairSet.from_labels(data, normalise="ndcg"))(scores)
    change = np.array([1 - 1 / np.log2(3), 1 / np.log2(3) - 1 / np.log2(4)])
    rho = expit([0.9 - 0.2, -0.3 - 0.2])
    pull = change * rho
    np.testing.assert_allclose(gradient, [-pull.sum(), *pull], rtol=1e-6)
    curve = pull * (1 - rho)
    np.testing.assert_allclose(hessian, [curve.sum(), *curve], rtol=1e-6)


def test_calls_do_not_add_up():
    rng = np.random.default_rng(0)
    pairs = random_pairs(rng)
    objective = LambdaObjective(pairs)
    one, other = rng.normal(size=(2, pairs.docs))
    first = [a.copy() for a in objective(one)]
    objective(other)
    np.testing.assert_array_equal(first, objective(one))


@settings(max_examples=40)
@given(rngs, st.sampled_from([3, 31, 32, 33, 200, 1000, 1001, 1500]))
def test_ranks_of_lists_of_any_length(rng, length):
    """Every kind of list ranks as the definition says, ties by the hash: ARP shows the ranks."""
    data = RankingDataset(np.zeros((length, 1)), [0, length], labels=np.arange(length) == 0)
    scores = np.round(rng.normal(size=length), rng.integers(0, 3))
    pairs = PairSet.from_labels(data)
    gradient, _ = LambdaObjective(pairs, metric="arp")(scores)
    ranks = current_ranks(scores, data.offsets, tie_order(data.offsets, data.query_ids, 0))
    assert sorted(ranks) == list(range(1, length + 1))
    rho = expit(scores[1:] - scores[0])
    np.testing.assert_allclose(gradient[1:] / rho, abs(ranks[1:] - ranks[0]), rtol=1e-5)


def test_tied_docs_do_not_rank_in_row_order():
    offsets = np.arange(2001) * 20
    ranks = current_ranks(
        np.zeros(40_000), offsets, tie_order(offsets, np.arange(2000), seed=0)
    ).reshape(2000, 20)
    # each row's mean rank is 10.5 with a standard error of 0.13
    assert np.abs(ranks.mean(axis=0) - 10.5).max() < 0.6
    assert abs(np.corrcoef(np.tile(np.arange(20), 2000), ranks.ravel())[0, 1]) < 0.02
    other = tie_order(offsets, np.arange(2000), seed=1)
    assert (other != tie_order(offsets, np.arange(2000), seed=0)).mean() > 0.9


@pytest.mark.parametrize("ids", [np.array([7, 3]), np.array(["x", "y"])])
def test_tie_order_depends_on_the_list_alone(ids):
    both = tie_order(np.array([0, 9, 20]), ids, seed=5)
    alone = tie_order(np.array([0, 11]), ids[1:], seed=5)
    np.testing.assert_array_equal(both[9:], alone)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("l2", [0.0, 1.0, 100.0])
def test_leaves_of_one_clicked_doc_per_list_equal_those_of_lightgbm(norm, l2):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 30, 30)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = np.zeros(offsets[-1], int)
    labels[offsets[:-1] + rng.integers(0, lengths)] = 1
    data = RankingDataset(rng.normal(size=(len(labels), 3)), offsets, labels=labels)
    # LightGBM looks sigmoids up in a table; all differences of these scores stand in it
    scores = rng.permutation(len(labels)) * (25 / 2**11) + 1e-9 * labels
    options = {
        "objective": "lambdarank",
        "lambdarank_norm": norm,
        "lambdarank_truncation_level": 1000,
        "lambda_l2": l2,
        "learning_rate": 1.0,
        "min_data_in_leaf": 2,
        "min_sum_hessian_in_leaf": 1e-6,
        "num_threads": 1,
        "verbosity": -1,
    }
    train = lightgbm.Dataset(data.features, labels, group=lengths, init_score=scores)
    tree = lightgbm.train(options, train, num_boost_round=1)
    leaves = tree.predict(data.features, pred_leaf=True).ravel()
    pairs = PairSet.from_labels(data, normalise="ndcg")
    gradient, hessian = LambdaObjective(pairs, norm=norm)(scores)
    values = -np.bincount(leaves, gradient) / (np.bincount(leaves, hessian) + l2)
    assert len(values) > 8
    theirs = tree.predict(data.features, raw_score=True)
    np.testing.assert_allclose(theirs, values[leaves], rtol=2e-6, atol=1e-6)


def lightgbm_scores(rng, *, graded, truncation):
    """Scores after 20 rounds of LightGBM's own lambdarank and of ours."""
    lightgbm = pytest.importorskip("lightgbm")
    lengths = rng.integers(2, 40, 150)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    features = rng.normal(size=(offsets[-1], 6)).astype(np.float32)
    signal = features[:, 0] + features[:, 1] * features[:, 2] + rng.normal(size=len(features))
    labels = np.digitize(signal, [0.5, 1.5, 2.5] if graded else [1.0])
    data = RankingDataset(features, offsets, labels=labels)
    start = rng.normal(size=len(features)) * 0.1
    pairs = PairSet.from_labels(data, graded=graded, normalise="ndcg", truncation=truncation)
    objective = LambdaObjective(pairs, truncation=truncation)
    common = {"verbosity": -1, "num_leaves": 7, "num_threads": 1, "deterministic": True, "seed": 1}
    theirs = {
        "objective": "lambdarank",
        "lambdarank_norm": False,
        "lambdarank_truncation_level": truncation or 1000,
    }
    scores = []
    for params in (theirs, {"objective": lambda preds, _: objective(preds)}):
        train = lightgbm.Dataset(features, labels, group=lengths, init_score=start)
        booster = lightgbm.train(common | params, train, num_boost_round=20)
        scores.append(booster.predict(features, raw_score=True))
    return scores


@pytest.mark.parametrize(("graded", "truncation"), [(False, None), (True, None), (True, 5)])
def test_trees_equal_those_of_lightgbm(graded, truncation):
    theirs, ours = lightgbm_scores(np.random.default_rng(4), graded=graded, truncation=truncation)
    assert theirs.std() > 0.1
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda pairs: logistic_loss([0.0], pairs), "scores for"),
        (lambda pairs: logistic_loss(np.full(pairs.docs, np.nan), pairs), "doc 0 is not finite"),
        (lambda pairs: LambdaObjective(pairs, sigma=0), "sigma"),
        (lambda pairs: LambdaObjective(pairs, metric="ncdg"), "'ncdg'"),
        (lambda pairs: LambdaObjective(pairs, truncation=0), "truncation"),
        (lambda pairs: LambdaObjective(pairs)(np.full(pairs.docs, np.inf)), "not finite"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(InputError, match=match):
        call(random_pairs(np.random.default_rng(0)))
