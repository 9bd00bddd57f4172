"""Trees as texts: one walk for all formats that nest them, and leaves for sums in float32."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log2, sqrt
from typing import NamedTuple

import numpy as np

from prsrank.rankers.trees import Tree, TreeEnsemble, exact
from prsrank.types import Reals

# JSON has no infinity; Java's parser makes one of a number beyond float32.
_BEYOND = "1e39"
# Half of the 1e-5 that is promised: a score may come closer to the bound than half of it.
_ALLOWED = 5e-6
_MANTISSA = 2**24


class TreeText(NamedTuple):
    """How a format writes a leaf, and a split before, between and after its two trees.

    In the text of a leaf {node} is its number, {value} what it adds, as decimals of a float32, and
    {double} as those of a float64. In the text before a split's trees {node} and {depth} say where it
    is, {feature} and {threshold} what it compares, {left} and {right} which nodes come next, {missing}
    which of them is next for a missing value, and {side} which of the two `sides` that is.
    """

    leaf: str
    before: str
    between: str
    after: str
    sides: tuple[str, str] = ("left", "right")

    def of(self, tree: Tree, features: Sequence[object], thresholds: Sequence[str]) -> str:
        """Return the text of a tree.

        Args:
            tree: the tree.
            features: what the format calls each column.
            thresholds: the threshold of each split.
        """
        pieces: list[str] = []
        stack: list[str | tuple[int, int]] = [(0, 0)]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                pieces.append(item)
                continue
            node, depth = item
            if node >= tree.splits:
                value = float(tree.leaf_values[node - tree.splits])
                pieces.append(self.leaf.format(node=node, value=exact(value), double=repr(value)))
                continue
            left, right = int(tree.left[node]), int(tree.right[node])
            missing, side = (
                (left, self.sides[0]) if tree.missing_left[node] else (right, self.sides[1])
            )
            place = {"node": node, "depth": depth, "left": left, "right": right, "missing": missing}
            feature, threshold = features[tree.features[node]], thresholds[node]
            text = self.before.format(side=side, feature=feature, threshold=threshold, **place)
            stack += [self.after, (right, depth + 1), self.between, (left, depth + 1), text]
        return "".join(pieces)


def json_numbers(values: Reals) -> list[str]:
    """Return float32 numbers as JSON can hold them, also infinite ones."""
    return [exact(value) if np.isfinite(value) else _BEYOND for value in values]


def java_float(number: np.float32) -> str:
    """Return a number as Java's Float.parseFloat reads it.

    >>> java_float(np.float32(-np.inf)), java_float(np.float32(0.5))
    ('-Infinity', '0.5')
    """
    if np.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return exact(number)


def float32_trees(ensemble: TreeEnsemble) -> tuple[Tree, ...]:
    r"""Return trees whose leaves, added up in this order in float32, give a score to 1e-5.

    Or to a step of float32 at the score, where that is more.
    Each addition rounds by up to half a step of float32 at the partial sum, so the error grows
    with the scores and with the square root of the number of trees. Where it may become too
    large, every tree stands there twice, its leaves $v = f + c$ split at a grid,
    $c = q \, [v / q]$ with $q = 2^{-24} \cdot 2^{\lceil \log_2 \sum_t \max |v_t| \rceil}$. The fine
    leaves $f$ come first, and their sum is so small that its rounding does not count. Sums of
    the coarse ones are float32 numbers: they round only where a partial sum grows past a power
    of two, in all by less than one step of float32 at the largest of them.

    Args:
        ensemble: the trees, small contributions first.
    """
    trees = ensemble.trees
    bound = sum(float(np.abs(tree.leaf_values).max()) for tree in trees)
    if likely_error(len(trees), bound) <= max(_ALLOWED, np.spacing(np.float32(bound))):
        return trees
    grid = 2.0 ** ceil(log2(bound)) / _MANTISSA
    coarse = [np.round(tree.leaf_values / grid) * grid for tree in trees]
    fine = [tree.leaf_values - values for tree, values in zip(trees, coarse, strict=True)]
    twice = zip(trees + trees, fine + coarse, strict=True)
    return tuple(replace(tree, leaf_values=values) for tree, values in twice)


def likely_error(trees: int, bound: float) -> float:
    """Return three standard deviations of a float32 sum's rounding.

    Roundings are uniform over a step of float32. A large score is about half the bound, the
    sum of every tree's largest leaf, and a partial sum on the way to it half of that.

    >>> f"{likely_error(150, 12):.1e}, {likely_error(500, 40):.1e}"
    '2.5e-06, 1.8e-05'
    """
    return 3 * sqrt(trees / 12) * float(np.spacing(np.float32(bound / 2))) / 2
