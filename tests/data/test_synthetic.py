import subprocess
import sys

import lightgbm
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import (
    column_values,
    presence,
    scale_within_lists,
    synthetic_dataset,
)
from prsrank.data.synthetic_shapes import SHAPES, Column, Group, Latent
from prsrank.errors import InputError

LISTS = {"yahoo": 600, "web10k": 400, "mq2007": 600, "personal": 3000}


@pytest.fixture(scope="module", params=SHAPES)
def sample(request: pytest.FixtureRequest) -> tuple[str, RankingDataset]:
    return request.param, synthetic_dataset(request.param, LISTS[request.param], seed=3)


def relevant_docs(data: RankingDataset) -> np.ndarray:
    return np.add.reduceat(data.relevance.astype(int), data.offsets[:-1])


def constant_within_lists(data: RankingDataset) -> np.ndarray:
    starts = data.offsets[:-1]
    low, high = (f.reduceat(data.features, starts) for f in (np.minimum, np.maximum))
    return (low == high)[data.list_lengths > 5].all(axis=0)


def test_lists_have_the_length_of_the_original(sample):
    name, data = sample
    low, high = SHAPES[name].lengths[0][1], SHAPES[name].lengths[-1][1]
    published = {"yahoo": 23.7, "web10k": 120.0, "mq2007": 41.1, "personal": 6.0}[name]
    error = 4 * data.list_lengths.std() / np.sqrt(data.lists)
    assert data.list_lengths.mean() == pytest.approx(published, abs=error + 0.01 * published)
    assert SHAPES[name].mean_length == pytest.approx(published, rel=0.01)
    assert low <= data.list_lengths.min() <= data.list_lengths.max() <= high


def test_label_shares_are_the_originals(sample):
    name, data = sample
    shares = np.bincount(data.labels.astype(int)) / data.docs
    # Lists differ in level, so the sampling error is that of lists, not of docs.
    per_list = [
        np.add.reduceat(data.labels == grade, data.offsets[:-1]) - share * data.list_lengths
        for grade, share in enumerate(SHAPES[name].shares)
    ]
    errors = np.std(per_list, axis=1) * np.sqrt(data.lists) / data.docs
    assert sum(SHAPES[name].shares) == pytest.approx(1)
    assert np.all(np.abs(shares - SHAPES[name].shares) < 4 * errors + 0.002)
    assert data.relevant_from == SHAPES[name].relevant_from


def test_ids_and_names(sample):
    name, data = sample
    assert data.query_ids.tolist() == list(range(1, LISTS[name] + 1))
    assert data.doc_ids is None
    published = {"yahoo": 700, "web10k": 136, "mq2007": 46, "personal": 36}[name]
    assert data.features.shape[1] == published == len(data.feature_names)
    assert np.isfinite(data.features).all()


def test_rows_come_in_no_order(sample):
    _, data = sample
    position = data.rows_in_list / np.repeat(data.list_lengths, data.list_lengths)
    assert abs(np.corrcoef(position, data.relevance)[0, 1]) < 4 / np.sqrt(data.docs)


@pytest.mark.parametrize("shape", SHAPES)
def test_same_seed_same_lists_whatever_their_number(shape):
    many, few = synthetic_dataset(shape, 61, seed=5), synthetic_dataset(shape, 23, seed=5)
    first = many.select(np.arange(23))
    for name in ("features", "labels", "offsets", "query_ids"):
        np.testing.assert_array_equal(getattr(first, name), getattr(few, name))


@pytest.mark.parametrize("shape", SHAPES)
def test_seeds_and_lists_differ(shape):
    one, other = synthetic_dataset(shape, 20), synthetic_dataset(shape, 20, seed=1)
    assert not np.array_equal(one.offsets, other.offsets)
    varying = one.features[:, ~constant_within_lists(one)]
    assert len(np.unique(varying, axis=0)) == one.docs


def test_some_lists_lack_a_relevant_doc():
    for shape, low, high in (("mq2007", 0.08, 0.2), ("web10k", 0.2, 0.4), ("yahoo", 0.35, 0.55)):
        none = np.mean(relevant_docs(synthetic_dataset(shape, 400)) == 0)
        assert low < none < high, shape


def test_personal_lists_have_relevant_docs():
    data = synthetic_dataset("personal", 3000, seed=2)
    relevant = relevant_docs(data)
    assert relevant.min() >= 1
    assert relevant.mean() == pytest.approx(
        1.7, abs=4 * relevant.std() / np.sqrt(data.lists) + 0.02
    )
    assert set(np.unique(data.labels)) == {0, 1}


def test_personal_context_is_constant_within_a_list():
    data = synthetic_dataset("personal", 200)
    context = np.array([name.startswith(("query_", "user_")) for name in data.feature_names])
    np.testing.assert_array_equal(constant_within_lists(data), context)
    assert all(name.startswith("doc_") for name in np.array(data.feature_names)[~context])
    assert np.ptp(data.features, axis=0).min() > 0


def test_yahoo_uses_519_ids_with_values_in_the_unit_interval():
    features = synthetic_dataset("yahoo", 600).features
    assert np.count_nonzero(features.any(axis=0)) == 519
    assert features.min() == 0
    assert features.max() <= 1
    assert 0.4 < np.mean(features[:, features.any(axis=0)] == 0) < 0.7


def test_web10k_has_blocks_of_five_streams():
    data = synthetic_dataset("web10k", 200)
    constant = np.flatnonzero(constant_within_lists(data))
    np.testing.assert_array_equal(constant, np.arange(15, 20))
    counts = np.all(data.features == np.floor(data.features), axis=0)
    assert 35 <= counts.sum() <= 60
    ranks = data.features.argsort(axis=0).argsort(axis=0)
    streams = np.corrcoef(ranks[:, 105:110].T)  # BM25 of body, anchor, title, URL and whole doc
    assert streams[~np.eye(5, dtype=bool)].min() > 0.05
    assert streams[0, 4] > 0.8
    heavy = data.features[:, 127]  # inlinks
    assert heavy.max() > 100 * np.median(heavy[heavy > 0])


def test_mq2007_is_scaled_to_the_unit_interval_in_each_list():
    data = synthetic_dataset("mq2007", 200)
    low = np.minimum.reduceat(data.features, data.offsets[:-1])
    high = np.maximum.reduceat(data.features, data.offsets[:-1])
    assert np.all(low == 0)
    assert set(np.unique(high)) == {0, 1}
    np.testing.assert_array_equal(np.flatnonzero(~data.features.any(axis=0)), [5, 6, 7, 8, 9, 42])


def ndcg_at_10(data: RankingDataset, scores: np.ndarray) -> float:
    discounts = 1 / np.log2(np.arange(2, 12))
    values = []
    for start, stop in zip(data.offsets, data.offsets[1:], strict=False):
        relevance = data.relevance[start:stop]
        if relevance.any():
            top = relevance[np.argsort(-scores[start:stop])][:10]
            best = discounts[: relevance.sum()].sum()
            values.append(top @ discounts[: len(top)] / best)
    return float(np.mean(values))


def linear_scores(train: RankingDataset, test: RankingDataset) -> np.ndarray:
    mean, spread = train.features.mean(axis=0), train.features.std(axis=0) + 1e-9
    model = LogisticRegression(C=0.1, max_iter=500)
    model.fit((train.features - mean) / spread, train.relevance)
    return model.decision_function((test.features - mean) / spread)


def tree_scores(train: RankingDataset, test: RankingDataset) -> np.ndarray:
    rows = lightgbm.Dataset(train.features, train.relevance, group=train.list_lengths)
    settings = {"objective": "lambdarank", "learning_rate": 0.1, "verbose": -1, "seed": 0}
    settings |= {"num_threads": 1, "lambdarank_truncation_level": 1000}
    return np.asarray(lightgbm.train(settings, rows, 100).predict(test.features))


def test_trees_beat_a_linear_ranker_and_that_beats_chance():
    data = synthetic_dataset("mq2007", 600)
    train, test = data.select(np.arange(300)), data.select(np.arange(300, 600))
    trees = ndcg_at_10(test, tree_scores(train, test))
    linear = ndcg_at_10(test, linear_scores(train, test))
    chance = ndcg_at_10(test, np.random.default_rng(0).random(test.docs))
    assert trees > linear + 0.05
    assert linear > chance + 0.2
    assert 0.75 < trees < 0.92


@pytest.mark.parametrize(
    ("shape", "lists", "seed", "message"),
    [
        ("web30k", 10, 0, r"no synthetic shape 'web30k': did you mean 'web10k'\?"),
        ("", 10, 0, "There are yahoo, web10k, mq2007, personal"),
        ("mq2007", 4, 0, "at least 5 lists, not 4"),
        ("mq2007", 5, -1, "seed"),
    ],
)
def test_bad_input(shape, lists, seed, message):
    with pytest.raises(InputError, match=message):
        synthetic_dataset(shape, lists, seed=seed)


@pytest.mark.parametrize("kind", ["real", "positive", "heavy", "count", "unit", "flag"])
def test_a_column_is_its_formula(kind):
    rng = np.random.default_rng(1)
    column = Column(kind, {Latent.BODY: 3.0, Latent.TITLE: -4.0}, 0.8, 1.5, 0.3, group=1)
    groups = (Group(0.0, Latent.BODY), Group(0.25, Latent.URL))
    latents = rng.standard_normal((4000, len(Latent)), np.float32)
    own = rng.standard_normal((4000, 2), np.float32)
    noise = rng.standard_normal((4000, 1), np.float32)
    measured = (3 * latents[:, Latent.BODY] - 4 * latents[:, Latent.TITLE]) / 5
    # -0.5244 and -0.6745 are the 30 % and 25 % points of the standard normal.
    x = 1.5 * (0.8 * measured + 0.6 * noise[:, 0] + 0.524400513)
    present = 0.6 * latents[:, Latent.URL] + 0.8 * own[:, 1] > -0.67448975
    expected = {
        "real": x,
        "positive": np.maximum(x, 0),
        "heavy": np.maximum(np.exp(x) - 1, 0),
        "count": np.floor(np.exp(x)),
        "unit": np.where(x > 0, x / (1 + np.abs(x)), 0),
        "flag": np.where(x > 0, 1, 0),
    }[kind]
    values = column_values(column, latents, noise[:, 0])
    values *= presence(groups, latents, own)[1]
    close = np.isclose(values, np.where(present, expected, 0), rtol=1e-4, atol=1e-5)
    assert np.mean(~close) < 0.002  # a step may fall on the other side by rounding
    assert np.mean(~present) == pytest.approx(0.25, abs=0.03)
    assert np.mean(x < 0) == pytest.approx(0.3, abs=0.03)


def test_scaling_within_lists():
    values = np.array([[1, 7], [3, 7], [2, 7], [5, 1], [5, 2]], np.float32)
    scale_within_lists(values, np.array([0, 3, 5]))
    np.testing.assert_array_equal(values, [[0, 0], [1, 0], [0.5, 0], [0, 0], [0, 1]])


def test_import_is_light():
    code = "import sys, prsrank.data.synthetic; print({'scipy', 'numba', 'lightgbm'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
