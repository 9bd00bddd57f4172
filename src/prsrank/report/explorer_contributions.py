"""How much each feature adds to a doc's score: exact, by what the ranker computes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.rankers.scorers import LinearSum
from prsrank.rankers.trees import TreeEnsemble
from prsrank.threads import thread_count
from prsrank.types import Floats, Longs

if TYPE_CHECKING:
    from prsrank.rankers.base import Ranker


def contributions(ranker: "Ranker", features: npt.ArrayLike) -> Floats | None:
    """Return what each feature adds to each doc's score (docs x features); None for a net.

    With a constant that is the same for all docs they add up to the score: those of trees are
    LightGBM's own (TreeSHAP), those of a linear ranker weight times standardised value.

    Args:
        ranker: a fitted ranker.
        features: in its order, one row per doc.
    """
    try:
        scorer = ranker.scorer()
    except InputError:
        return None
    add_up = _OF_SCORER.get(type(scorer))
    return None if add_up is None else add_up(scorer, np.asarray(features))


def most_used(values: Floats, count: int) -> Longs:
    """Return the features whose contributions differ most between docs, most used first.

    A contribution that all docs have alike moves none of them.

    >>> most_used(np.array([[5.0, 1.0, 0.0], [5.0, -1.0, 3.0]]), 2).tolist()
    [2, 1]
    """
    return np.argsort(-values.std(axis=0), kind="stable")[:count]


def _of_trees(scorer: TreeEnsemble, features: npt.NDArray) -> Floats:
    import lightgbm

    booster = lightgbm.Booster(model_str=scorer.text)
    parts = booster.predict(features, pred_contrib=True, num_threads=thread_count(None))
    return np.asarray(parts)[:, :-1]  # the last column is the constant


def _of_weights(scorer: LinearSum, features: npt.NDArray) -> Floats:
    parts = scorer.scaling.transform(features) * scorer.weights
    total = parts[:, : scorer.columns]
    # that a value is missing counts for its feature
    total[:, scorer.scaling.indicators] += parts[:, scorer.columns :]
    return total


_OF_SCORER: dict[type, Callable[[Any, npt.NDArray], Floats]] = {
    TreeEnsemble: _of_trees,
    LinearSum: _of_weights,
}
