from types import SimpleNamespace

import numpy as np
import pytest

from prsrank.export.tree_texts import float32_trees
from prsrank.rankers.trees import Tree

LEAVES = 15


def ensemble(trees: int, size: float):
    """Trees of which only the leaves matter here; each doc says at which leaf it ends."""
    rng = np.random.default_rng(0)
    none = np.zeros(0, np.int64)
    leaves = rng.uniform(-size, size, (trees, LEAVES))
    leaves.sort(axis=1)
    made = [Tree(none, np.zeros(0), np.zeros(0, bool), none, none, values) for values in leaves]
    return SimpleNamespace(trees=tuple(made))


def docs(trees: int, count: int = 5000) -> np.ndarray:
    """The leaf of each doc in each tree: docs lean to high leaves, to low ones or to neither."""
    rng = np.random.default_rng(1)
    lean = rng.uniform(-1, 1, (count, 1))
    return np.clip(rng.normal(7 + 7 * lean, 4, (count, trees)).round(), 0, LEAVES - 1).astype(int)


def sums(trees, leaves, dtype):
    total = np.zeros(len(leaves), dtype)
    for number, tree in enumerate(trees):
        total += tree.leaf_values[leaves[:, number % leaves.shape[1]]].astype(dtype)
    return total


@pytest.mark.parametrize(("count", "size"), [(500, 0.1), (500, 0.3), (3000, 0.05)])
def test_split_leaves_add_up_to_a_step_of_float32(count, size):
    made, leaves = ensemble(count, size), docs(count)
    exact = sums(made.trees, leaves, np.float64)
    whole = np.abs(sums(made.trees, leaves, np.float32) - exact)
    assert whole.max() > 1e-5  # what the split is for
    split = float32_trees(made)
    assert len(split) == 2 * count
    assert np.abs(sums(split, leaves, np.float64) - exact).max() < 1e-12
    error = np.abs(sums(split, leaves, np.float32) - exact)
    assert (error <= np.spacing(np.abs(exact).max().astype(np.float32))).all()


@pytest.mark.parametrize(("count", "size"), [(100, 0.1), (150, 0.08), (1, 1000.0)])
def test_few_trees_are_left_as_they_are(count, size):
    made, leaves = ensemble(count, size), docs(count)
    assert float32_trees(made) is made.trees
    exact = sums(made.trees, leaves, np.float64)
    error = np.abs(sums(made.trees, leaves, np.float32) - exact)
    assert error.max() < max(1e-5, np.spacing(np.float32(size)))
