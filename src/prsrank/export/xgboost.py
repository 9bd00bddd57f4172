"""XGBoost's JSON format."""

import json
from typing import Any

import numpy as np

from prsrank.export.formats import Exportable
from prsrank.export.tree_texts import float32_trees
from prsrank.rankers.trees import Tree, float32_above
from prsrank.types import Longs

_NO_PARENT = 2147483647


def write_xgboost(model: Exportable) -> bytes:
    """Return a model that `xgboost.Booster.load_model` reads (name the file .json).

    XGBoost goes left below a threshold, LightGBM at or below it: the thresholds are those of
    `float32_above`. Each split's default side is where LightGBM sends a missing value.
    """
    ensemble = model.trees("XGBoost trees", "use elasticsearch, opensearch, ranklib, solr or onnx")
    model.refuse_characters("[]<", "XGBoost")
    columns, trees = ensemble.columns, float32_trees(ensemble)
    gbtree = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(len(trees) + 1)),
        "tree_info": [0] * len(trees),
        "trees": [_tree(tree, number, columns) for number, tree in enumerate(trees)],
    }
    learner = {
        "attributes": {"model_name": model.name},
        "feature_names": list(model.feature_names),
        "feature_types": ["float"] * columns,
        "gradient_booster": {"model": gbtree, "name": "gbtree"},
        "learner_model_param": {
            "base_score": "0E0",
            "boost_from_average": "0",
            "num_class": "0",
            "num_feature": str(columns),
            "num_target": "1",
        },
        "objective": {"name": "rank:pairwise", "lambdarank_param": {}},
    }
    return json.dumps({"learner": learner, "version": [2, 0, 0]}).encode()


def _tree(tree: Tree, number: int, columns: int) -> dict[str, Any]:
    order, children = _by_level(tree)
    is_split = children >= 0
    parents = np.full(tree.nodes, _NO_PARENT)
    parents[children[is_split]] = parents[children[is_split] + 1] = np.flatnonzero(is_split)
    values = tree.leaf_values.astype(np.float32)
    nodes = {
        "base_weights": tree.of_nodes(np.zeros(tree.splits, np.float32), values)[order],
        "default_left": tree.of_nodes(tree.missing_left.astype(np.int64))[order],
        "left_children": children,
        "loss_changes": np.zeros(tree.nodes),
        "parents": parents,
        "right_children": np.where(is_split, children + 1, -1),
        "split_conditions": tree.of_nodes(float32_above(tree.thresholds), values)[order],
        "split_indices": tree.of_nodes(tree.features)[order],
        "split_type": np.zeros(tree.nodes, np.int64),
        "sum_hessian": np.ones(tree.nodes),
    }
    categories = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    return {
        **{key: array.tolist() for key, array in nodes.items()},
        **{key: [] for key in categories},
        "id": number,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(columns),
            "num_nodes": str(tree.nodes),
            "size_leaf_vector": "1",
        },
    }


def _by_level(tree: Tree) -> tuple[Longs, Longs]:
    """Return the nodes in XGBoost's order, and the index of each one's left child, else -1.

    XGBoost finds a right child at the index behind the left one.
    """
    order, children = [0], []
    for node in order:
        if node >= tree.splits:
            children.append(-1)
            continue
        children.append(len(order))
        order += [int(tree.left[node]), int(tree.right[node])]
    return np.array(order), np.array(children)
