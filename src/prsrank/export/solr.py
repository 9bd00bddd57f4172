"""Solr's learning-to-rank module: the body of PUT schema/model-store."""

import json
import warnings
from functools import cache
from typing import Any

import numpy as np

from prsrank.errors import DataWarning
from prsrank.export.elasticsearch import float32_scaling
from prsrank.export.formats import Exportable, refuse_unlike_zero
from prsrank.export.tree_texts import TreeText, float32_trees, java_float
from prsrank.rankers.scorers import LinearSum, ScoreLayers
from prsrank.rankers.trees import Tree, TreeEnsemble, float32_at_most

_MODEL = "org.apache.solr.ltr.model."
_NORMALISER = "org.apache.solr.ltr.norm.StandardNormalizer"
# Solr adds this to every threshold, in float32.
_SLACK = np.float32(1e-6)


def write_solr(model: Exportable) -> bytes:
    """Return a MultipleAdditiveTreesModel, LinearModel or NeuralNetworkModel."""
    if isinstance(model.scorer, TreeEnsemble):
        return _trees(model, model.scorer).encode()
    refuse_unlike_zero(model.scorer, model.feature_names, "Solr")
    if isinstance(model.scorer, LinearSum):
        return json.dumps(_linear(model, model.scorer), indent=1).encode()
    return json.dumps(_net(model, model.scorer), indent=1).encode()


def _head(model: Exportable, kind: str, features: list[dict[str, Any]]) -> dict[str, Any]:
    return {"class": _MODEL + kind, "name": model.name, "features": features}


def _standardised(model: Exportable, scorer: LinearSum | ScoreLayers) -> list[dict[str, Any]]:
    names = model.feature_names
    return [
        {
            "name": name,
            "norm": {"class": _NORMALISER, "params": {"avg": repr(mean), "std": repr(deviation)}},
        }
        for name, mean, deviation in zip(names, *float32_scaling(scorer, names), strict=True)
    ]


def _linear(model: Exportable, linear: LinearSum) -> dict[str, Any]:
    weights = dict(zip(model.feature_names, linear.weights[: linear.columns].tolist(), strict=True))
    head = _head(model, "LinearModel", _standardised(model, linear))
    return head | {"params": {"weights": weights}}


def _net(model: Exportable, net: ScoreLayers) -> dict[str, Any]:
    if net.signed_log:
        raise model.refusal(
            "Solr NeuralNetworkModel",
            "its net sees sign(z) log(1 + |z|) of each standardised feature z, and Solr has no "
            "normaliser for that; train it with log_tails=False, or use onnx",
        )
    last = len(net.layers) - 1
    layers = [
        {
            "matrix": weight[:, : net.columns].tolist() if level == 0 else weight.tolist(),
            "bias": bias.tolist(),
            "activation": "identity" if level == last else "relu",
        }
        for level, (weight, bias) in enumerate(net.layers)
    ]
    head = _head(model, "NeuralNetworkModel", _standardised(model, net))
    return head | {"params": {"layers": layers}}


def _trees(model: Exportable, ensemble: TreeEnsemble) -> str:
    names = model.feature_names
    used = [{"name": names[column]} for column in ensemble.used or [0]]
    head = _head(model, "MultipleAdditiveTreesModel", used)
    null_is_zero = not ensemble.learned_missing
    if not null_is_zero:
        warnings.warn(
            "missing values have a side of their own: this needs Solr 9.2, and "
            '"defaultValue": "NaN" in the feature store for '
            f"{model.named(ensemble.learned_missing)}",
            DataWarning,
            stacklevel=3,
        )
    quoted, text = [json.dumps(name) for name in names], _TREES[not null_is_zero]
    trees = ",\n".join(
        f'{{"weight":"1.0","root":{text.of(tree, quoted, _thresholds(tree))}}}'
        for tree in float32_trees(ensemble)
    )
    params = "{" + ("" if null_is_zero else '"isNullSameAsZero":false,') + f'"trees":[\n{trees}]}}'
    return json.dumps(head, indent=1).removesuffix("\n}") + f',\n "params": {params}\n}}\n'


def _thresholds(tree: Tree) -> list[str]:
    return [java_float(less_slack(value)) for value in float32_at_most(tree.thresholds)]


# without a text of missing values, and with one
_TREES = tuple(
    TreeText(
        leaf='{{"value":"{value}"}}',
        before='{{"feature":{feature},"threshold":"{threshold}",' + missing + '"left":',
        between=',"right":',
        after="}",
    )
    for missing in ("", '"missing":"{side}",')
)


@cache
def less_slack(threshold: np.float32) -> np.float32:
    """Return a float32 that Solr's slack of 1e-6 lifts up to a threshold and not above it.

    The sum in float32 is the threshold itself or, where no float32 gives it, the next lower
    sum: rarely, and then one step of float32 lower, for thresholds beyond 2e-6; as a rule, and
    up to 2.4e-13 lower, for those nearer to 0. The side of 0 is always kept.

    >>> float(less_slack(np.float32(0.5)) + np.float32(1e-6))
    0.5
    >>> float(less_slack(np.float32(1e-35)) + np.float32(1e-6))
    0.0
    """
    low, high = np.float32(-np.inf), np.float32(np.inf)
    lowered = np.float32(threshold - _SLACK)
    while lowered > low and lowered + _SLACK > threshold:
        lowered = np.nextafter(lowered, low)
    while lowered + _SLACK < threshold:
        raised = np.nextafter(lowered, high)
        if raised + _SLACK > threshold:
            break
        lowered = raised
    return lowered
