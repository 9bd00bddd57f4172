import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import lightgbm
import numpy as np
import pytest

from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.base import load_ranker
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.tree_text import check_model_text

_SETTINGS = {
    "plain": {},
    "lambdarank": {"objective": "lambdarank"},
    "linear": {"linear_tree": True, "min_data_in_leaf": 40},
    "categorical": {"min_data_per_group": 1, "cat_smooth": 1, "max_cat_to_onehot": 1},
    "forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "dart": {"boosting": "dart"},
    "monotone": {"monotone_constraints": [1, 0, 0, 0]},
    "one leaf": {"min_data_in_leaf": 10_000},
}


def model_text(kind: str) -> str:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4))
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 3] = rng.integers(0, 40, 600)
    y = np.digitize(np.nan_to_num(x[:, 0] * x[:, 1]) + (x[:, 3] % 3 == 1), (0.5, 1.5))
    data = lightgbm.Dataset(
        x, y, group=[20] * 30, categorical_feature=[3] if kind == "categorical" else []
    )
    options = {"objective": "regression", "num_leaves": 6, "verbose": -1, "num_threads": 1}
    return lightgbm.train(options | _SETTINGS[kind], data, 3).model_to_string()


@pytest.mark.parametrize("kind", _SETTINGS)
def test_what_lightgbm_writes_is_taken(kind):
    text = model_text(kind)
    assert check_model_text(text) == 4
    # as it is after a Booster has read it
    assert check_model_text(lightgbm.Booster(model_str=text).model_to_string()) == 4
    marks = {"linear": "is_linear=1", "categorical": "cat_boundaries=", "forest": "average_output"}
    assert marks.get(kind, "tree") in text


_DEFECTS = {
    "a child beyond the splits": (r"(left_child=)\S+", r"\g<1>400", "every leaf and every split"),
    "a child of two": (r"(right_child=)(\S+) \S+", r"\1\2 \2", "every leaf and every split"),
    "a leaf beyond": (r"(left_child=.*?)-1\b", r"\1-77", "every leaf and every split"),
    "fewer leaves": (r"num_leaves=6", "num_leaves=5", "values where"),
    "no leaves": (r"num_leaves=6", "num_leaves=0", "has no leaf"),
    "many leaves": (r"num_leaves=6", "num_leaves=99999999", "values where"),
    "a feature beyond": (r"(split_feature=)\d", r"\g<1>4", "beyond the 4"),
    "more features": (r"max_feature_idx=3", "max_feature_idx=9", "feature_names has 4 values"),
    "no number of features": (r"max_feature_idx=3", "max_feature_idx=", "idx has 0 values where 1"),
    "a threshold past float64": (r"(threshold=)\S+", r"\g<1>1e999", "threshold cannot|not finite"),
    "a leaf that is no number": (r"(leaf_value=)\S+", r"\1nan", "leaf_value cannot be"),
    "a decision of no kind": (r"(decision_type=)\d+", r"\g<1>12", "decision_type 12"),
    "a categorical split": (r"(decision_type=)\d+", r"\g<1>1", "names a set that there is not"),
    "categories without any": (r"num_cat=0", "num_cat=3", "cat_boundaries, cat_threshold"),
    "linear without terms": (r"is_linear=0", "is_linear=1", "leaf_const"),
    "an unknown line": (r"(shrinkage=\S+)", r"\1\nplugin=x.so", "unknown line|tree_sizes"),
    "an empty line": (r"(num_cat=0)", r"\n\1", "has an empty line"),
    "a line twice": (r"(num_cat=0)", r"\1\n\1", "unknown line|tree_sizes"),
    "a longer tree": (r"tree_sizes=\d+", "tree_sizes=400", "tree_sizes says"),
    "a huge tree": (r"tree_sizes=\d+", "tree_sizes=999999999", "has an empty line"),
    "a parser": (r"\nend of parameters", "\nend of parameters\nparser:\nx", "no known kind"),
    "several classes": (r"num_class=1", "num_class=3", "num_class cannot be"),
    "an objective of no use here": (r"objective=\w+", "objective=multiclass", "objective cannot"),
    "a NUL": (r"feature_names=C", "feature_names=\0", "control characters"),
    "a digit that is none of ours": (r"num_leaves=6", "num_leaves=\uff16", "num_leaves cannot|size"),
}  # fmt: skip


@pytest.mark.parametrize("defect", _DEFECTS)
def test_defects_are_named(defect):
    pattern, new, message = _DEFECTS[defect]
    text = model_text("plain")
    changed = re.sub(pattern, new, text, count=1)
    assert changed != text
    with pytest.raises(InputError, match=message) as raised:
        check_model_text(_with_sizes(changed) if "tree_sizes" not in pattern else changed)
    assert "\n" not in str(raised.value)


def test_a_split_on_missing_values_alone_has_an_infinite_threshold(tmp_path):
    """LightGBM writes it so where a feature tells docs apart by being there only."""
    data = synthetic_dataset("mq2007", 20)
    noise = np.random.default_rng(0).normal(size=(data.docs, 1))
    features = np.where(data.labels[:, None] > 0, np.nan, noise).astype(np.float32)
    lists = replace(data, features=features, feature_names=("a",))
    ranker = LambdaMART(trees=3, min_docs_in_leaf=5)
    ranker.fit(lists, PairSet.from_labels(lists, **ranker.pair_options)).save(tmp_path / "m")
    assert " inf" in (tmp_path / "m" / "model.txt").read_text().replace("=", " ")
    again = load_ranker(tmp_path / "m").score(features)
    assert again.tolist() == ranker.score(features).tolist()


def _with_sizes(text: str) -> str:
    """Put tree_sizes right, so that only the defect itself is left."""
    blocks = re.findall(r"Tree=\d+\n.*?\n\n\n", text, flags=re.DOTALL)
    sizes = " ".join(str(len(block.encode())) for block in blocks)
    return re.sub(r"tree_sizes=.*", f"tree_sizes={sizes}", text)


def test_a_cycle_beside_the_root_is_no_tree():
    # splits 1 and 2 are each other's children, and the root has two leaves: all appear once
    text = model_text("plain")
    changed = re.sub(r"left_child=.*", "left_child=-1 2 1 -2 -3", text, count=1)
    changed = re.sub(r"right_child=.*", "right_child=3 -4 4 -5 -6", changed, count=1)
    with pytest.raises(InputError, match="a child that comes before it"):
        check_model_text(_with_sizes(changed))


def test_sets_of_categories_must_fit():
    text = model_text("categorical")
    for pattern, new, message in (
        (r"(cat_boundaries=0) \d+", r"\1 99", "values where"),
        (r"(cat_boundaries=)0", r"\g<1>7", "do not rise from 0"),
        (r"(num_cat=)\d+", r"\g<1>9", "values where"),
    ):
        with pytest.raises(InputError, match=message):
            check_model_text(_with_sizes(re.sub(pattern, new, text, count=1)))


def saved_model(folder: Path, parameters: dict | None = None) -> Path:
    data = synthetic_dataset("mq2007", 20)
    ranker = LambdaMART(trees=4, leaves=8, min_docs_in_leaf=5, parameters=parameters)
    ranker.fit(data, PairSet.from_labels(data, **ranker.pair_options)).save(folder)
    return folder


def test_the_card_and_the_trees_must_agree_on_the_features(tmp_path):
    folder = saved_model(tmp_path / "model")
    card = json.loads((folder / "ranker.json").read_text())
    card["learned"]["feature_names"].pop()
    (folder / "ranker.json").write_text(json.dumps(card))
    with pytest.raises(InputError, match="its checksum differs"):
        load_ranker(folder)
    del card["checksum"]
    (folder / "ranker.json").write_text(json.dumps(card))
    with pytest.raises(InputError, match="do not take 45 features"):
        load_ranker(folder)


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{}, {"linear_tree": True}, {"boosting": "dart"}])
def test_altered_trees_never_bring_the_process_down(parameters, tmp_path):
    folder = saved_model(tmp_path / "model", parameters)
    script = Path(__file__).with_name("fuzz_models.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder), "2500", "1"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    counts = json.loads(done.stdout.splitlines()[-1])  # LightGBM's warnings come before
    assert set(counts) <= {"0", "2"}, done.stderr
    assert counts["2"] > 1250
