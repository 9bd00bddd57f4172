import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.losses.hinge import hinge_hessian_product, hinge_loss
from prsrank.pairs.pair_set import PairSet

sys.path.insert(0, str(Path(__file__).parent))
from definitions import hinge_loss_definition


def pairs_of(rng, lists=6, longest=9, constant=True, hidden=0.0):
    """Winners with rows that are constant over the docs taking part, or random ones."""
    lengths = rng.integers(0, longest + 1, lists)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.integers(0, 2, offsets[-1])
    data = RankingDataset(np.zeros((offsets[-1], 1)), offsets, labels=labels)
    pairs = PairSet.from_labels(data)
    part = rng.random(offsets[-1]) >= hidden
    rows = []
    for v in range(pairs.winners):
        begin, end = offsets[pairs.winner_list[v] :][:2]
        row = rng.exponential() * part[begin:end]
        if not constant:
            row = row * rng.exponential(size=end - begin)
        row[pairs.winner_row[v]] = 0
        rows.append(row)
    return replace(pairs, weights=np.concatenate([np.zeros(0), *rows]))


def scores_of(rng, docs, kind):
    spread = {"near": 0.1, "usual": 1.0, "far": 1e4}
    if kind == "ties":
        return rng.integers(-2, 3, docs) / 2.0
    return rng.normal(size=docs) * spread[kind]


KINDS = ["near", "usual", "far", "ties"]


def assert_same(one, other):
    scale = 1 + abs(other.loss)
    assert one.loss == pytest.approx(other.loss, abs=1e-11 * scale)
    assert one.smoothed == pytest.approx(other.smoothed, abs=1e-11 * scale)
    assert one.slopes == pytest.approx(other.slopes, abs=1e-11 * (1 + other.slopes))
    np.testing.assert_allclose(one.gradient, other.gradient, atol=1e-11 * (1 + other.slopes))


@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(KINDS),
    smoothing=st.sampled_from([0.0, 1e-3, 0.25, 0.5, 1.0, 2.5]),
    constant=st.booleans(),
    hidden=st.sampled_from([0.0, 0.4]),
)
def test_it_equals_the_definition(seed, kind, smoothing, constant, hidden):
    rng = np.random.default_rng(seed)
    pairs = pairs_of(rng, constant=constant, hidden=hidden)
    scores = scores_of(rng, pairs.docs, kind)
    value = hinge_loss(scores, pairs, smoothing=smoothing)
    assert_same(value, hinge_loss_definition(scores, pairs, smoothing=smoothing))


def test_the_plain_hinge_by_hand():
    data = RankingDataset(np.zeros((3, 1)), [0, 3], labels=[1, 0, 0])
    value = hinge_loss([1.0, 0.5, -0.5], PairSet.from_labels(data))
    # margins 0.5 and 1.5: losses 0.5 and 0
    assert value.loss == value.smoothed == 0.5
    assert value.slopes == 1
    assert value.gradient.tolist() == [-1, 1, 0]


@pytest.mark.parametrize("smoothing", [0.1, 1.0])
def test_gradient_and_hessian_are_derivatives(smoothing):
    rng = np.random.default_rng(1)
    pairs = pairs_of(rng, longest=20)
    s, v = rng.normal(size=(2, pairs.docs))
    h = 1e-7
    above, below = (hinge_loss(s + t * v, pairs, smoothing=smoothing) for t in (h, -h))
    here = hinge_loss(s, pairs, smoothing=smoothing)
    slope = (above.smoothed - below.smoothed) / (2 * h)
    assert slope == pytest.approx(here.gradient @ v, rel=1e-5)
    bend = (above.gradient - below.gradient) / (2 * h)
    product = hinge_hessian_product(s, v, pairs, smoothing=smoothing)
    np.testing.assert_allclose(product, bend, atol=1e-5)


def test_smoothing_lowers_the_loss_by_at_most_half_of_it():
    rng = np.random.default_rng(2)
    pairs = pairs_of(rng)
    for smoothing in (0.01, 0.5, 3):
        value = hinge_loss(rng.normal(size=pairs.docs), pairs, smoothing=smoothing)
        assert value.smoothed <= value.loss
        assert value.loss <= value.smoothed + smoothing / 2 * pairs.weights.sum()


def test_threads_and_precision():
    rng = np.random.default_rng(3)
    pairs = pairs_of(rng, lists=60, longest=120)
    s, v = rng.normal(size=(2, pairs.docs))
    a, b = (hinge_loss(s, pairs, smoothing=0.1, threads=n) for n in (1, 2))
    assert (a.loss, a.gradient.tolist()) == (b.loss, b.gradient.tolist())
    products = [
        hinge_hessian_product(s, v, pairs, smoothing=0.1, threads=n).tolist() for n in (1, 2)
    ]
    assert products[0] == products[1]
    single = hinge_loss(s, pairs.astype(np.float32), smoothing=0.1)
    assert single.loss == pytest.approx(a.loss, rel=1e-6)


def test_bad_input():
    pairs = pairs_of(np.random.default_rng(4))
    with pytest.raises(InputError, match="scores for"):
        hinge_loss([1.0], pairs)
    with pytest.raises(InputError, match="not finite"):
        hinge_loss(np.full(pairs.docs, np.nan), pairs)
    with pytest.raises(InputError, match="smoothing must be"):
        hinge_loss(np.zeros(pairs.docs), pairs, smoothing=-1)
    with pytest.raises(InputError, match="no Hessian"):
        hinge_hessian_product(np.zeros(pairs.docs), np.zeros(pairs.docs), pairs, smoothing=0)
