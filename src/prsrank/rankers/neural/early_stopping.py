"""The value by which training stops, NDCG@10 on labels or the loss of held-out pairs, and when."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.rankers.base import Quality
from prsrank.rankers.neural.net_ranker import FeatureInput
from prsrank.rankers.neural.score_net import ScoreNet
from prsrank.rankers.neural.torch_library import torch

if TYPE_CHECKING:
    from prsrank.pairs.outer_pairs import OuterPairs
    from prsrank.pairs.pair_set import PairSet

Tensor = torch.Tensor

_ROWS = 1 << 16


def validation_measure(
    validation: "RankingDataset | tuple[RankingDataset, PairSet | OuterPairs | Quality] | None",
    net: ScoreNet,
    net_input: FeatureInput,
) -> Callable[[], float | None]:
    """Return a function that gives the validation value of the net's weights, higher is better.

    Args:
        validation: lists with labels: NDCG@10 of their relevance. Lists and a function of their
            scores: its value. Lists and their pairs: minus the mean loss of a pair. None: none.
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
    lists, judge = validation
    quality = judge if callable(judge) else _mean_loss(judge)
    parts = [
        torch.from_numpy(net_input(lists.features[start : start + _ROWS])).to(net.weights.device)
        for start in range(0, lists.docs, _ROWS)
    ]
    return lambda: quality(
        np.concatenate([net(part).cpu().numpy() for part in parts]).astype(np.float64)
    )


def _mean_loss(pairs: "PairSet | OuterPairs") -> Quality:
    from prsrank.losses.logistic import logistic_loss  # numba

    return lambda scores: -logistic_loss(scores, pairs)[0] / pairs.weight_sum


@dataclass
class BestEpoch:
    """Epochs so far and the best of them; early stopping.

    Attributes:
        patience: epochs without an improvement after which to stop; None never stops.
        history: one record per epoch: loss, and the validation value if there is one.
        best_epoch: index of the best epoch; without validation the last.
    """

    patience: int | None
    history: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = -1
    _best: float = -np.inf
    _weights: list[Tensor] = field(default_factory=list)

    def add(self, loss: float, value: float | None, weights: Sequence[Tensor]) -> bool:
        """Note an epoch; tell whether to go on."""
        if not np.isfinite(loss):
            raise InputError(
                f"training diverged: the loss of epoch {len(self.history) + 1} is {loss}; "
                "a lower learning_rate may help"
            )
        self.history.append({"loss": loss} | ({} if value is None else {"validation": value}))
        if value is None or value > self._best:
            self._best = -np.inf if value is None else value
            self.best_epoch = len(self.history) - 1
            self._weights = [] if value is None else [part.clone() for part in weights]
        waited = len(self.history) - 1 - self.best_epoch
        return value is None or self.patience is None or waited < self.patience

    def restore(self, weights: Sequence[Tensor]) -> None:
        """Put the weights of the best epoch back."""
        for part, best in zip(weights, self._weights, strict=False):
            part.copy_(best)
