"""The value by which training stops: NDCG@10 on labels, or the loss of held-out pairs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.ragged import list_of_row
from prsrank.rankers.base import Quality
from prsrank.rankers.net_ranker import FeatureInput
from prsrank.rankers.neural_batches import sum_of_weights
from prsrank.rankers.neural_net import ScoreNet
from prsrank.rankers.torch_library import torch
from prsrank.types import Longs

if TYPE_CHECKING:
    from prsrank.pairs.outer_pairs import OuterPairs
    from prsrank.pairs.pair_set import PairSet

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
        relevance, offsets = validation.relevance, validation.offsets
        validation = validation, lambda scores: ndcg_at_10(relevance, scores, offsets)
    lists, rule = validation
    quality = rule if callable(rule) else _less_loss(rule)
    parts = [
        torch.from_numpy(net_input(lists.features[start : start + _ROWS])).to(net.weights.device)
        for start in range(0, lists.docs, _ROWS)
    ]
    return lambda: quality(
        np.concatenate([net(part).cpu().numpy() for part in parts]).astype(np.float64)
    )


def _less_loss(pairs: "PairSet | OuterPairs") -> Quality:
    from prsrank.losses.outer import logistic_functions  # numba

    loss, weight = logistic_functions(pairs)[0], sum_of_weights(pairs)
    return lambda scores: -loss(scores, pairs)[0] / weight


def ndcg_at_10(relevance: npt.NDArray, scores: npt.NDArray, offsets: Longs) -> float:
    """Return the mean NDCG@10 over lists with a relevant doc; ties count against the ranker.

    >>> ndcg_at_10(np.array([0, 1]), np.array([2.0, 1.0]), np.array([0, 2]))
    0.6309...
    """
    lists = list_of_row(offsets)
    gains = []
    for key in (-scores, -relevance.astype(np.float64)):
        order = np.lexsort((relevance, key, lists))
        rank = np.arange(len(order)) - offsets[lists]
        gain = np.where(rank < 10, relevance[order] / np.log2(2.0 + rank), 0.0)
        gains.append(np.bincount(lists, gain, len(offsets) - 1))
    found, ideal = gains
    counted = ideal > 0
    if not counted.any():
        raise InputError("no validation list has a relevant doc: NDCG@10 has no meaning")
    return float((found[counted] / ideal[counted]).mean())
