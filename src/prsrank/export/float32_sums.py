"""Trees for programs that add up leaves in float32."""

from dataclasses import replace
from math import ceil, log2, sqrt

import numpy as np

from prsrank.rankers.trees import Tree, TreeEnsemble

# Half of the 1e-5 that is promised: a score may come closer to the bound than half of it.
_ALLOWED = 5e-6
_MANTISSA = 2**24


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
