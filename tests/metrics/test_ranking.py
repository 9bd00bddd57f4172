"""Metrics against brute force over all tie orders, scikit-learn and plain NumPy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from prsrank.errors import InputError
from prsrank.metrics.ranking import (
    METRICS,
    Average,
    arp,
    average,
    average_precision,
    metric,
    mrr,
    ndcg,
    precision,
)

CUTOFFS = [None, 1, 2, 3, 4, 10]


def plain_ndcg(labels, k, gain):
    """NDCG of labels in the order shown."""
    k = k or len(labels)
    gains = {"exponential": [2.0**x - 1 for x in labels], "linear": list(labels)}[gain]
    dcg, ideal = (
        sum(g / math.log2(1 + rank) for rank, g in enumerate(order[:k], 1))
        for order in (gains, sorted(gains, reverse=True))
    )
    return dcg / ideal if ideal else math.nan


def plain_average_precision(shown):
    at = [sum(shown[:rank]) / rank for rank in range(1, len(shown) + 1) if shown[rank - 1]]
    return sum(at) / len(at) if at else math.nan


def plain_mrr(shown, k):
    if 1 not in shown:
        return math.nan
    rank = shown.index(1) + 1
    return 1 / rank if k is None or rank <= k else 0.0


def plain_precision(shown, k):
    return sum(shown[:k]) / k if shown else math.nan


def plain_arp(shown, form):
    ranks = [index for index, relevant in enumerate(shown) if relevant]
    if not ranks:
        return math.nan
    return sum(ranks) / len(shown) if form == "paper" else sum(ranks) / len(ranks) + 1


# One row per metric and choice: ours, the plain definition over an order shown, binary or not.
CASES = {
    **{
        f"ndcg-{gain}-{k}": (
            lambda v, s, o, k=k, gain=gain: ndcg(v, s, o, k=k, gain=gain),
            lambda shown, k=k, gain=gain: plain_ndcg(shown, k, gain),
            False,
        )
        for gain in ("exponential", "linear")
        for k in CUTOFFS
    },
    "average_precision": (average_precision, plain_average_precision, True),
    **{
        f"mrr-{k}": (
            lambda v, s, o, k=k: mrr(v, s, o, k=k),
            lambda shown, k=k: plain_mrr(shown, k),
            True,
        )
        for k in CUTOFFS
    },
    **{
        f"precision-{k}": (
            lambda v, s, o, k=k: precision(v, s, o, k=k),
            lambda shown, k=k: plain_precision(shown, k),
            True,
        )
        for k in CUTOFFS[1:]
    },
    **{
        f"arp-{form}": (
            lambda v, s, o, form=form: arp(v, s, o, form=form),
            lambda shown, form=form: plain_arp(shown, form),
            True,
        )
        for form in ("paper", "mean_rank")
    },
}
every_case = pytest.mark.parametrize("case", CASES)


def expectation(plain, values, scores):
    """Mean of the plain metric over every order of docs in which no score rises."""
    orders = [
        order
        for order in itertools.permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
    ]
    return sum(plain([values[i] for i in order]) for order in orders) / len(orders)


def lists_of(highest, max_docs=6, levels=3):
    """Lists of (value, score) pairs with few distinct scores, some lists empty."""
    doc = st.tuples(st.integers(0, highest), st.integers(0, levels - 1))
    return st.lists(st.lists(doc, max_size=max_docs), min_size=1, max_size=4)


def flat(lists):
    docs = [doc for docs in lists for doc in docs]
    values = np.array([value for value, _ in docs], dtype=float)
    scores = np.array([score for _, score in docs], dtype=float)
    return values, scores, np.cumsum([0, *map(len, lists)])


@every_case
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_ties_count_by_the_mean_over_all_tie_orders(case, data):
    ours, plain, binary = CASES[case]
    lists = data.draw(lists_of(1 if binary else 4))
    expected = [expectation(plain, [v for v, _ in x], [s for _, s in x]) for x in lists]
    np.testing.assert_allclose(ours(*flat(lists)), expected, rtol=0, atol=1e-12)


@every_case
@settings(max_examples=15, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_the_order_of_rows_does_not_matter(case, data, seed):
    ours, _, binary = CASES[case]
    lists = data.draw(lists_of(1 if binary else 4, max_docs=30, levels=8))
    rng = np.random.default_rng(seed)
    shuffled = [[docs[i] for i in rng.permutation(len(docs))] for docs in lists]
    np.testing.assert_allclose(ours(*flat(shuffled)), ours(*flat(lists)), rtol=1e-12)


@every_case
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_only_the_order_of_scores_matters(case, data):
    ours, _, binary = CASES[case]
    values, scores, offsets = flat(data.draw(lists_of(1 if binary else 4, max_docs=20, levels=9)))
    expected = ours(values, scores, offsets)
    for transformed in (3 * scores - 7, np.exp(scores), -1 / (1 + scores)):
        np.testing.assert_array_equal(ours(values, transformed, offsets), expected)


@every_case
@pytest.mark.parametrize("length", [1, 2, 20, 127, 128, 129, 130, 300])
def test_lists_without_ties_equal_the_plain_definition(case, length):
    ours, plain, binary = CASES[case]
    rng = np.random.default_rng(length)
    values = rng.integers(0, 2 if binary else 5, size=(12, length))
    scores = rng.permuted(np.tile(np.arange(length) * 0.5, (12, 1)), axis=1)
    orders = np.argsort(-scores, axis=1)
    expected = [plain(row[order].tolist()) for row, order in zip(values, orders, strict=True)]
    result = ours(values.ravel(), scores.ravel(), np.arange(13) * length)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


@every_case
@pytest.mark.parametrize("length", [100, 150])
def test_constant_scores_equal_a_monte_carlo_mean(case, length):
    ours, plain, binary = CASES[case]
    rng = np.random.default_rng(7)
    values = rng.choice(2 if binary else 5, size=length)
    draws = [plain(rng.permutation(values).tolist()) for _ in range(1000)]
    error = np.std(draws) / math.sqrt(len(draws))
    result = ours(values, np.zeros(length), [0, length])[0]
    assert abs(result - np.mean(draws)) < 4.5 * error + 1e-9


@every_case
def test_empty_lists_and_no_lists(case):
    ours = CASES[case][0]
    assert np.isnan(ours([], [], [0, 0, 0])).tolist() == [True, True]
    assert ours([], [], [0]).shape == (0,)
    values = ours([1, 0], [2, 1], [0, 0, 2, 2])
    assert np.isnan(values).tolist() == [True, False, True]


@every_case
def test_lists_without_a_relevant_doc(case):
    value = CASES[case][0]([0, 0], [2, 1], [0, 2])[0]
    assert value == 0 if case.startswith("precision") else np.isnan(value)


@every_case
def test_threads_change_nothing(case):
    ours, _, binary = CASES[case]
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 300, size=400)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = rng.integers(0, 2 if binary else 5, size=offsets[-1])
    scores = np.round(rng.normal(size=offsets[-1]), 1)
    whole = ours(values, scores, offsets)
    one_by_one = [
        ours(values[a:b], scores[a:b], [0, b - a])[0] for a, b in itertools.pairwise(offsets)
    ]
    assert offsets[-1] > 20_000
    np.testing.assert_array_equal(whole, one_by_one)


@every_case
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32])
def test_any_numeric_type_and_read_only_input(case, dtype):
    ours = CASES[case][0]
    values, scores = np.array([0, 1, 1, 0]), np.array([0.5, 0.25, 0.25, 1.0])
    narrow = values.astype(dtype), scores.astype(np.float32), np.array([0, 3, 4], dtype=np.int32)
    for array in narrow:
        array.flags.writeable = False
    np.testing.assert_array_equal(ours(*narrow), ours(values, scores, [0, 3, 4]))


@pytest.mark.parametrize("k", [None, 5, 10, 200])
@pytest.mark.parametrize("decimals", [0, 1, 12])
def test_ndcg_equals_scikit_learn(k, decimals):
    rng = np.random.default_rng(decimals)
    labels = rng.choice(5, p=[0.6, 0.2, 0.1, 0.07, 0.03], size=(60, 100))
    scores = np.round(rng.normal(size=labels.shape), decimals)
    offsets = np.arange(61) * 100
    for ours, target in (
        (ndcg(labels.ravel(), scores.ravel(), offsets, k=k, gain="linear"), labels),
        (ndcg(labels.ravel(), scores.ravel(), offsets, k=k), 2.0**labels - 1),
    ):
        theirs = [ndcg_score([x], [s], k=k) for x, s in zip(target, scores, strict=True)]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    fractions = labels * 0.3 + 40  # neither whole nor small: the ideal order is sorted
    ours = ndcg(fractions.ravel(), scores.ravel(), offsets, k=k, gain="linear")
    assert average(ours).mean == pytest.approx(ndcg_score(fractions, scores, k=k), abs=1e-12)


def test_average_precision_without_ties_equals_scikit_learn():
    rng = np.random.default_rng(5)
    relevance, scores = rng.integers(0, 2, size=(50, 80)), rng.normal(size=(50, 80))
    theirs = [average_precision_score(r, s) for r, s in zip(relevance, scores, strict=True)]
    ours = average_precision(relevance.ravel(), scores.ravel(), np.arange(51) * 80)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@settings(max_examples=50, deadline=None)
@given(lists_of(4, max_docs=40, levels=6), st.sampled_from(CUTOFFS))
def test_ndcg_is_at_most_one_and_one_in_order_of_labels(lists, k):
    labels, scores, offsets = flat(lists)
    values = ndcg(labels, scores, offsets, k=k)
    assert np.all((values[~np.isnan(values)] >= 0) & (values[~np.isnan(values)] <= 1))
    perfect = ndcg(labels, labels, offsets, k=k)
    np.testing.assert_allclose(perfect[~np.isnan(perfect)], 1, rtol=1e-14)


def test_infinite_scores_and_signed_zeros_tie():
    assert mrr([1, 0, 0], [np.inf, np.inf, 0], [0, 3])[0] == pytest.approx((1 + 1 / 2) / 2)
    assert mrr([0, 1], [-np.inf, -np.inf], [0, 2])[0] == pytest.approx((1 + 1 / 2) / 2)
    assert mrr([1, 0], [0.0, -0.0], [0, 2])[0] == pytest.approx((1 + 1 / 2) / 2)
    assert ndcg([0, 1], [np.inf, -np.inf], [0, 2])[0] == pytest.approx(1 / math.log2(3))


def test_short_list_is_divided_by_k():
    assert precision([1, 1], [2, 1], [0, 2], k=10)[0] == pytest.approx(0.2)


@every_case
@pytest.mark.parametrize(
    ("values", "scores", "offsets", "message"),
    [
        ([0, 1], [1, math.nan], [0, 2], "score of doc 1 is nan"),
        ([0, math.nan], [1, 2], [0, 2], "of doc 1 is nan"),
        ([0, -1], [1, 2], [0, 2], "of doc 1 is -1"),
        ([0, 1, 0], [1, 2], [0, 2], "3 .* values and 2 scores"),
        ([0, 1], [1, 2, 3], [0, 2], "3 scores"),
        ([0, 1], [1, 2], [0, 3], "offsets end at 3"),
        ([0, 1], [1, 2], [1, 2], "start at 0"),
        ([0, 1], [1, 2], [0, 2, 1, 2], "never fall"),
        ([0, 1], [1, 2], [0.0, 2.0], "integers"),
        ([0, 1], [1, 2], [], "integers"),
        ([[0, 1]], [1, 2], [0, 2], "flat"),
        (["a", "b"], [1, 2], [0, 2], "numbers"),
    ],
)
def test_bad_input_is_named(case, values, scores, offsets, message):
    with pytest.raises(InputError, match=message):
        CASES[case][0](values, scores, offsets)


@pytest.mark.parametrize("name", [name for name, (_, _, binary) in CASES.items() if binary])
def test_graded_labels_are_no_relevance(name):
    with pytest.raises(InputError, match=r"relevance of doc 1 is 2; relevance must be 0 or 1"):
        CASES[name][0]([0, 2], [1, 2], [0, 2])


def test_bad_options_are_named():
    with pytest.raises(InputError, match="gain must be one of exponential, linear"):
        ndcg([1], [1], [0, 1], gain="cubic")
    with pytest.raises(InputError, match="form must be one of paper, mean_rank"):
        arp([1], [1], [0, 1], form="cubic")
    with pytest.raises(InputError, match="label of doc 0 is 1001"):
        ndcg([1001], [1], [0, 1])
    for bad in (0, -1, 2.5):
        with pytest.raises(InputError, match="whole number"):
            mrr([1], [1], [0, 1], k=bad)
        with pytest.raises(InputError, match="whole number"):
            precision([1], [1], [0, 1], k=bad)


def test_average_skips_and_counts():
    assert average([0.5, math.nan, 1.0]) == Average(mean=0.75, lists=2, skipped=1)
    nothing = average([math.nan])
    assert (math.isnan(nothing.mean), nothing.lists, nothing.skipped) == (True, 0, 1)
    assert average([]).lists == 0


def test_lookup_by_name():
    data = [1, 0, 1, 0], [0.1, 0.9, 0.5, 0.7], [0, 4]
    for name, expected in {
        "ndcg": ndcg(*data),
        "ndcg@2": ndcg(*data, k=2),
        "mrr@1": mrr(*data, k=1),
        "precision@3": precision(*data, k=3),
        "average_precision": average_precision(*data),
        "arp": arp(*data),
        "arp_mean_rank": arp(*data, form="mean_rank"),
    }.items():
        np.testing.assert_array_equal(metric(name)(*data), expected)
    assert set(METRICS) >= {"ndcg", "average_precision", "mrr", "precision", "arp"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ndgc@10", "did you mean 'ndcg'"),
        ("precison@5", "did you mean 'precision'"),
        ("", "did you mean"),
        ("ndcg@ten", "whole number above 0"),
        ("ndcg@0", "whole number above 0"),
        ("ndcg@", "whole number above 0"),
        ("precision", "such as 'precision@10'"),
        ("arp@5", "takes no cut-off"),
    ],
)
def test_unknown_names_are_explained(name, message):
    with pytest.raises(InputError, match=message):
        metric(name)
