"""NeuralRanker: training, early stopping, files, and what it says to bad input."""

import subprocess
import sys

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.data.preprocess import FeatureScaling
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.metrics.ranking import average, ndcg
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw
from prsrank.rankers.neural.dnn import NeuralRanker
from prsrank.rankers.neural.net_ranker import FeatureInput

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.neural


@pytest.fixture(autouse=True)
def _one_thread():
    """Keep PyTorch from spinning on cores that other tests use."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def lists(seed=0, count=120):
    """Return ragged lists whose relevance is a product of two features."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 20, count))])
    x = rng.normal(size=(offsets[-1], 5)).astype(np.float32)
    return RankingDataset(x, offsets, labels=x[:, 0] * x[:, 1] > 0.6)


def quality(ranker, data):
    scores = ranker.score(data.features)
    return average(ndcg(data.relevance, scores, data.offsets, k=10)).mean


def ranker(**parameters):
    return NeuralRanker(**{"hidden": (32, 32), "epochs": 15, "device": "cpu"} | parameters)


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_it_learns_what_no_linear_ranker_can(optimiser):
    data = lists()
    found = ranker(
        optimiser=optimiser, epochs=60, learning_rate=0.1 if optimiser == "sgd" else 0.01
    )
    found.fit(data, PairSet.from_labels(data))
    assert found.history_[-1]["loss"] < 0.5 * found.history_[0]["loss"]
    assert quality(found, lists(1)) > 0.9  # a random order has about .6


def test_the_seed_decides():
    data = lists()
    pairs = PairSet.from_labels(data)
    one, two, other = (ranker(seed=s, epochs=2).fit(data, pairs) for s in (4, 4, 5))
    assert np.array_equal(one.score(data.features), two.score(data.features))
    assert not np.allclose(one.score(data.features), other.score(data.features))


def test_the_unit_of_the_weights_does_not_matter():
    data = lists()
    pairs = PairSet.from_labels(data)
    big = PairSet.merge([pairs], [1024.0])
    one, two = (ranker(epochs=3).fit(data, p) for p in (pairs, big))
    assert np.allclose(one.score(data.features), two.score(data.features), rtol=1e-4, atol=1e-6)


def test_the_loss_is_that_of_the_definition():
    data = lists()
    pairs = PairSet.from_labels(data)
    found = ranker(epochs=1, learning_rate=1e-12, weight_decay=0.0).fit(data, pairs)
    s = found.score(data.features)
    total = 0.0
    for v, (q, i) in enumerate(zip(pairs.winner_list, pairs.winner_row, strict=True)):
        a, b = pairs.offsets[q : q + 2]
        total += np.sum(pairs.row(v) * np.log1p(np.exp(s[a:b] - s[a + i])))
    assert found.history_[0]["loss"] == pytest.approx(total / pairs.weights.sum(), rel=1e-4)


def outer_pairs(data):
    theta = np.where(data.relevance > 0, 0.8, 0.1)
    return OuterPairs.from_relevance(data, theta, normalise="arp")


def test_posterior_pairs_train_by_their_vectors_as_by_rows_of_weights(monkeypatch):
    data, held_out = lists(), lists(1)
    pairs = outer_pairs(data)
    options = {"epochs": 4, "batch_lists": 16, "learning_rate": 0.05}
    rows = ranker(**options).fit(data, pairs.dense(), validation=held_out)
    monkeypatch.setattr(OuterPairs, "dense", None)  # no matrix is made
    found = ranker(**options).fit(data, pairs, validation=held_out)
    for one, two in zip(found.history_, rows.history_, strict=True):
        assert one["loss"] == pytest.approx(two["loss"], rel=1e-5)
        assert one["validation"] == pytest.approx(two["validation"], rel=1e-5)
    assert np.allclose(found.score(data.features), rows.score(data.features), atol=1e-4)


def test_posterior_pairs_of_no_weight_are_refused():
    data = lists()
    with pytest.raises(InputError, match="no pairs to learn from"):
        ranker().fit(data, OuterPairs.from_relevance(data, np.zeros(data.docs)))


def test_early_stopping_keeps_the_best_epoch():
    data, held_out = lists(), lists(1)
    found = ranker(epochs=100, patience=3, learning_rate=0.2)
    found.fit(data, PairSet.from_labels(data), validation=held_out)
    values = [record["validation"] for record in found.history_]
    assert found.best_epoch_ == int(np.argmax(values))
    assert len(values) in (found.best_epoch_ + 4, 100)
    assert quality(found, held_out) == pytest.approx(max(values), abs=1e-6)


def test_validation_is_the_ndcg_at_10_of_the_scores():
    data, held_out = lists(), lists(2)
    found = ranker(epochs=2, patience=None).fit(
        data, PairSet.from_labels(data), validation=held_out
    )
    values = [record["validation"] for record in found.history_]
    assert max(values) == pytest.approx(quality(found, held_out))
    flat = RankingDataset(data.features, data.offsets, labels=np.zeros(data.docs))
    with pytest.raises(InputError, match="no validation list has a relevant doc"):
        ranker().fit(data, PairSet.from_labels(data), validation=flat)


def test_saved_and_loaded_scores_are_identical(tmp_path, monkeypatch):
    from prsrank.rankers import base

    monkeypatch.setitem(base.RANKERS, "dnn", "prsrank.rankers.neural.dnn:NeuralRanker")
    data = lists()
    found = ranker(epochs=2, hidden=[8, 4]).fit(data, PairSet.from_labels(data))
    found.save(tmp_path / "model")
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
        "ranker.json",
        "weights.safetensors",
    ]
    loaded = base.load_ranker(tmp_path / "model")
    assert np.array_equal(loaded.score(data.features), found.score(data.features))
    assert loaded.history_ == found.history_
    loaded.set_params(device="cuda")
    loaded.save(tmp_path / "from_gpu")
    again = base.load_ranker(tmp_path / "from_gpu")  # falls back where there is no GPU
    assert np.allclose(again.score(data.features), found.score(data.features), atol=1e-5)


def test_missing_values_are_refused_or_imputed():
    data = lists()
    gaps = data.features.copy()
    gaps[3, 2] = np.nan
    holed = RankingDataset(gaps, data.offsets, labels=data.labels)
    pairs = PairSet.from_labels(holed)
    with pytest.raises(InputError, match="missing"):
        ranker().fit(holed, pairs)
    scores = ranker(epochs=1, missing="impute").fit(holed, pairs).score(gaps)
    assert np.isfinite(scores).all()


def test_the_input_is_standardised_and_its_tails_drawn_in():
    x = np.array([[0.0], [2.0], [1000.0]])
    scaling = FeatureScaling.fit(x)
    columns = FeatureInput(scaling)(x)
    z = (x - x.mean()) / x.std()
    assert columns.shape == (3, 8)
    assert np.allclose(columns[:, 0], (np.sign(z) * np.log1p(np.abs(z)))[:, 0])
    assert np.all(columns[:, 1:] == 0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"device": "gpu"}, "no device 'gpu': one of auto, cpu, cuda"),
        ({"device": "cuda:x"}, "no device 'cuda:x'"),
        ({"precision": "fp8"}, "no precision 'fp8'"),
        ({"optimiser": "adam"}, "no optimiser 'adam'; there are: sgd, adamw"),
        ({"hidden": ()}, "hidden"),
        ({"hidden": (4, 0)}, "hidden"),
        ({"epochs": 0}, "epochs"),
        ({"batch_lists": 0}, "batch"),
        ({"learning_rate": 1000.0}, "diverged"),
    ],
)
def test_bad_parameters_are_one_clear_line(parameters, message):
    data = lists()
    with pytest.raises(InputError, match=message) as caught:
        ranker(**parameters).fit(data, PairSet.from_labels(data))
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_asking_for_a_gpu_where_there_is_none():
    data = lists()
    with pytest.raises(InputError, match="PyTorch sees no CUDA GPU here"):
        ranker(device="cuda").fit(data, PairSet.from_labels(data))


def test_pairs_of_other_lists_and_no_pairs_are_refused():
    data = lists()
    with pytest.raises(InputError, match="their lists differ"):
        ranker().fit(data, PairSet.from_labels(lists(1)))
    flat = RankingDataset(data.features, data.offsets, labels=np.zeros(data.docs))
    with pytest.raises(InputError, match="no pairs to learn from"):
        ranker().fit(flat, PairSet.from_labels(flat))
    with pytest.raises(InputError, match="not fitted"):
        ranker().score(data.features)


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_torch_one_line_says_what_to_install():
    out = run_python(
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np\n"
        "from prsrank.data.dataset import RankingDataset\n"
        "from prsrank.errors import InputError\n"
        "from prsrank.rankers.neural.dnn import NeuralRanker\n"
        "for _ in range(2):\n"
        "    try: NeuralRanker().fit(RankingDataset(np.eye(2), np.array([0, 2])), None)\n"
        "    except InputError as error: print(error)\n"
        "try: import prsrank.rankers.neural.prs_loss\n"
        "except ImportError as error: print(error)\n"
    )
    assert out == "the neural rankers need PyTorch: pip install 'prsrank[dnn]'\n" * 3


def test_training_needs_numpy_and_torch_alone():
    out = run_python(
        "import sys\n"
        "for name in ('numba', 'scipy', 'lightgbm', 'duckdb', 'narwhals', 'sklearn'):\n"
        "    sys.modules[name] = None\n"
        "import numpy as np\n"
        "from types import SimpleNamespace\n"
        "from prsrank.data.dataset import RankingDataset\n"
        "from prsrank.rankers.neural.dnn import NeuralRanker\n"
        "from prsrank.rankers.neural.dla import DLA\n"
        "import prsrank.rankers.neural.dual_learner\n"
        "x = np.random.default_rng(0).normal(size=(4, 2))\n"
        "data = RankingDataset(x, np.array([0, 2, 4]), labels=np.array([0, 1, 0, 1]))\n"
        "pairs = SimpleNamespace(offsets=data.offsets, winner_offsets=np.array([0, 1, 2]),\n"
        "    winner_row=np.array([1, 1]), weights=np.array([1.0, 0, 1, 0]), weight_sum=2.0,\n"
        "    paired_lists=np.array([True, True]), work_offsets=np.array([0, 2, 4]), nbytes=32)\n"
        "ranker = NeuralRanker((4,), epochs=2, device='cpu')\n"
        "ranker.fit(data, pairs, validation=(data, lambda scores: scores[0]))\n"
        "print(len(ranker.score(x)))\n"
    )
    assert out == "4\n"


def test_ips_and_prs_beat_naive_on_a_biased_log():
    data = synthetic_dataset("mq2007", 600)
    train, validation, test = (
        data.select(np.arange(a, b)) for a, b in ((0, 360), (360, 480), (480, 600))
    )
    shown = production_scores(train, share=0.02).scores
    log = simulate_clicks(train, shown, PositionBasedModel(eta=1, mu=0.1), clicks=4000, seed=1)
    values = {}
    for weighting in ("naive", "ips", "prs"):
        pairs = PairSet.from_log(log, train, PowerLaw(1.0), weighting)
        found = ranker(hidden=(64, 64), epochs=25, patience=5)
        values[weighting] = quality(found.fit(train, pairs, validation=validation), test)
    assert values["ips"] > values["naive"] + 0.01  # .815 and .781 when written
    assert values["prs"] > values["naive"] + 0.01  # .818


@pytest.mark.slow
def test_on_labels_it_comes_near_lambdamart():
    import lightgbm

    data = synthetic_dataset("web10k", 1000)
    train, validation, test = (
        data.select(np.arange(a, b)) for a, b in ((0, 600), (600, 800), (800, 1000))
    )
    sets = [
        lightgbm.Dataset(part.features, label=part.relevance, group=part.list_lengths)
        for part in (train, validation)
    ]
    options = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [10]}
    options |= {"learning_rate": 0.05, "deterministic": True, "seed": 0, "verbosity": -1}
    stop = lightgbm.early_stopping(30, verbose=False)
    trees = lightgbm.train(options, sets[0], 300, valid_sets=[sets[1]], callbacks=[stop])
    best = average(ndcg(test.relevance, trees.predict(test.features), test.offsets, k=10)).mean
    found = NeuralRanker(device="cpu").fit(train, PairSet.from_labels(train), validation=validation)
    assert quality(found, test) > best - 0.03
