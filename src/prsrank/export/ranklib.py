"""RankLib's model files: LambdaMART for trees, Linear Regression for a linear ranker."""

from prsrank.errors import InputError
from prsrank.export.formats import Exportable, refuse_unlike_zero
from prsrank.export.tree_texts import TreeText, float32_trees, java_float
from prsrank.rankers.scorers import LinearSum, ScoreLayers
from prsrank.rankers.trees import TreeEnsemble, float32_at_most


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
    head = (
        "## LambdaMART\n"
        f"## No. of trees = {len(trees)}\n"
        f"## No. of leaves = {max(len(tree.leaf_values) for tree in trees)}\n"
        "## No. of threshold candidates = -1\n"
        "## Learning rate = 1.0\n"
        "## Stop early = 0\n\n"
    )
    numbers = range(1, ensemble.columns + 1)
    texts = (
        f'\t<tree id="{number}" weight="1.0">\n\t\t<split>\n'
        + _TREE.of(tree, numbers, [*map(java_float, float32_at_most(tree.thresholds))])
        + "\t\t</split>\n\t</tree>\n"
        for number, tree in enumerate(trees, 1)
    )
    return f"{head}<ensemble>\n{''.join(texts)}</ensemble>\n"


_TREE = TreeText(
    leaf="\t\t\t<output> {value} </output>\n",
    before="\t\t\t<feature> {feature} </feature>\n\t\t\t<threshold> {threshold} </threshold>\n"
    '\t\t\t<split pos="left">\n',
    between='\t\t\t</split>\n\t\t\t<split pos="right">\n',
    after="\t\t\t</split>\n",
)


def _linear(model: Exportable, linear: LinearSum) -> str:
    names = model.known_names or tuple(str(number + 1) for number in range(linear.columns))
    refuse_unlike_zero(linear, names, "RankLib")
    pairs = [f"0:{linear.intercept!r}"]
    pairs += [
        f"{number}:{weight!r}" for number, weight in enumerate(linear.raw_weights.tolist(), 1)
    ]
    return "## Linear Regression\n## Lambda = 0.0\n" + " ".join(pairs) + "\n"
