"""The learning-to-rank plugins of Elasticsearch and OpenSearch: the body of _createmodel."""

import json
import warnings
from typing import Any

import numpy as np

from prsrank.errors import DataWarning, InputError
from prsrank.export.formats import Exportable, refuse_unlike_zero
from prsrank.export.tree_texts import TreeText, float32_trees, json_numbers
from prsrank.rankers.scorers import LinearSum, ScoreLayers
from prsrank.rankers.trees import TreeEnsemble, float32_above


def write_createmodel(model: Exportable) -> bytes:
    """Return the body of POST _ltr/_featureset/SET/_createmodel.

    Trees become `model/xgboost+json`, which goes left below a threshold in float32, a linear
    ranker `model/linear` with a standard normaliser for each feature.
    """
    if isinstance(model.scorer, ScoreLayers):
        raise model.refusal(
            "Elasticsearch or OpenSearch LTR model", "the plugins have no neural nets; use onnx"
        )
    parts = (
        _trees(model, model.scorer)
        if isinstance(model.scorer, TreeEnsemble)
        else _linear(model, model.scorer)
    )
    return json.dumps({"model": {"name": model.name, "model": parts}}, indent=1).encode()


def _trees(model: Exportable, ensemble: TreeEnsemble) -> dict[str, Any]:
    names = model.feature_names
    if ensemble.learned_missing:
        warnings.warn(
            f"missing values of {model.named(ensemble.learned_missing)} have a side of their own: it is written as "
            "'missing', which the plugins heed since 2024 (Elasticsearch) and July 2026 "
            "(OpenSearch)",
            DataWarning,
            stacklevel=4,
        )
    quoted = [json.dumps(name) for name in names]
    splits = ",".join(
        _TREE.of(tree, quoted, json_numbers(float32_above(tree.thresholds)))
        for tree in float32_trees(ensemble)
    )
    return {
        "type": "model/xgboost+json",
        "definition": f'{{"objective":"rank:pairwise","splits":[{splits}]}}',
    }


_TREE = TreeText(
    leaf='{{"nodeid":{node},"leaf":{value}}}',
    before='{{"nodeid":{node},"depth":{depth},"split":{feature},"split_condition":{threshold},'
    '"yes":{left},"no":{right},"missing":{missing},"children":[',
    between=",",
    after="]}",
)


def _linear(model: Exportable, linear: LinearSum) -> dict[str, Any]:
    names = model.feature_names
    refuse_unlike_zero(linear, names, "the plugin")
    weights = linear.weights[: linear.columns].tolist()
    return {
        "type": "model/linear",
        "definition": json.dumps(dict(zip(names, weights, strict=True))),
        "feature_normalizers": {
            name: {"standard": {"mean": mean, "standard_deviation": deviation}}
            for name, mean, deviation in zip(names, *float32_scaling(linear, names), strict=True)
        },
    }


def float32_scaling(
    scorer: LinearSum | ScoreLayers, names: tuple[str, ...]
) -> tuple[list[float], list[float]]:
    """Return means and standard deviations as an engine keeps them, in float32.

    A deviation that is 0 or infinite there is an InputError.
    """
    with np.errstate(over="ignore"):
        mean, scale = (
            values.astype(np.float32) for values in (scorer.scaling.mean, scorer.scaling.scale)
        )
    broken = ~(np.isfinite(mean) & np.isfinite(scale) & (scale > 0))
    if broken.any():
        column = int(broken.argmax())
        raise InputError(
            f"feature '{names[column]}' has mean {scorer.scaling.mean[column]:g} and standard "
            f"deviation {scorer.scaling.scale[column]:g}, which float32 cannot hold"
        )
    return mean.tolist(), scale.tolist()
