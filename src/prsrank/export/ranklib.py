"""RankLib's model files: LambdaMART for trees, Linear Regression for a linear ranker."""

import numpy as np

from prsrank.errors import InputError
from prsrank.export.exportable import Exportable, refuse_unlike_zero
from prsrank.export.float32_sums import float32_trees
from prsrank.rankers.scorers import LinearSum, ScoreLayers
from prsrank.rankers.trees import Tree, TreeEnsemble, exact, float32_at_most, nested


def write_ranklib(model: Exportable) -> bytes:
    """Return a model that RankLib loads; its features are the columns' numbers from 1.

    RankLib goes left at or below a threshold in float32 and scores a missing value as 0.
    """
    if isinstance(model.scorer, ScoreLayers):
        raise model.refusal("RankLib model", "its nets have other layers; use onnx")
    if isinstance(model.scorer, LinearSum):
        return _linear(model, model.scorer).encode()
    return _trees(model, model.scorer).encode()


def _trees(model: Exportable, ensemble: TreeEnsemble) -> str:
    if ensemble.learned_missing:
        column = ensemble.learned_missing[0]
        name = model.known_names[column] if model.known_names else str(column + 1)
        raise InputError(
            f"missing values of feature '{name}' have a side of their own, and RankLib scores "
            "a missing value as 0: use xgboost, elasticsearch, opensearch, solr or onnx"
        )
    trees = float32_trees(ensemble)
    lines = [
        "## LambdaMART",
        f"## No. of trees = {len(trees)}",
        f"## No. of leaves = {max(len(tree.leaf_values) for tree in trees)}",
        "## No. of threshold candidates = -1",
        "## Learning rate = 1.0",
        "## Stop early = 0",
        "",
        "<ensemble>",
    ]
    for number, tree in enumerate(trees, 1):
        lines += [f'\t<tree id="{number}" weight="1.0">', "\t\t<split>", *_tree(tree)]
        lines += ["\t\t</split>", "\t</tree>"]
    return "\n".join([*lines, "</ensemble>", ""])


def _tree(tree: Tree) -> list[str]:
    thresholds = float32_at_most(tree.thresholds)

    def leaf(node: int) -> str:
        return f"\t\t\t<output> {exact(tree.leaf_values[node - tree.splits])} </output>"

    def split(node: int, depth: int) -> tuple[str, str, str]:
        before = (
            f"\t\t\t<feature> {tree.features[node] + 1} </feature>\n"
            f"\t\t\t<threshold> {java_float(thresholds[node])} </threshold>\n"
            '\t\t\t<split pos="left">'
        )
        return before, '\t\t\t</split>\n\t\t\t<split pos="right">', "\t\t\t</split>"

    return list(nested(tree, leaf, split))


def java_float(number: np.float32) -> str:
    """Return a number as Java's Float.parseFloat reads it.

    >>> java_float(np.float32(-np.inf)), java_float(np.float32(0.5))
    ('-Infinity', '0.5')
    """
    if np.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return exact(number)


def _linear(model: Exportable, linear: LinearSum) -> str:
    names = model.known_names or tuple(str(number + 1) for number in range(linear.columns))
    refuse_unlike_zero(linear, names, "RankLib")
    pairs = [f"0:{linear.intercept!r}"]
    pairs += [
        f"{number}:{weight!r}" for number, weight in enumerate(linear.raw_weights.tolist(), 1)
    ]
    return "## Linear Regression\n## Lambda = 0.0\n" + " ".join(pairs) + "\n"
