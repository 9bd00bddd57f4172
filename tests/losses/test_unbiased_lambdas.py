"""Tests of the objective of Unbiased LambdaMART."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.losses.lambdas import LambdaObjective
from prsrank.losses.unbiased_lambdas import LEAST_BIAS, UnbiasedObjective
from prsrank.pairs.click_counts import ClickCounts
from prsrank.pairs.pair_set import PairSet

sys.path.insert(0, str(Path(__file__).parent))
from definitions import lambda_definition, unbiased_definition


def collection(seed, *, lists=8, longest=15):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, longest, lists))])
    features = rng.normal(size=(offsets[-1], 2))
    labels = rng.random(offsets[-1]) < 0.3
    labels[0] = True
    return RankingDataset(features, offsets, labels=labels, query_ids=100 + np.arange(lists))


def simulated(data, seed, *, sessions=300, cutoff=None, randomised=0.0, rankers=1):
    scores = np.random.default_rng(seed).normal(size=(rankers, data.docs))
    model = PositionBasedModel(eta=0.7, mu=0.2, cutoff=cutoff)
    return simulate_clicks(
        data, scores, model, sessions=sessions, seed=seed, randomised=randomised, threads=1
    )


def with_gaps(log):
    """Return the log with docs at positions 2, 4, 5, 7, 8, ...: none at 1, 3 and 6."""
    places = log.ranking_positions
    positions = places + 1 + (places > 1) + (places > 3)
    fields = {name: getattr(log, name) for name in ClickLog.__dataclass_fields__}
    return ClickLog(**fields | {"ranking_positions": positions})


def some_biases(objective, seed):
    """Give the objective biases that differ from 1, and return them."""
    rng = np.random.default_rng(seed)
    size = len(objective.click_biases)
    objective.click_biases = rng.uniform(0.1, 2, size)
    objective.non_click_biases = rng.uniform(0.1, 2, size)
    return objective.click_biases, objective.non_click_biases


def assert_same(ours, expected, tolerance=1e-10):
    for one, other in zip(ours, expected, strict=True):
        scale = max(np.abs(other).max(), 1e-300)
        np.testing.assert_allclose(one / scale, other / scale, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("metric", ["ndcg", "arp"])
@pytest.mark.parametrize("truncation", [None, 1, 3])
@pytest.mark.parametrize("randomised", [0.0, 0.5])
@pytest.mark.parametrize("norm", [False, True])
def test_one_step_equals_the_sessions(metric, truncation, randomised, norm):
    data = collection(1)
    log = simulated(data, 2, randomised=randomised, rankers=2)
    counts = ClickCounts(log, data, normalise=metric, truncation=truncation)
    options = {"metric": metric, "truncation": truncation, "sigma": 1.3, "seed": 4, "norm": norm}
    objective = UnbiasedObjective(counts, p=0.5, per_showing=False, **options)
    biases = some_biases(objective, 3)
    scores = np.random.default_rng(5).normal(size=data.docs)
    expected = unbiased_definition(scores, log, data, biases, **options)
    assert_same(objective.exact(scores), expected)
    gradient, hessian = objective(scores)
    assert gradient.dtype == hessian.dtype == np.float32
    assert_same((gradient, hessian), expected[:2], 1e-6)
    for ours, losses in zip(
        (objective.click_biases, objective.non_click_biases), expected[2:], strict=True
    ):
        there = losses > 0
        np.testing.assert_allclose(
            ours[there], (losses / losses[0])[there] ** (1 / 1.5), rtol=1e-10
        )


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 2000.0])
def test_scores_close_and_far(spread):
    data = collection(6, lists=4)
    log = simulated(data, 7)
    objective = UnbiasedObjective(ClickCounts(log, data), seed=1)
    biases = some_biases(objective, 8)
    scores = spread * np.random.default_rng(9).normal(size=data.docs)
    assert_same(
        objective.exact(scores), unbiased_definition(scores, log, data, biases, seed=1), 1e-10
    )


@given(seed=st.integers(0, 10_000), cutoff=st.sampled_from([None, 3]), ties=st.booleans())
def test_any_log(seed, cutoff, ties):
    data = collection(seed, lists=3, longest=7)
    log = with_gaps(simulated(data, seed, sessions=40, cutoff=cutoff, randomised=0.3))
    objective = UnbiasedObjective(ClickCounts(log, data), seed=seed)
    biases = some_biases(objective, seed)
    scores = np.random.default_rng(seed).normal(size=data.docs)
    scores = np.round(scores) if ties else scores
    if not log.session_clicks.any():
        return
    expected = unbiased_definition(scores, log, data, pad(biases, log), seed=seed)
    ours = objective.exact(scores)
    size = len(ours[2])
    assert not np.any(expected[2][size:])
    assert not np.any(expected[3][size:])
    assert_same(ours, (*expected[:2], expected[2][:size], expected[3][:size]))


def pad(biases, log):
    """Return the biases with ones for positions that no showing with clicks has."""
    return tuple(np.append(t, np.ones(log.max_position - len(t))) for t in biases)


def test_steps_follow_one_another():
    data, rng = collection(10), np.random.default_rng(11)
    log = simulated(data, 12, randomised=0.2)
    objective = UnbiasedObjective(ClickCounts(log, data), p=1.0, per_showing=False)
    biases = objective.click_biases, objective.non_click_biases
    for _ in range(4):
        scores = rng.normal(size=data.docs)
        expected = unbiased_definition(scores, log, data, biases)
        biases = tuple(
            np.where(losses > 0, (losses / losses[0]) ** 0.5, 1.0) for losses in expected[2:]
        )
        assert_same(objective(scores), expected[:2], 1e-6)
        assert_same(objective.steps[-1], biases)
    assert len(objective.steps) == 4


def test_large_p_is_naive_lambdamart():
    data = collection(13)
    log = simulated(data, 14)
    pairs = PairSet.from_log(log, data, None, "naive", normalise="ndcg")
    rng = np.random.default_rng(15)
    for p in (1e300, np.inf):
        objective = UnbiasedObjective(ClickCounts(log, data), p=p, seed=2)
        for _ in range(3):
            scores = rng.normal(size=data.docs)
            assert_same(
                objective.exact(scores)[:2], lambda_definition(scores, pairs, seed=2), 1e-13
            )
            assert_same(objective(scores), LambdaObjective(pairs, seed=2)(scores), 1e-6)
            assert (objective.click_biases == 1).all()
            assert (objective.non_click_biases == 1).all()


def test_no_regularisation_evens_out_the_positions():
    # with p = 0 and t- = 1 the reweighted loss of every position is that of position 1
    data = collection(16)
    counts = ClickCounts(simulated(data, 17), data)
    objective = UnbiasedObjective(counts, p=0.0, per_showing=False)
    scores = np.random.default_rng(18).normal(size=data.docs)
    plus = objective.exact(scores)[2]
    objective(scores)
    there = plus > 0
    np.testing.assert_allclose((plus / objective.click_biases)[there], plus[0])


def test_threads_change_nothing():
    data = collection(19, lists=300, longest=60)
    log = simulated(data, 20, sessions=5000, randomised=0.1)
    counts = ClickCounts(log, data)
    assert counts.pair_rows[-1] > 20_000
    scores = np.random.default_rng(21).normal(size=data.docs)
    one, two = (UnbiasedObjective(counts, threads=threads) for threads in (1, 2))
    for _ in range(2):
        for a, b in zip(one(scores), two(scores), strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.click_biases, two.click_biases)
    np.testing.assert_array_equal(one.non_click_biases, two.non_click_biases)


def test_counts_take_no_space_for_sessions():
    data = collection(22)
    small, large = (
        ClickCounts(simulated(data, 23, sessions=n), data).shown for n in (20_000, 200_000)
    )
    assert sum(a.nbytes for a in large) < 1.1 * sum(a.nbytes for a in small)


def test_reference_is_the_first_position_with_pairs():
    data = collection(24)
    log = with_gaps(simulated(data, 25))
    objective = UnbiasedObjective(ClickCounts(log, data), p=0)
    objective(np.zeros(data.docs))
    for biases in (objective.click_biases, objective.non_click_biases):
        assert biases[[0, 1, 2, 5]].tolist() == [1, 1, 1, 1]
        assert np.isfinite(biases).all()
    assert objective.click_biases[3] != 1


def test_shared_positions_take_the_mean_loss():
    data = collection(26)
    log = simulated(data, 27)
    scores = np.random.default_rng(28).normal(size=data.docs)
    losses = UnbiasedObjective(ClickCounts(log, data)).exact(scores)[2]
    shown = log.position_counts()[0]
    for per_showing, sizes in ((False, np.ones(len(losses))), (True, shown)):
        shared = UnbiasedObjective(
            ClickCounts(log, data), p=0, positions=4, per_showing=per_showing
        )
        shared(scores)
        means = np.append(losses[:3] / sizes[:3], losses[3:].sum() / sizes[3:].sum())
        np.testing.assert_allclose(shared.click_biases, means / means[0])


def test_loss_per_showing():
    data = collection(31)
    log = simulated(data, 32, randomised=0.3)
    scores = np.random.default_rng(33).normal(size=data.docs)
    objective = UnbiasedObjective(ClickCounts(log, data), p=1.0)
    _, _, plus, minus = unbiased_definition(scores, log, data, (np.ones(14), np.ones(14)))
    shown = log.position_counts()[0]
    objective(scores)
    for biases, losses in ((objective.click_biases, plus), (objective.non_click_biases, minus)):
        means = (losses[: len(shown)] / shown)[losses[: len(shown)] > 0]
        np.testing.assert_allclose(
            biases[losses[: len(shown)] > 0], np.sqrt(means / means[0]), rtol=1e-10
        )


def test_lists_of_one_length_need_no_count_of_showings():
    offsets = np.arange(0, 61, 6)
    labels = np.random.default_rng(34).random(60) < 0.3
    data = RankingDataset(np.zeros((60, 1)), offsets, labels=labels)
    counts = ClickCounts(simulated(data, 35), data)
    one, other = (UnbiasedObjective(counts, per_showing=choice) for choice in (True, False))
    scores = np.random.default_rng(36).normal(size=60)
    for _ in range(3):
        assert_same(one(scores), other(scores), 1e-6)
    assert_same(one.steps[-1], other.steps[-1], 1e-12)


def test_bias_has_a_floor():
    # a click at position 2 on a doc that already leads by far
    data = RankingDataset(np.eye(2), np.array([0, 2]))
    events = {
        "query_id": np.zeros(4, int),
        "session_id": np.array([1, 1, 2, 2]),
        "doc_id": np.array([0, 1, 0, 1]),
        "position": np.array([1, 2, 1, 2]),
        "click": np.array([1, 0, 0, 1]),
    }
    counts = ClickCounts(ClickLog.from_frame(events), data)
    objective = UnbiasedObjective(counts, p=0)
    objective(np.array([-30.0, 30.0]))
    assert objective.click_biases.tolist() == [1.0, LEAST_BIAS]


@pytest.mark.filterwarnings("ignore:the log shows docs at one position only")
def test_no_pairs_no_gradients():
    data = RankingDataset(np.eye(1), np.array([0, 1]))
    events = {name: np.zeros(2, int) for name in ("query_id", "doc_id")}
    events |= {"session_id": np.arange(2), "position": np.ones(2, int), "click": np.arange(2)}
    objective = UnbiasedObjective(ClickCounts(ClickLog.from_frame(events), data))
    gradient, hessian = objective(np.zeros(1))
    assert gradient.tolist() == hessian.tolist() == [0.0]
    assert objective.click_biases.tolist() == [1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "map"}, "lambda gradients of pairs are for ndcg and arp, not 'map'"),
        ({"truncation": 0}, "truncation must be at least 1"),
    ],
)
def test_wrong_options(options, message):
    data = collection(29)
    with pytest.raises(InputError, match=message):
        UnbiasedObjective(ClickCounts(simulated(data, 30), data), **options)
