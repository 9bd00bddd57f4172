"""Regression trees as LightGBM decides them, and their thresholds in float32."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.types import Floats, Longs, Marks, Reals

# LightGBM's bits of a decision: categorical, default left, and from bit 2 how NaN is treated.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_MISSING_IS_ZERO, _MISSING_IS_NAN = 1, 2
# LightGBM takes values up to here, on both sides, for 0.
_NEAR_ZERO = np.float32(1e-35)
_BELOW_ZERO = np.nextafter(-_NEAR_ZERO, np.float32(-np.inf))


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree. Nodes 0, 1, ... are the splits, the leaves come behind them; 0 is the root.

    A doc goes left if its value is at most the threshold, compared in float64.
    Values up to 1e-35 on either side of 0 go where 0 goes.

    Attributes:
        features: 0-based column that each split looks at.
        thresholds: threshold of each split.
        missing_left: whether a missing value (NaN) goes left at each split.
        left: node to the left of each split.
        right: node to the right of each split.
        leaf_values: value of each leaf.
    """

    features: Longs
    thresholds: Floats
    missing_left: Marks
    left: Longs
    right: Longs
    leaf_values: Floats

    @property
    def splits(self) -> int:
        """Number of splits; nodes from here on are leaves."""
        return len(self.features)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.splits + len(self.leaf_values)

    @property
    def zero_left(self) -> Marks:
        """Whether the value 0 goes left at each split."""
        return self.thresholds >= 0

    def of_nodes(self, splits: npt.NDArray, leaves: npt.NDArray | None = None) -> npt.NDArray:
        """Return values of all nodes, given those of the splits and of the leaves, or 0 for leaves."""
        zeros = np.zeros(len(self.leaf_values), splits.dtype)
        return np.concatenate([splits, zeros if leaves is None else leaves])


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """The trees of a LightGBM model; a doc's score is the sum of its leaves' values.

    Attributes:
        text: the model in LightGBM's own text format.
    """

    text: str

    @cached_property
    def trees(self) -> tuple[Tree, ...]:
        """The trees, last grown first; an InputError where a split compares no value.

        Engines add them up in float32. The first trees grown agree most on a doc, so partial
        sums stay small, and rounding with them, if those come last.
        """
        header, *blocks = self.text.split("end of trees")[0].split("\nTree=")
        scale = 1 / len(blocks) if "\naverage_output" in header and blocks else 1.0
        return tuple(_read_tree(block, scale) for block in reversed(blocks))

    @property
    def columns(self) -> int:
        """Number of features the model takes."""
        return int(_entry(self.text, "max_feature_idx")) + 1

    @cached_property
    def used(self) -> list[int]:
        """Columns that some split looks at, ascending."""
        return sorted({int(column) for tree in self.trees for column in tree.features})

    @cached_property
    def learned_missing(self) -> list[int]:
        """Columns with a split where a missing value does not go where 0 goes."""
        return sorted(
            {
                int(column)
                for tree in self.trees
                for column in tree.features[tree.missing_left != tree.zero_left]
            }
        )


def _entry(text: str, key: str) -> str:
    for line in text.splitlines():
        if line.startswith(f"{key}="):
            return line[len(key) + 1 :]
    raise InputError(f"the LightGBM model has no entry '{key}'")


def _read_tree(block: str, scale: float) -> Tree:
    lines = (line.partition("=") for line in block.splitlines()[1:])
    entries = {key: value.split() for key, _, value in lines}
    if entries.get("is_linear", ["0"]) != ["0"]:
        raise InputError("the model has linear trees (linear_tree), which this format cannot hold")
    features = np.array(entries.get("split_feature", []), np.int64)
    thresholds = _beyond_zero(np.array(entries.get("threshold", []), np.float64))
    decisions = np.array(entries.get("decision_type", []), np.int64)
    return Tree(
        features,
        thresholds,
        _missing_left(features, thresholds, decisions),
        _nodes(entries.get("left_child", []), len(features)),
        _nodes(entries.get("right_child", []), len(features)),
        np.array(entries["leaf_value"], np.float64) * scale,
    )


def _nodes(children: Sequence[str], splits: int) -> Longs:
    """LightGBM writes leaf j as -j - 1."""
    numbers = np.array(children, np.int64)
    return np.where(numbers >= 0, numbers, splits - 1 - numbers)


def _beyond_zero(thresholds: Floats) -> Floats:
    """Move thresholds among the values that LightGBM takes for 0 to the border of those."""
    near = np.abs(thresholds) <= _NEAR_ZERO
    return np.where(near, np.where(thresholds >= 0, _NEAR_ZERO, _BELOW_ZERO), thresholds)


def _missing_left(features: Longs, thresholds: Floats, decisions: Longs) -> Marks:
    """Where NaN goes: to the default side if training saw NaN there, else to the side of 0."""
    if (categorical := decisions & _CATEGORICAL != 0).any():
        column = features[categorical.argmax()] + 1
        raise InputError(
            f"feature {column} has categorical splits, which this format cannot hold: "
            "only 'lightgbm' can"
        )
    default, kind = decisions & _DEFAULT_LEFT != 0, decisions >> 2
    zero_left = thresholds >= 0
    if (moved := (kind == _MISSING_IS_ZERO) & (zero_left != default)).any():
        column = features[moved.argmax()] + 1
        raise InputError(
            f"feature {column} takes 0 for a missing value (zero_as_missing), "
            "which this format cannot hold: only 'lightgbm' can"
        )
    return np.where(kind == _MISSING_IS_NAN, default, zero_left)


def float32_at_most(thresholds: Floats) -> Reals:
    """Return the largest float32 at most each threshold.

    For every float32 value v, v <= t holds exactly if v <= the returned number.

    >>> float32_at_most(np.array([0.1, 0.5, 1e300])).tolist()
    [0.09999999403953552, 0.5, 3.4028234663852886e+38]
    """
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
        return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)


def float32_above(thresholds: Floats) -> Reals:
    """Return the smallest float32 t' for which v <= t exactly if v < t', for finite float32 v.

    An infinite value goes to the other side where the threshold is infinite.

    >>> float32_above(np.array([0.1, 0.5])).tolist()
    [0.10000000149011612, 0.5000000596046448]
    """
    with np.errstate(over="ignore"):
        return np.nextafter(float32_at_most(thresholds), np.float32(np.inf))


def exact(number: float | np.floating) -> str:
    """Return a float32 number as decimals that give it back whether read as float or double.

    Java and XGBoost may read a double first: its decimals leave nothing to round twice.

    >>> exact(np.float32(0.1))
    '0.10000000149011612'
    """
    return repr(float(np.float32(number)))
