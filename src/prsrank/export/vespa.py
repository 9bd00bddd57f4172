"""Vespa: LightGBM's JSON dump, as Vespa's `lightgbm("FILE")` reads it."""

import json
import re

from prsrank.errors import InputError
from prsrank.export.formats import Exportable
from prsrank.export.tree_texts import TreeText, json_numbers
from prsrank.rankers.trees import float32_above

# A rank feature or function, such as price, bm25(title) or fieldMatch(title).proximity.
_FEATURE = re.compile(r"[A-Za-z_]\w*(\([\w@$., \"'-]+\))?(\.\w+)*", re.ASCII)

_TREE = TreeText(
    leaf='{{"leaf_value":{double}}}',
    before='{{"split_feature":{feature},"threshold":{threshold},"decision_type":"<=",'
    '"default_left":{side},"missing_type":"NaN","left_child":',
    between=',"right_child":',
    after="}",
    sides=("true", "false"),
)


def write_vespa(model: Exportable) -> bytes:
    """Return a model that Vespa makes into a ranking expression.

    Vespa turns `<=` into `<`, so the thresholds are those of `float32_above`: its forests keep
    float32. It sends NaN to `default_left` whatever `missing_type` says, so that is where
    LightGBM sends a missing value. It needs `objective` and `pandas_categorical` to be there.
    """
    ensemble = model.trees("LightGBM trees for Vespa", "Vespa reads onnx")
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
    columns = range(ensemble.columns)
    texts = (
        _TREE.of(tree, columns, json_numbers(float32_above(tree.thresholds)))
        for tree in ensemble.trees
    )
    trees = ",\n".join(
        f'{{"tree_index":{number},"tree_structure":{text}}}' for number, text in enumerate(texts)
    )
    return f'{json.dumps(head).removesuffix("}")}, "tree_info": [\n{trees}]}}\n'.encode()
