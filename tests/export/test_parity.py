import json
import sys
from pathlib import Path

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning
from prsrank.export.formats import FORMATS, exportable
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.base import load_ranker
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker
from prsrank.rankers.svm import SVMRanker
from prsrank.rankers.unbiased_lambdamart import UnbiasedLambdaMART

sys.path.insert(0, str(Path(__file__).parent))
import evaluators

NAMES = ("bm25", 'price "€" & \\slash', "days_old", "<b>clicks", "tab\tname", "f6")
VESPA = ("bm25(title)", "price", "fieldMatch(title).proximity", "clicks", "tab", "f6")
PLAIN = ("bm25", "price", "days_old", "clicks", "tab", "f6")
ROWS = 10_000


def data(*, missing: bool, lists: int = 150) -> RankingDataset:
    """Lists whose features have zeros, few values, tiny values, a large mean; maybe NaN."""
    rng = np.random.default_rng(1)
    docs = lists * 10
    x = np.stack(
        [
            rng.normal(size=docs),
            np.maximum(rng.normal(size=docs), 0),
            rng.integers(-3, 4, docs),
            rng.lognormal(0, 3, docs),
            rng.normal(size=docs) * 1e-6,
            100 + rng.normal(size=docs),
        ],
        axis=1,
    ).astype(np.float32)
    utility = x[:, 0] + x[:, 1] + 0.5 * np.sin(x[:, 2]) + 0.3e6 * x[:, 4]
    if missing:
        gone = rng.random(x.shape) < [0.3, 0.2, 0, 0.1, 0, 0.1]
        utility = utility + gone[:, 0] - gone[:, 1]
        x[gone] = np.nan
    labels = (utility + rng.normal(size=docs) > 1).astype(np.float32)
    return RankingDataset(x, np.arange(0, docs + 1, 10), labels=labels, feature_names=NAMES)


def fitted(kind: str, *, missing: bool):
    lists = data(missing=missing)
    if kind.startswith("lambdamart"):
        trees = 500 if kind == "lambdamart_500" else 150
        ranker = LambdaMART(trees=trees, leaves=15, min_docs_in_leaf=5, threads=1)
        return ranker.fit(lists, PairSet.from_labels(lists, **ranker.pair_options))
    if kind == "unbiased_lambdamart":
        log = simulate_clicks(lists, lists.labels, PositionBasedModel(), clicks=3000, seed=0)
        return UnbiasedLambdaMART(trees=20, threads=1).fit(lists, log)
    option = "impute" if missing else "error"
    if kind in ("linear", "svm"):
        ranker = {"linear": LinearRanker, "svm": SVMRanker}[kind](missing=option, threads=1)
        return ranker.fit(lists, PairSet.from_labels(lists))
    from prsrank.rankers.neural.dnn import NeuralRanker

    ranker = NeuralRanker((16, 8), epochs=5, device="cpu", missing=option)
    return ranker.fit(lists, PairSet.from_labels(lists))


@pytest.fixture(scope="module")
def rankers():
    made = {}

    def get(kind, missing):
        if (kind, missing) not in made:
            made[kind, missing] = fitted(kind, missing=missing)
        return made[kind, missing]

    return get


def hard_rows(ranker, *, missing: bool = True, extremes: bool = True) -> np.ndarray:
    """Random rows with values at thresholds and beside them, float32's edges, zeros and NaN."""
    rng = np.random.default_rng(2)
    x = data(missing=False, lists=ROWS // 10).features.copy()
    if hasattr(ranker, "booster_"):
        for column, thresholds in split_points(ranker.booster_).items():
            near = np.clip(thresholds, -3e38, 3e38).astype(np.float32)
            up, down = (
                np.nextafter(near, np.float32(np.inf)),
                np.nextafter(near, -np.float32(np.inf)),
            )
            points = np.concatenate([near, up, down])
            points = points[np.isfinite(points)]
            if len(points):
                chosen = rng.random(ROWS) < 0.5
                x[chosen, column] = rng.choice(points, chosen.sum())
    zeros = rng.random(x.shape) < 0.05
    x[zeros] = rng.choice(np.array([0.0, -0.0], np.float32), zeros.sum())
    if extremes:
        info = np.finfo(np.float32)
        edges = [info.max, info.min, info.tiny, -info.tiny, info.smallest_subnormal, -1e-42, 1e-35]
        odd = rng.random(x.shape) < 0.05
        x[odd] = rng.choice(np.array(edges, np.float32), odd.sum())
    if missing:
        x[rng.random(x.shape) < 0.1] = np.nan
    return x


def split_points(booster) -> dict[int, list[float]]:
    """Thresholds of each column, from LightGBM's own dump."""
    found: dict[int, list[float]] = {}
    waiting = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    while waiting:
        node = waiting.pop()
        if "split_feature" in node:
            found.setdefault(node["split_feature"], []).append(node["threshold"])
            waiting += [node["left_child"], node["right_child"]]
    return found


def exported(ranker, to: str, names=NAMES) -> bytes:
    return FORMATS[to](exportable(ranker, name="m", feature_names=names))


def score_with(to: str, content: bytes, rows: np.ndarray, names, folder: Path) -> np.ndarray:
    if to in ("elasticsearch", "opensearch"):
        return evaluators.createmodel_scores(content, rows, names)
    if to == "ranklib":
        return evaluators.ranklib_scores(content, rows)
    if to in EMULATED:
        return EMULATED[to](content, rows, names)
    return REAL[to](content, rows, names, folder)


def _lightgbm(content, rows, names, folder):
    import lightgbm

    (folder / "model.txt").write_bytes(content)
    booster = lightgbm.Booster(model_file=folder / "model.txt")
    assert booster.feature_name() == list(names)
    return booster.predict(rows, num_threads=1)


def _xgboost(content, rows, names, folder):
    xgboost = pytest.importorskip("xgboost")
    (folder / "model.json").write_bytes(content)
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(folder / "model.json")
    assert booster.feature_names == list(names)
    return booster.predict(xgboost.DMatrix(rows, feature_names=list(names), nthread=1))


def _onnx(content, rows, names, folder):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["feature_names"]) == list(names)
    (scores,) = session.run(["score"], {"features": rows})
    assert scores.shape == (len(rows), 1)
    return scores[:, 0]


EMULATED = {
    "elastic-ml": evaluators.elastic_ml_scores,
    "solr": evaluators.solr_scores,
    "vespa": evaluators.vespa_scores,
}
REAL = {"lightgbm": _lightgbm, "xgboost": _xgboost, "onnx": _onnx}


def assert_same(scores, expected, *, relative: float = 0.0) -> None:
    """Scores to 1e-5 (or relative for large ones); the same order where they differ by 1e-6."""
    scores, expected = np.asarray(scores, np.float64), np.asarray(expected, np.float64)
    assert np.isfinite(scores).all()
    size = np.maximum(1, np.abs(expected) * relative)
    error = np.abs(scores - expected) / size
    print(f"largest error {error.max():.2g}")
    assert error.max() < 1e-5
    assert_same_order(scores, expected, gap=1e-6 * size)


def assert_same_order(scores, expected, *, gap) -> None:
    """Every doc is above all docs whose expected score is lower by more than the gap."""
    order = np.argsort(expected, kind="stable")
    ahead = np.searchsorted(expected[order], (expected - gap)[order], side="left")
    assert (ahead > 0).sum() > len(ahead) / 2
    highest = np.concatenate([[-np.inf], np.maximum.accumulate(scores[order])])
    assert (scores[order] > highest[ahead]).all()


TREES = list(FORMATS)
# Names that a library takes; all others take any.
NAMED = {"lightgbm": PLAIN, "xgboost": PLAIN, "vespa": VESPA}


@pytest.mark.filterwarnings("ignore:each feature is read")
@pytest.mark.parametrize("to", TREES)
@pytest.mark.parametrize("kind", ["lambdamart", "unbiased_lambdamart"])
def test_trees_trained_without_missing_values(rankers, kind, to, tmp_path):
    ranker = rankers(kind, False)
    rows = hard_rows(ranker)
    names = NAMED.get(to, NAMES)
    content = exported(ranker, to, names)
    if to == "solr":
        rows = rows[~solr_inexact(ranker, rows)]
        assert len(rows) > 0.6 * ROWS  # a third lies at or beside thresholds near 1e-6
    assert_same(score_with(to, content, rows, names, tmp_path), ranker.score(rows))


@pytest.mark.filterwarnings("ignore:each feature is read")
@pytest.mark.parametrize("to", [to for to in TREES if to != "ranklib"])
def test_trees_trained_with_missing_values(rankers, to, tmp_path):
    ranker = rankers("lambdamart", True)
    rows = hard_rows(ranker)
    names = NAMED.get(to, NAMES)
    if to in ("elasticsearch", "opensearch", "solr"):
        with pytest.warns(DataWarning, match="side of their own"):
            content = exported(ranker, to, names)
    else:
        content = exported(ranker, to, names)
    if to == "solr":
        rows = rows[~solr_inexact(ranker, rows)]
    scores = score_with(to, content, rows, names, tmp_path)
    assert_same(scores, ranker.score(rows))
    as_zero = ranker.score(np.nan_to_num(rows, nan=0.0))
    assert np.abs(as_zero - scores).max() > 0.01  # the rule for missing values matters here


@pytest.mark.filterwarnings("ignore::prsrank.errors.DataWarning")
@pytest.mark.parametrize("to", TREES)
def test_500_trees_and_missing_values(rankers, to, tmp_path):
    """RankLib holds no learned side; a missing value is 0 for its model, in Python too."""
    ranker = rankers("lambdamart_500", to != "ranklib")
    rows = hard_rows(ranker)
    names = NAMED.get(to, NAMES)
    if to == "solr":
        rows = rows[~solr_inexact(ranker, rows)]
    expected = ranker.score(rows)
    assert np.abs(expected).max() > 8  # where a step of float32 is 1e-6
    scores = score_with(to, exported(ranker, to, names), rows, names, tmp_path)
    print(f"largest error {np.abs(scores - expected).max():.2g}")
    assert np.abs(scores - expected).max() < 2e-6
    assert_same_order(scores, expected, gap=4e-6)


def solr_inexact(ranker, rows: np.ndarray) -> np.ndarray:
    """Rows with a value between a threshold and the next lower sum that Solr can make of 1e-6."""
    inexact = np.zeros(len(rows), bool)
    for column, thresholds in split_points(ranker.booster_).items():
        for t in np.unique(thresholds)[np.abs(np.unique(thresholds)) < 1e30]:
            near = np.float32(t)
            top = near if np.float64(near) <= t else np.nextafter(near, np.float32(-np.inf))
            bits = np.arange(-70, 71, dtype=np.int32)
            around = (np.float32(top - np.float32(1e-6)).view(np.int32) + bits).view(np.float32)
            sums = around + np.float32(1e-6)
            reached = sums[sums <= t].max()
            assert top - reached <= max(np.spacing(np.abs(top)), 2.4e-13)
            inexact |= (rows[:, column] > reached) & (rows[:, column] <= t)
    return inexact


def test_trees_with_missing_values_as_zero_work_in_old_plugins(rankers):
    ranker = rankers("lambdamart", False)
    rows = hard_rows(ranker)
    content = exported(ranker, "elasticsearch")
    old = evaluators.createmodel_scores(content, rows, NAMES, absent="zero")
    assert_same(old, ranker.score(rows))


LINEAR = ["elasticsearch", "opensearch", "ranklib", "solr", "onnx"]


@pytest.mark.parametrize("to", LINEAR)
@pytest.mark.parametrize("kind", ["linear", "svm"])
def test_linear(rankers, kind, to, tmp_path):
    ranker = rankers(kind, False)
    rows = hard_rows(ranker, missing=False, extremes=False)
    scores = score_with(to, exported(ranker, to), rows, NAMES, tmp_path)
    assert_same(scores, ranker.score(rows), relative=1.0)


@pytest.mark.parametrize("to", ["ranklib", "onnx"])
def test_linear_at_the_edges_of_float32(rankers, to, tmp_path):
    ranker = rankers("linear", False)
    rows = hard_rows(ranker, missing=False)[:, :]
    rows = rows[np.abs(ranker.score(rows)) < 1e38]
    scores = score_with(to, exported(ranker, to), rows, NAMES, tmp_path)
    assert_same(scores, ranker.score(rows), relative=1.0)


@pytest.mark.parametrize("kind", ["linear", "svm", "dnn"])
def test_imputed_values_and_indicators_in_onnx(rankers, kind, tmp_path):
    ranker = rankers(kind, True)
    rows = hard_rows(ranker, extremes=False)
    rows[:, [2, 4]] = np.nan_to_num(rows[:, [2, 4]])
    scores = score_with("onnx", exported(ranker, "onnx"), rows, NAMES, tmp_path)
    assert_same(scores, ranker.score(rows), relative=1.0)


@pytest.mark.neural
def test_net_in_onnx(rankers, tmp_path):
    ranker = rankers("dnn", False)
    rows = hard_rows(ranker, missing=False)
    scores = score_with("onnx", exported(ranker, "onnx"), rows, NAMES, tmp_path)
    assert_same(scores, ranker.score(rows), relative=1.0)


@pytest.mark.neural
@pytest.mark.parametrize("to", ["solr", "onnx"])
def test_net_without_the_logarithm(to, tmp_path):
    from prsrank.rankers.neural.dnn import NeuralRanker

    lists = data(missing=False)
    ranker = NeuralRanker((16, 8), epochs=5, device="cpu", log_tails=False)
    ranker.fit(lists, PairSet.from_labels(lists)).save(tmp_path / "model")
    ranker = load_ranker(tmp_path / "model")
    rows = hard_rows(ranker, missing=False, extremes=False)
    scores = score_with(to, exported(ranker, to), rows, NAMES, tmp_path)
    assert_same(scores, ranker.score(rows), relative=1.0)


@pytest.mark.parametrize("kind", ["linear", "dnn"])
def test_missing_value_without_a_rule_has_no_score_in_onnx(rankers, kind):
    onnxruntime = pytest.importorskip("onnxruntime")
    content = exported(rankers(kind, False), "onnx")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["score"], {"features": np.full((1, 6), np.nan, np.float32)})
    assert np.isnan(scores).all()
