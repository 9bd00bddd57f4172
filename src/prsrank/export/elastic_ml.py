"""Elastic's own learning to rank: the body of PUT _ml/trained_models."""

import json
import warnings
from typing import Any

import numpy as np

from prsrank.errors import DataWarning
from prsrank.export.formats import Exportable
from prsrank.rankers.trees import Tree, TreeEnsemble

_LARGEST = np.finfo(np.float64).max


def write_elastic_ml(model: Exportable) -> bytes:
    """Return an `ensemble` of trees, with an extractor for each feature that some split looks at.

    Elasticsearch compares in float64, goes left at or below a threshold and sends a missing value
    to `default_left`, as LightGBM does, so nothing needs to be moved. What it cannot know is
    the query behind a feature: an extractor reads the doc's field of the feature's name.
    """
    ensemble = model.trees(
        "Elastic's own LTR model", "it has trees only; use elasticsearch (the plugin) or onnx"
    )
    # Elasticsearch fills in {{...}} wherever it stands in an extractor.
    model.refuse_characters("{}", "Elastic's templates")
    used = [model.feature_names[column] for column in ensemble.used]
    warnings.warn(
        "each feature is read from the doc's field of its name: for those that depend on the "
        "query write your own extractor into the file (docs/export-elastic-ml.md)",
        DataWarning,
        stacklevel=3,
    )
    body = {
        "description": f"{model.name}: {model.ranker} of {len(ensemble.trees)} trees",
        "inference_config": {
            "learning_to_rank": {"feature_extractors": [_extractor(name) for name in used]}
        },
        "definition": {"trained_model": {"ensemble": _ensemble(ensemble, used)}},
    }
    return json.dumps(body).encode()


def _extractor(name: str) -> dict[str, Any]:
    """Read a number of the doc; a doc without it has no such feature."""
    script = {"source": "doc[params.field].value", "params": {"field": name}}
    query = {"script_score": {"query": {"exists": {"field": name}}, "script": script}}
    return {"query_extractor": {"feature_name": name, "query": query}}


def _ensemble(ensemble: TreeEnsemble, used: list[str]) -> dict[str, Any]:
    index = {column: index for index, column in enumerate(ensemble.used)}
    shared = {"feature_names": used, "target_type": "regression"}
    trees = [{"tree": {**shared, "tree_structure": _nodes(t, index)}} for t in ensemble.trees]
    return {**shared, "aggregate_output": {"weighted_sum": {}}, "trained_models": trees}


def _nodes(tree: Tree, index: dict[int, int]) -> list[dict[str, Any]]:
    # JSON has no infinity, and an infinite value counts as missing there anyway
    thresholds = np.clip(tree.thresholds, -_LARGEST, _LARGEST).tolist()
    splits = [
        {
            "node_index": node,
            "split_feature": index[int(tree.features[node])],
            "decision_type": "lte",
            "threshold": thresholds[node],
            "default_left": bool(tree.missing_left[node]),
            "left_child": int(tree.left[node]),
            "right_child": int(tree.right[node]),
        }
        for node in range(tree.splits)
    ]
    leaves = enumerate(tree.leaf_values.tolist(), tree.splits)
    return splits + [{"node_index": node, "leaf_value": value} for node, value in leaves]
