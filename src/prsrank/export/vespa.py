"""Vespa: LightGBM's JSON dump, as Vespa's `lightgbm("FILE")` reads it."""

import json
import re

import numpy as np

from prsrank.errors import InputError
from prsrank.export.elasticsearch import INFINITY
from prsrank.export.exportable import Exportable
from prsrank.rankers.trees import Tree, TreeEnsemble, exact, float32_above, nested

# A rank feature or function, such as price, bm25(title) or fieldMatch(title).proximity.
_FEATURE = re.compile(r"[A-Za-z_]\w*(\([\w@$., \"'-]+\))?(\.\w+)*", re.ASCII)


def write_vespa(model: Exportable) -> bytes:
    """Return a model that Vespa makes into a ranking expression.

    Vespa turns `<=` into `<`, so the thresholds are those of `float32_above`: its forests keep
    float32. It sends NaN to `default_left` whatever `missing_type` says, so that is where
    LightGBM sends a missing value. It needs `objective` and `pandas_categorical` to be there.
    """
    if not isinstance(model.scorer, TreeEnsemble):
        raise model.refusal("LightGBM trees for Vespa", "Vespa reads onnx")
    for name in model.feature_names:
        # Vespa pastes a name into the expression: "1" would be the number 1
        if not _FEATURE.fullmatch(name):
            raise InputError(
                f"the feature name {name!r} is no rank feature or function of Vespa, such as "
                "bm25(title): give other names with --feature-names"
            )
    head = {
        "name": model.name,
        "objective": "regression",
        "pandas_categorical": [],
        "feature_names": list(model.feature_names),
    }
    trees = ",\n".join(
        f'{{"tree_index":{number},"tree_structure":{"".join(_tree(tree))}}}'
        for number, tree in enumerate(model.scorer.trees)
    )
    return f'{json.dumps(head).removesuffix("}")}, "tree_info": [\n{trees}]}}\n'.encode()


def _tree(tree: Tree) -> list[str]:
    thresholds = float32_above(tree.thresholds)

    def leaf(node: int) -> str:
        return f'{{"leaf_value":{float(tree.leaf_values[node - tree.splits])!r}}}'

    def split(node: int, depth: int) -> tuple[str, str, str]:
        threshold = exact(thresholds[node]) if np.isfinite(thresholds[node]) else INFINITY
        before = (
            f'{{"split_feature":{tree.features[node]},"threshold":{threshold},'
            f'"decision_type":"<=","default_left":{json.dumps(bool(tree.missing_left[node]))},'
            f'"missing_type":"NaN","left_child":'
        )
        return before, ',"right_child":', "}"

    return list(nested(tree, leaf, split))
