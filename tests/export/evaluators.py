"""Small evaluators of what search engines document, apart from the export's code.

Each reads an exported file and scores rows of float32 features; NaN is a feature that is not
there for a doc. Sums run in float32 where the engine's do.
"""

import json
import math
from xml.etree import ElementTree

import numpy as np

SLACK = np.float32(1e-6)


def _descend(root, rows, go_left):
    """Score every row by walking down from `root`; a leaf is a number."""
    scores = np.zeros(len(rows), np.float64)
    waiting = [(root, np.arange(len(rows)))]
    while waiting:
        node, which = waiting.pop()
        if isinstance(node, float | np.floating):
            scores[which] = node
            continue
        column, rule, left, right = node
        side = go_left(rows[which, column], *rule)
        waiting += [(left, which[side]), (right, which[~side])]
    return scores


def _sum32(trees, rows, go_left):
    total = np.zeros(len(rows), np.float32)
    for tree in trees:
        total += _descend(tree, rows, go_left).astype(np.float32)
    return total


def elastic_ml_scores(content, rows, names):
    """Elastic's own LTR: float64 throughout, an infinite value is missing, the score float32."""
    body = json.loads(content)
    assert set(body) == {"description", "inference_config", "definition"}
    extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    extracted = {extractor["query_extractor"]["feature_name"] for extractor in extractors}
    ensemble = body["definition"]["trained_model"]["ensemble"]
    assert ensemble["target_type"] == "regression"
    assert ensemble["aggregate_output"] == {"weighted_sum": {}}
    rows = rows.astype(np.float64)

    def go_left(values, threshold, default_left):
        return np.where(np.isfinite(values), values <= threshold, default_left)

    leaves = [
        _descend(_elastic_node(tree["tree"], 0, extracted, list(names)), rows, go_left)
        for tree in ensemble["trained_models"]
    ]
    # Java's DoubleStream.sum() makes up for rounding
    return np.array([math.fsum(row) for row in np.stack(leaves, axis=1)]).astype(np.float32)


def _elastic_node(tree, index, extracted, names):
    node = tree["tree_structure"][index]
    assert node["node_index"] == index
    if "left_child" not in node:
        return float(node["leaf_value"])
    name = tree["feature_names"][node["split_feature"]]
    assert name in extracted
    assert node["decision_type"] == "lte"
    children = (
        _elastic_node(tree, node[side], extracted, names) for side in ("left_child", "right_child")
    )
    return names.index(name), (float(node["threshold"]), node["default_left"]), *children


def vespa_scores(content, rows, names):
    """Vespa: `<` and `!(>=)` on float32 constants, the leaves float32, the sum float64."""
    model = json.loads(content)
    assert isinstance(model["objective"], str)  # binary and others would bend the sum
    assert model["objective"] == "regression"
    assert list(model["pandas_categorical"]) == []
    features = [list(names).index(name) for name in model["feature_names"]]

    def node(item):
        if item.get("left_child") is None and item.get("right_child") is None:
            return float(np.float32(item["leaf_value"]))
        assert item["decision_type"] == "<="
        with np.errstate(over="ignore"):
            rule = (np.float32(item["threshold"]), item["default_left"])
        column = features[item["split_feature"]]
        return column, rule, node(item["left_child"]), node(item["right_child"])

    def go_left(values, threshold, default_left):
        return ~(values >= threshold) if default_left else values < threshold

    return sum(_descend(node(tree["tree_structure"]), rows, go_left) for tree in model["tree_info"])


def createmodel_scores(content, rows, names, *, absent="missing"):
    """Elasticsearch and OpenSearch LTR; `absent`: "missing" follows the side, "zero" scores 0."""
    body = json.loads(content)["model"]["model"]
    allowed = {"type", "definition", "feature_normalizers"}
    assert set(body) <= allowed
    definition = json.loads(body["definition"])
    if body["type"] == "model/linear":
        return _createmodel_linear(body, definition, rows, names)
    assert body["type"] == "model/xgboost+json"
    assert set(definition) == {"objective", "splits"}
    assert definition["objective"] == "rank:pairwise"
    assert definition["splits"]
    if absent == "zero":
        rows = np.where(np.isnan(rows), np.float32(0), rows)
    trees = [_xgboost_node(tree, list(names)) for tree in definition["splits"]]

    def go_left(values, threshold, missing_left):
        return np.where(np.isnan(values), missing_left, threshold > values)

    return _sum32(trees, rows, go_left)


def _xgboost_node(node, names):
    if "leaf" in node:
        assert set(node) == {"nodeid", "leaf"}
        return np.float32(node["leaf"])
    left, right = node["children"]
    fields = "nodeid depth split split_condition yes no missing children"
    assert set(node) == set(fields.split())
    assert (node["yes"], node["no"]) == (left["nodeid"], right["nodeid"])
    assert node["missing"] in (node["yes"], node["no"])
    with np.errstate(over="ignore"):
        rule = (np.float32(node["split_condition"]), node["missing"] == node["yes"])
    column = names.index(node["split"])
    return column, rule, _xgboost_node(left, names), _xgboost_node(right, names)


def _createmodel_linear(body, weights, rows, names):
    total = np.zeros(len(rows), np.float32)
    for column, name in enumerate(names):
        values = np.where(np.isnan(rows[:, column]), np.float32(0), rows[:, column])
        norm = body["feature_normalizers"][name]["standard"]
        deviation = np.float32(norm["standard_deviation"])
        assert deviation > 0
        total += np.float32(weights[name]) * ((values - np.float32(norm["mean"])) / deviation)
    return total


def ranklib_scores(content, rows):
    """RankLib: text lines joined, features numbered from 1, a missing value is 0."""
    lines = [line.strip() for line in content.decode().splitlines()]
    body = [line for line in lines if line and not line.startswith("##")]
    rows = np.where(np.isnan(rows), np.float32(0), rows)
    if lines[0] == "## Linear Regression":
        return _ranklib_linear(body[0], rows)
    assert lines[0] == "## LambdaMART"
    root = ElementTree.fromstring("".join(body))  # noqa: S314  # what we just wrote
    trees = [_ranklib_node(tree[0]) for tree in root.iter("tree")]
    assert {tree.get("weight") for tree in root.iter("tree")} == {"1.0"}
    return _sum32(trees, rows, lambda values, threshold: values <= threshold)


def _ranklib_linear(line, rows):
    weights = {int(key): float(value) for key, value in (p.split(":") for p in line.split())}
    score = np.full(len(rows), weights.pop(0))
    for number, weight in weights.items():
        score += weight * rows[:, number - 1].astype(np.float64)
    return score


def _ranklib_node(split):
    if split[0].tag == "output":
        return np.float32(float(split[0].text))
    feature, threshold, left, right = split
    assert (left.get("pos"), right.get("pos")) == ("left", "right")
    rule = (np.float32(float(threshold.text)),)
    return int(feature.text) - 1, rule, _ranklib_node(left), _ranklib_node(right)


def solr_scores(content, rows, names):
    """Solr: 1e-6 is added to thresholds in float32; sums and products in float32."""
    model = json.loads(content)
    kind = model["class"].removeprefix("org.apache.solr.ltr.model.")
    listed = [feature["name"] for feature in model["features"]]
    values = rows[:, [list(names).index(name) for name in listed]]
    params = model["params"]
    if params.get("isNullSameAsZero", True):
        values = np.where(np.isnan(values), np.float32(0), values)
    for column, feature in enumerate(model["features"]):
        if "norm" in feature:
            assert feature["norm"]["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
            numbers = feature["norm"]["params"]
            mean, deviation = (np.float32(float(numbers[key])) for key in ("avg", "std"))
            values[:, column] = (values[:, column] - mean) / deviation
    return SOLR_MODELS[kind](params, values, listed)


def _solr_trees(params, values, listed):
    def go_left(values, threshold, missing):
        at_most = values <= threshold
        if missing is None:
            return at_most
        return np.where(np.isnan(values), missing == "left", at_most)

    def node(item):
        if "value" in item:
            assert set(item) == {"value"}
            return np.float32(float(item["value"]))
        if not params.get("isNullSameAsZero", True):
            assert item["missing"] in ("left", "right")
        rule = (np.float32(float(item["threshold"])) + SLACK, item.get("missing"))
        return listed.index(item["feature"]), rule, node(item["left"]), node(item["right"])

    assert {tree["weight"] for tree in params["trees"]} == {"1.0"}
    return _sum32([node(tree["root"]) for tree in params["trees"]], values, go_left)


def _solr_linear(params, values, listed):
    assert set(params["weights"]) == set(listed)
    total = np.zeros(len(values), np.float32)
    for column, name in enumerate(listed):
        total += values[:, column] * np.float32(params["weights"][name])
    return total


def _solr_net(params, values, listed):
    functions = {"relu": lambda x: np.where(x < 0, np.float32(0), x), "identity": lambda x: x}
    for layer in params["layers"]:
        assert all(isinstance(number, float) for row in layer["matrix"] for number in row)
        matrix, bias = (np.array(layer[key], np.float32) for key in ("matrix", "bias"))
        values = functions[layer["activation"]](values @ matrix.T + bias)
    assert values.shape[1] == 1
    return values[:, 0]


SOLR_MODELS = {
    "MultipleAdditiveTreesModel": _solr_trees,
    "LinearModel": _solr_linear,
    "NeuralNetworkModel": _solr_net,
}
