import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from prsrank.data.dataset import RankingDataset
from prsrank.data.preprocess import FeatureScaling
from prsrank.errors import DataWarning, InputError
from prsrank.export.formats import (
    FORMATS,
    Exportable,
    export_ranker,
    exportable,
    read_feature_names,
)
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.base import load_ranker
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker
from prsrank.rankers.scorers import LinearSum, ScoreLayers
from prsrank.rankers.trees import TreeEnsemble

sys.path.insert(0, str(Path(__file__).parents[1] / "rankers"))
sys.path.insert(0, str(Path(__file__).parent))
import evaluators
from test_trees import lightgbm_text

ABC = ("a", "b", "c")


def trees(text: str, names=ABC) -> Exportable:
    return Exportable("m", "lambdamart", TreeEnsemble(text), names)


def lists(*, missing: bool = False) -> RankingDataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)).astype(np.float32)
    labels = (x[:, 0] > 0.5).astype(np.float32)
    if missing:
        x[rng.random(x.shape) < [0.3, 0, 0]] = np.nan
    return RankingDataset(x, np.arange(0, 401, 10), labels=labels, feature_names=ABC)


def linear(*, missing: bool = False) -> LinearRanker:
    data = lists(missing=missing)
    ranker = LinearRanker(missing="impute" if missing else "error", threads=1)
    return ranker.fit(data, PairSet.from_labels(data))


def lambdamart(**options) -> LambdaMART:
    ranker, data = LambdaMART(trees=5, threads=1, **options), lists(missing=True)
    return ranker.fit(data, PairSet.from_labels(data, **ranker.pair_options))


ENGINES = {"elastic-ml": evaluators.elastic_ml_scores, "vespa": evaluators.vespa_scores}
EDGES = np.array(
    [0, -0.0, np.nan, 1e-35, -1e-35, 1e-40, 1.5, 3.4028235e38, -3.4028235e38], np.float32
)


@pytest.mark.filterwarnings("ignore:missing values", "ignore:each feature is read")
@pytest.mark.parametrize("decisions", ["2 2 2", "8 8 8", "10 10 10"])
@pytest.mark.parametrize("thresholds", ["inf 1e300 -1e300", "-1e300 0 1.5", "-1.5 -1e-36 -0"])
def test_infinite_and_tiny_thresholds(thresholds, decisions, tmp_path):
    import lightgbm

    xgboost, onnxruntime = pytest.importorskip("xgboost"), pytest.importorskip("onnxruntime")
    text = lightgbm_text(thresholds, decisions)
    rows = np.stack(np.meshgrid(EDGES, EDGES, EDGES), axis=-1).reshape(-1, 3)
    expected = lightgbm.Booster(model_str=text).predict(rows, num_threads=1)
    model = trees(text)
    (tmp_path / "m.json").write_bytes(FORMATS["xgboost"](model))
    booster = xgboost.Booster({"nthread": 1}, model_file=tmp_path / "m.json")
    scores = booster.predict(xgboost.DMatrix(rows, feature_names=list(ABC)))
    assert (scores == expected).all()
    session = onnxruntime.InferenceSession(FORMATS["onnx"](model))
    assert (session.run(None, {"features": rows})[0][:, 0] == expected).all()
    for to, score in ENGINES.items():
        assert (score(FORMATS[to](model), rows, ABC) == expected).all(), to
    body = FORMATS["opensearch"](model)
    assert (evaluators.createmodel_scores(body, rows, ABC) == expected).all()
    solr = evaluators.solr_scores(FORMATS["solr"](model), rows, ABC)
    exact = ((rows == 0) | ~(np.abs(rows) < 1e-13)).all(axis=1)  # Solr's slack: docs/export.md
    assert exact.sum() > 100
    assert (solr == expected)[exact].all()
    if not model.scorer.learned_missing:
        assert (evaluators.ranklib_scores(FORMATS["ranklib"](model), rows) == expected).all()


@pytest.mark.filterwarnings("ignore:each feature is read")
@pytest.mark.parametrize("to", FORMATS)
def test_a_tree_of_one_leaf(to, tmp_path):
    text = lightgbm_text("1 1 1", "2 2 2")
    head, rest = text.split("\nTree=0\n")
    text = head + "\nTree=0\nnum_leaves=1\nnum_cat=0\nsplit_feature=\nsplit_gain=\nthreshold=\n"
    text += "decision_type=\nleft_child=\nright_child=\nleaf_value=0.25\nleaf_weight=\n"
    text += "leaf_count=\ninternal_value=\ninternal_weight=\ninternal_count=\nis_linear=0\n"
    text += "shrinkage=1\n\n\nend of trees" + rest.split("end of trees")[1]
    content = FORMATS[to](trees(text))
    rows = np.zeros((2, 3), np.float32)
    if to in ("elasticsearch", "opensearch"):
        scores = evaluators.createmodel_scores(content, rows, ABC)
    elif to == "ranklib":
        scores = evaluators.ranklib_scores(content, rows)
    elif to == "solr":
        scores = evaluators.solr_scores(content, rows, ABC)
    elif to in ENGINES:
        scores = ENGINES[to](content, rows, ABC)
    elif to == "lightgbm":
        import lightgbm

        scores = lightgbm.Booster(model_str=content.decode()).predict(rows)
    elif to == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        booster = xgboost.Booster()
        booster.load_model(bytearray(content))
        scores = booster.predict(xgboost.DMatrix(rows, feature_names=list(ABC)))
    else:
        session = pytest.importorskip("onnxruntime").InferenceSession(content)
        scores = session.run(None, {"features": rows})[0][:, 0]
    assert scores.tolist() == [0.25, 0.25]


def test_a_chain_of_a_thousand_splits(tmp_path):
    """Text is written without recursion, however deep a tree is."""
    n = 3000
    text = lightgbm_text(" ".join(map(str, range(n, 0, -1))), " ".join(["2"] * n))
    for key, values in {
        "num_leaves": [n + 1],
        "split_feature": [0] * n,
        "left_child": [*range(1, n), -1],
        "right_child": [-2 - i for i in range(n)],
        "leaf_value": range(n + 1),
    }.items():
        lines = [
            f"{key}=" + " ".join(map(str, values)) if line.startswith(f"{key}=") else line
            for line in text.split("\n")
        ]
        text = "\n".join(lines)
    for to in ("elasticsearch", "solr", "ranklib", "xgboost"):
        assert len(FORMATS[to](trees(text))) > n


@pytest.mark.parametrize("columns", [3, 5])
def test_solr_net(columns):
    """A net on plain standardised features; two more columns in the file are indicators."""
    rng = np.random.default_rng(3)
    scaling = FeatureScaling(
        rng.normal(size=3), rng.uniform(1, 2, 3), np.arange(columns - 3), np.full(columns - 3, 0.5)
    )
    first = rng.normal(size=(4, columns)).astype(np.float32)
    first[:, : columns - 3] = first[:, 3:] = 0
    layers = (
        (first, np.ones(4, np.float32)),
        (np.ones((1, 4), np.float32), np.ones(1, np.float32)),
    )
    net = Exportable("m", "dnn", ScoreLayers(layers, scaling, signed_log=False), ABC)
    rows = rng.normal(size=(1000, 3)).astype(np.float32)
    hidden = np.maximum((rows - scaling.mean) / scaling.scale @ first[:, :3].T + 1.0, 0)
    scores = evaluators.solr_scores(FORMATS["solr"](net), rows, ABC)
    assert np.abs(scores - hidden.sum(axis=1) - 1).max() < 1e-5


def test_solr_refuses_the_neural_rankers_input():
    layers = ((np.ones((1, 1), np.float32), np.ones(1, np.float32)),)
    scaling = FeatureScaling(np.zeros(1), np.ones(1), np.zeros(0, np.int64), np.zeros(0))
    net = Exportable("m", "dnn", ScoreLayers(layers, scaling, signed_log=True), ("a",))
    with pytest.raises(InputError, match=r"sign\(z\) log\(1 \+ \|z\|\).* use onnx"):
        FORMATS["solr"](net)
    for to in [to for to in FORMATS if to not in ("solr", "onnx")]:
        with pytest.raises(InputError, match="a dnn ranker cannot be written"):
            FORMATS[to](net)


@pytest.mark.parametrize("to", ["lightgbm", "xgboost", "elastic-ml", "vespa"])
def test_linear_is_no_trees(to):
    with pytest.raises(InputError, match="a linear ranker cannot be written"):
        FORMATS[to](exportable(linear()))


@pytest.mark.parametrize("to", ["elasticsearch", "opensearch", "ranklib", "solr"])
def test_imputed_features_are_refused_where_the_engine_scores_zero(to):
    with pytest.raises(InputError, match=r"'a' has an indicator .* 'onnx' carries it"):
        FORMATS[to](exportable(linear(missing=True)))
    scaling = FeatureScaling(np.array([2.0]), np.ones(1), np.array([0]), np.array([0.5]))
    for weights, fits in ((np.array([1.0, 0.0]), False), (np.array([0.0, 0.0]), True)):
        model = Exportable("m", "linear", LinearSum(weights, scaling), ("a",))
        if fits:
            FORMATS[to](model)
            continue
        with pytest.raises(InputError, match="replaced by the training mean 2,"):
            FORMATS[to](model)


def test_elastic_extracts_the_features_that_splits_look_at():
    text = lightgbm_text("1 2 3", "2 2 2").replace("split_feature=0 1 2", "split_feature=2 2 2")
    assert "split_feature=2 2 2" in text
    with pytest.warns(DataWarning, match="read from the doc's field of its name"):
        body = json.loads(FORMATS["elastic-ml"](trees(text)))
    (extractor,) = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    query = extractor["query_extractor"]["query"]["script_score"]
    assert extractor["query_extractor"]["feature_name"] == "c"
    assert query["query"] == {"exists": {"field": "c"}}
    assert query["script"]["params"] == {"field": "c"}
    rows = np.array([[9, 9, 0], [9, 9, 9]], np.float32)
    scores = evaluators.elastic_ml_scores(json.dumps(body), rows, ABC)
    assert scores[0] != scores[1]


def test_ranklib_refuses_learned_sides_of_missing_values():
    with pytest.raises(InputError, match="missing values of feature 'a' have a side"):
        FORMATS["ranklib"](exportable(lambdamart()))


@pytest.mark.parametrize("to", ["elasticsearch", "solr"])
def test_deviations_beyond_float32_are_refused(to):
    scaling = FeatureScaling(np.zeros(1), np.array([1e-60]), np.zeros(0, np.int64), np.zeros(0))
    model = Exportable("m", "linear", LinearSum(np.ones(1), scaling), ("a",))
    with pytest.raises(InputError, match="'a' has mean 0 and standard deviation 1e-60"):
        FORMATS[to](model)


@pytest.mark.parametrize("to", [to for to in FORMATS if to not in ("ranklib", "onnx")])
@pytest.mark.parametrize(
    ("names", "says"),
    [
        (("a", "b", "a"), "'a' is there 2 times"),
        (("a", " ", "c"), "feature 2 has no name"),
        (None, "give a file with --feature-names"),
    ],
)
def test_names_that_do_not_name(to, names, says):
    with pytest.raises(InputError, match=says):
        FORMATS[to](trees(lightgbm_text("1 1 1", "2 2 2"), names))


@pytest.mark.parametrize(
    ("to", "name"),
    [
        ("xgboost", "x[0]"),
        ("xgboost", "a<b"),
        ("lightgbm", "a b"),
        ("lightgbm", "{"),
        ("elastic-ml", "{{price}}"),
        ("vespa", "1"),
        ("vespa", "price + 1"),
        ("vespa", "bm25(title"),
        ("vespa", "bm25(title) + bm25(body)"),
    ],
)
def test_names_that_a_library_does_not_take(to, name):
    with pytest.raises(InputError, match="give other names with --feature-names") as caught:
        FORMATS[to](trees(lightgbm_text("1 1 1", "2 2 2"), ("a", name, "c")))
    assert repr(name) in str(caught.value)


def test_lightgbm_text_keeps_what_other_formats_refuse():
    ranker = lambdamart(parameters={"zero_as_missing": True})
    content = FORMATS["lightgbm"](exportable(ranker)).decode()
    import lightgbm

    booster = lightgbm.Booster(model_str=content)
    rows = np.nan_to_num(lists(missing=True).features)
    assert (booster.predict(rows) == ranker.score(rows)).all()
    assert "\nobjective=regression\n" in content
    assert "Column_" not in content
    with pytest.raises(InputError, match="zero_as_missing"):
        FORMATS["xgboost"](exportable(ranker))


def test_export_ranker_writes_whole_or_not_at_all(tmp_path):
    target = tmp_path / "m.json"
    target.write_text("old")
    with pytest.raises(InputError, match="no format 'pmml'; there are: lightgbm"):
        export_ranker(linear(), target, to="pmml")
    with pytest.raises(InputError, match="2 feature names for 3 features"):
        export_ranker(linear(), target, to="solr", feature_names=("a", "b"))
    with pytest.raises(InputError, match="name is empty"):
        export_ranker(linear(), target, to="solr", name=" ")
    assert target.read_text() == "old"
    made = export_ranker(linear(), target, to="solr", name='<script>"&')
    assert json.loads(target.read_text())["name"] == '<script>"&' == made.name
    assert [p.name for p in tmp_path.iterdir()] == ["m.json"]


def test_a_run_holds_its_model_in_a_folder(tmp_path):
    ranker = linear()
    ranker.save(tmp_path / "run" / "model")
    rows = lists().features
    loaded = load_ranker(tmp_path / "run")
    assert (loaded.score(rows) == ranker.score(rows)).all()
    with pytest.raises(InputError, match="is not a saved ranker"):
        load_ranker(tmp_path)


def test_names_from_a_file(tmp_path):
    (tmp_path / "names").write_text("x\ny é\n", encoding="utf-8")
    assert read_feature_names(tmp_path / "names") == ["x", "y é"]
    (tmp_path / "names").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not text in UTF-8"):
        read_feature_names(tmp_path / "names")


def test_without_onnx_the_error_names_the_extra(tmp_path):
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "from prsrank.export.formats import FORMATS\n"
        "from prsrank.errors import InputError\n"
        "try: FORMATS['onnx'](None)\n"
        "except InputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "the export to onnx needs onnx: pip install 'prsrank[onnx]'\n"
