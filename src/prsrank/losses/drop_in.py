"""Lambda gradients of weighted pairs for other trainers: LightGBM and XGBoost."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.losses.lambdas import LambdaObjective
from prsrank.losses.ranked_objective import Gradients
from prsrank.pairs.pair_set import PairSet


def prs_objective(
    pairs: PairSet,
    *,
    sigma: float = 1.0,
    truncation: int | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Callable[[npt.NDArray, Any], Gradients]:
    r"""Return an objective for `lightgbm.train` and `xgboost.train(obj=...)`.

    Its gradients are those of `LambdaMART`:
    $\lambda_{ij} = -\sigma W_{ij} |\Delta Z_{ij}| / (1 + e^{\sigma (s_i - s_j)})$, the metric Z
    being the one that the pairs were made for (`normalise="ndcg"` or `"arp"`).

    Args:
        pairs: pairs over the rows of the training matrix, in the data set's order.
        sigma: steepness of the logistic function.
        truncation: only pairs with a doc in the top ranks count; None: all.
        seed: of the order in which tied docs count as ranked.
        threads: default one per core.

    Raises:
        InputError: when it is called as `LGBMRanker` and other scikit-learn wrappers call an
            objective, with labels where the scores belong; or with scores of other docs.

    >>> from prsrank.data.dataset import RankingDataset
    >>> data = RankingDataset(np.eye(2), np.array([0, 2]), labels=np.array([1, 0]))
    >>> objective = prs_objective(PairSet.from_labels(data, normalise="arp"))
    >>> gradient, hessian = objective(np.zeros(2), None)
    >>> gradient.tolist()
    [-0.25, 0.25]
    """
    gradients = LambdaObjective(
        pairs,
        metric=pairs.normalise or "ndcg",
        sigma=sigma,
        truncation=truncation,
        seed=seed,
        threads=threads,
    )

    def objective(scores: npt.NDArray, data: Any = None) -> Gradients:
        _check_call(data)
        return gradients(np.ravel(scores))

    return objective


def _check_call(data: Any) -> None:
    """Raise an InputError for a call that would train on the wrong numbers without a word."""
    # lightgbm.train and xgboost.train give their own Dataset or DMatrix here, never an array
    if isinstance(data, (np.ndarray, list)):
        raise InputError(
            "prs_objective was given (labels, scores): LGBMRanker, XGBRegressor and the like call "
            "an objective so, and would train on labels as if they were scores; use "
            "lightgbm.train or xgboost.train(obj=...), which give (scores, data)"
        )
