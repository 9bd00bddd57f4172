"""The epochs of training, and the value by which it stops."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.rankers.base import Progress, Validation
from prsrank.rankers.neural.net_ranker import FeatureInput
from prsrank.rankers.neural.score_net import ScoreNet
from prsrank.rankers.neural.torch_library import torch

if TYPE_CHECKING:
    from prsrank.rankers.neural.dual_learner import DualLearner
    from prsrank.rankers.neural.trainer import Trainer

Tensor = torch.Tensor

_ROWS = 1 << 16


def validation_measure(
    validation: Validation | None, net: ScoreNet, net_input: FeatureInput
) -> Callable[[], float | None]:
    """Return a function that gives the validation value of the net's weights, higher is better.

    Args:
        validation: lists with labels: NDCG@10 of their relevance. Lists and a function of their
            scores: its value. None: none.
        net: the net being trained.
        net_input: the transformation of features.
    """
    if validation is None:
        return lambda: None
    if isinstance(validation, RankingDataset):
        from prsrank.rankers.lambdamart import ndcg_of  # numba, which training can do without

        if not validation.relevance.any():
            raise InputError("no validation list has a relevant doc: NDCG@10 has no meaning")
        validation = validation, ndcg_of(validation)
    lists, quality = validation
    parts = [
        torch.from_numpy(net_input(lists.features[start : start + _ROWS])).to(net.weights.device)
        for start in range(0, lists.docs, _ROWS)
    ]
    return lambda: quality(
        np.concatenate([net(part).cpu().numpy() for part in parts]).astype(np.float64)
    )


def train_epochs(
    learner: "Trainer | DualLearner",
    measure: Callable[[], float | None],
    *,
    epochs: int,
    patience: int | None,
    progress: Progress | None,
) -> tuple[list[dict[str, float]], int]:
    """Run epochs until they do not help any more; put the state of the best one back.

    Args:
        learner: what trains.
        measure: gives the validation value.
        epochs: the most epochs.
        patience: epochs without an improvement after which to stop; None never stops.
        progress: is told the number of epochs and the value after each.

    Returns:
        One record per epoch, loss and the validation value if there is one; and the index of
        the best epoch, without validation the last.
    """
    history: list[dict[str, float]] = []
    best_epoch, best, kept = -1, -np.inf, list[Tensor]()
    for number in range(epochs):
        loss, value = learner.epoch(), measure()
        if progress is not None:
            progress(number + 1, value)
        if not np.isfinite(loss):
            raise InputError(
                f"training diverged: the loss of epoch {number + 1} is {loss}; "
                "a lower learning_rate may help"
            )
        if value is None:
            history.append({"loss": loss})
            best_epoch = number
            continue
        history.append({"loss": loss, "validation": value})
        if value > best:
            best_epoch, best = number, value
            kept = [part.clone() for part in learner.state]
        if patience is not None and number - best_epoch >= patience:
            break
    for part, saved in zip(learner.state, kept, strict=False):
        part.copy_(saved)
    return history, best_epoch
