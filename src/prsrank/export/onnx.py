"""ONNX: trees as TreeEnsembleRegressor, linear rankers and nets as matrix products."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.data.preprocess import FeatureScaling
from prsrank.errors import InputError
from prsrank.export.formats import Exportable
from prsrank.rankers.scorers import LinearSum, ScoreLayers
from prsrank.rankers.trees import TreeEnsemble

_OPSET, _ML_OPSET, _IR_VERSION = 17, 3, 8


def write_onnx(model: Exportable) -> bytes:
    """Return a model from `features` (docs x features, float32) to `score` (docs x 1, float32).

    A missing value is NaN. Features are standardised in float64, as in Python. The features'
    names are metadata.
    """
    try:
        import onnx
    except ImportError as error:
        raise InputError("the export to onnx needs onnx: pip install 'prsrank[onnx]'") from error
    graph = _Graph(onnx)
    if isinstance(model.scorer, TreeEnsemble):
        _add_trees(graph, model.scorer)
    else:
        _add_layers(graph, model.scorer)
    float32 = onnx.TensorProto.FLOAT
    columns = model.scorer.columns
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            model.name,
            [onnx.helper.make_tensor_value_info("features", float32, ["docs", columns])],
            [onnx.helper.make_tensor_value_info("score", float32, ["docs", 1])],
            graph.constants,
        ),
        opset_imports=[
            onnx.helper.make_opsetid("", _OPSET),
            onnx.helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ],
        ir_version=_IR_VERSION,
        producer_name="prsrank",
    )
    if model.known_names is not None:
        names = json.dumps(list(model.feature_names))
        onnx.helper.set_model_props(made, {"feature_names": names})
    onnx.checker.check_model(made)
    content: bytes = made.SerializeToString()
    return content


class _Graph:
    """Nodes in order and the constants they use."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(
        self, kind: str, *inputs: str | npt.NDArray, out: str | None = None, **options: Any
    ) -> str:
        """Add a node of named values and constants; return the name of its output."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        name = out or f"{kind}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, names, [name], **options))
        return name

    def _constant(self, values: npt.NDArray) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(values, name))
        return name


def _add_trees(graph: _Graph, ensemble: TreeEnsemble) -> None:
    """Thresholds, leaves and sums are float64, as LightGBM's."""
    trees = ensemble.trees

    def of_nodes(values: str) -> npt.NDArray:
        return np.concatenate([tree.of_nodes(getattr(tree, values)) for tree in trees])

    def doubles(name: str, values: npt.NDArray) -> Any:
        return graph.onnx.numpy_helper.from_array(values.astype(np.float64), name)

    numbers = np.repeat(np.arange(len(trees)), [tree.nodes for tree in trees])
    nodes = np.concatenate([np.arange(tree.nodes) for tree in trees])
    is_leaf = np.concatenate([np.arange(tree.nodes) >= tree.splits for tree in trees])
    leaf_values = np.concatenate([tree.leaf_values for tree in trees])
    graph.add(
        "TreeEnsembleRegressor",
        graph.add("Cast", "features", to=int(graph.onnx.TensorProto.DOUBLE)),
        out="score",
        domain="ai.onnx.ml",
        n_targets=1,
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_treeids=numbers.tolist(),
        nodes_nodeids=nodes.tolist(),
        nodes_featureids=of_nodes("features").tolist(),
        nodes_values_as_tensor=doubles("thresholds", of_nodes("thresholds")),
        nodes_modes=np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_truenodeids=of_nodes("left").tolist(),
        nodes_falsenodeids=of_nodes("right").tolist(),
        nodes_missing_value_tracks_true=of_nodes("missing_left").astype(np.int64).tolist(),
        target_treeids=numbers[is_leaf].tolist(),
        target_nodeids=nodes[is_leaf].tolist(),
        target_ids=[0] * len(leaf_values),
        target_weights_as_tensor=doubles("leaf_values", leaf_values),
    )


def _add_layers(graph: _Graph, scorer: LinearSum | ScoreLayers) -> None:
    inputs = _add_scaling(graph, scorer.scaling)
    to_float32 = int(graph.onnx.TensorProto.FLOAT)
    if isinstance(scorer, LinearSum):
        product = graph.add("MatMul", inputs, scorer.weights[:, None])
        graph.add("Cast", product, out="score", to=to_float32)
        return
    if scorer.signed_log:
        size = graph.add("Log", graph.add("Add", graph.add("Abs", inputs), np.ones(1)))
        inputs = graph.add("Mul", graph.add("Sign", inputs), size)
    hidden = graph.add("Cast", inputs, to=to_float32)
    *inner, (last_weight, last_bias) = scorer.layers
    for weight, bias in inner:
        layer = graph.add("Gemm", hidden, np.ascontiguousarray(weight), bias, transB=1)
        hidden = graph.add("Relu", layer)
    graph.add("Gemm", hidden, np.ascontiguousarray(last_weight), last_bias, out="score", transB=1)


def _add_scaling(graph: _Graph, scaling: FeatureScaling) -> str:
    double = int(graph.onnx.TensorProto.DOUBLE)
    centred = graph.add("Sub", graph.add("Cast", "features", to=double), scaling.mean)
    scaled = graph.add("Div", centred, scaling.scale)
    if not len(scaling.indicators):
        return scaled
    missing = graph.add("IsNaN", "features")
    imputed = graph.add("Where", missing, np.zeros(1), scaled)
    chosen = graph.add("Gather", missing, scaling.indicators, axis=1)
    spread = np.sqrt(scaling.indicator_share * (1 - scaling.indicator_share))
    centred = graph.add("Sub", graph.add("Cast", chosen, to=double), scaling.indicator_share)
    indicators = graph.add("Div", centred, np.where(spread > 0, spread, 1.0))
    return graph.add("Concat", imputed, indicators, axis=1)
