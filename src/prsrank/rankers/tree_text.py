"""LightGBM's text of a model, checked before LightGBM reads it.

LightGBM trusts what it reads: a wrong count or child makes it write past its arrays, or walk a
tree for ever. So every line must be one that LightGBM writes, every array as long as the counts
say, and every tree a tree.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from prsrank.errors import InputError
from prsrank.types import Longs

_COUNT = r"\d{1,9}"
_INDEX = r"-?\d{1,9}"
_NUMBER = r"-?\d{1,400}(?:\.\d{1,400})?(?:e[+-]?\d{1,3})?"
# a split on missing values alone has the threshold inf
_THRESHOLD = rf"{_NUMBER}|-?inf"
_MEASURE = rf"{_NUMBER}|-?inf|-?nan"
_TYPES = {_COUNT: np.int64, _INDEX: np.int64, _NUMBER: np.float64, _THRESHOLD: np.float64}
_OBJECTIVE = r"(?:custom|regression|lambdarank|rank_xendcg)(?: \w+:[\w.]+)*"
_INFO = rf"none|\[{_NUMBER}:{_NUMBER}\]|{_INDEX}(?::{_INDEX})*"

# The lines `key=values`: what a value looks like, and how many there are of what.
_HEADER = {
    "version": ("v[34]", "one"),
    "num_class": ("1", "one"),
    "num_tree_per_iteration": ("1", "one"),
    "label_index": (_COUNT, "one"),
    "max_feature_idx": (_COUNT, "one"),
    "objective": (_OBJECTIVE, "text"),
    "feature_names": (r"\S+", "features"),
    "monotone_constraints": ("-1|0|1", "features"),
    "feature_infos": (_INFO, "features"),
    "tree_sizes": (_COUNT, "trees"),
}
_TREE = {
    "num_leaves": (_COUNT, "one"),
    "num_cat": (_COUNT, "one"),
    "split_feature": (_COUNT, "splits"),
    "split_gain": (_MEASURE, "splits"),
    "threshold": (_THRESHOLD, "splits"),
    "decision_type": (_COUNT, "splits"),
    "left_child": (_INDEX, "splits"),
    "right_child": (_INDEX, "splits"),
    "leaf_value": (_NUMBER, "leaves"),
    "leaf_weight": (_MEASURE, "leaves or none"),
    "leaf_count": (_INDEX, "leaves or none"),
    "internal_value": (_MEASURE, "splits"),
    "internal_weight": (_MEASURE, "splits"),
    "internal_count": (_INDEX, "splits"),
    "cat_boundaries": (_COUNT, "bounds"),
    "cat_threshold": (r"\d{1,10}", "words"),
    "is_linear": ("[01]", "one"),
    "leaf_const": (_NUMBER, "leaves"),
    "num_features": (_COUNT, "leaves"),
    "leaf_features": (_COUNT, "terms"),
    "leaf_coeff": (_NUMBER, "terms"),
    "shrinkage": (_NUMBER, "one"),
}
_CATEGORICAL = ("cat_boundaries", "cat_threshold")
_LINEAR = ("leaf_const", "num_features", "leaf_features", "leaf_coeff")
_OPTIONAL = ("objective", "monotone_constraints", *_CATEGORICAL, *_LINEAR)
_END = b"end of trees\n"
_AFTER = re.compile(
    r"\n*(?:feature_importances:\n(?:\S+=\d+\n)*)?"
    r"\n*(?:parameters:\n(?:\[\w+: [^\]\n]*\]\n)*\n*end of parameters\n)?"
    r"\n*(?:pandas_categorical:(?:null|\[\])\n)?",
    re.ASCII,
)
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_CATEGORICAL_SPLIT = 1
_DECISIONS = 12  # two bits, and three ways to treat what is missing

Fields = Mapping[str, tuple[str, str]]
Entries = Mapping[str, Any]  # arrays of numbers, or lists of other words


def check_model_text(text: str) -> int:
    r"""Check the text of a model; return the number of features that it takes.

    Raises:
        InputError: naming the line or tree that cannot be.

    >>> check_model_text("tree\nversion=v4\n")
    Traceback (most recent call last):
    prsrank.errors.InputError: the LightGBM model has no line 'tree_sizes='
    """
    if _CONTROL.search(text):  # a NUL would end the text for LightGBM
        raise InputError("the LightGBM model holds control characters")
    start = re.search(r"\ntree_sizes=[^\n]*\n+", text)
    if start is None:
        raise InputError("the LightGBM model has no line 'tree_sizes='")
    lines = [line for line in text[: start.end()].split("\n") if line]
    if lines[0] != "tree":
        raise InputError("the LightGBM model does not begin with 'tree'")
    header = _entries([line for line in lines[1:] if line != "average_output"], _HEADER, "header")
    single = {"max_feature_idx": header["max_feature_idx"]}
    _check_lengths(single, _HEADER, {"one": 1}, "header")
    features = int(header["max_feature_idx"][0]) + 1
    sizes = [int(size) for size in header["tree_sizes"]]
    lengths = {"one": 1, "features": features, "trees": len(sizes)}
    _check_lengths(header, _HEADER, lengths, "header")
    rest = text[start.end() :].encode()
    for number, block in enumerate(_blocks(rest, sizes)):
        _check_tree(block, number, features)
    if _AFTER.fullmatch(rest[sum(sizes) + len(_END) :].decode(errors="replace")) is None:
        raise InputError("the LightGBM model has lines of no known kind after its trees")
    return features


def _blocks(text: bytes, sizes: Sequence[int]) -> Iterator[list[str]]:
    """Yield the lines of each tree, cut by the sizes as LightGBM cuts them."""
    at = 0
    for number, size in enumerate(sizes):
        block, at = text[at : at + size], at + size
        first, *lines = block.decode(errors="replace").split("\n")
        if first != f"Tree={number}" or not block.endswith(b"\n"):
            raise InputError(f"tree {number} of the LightGBM model is not where tree_sizes says")
        # LightGBM stops reading a tree at an empty line, and may abort for what it then lacks
        lines = "\n".join(lines).rstrip("\n").split("\n")
        if "" in lines:
            raise InputError(f"tree {number} of the LightGBM model has an empty line")
        yield lines
    if not text[at:].startswith(_END):
        raise InputError("the trees of the LightGBM model do not end where tree_sizes says")


def _entries(lines: Sequence[str], fields: Fields, where: str) -> Entries:
    """Return the values of each line by its key: all known, none twice, none missing."""
    entries: dict[str, Any] = {}
    for line in lines:
        key, equals, text = line.partition("=")
        if not equals or key not in fields or key in entries:
            raise InputError(f"{where} of the LightGBM model has an unknown line '{line[:40]}'")
        value = fields[key][0]
        if re.fullmatch(rf" *(?:(?:{value})(?: +(?:{value}))*)? *", text, re.ASCII) is None:
            raise InputError(f"{where} of the LightGBM model: {key} cannot be '{text[:40]}'")
        entries[key] = text.split()
        if value in _TYPES:
            entries[key] = np.array(entries[key], _TYPES[value])
            if np.isinf(entries[key]).sum() != text.count("inf"):
                raise InputError(f"{where} of the LightGBM model: {key} is not finite")
    missing = [key for key in fields if key not in entries and key not in _OPTIONAL]
    if missing:
        raise InputError(f"{where} of the LightGBM model has no line '{missing[0]}='")
    return entries


def _check_lengths(
    entries: Entries, fields: Fields, lengths: Mapping[str, int], where: str
) -> None:
    for key, values in entries.items():
        of, _, none = fields[key][1].partition(" or ")
        if of != "text" and len(values) != lengths[of] and (len(values) or not none):
            raise InputError(
                f"{where} of the LightGBM model: {key} has {len(values)} values where "
                f"{lengths[of]} belong"
            )


def _check_tree(lines: Sequence[str], number: int, features: int) -> None:
    where = f"tree {number}"
    entries = _entries(lines, _TREE, where)
    single = ("num_leaves", "num_cat", "is_linear")
    _check_lengths({key: entries[key] for key in single}, _TREE, {"one": 1}, where)
    leaves, sets, linear = (int(entries[key][0]) for key in single)
    for keys, there in ((_CATEGORICAL, sets), (_LINEAR, linear)):
        if any((key in entries) != bool(there) for key in keys):
            raise InputError(f"{where} of the LightGBM model: {', '.join(keys)} do not belong")
    if leaves < 1:
        raise InputError(f"{where} of the LightGBM model has no leaf")
    bounds = entries.get("cat_boundaries", np.zeros(1, np.int64))
    lengths = {"one": 1, "leaves": leaves, "splits": leaves - 1, "bounds": sets + 1}
    lengths["words"] = int(bounds[-1]) if len(bounds) else 0
    lengths["terms"] = int(np.sum(entries.get("num_features", 0)))
    _check_lengths(entries, _TREE, lengths, where)
    problem = _wrong_split(entries, features, bounds) or _no_tree(
        entries["left_child"], entries["right_child"]
    )
    if problem:
        raise InputError(f"{where} of the LightGBM model: {problem}")


def _wrong_split(entries: Entries, features: int, bounds: Longs) -> str:
    for key in ("split_feature", "leaf_features"):
        if np.any(entries.get(key, 0) >= features):
            return f"{key} names a feature beyond the {features} that there are"
    decisions = entries["decision_type"]
    if (decisions >= _DECISIONS).any():
        return f"decision_type {decisions.max()} is unknown"
    if bounds[0] != 0 or (np.diff(bounds) < 0).any():
        return "cat_boundaries do not rise from 0"
    chosen = entries["threshold"][decisions & _CATEGORICAL_SPLIT != 0]
    # the threshold of such a split is the number of its set of categories
    if not np.isin(chosen, np.arange(len(bounds) - 1)).all():
        return "a categorical split names a set that there is not"
    return ""


def _no_tree(left: Longs, right: Longs) -> str:
    """Say what keeps the children from being a tree: LightGBM writes leaf j as -j - 1."""
    splits = len(left)
    children, parents = np.concatenate([left, right]), np.tile(np.arange(splits), 2)
    wanted = np.concatenate([np.arange(-splits - 1, 0), np.arange(1, splits)])
    if splits and not np.array_equal(np.sort(children), wanted):
        return "its children are not every leaf and every split but the first once"
    # a split is numbered when it is made, after its parent: so no way leads back
    if ((children >= 0) & (children <= parents)).any():
        return "a split has a child that comes before it"
    return ""
