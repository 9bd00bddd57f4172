"""One worker of a ranker that several processes train together. Knows nothing of Spark."""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning
from prsrank.logs.pieces import Pieces
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker
from prsrank.relevance.workers import Workers
from prsrank.spark.linear_sums import fit_linear
from prsrank.spark.shard import QualitySums, Shard
from prsrank.types import Floats, SumOver

T = TypeVar("T")
U = TypeVar("U")

_NETWORK = tuple(f"[{name}: " for name in Workers(2).network)


@dataclass(frozen=True)
class TrainedModel:
    """What a training gives.

    Attributes:
        text: the trees as LightGBM's text, or a linear ranker as JSON.
        history: the value after each tree.
        seconds: how long the workers were at it, from when all had their shards.
    """

    text: str
    history: list[float]
    seconds: float = 0.0


def train_worker(
    parameters: Mapping[str, Any],
    shard: Shard,
    workers: Workers,
) -> TrainedModel:
    """Grow trees on one shard, together with all other workers; all return the same trees.

    Histograms are added up by LightGBM's network, which is open. After each tree the quality on
    the lists to judge by is added up over the workers before anyone decides to stop.

    Args:
        parameters: of a LambdaMART.
        shard: this worker's lists, pairs and lists to judge by.
        workers: all of them.
    """
    started = time.perf_counter()
    judging = workers.sums(float(shard.judged is not None)) > 0
    own = dict(parameters.get("parameters") or {}) | workers.network
    ranker = LambdaMART(**{**parameters, "parameters": own})
    validation = _reduced_quality(shard, workers.sums) if judging else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        ranker.fit(
            shard.dataset,
            shard.pairs,
            validation=validation,
            # fails when a worker is gone, of which LightGBM may make stumps without end
            progress=lambda *_: workers.sums(0.0),
        )
    text = plain_text(ranker.booster_.model_to_string())
    return TrainedModel(text, ranker.history_, time.perf_counter() - started)


def train_linear(
    settings: Sequence[Mapping[str, Any]], shard: Shard, workers: Workers
) -> Iterator[TrainedModel]:
    """Fit linear rankers to the shards of all workers; each solves for the same weights."""
    started = time.perf_counter()
    rankers = [LinearRanker(**parameters) for parameters in settings]
    own, names = OwnPiece(shard, workers.sums), shard.dataset.feature_names
    fit_linear(rankers, own, names, threads=rankers[0].threads or 1)
    for ranker in rankers:
        learned, _ = ranker._state()
        yield TrainedModel(json.dumps(learned), [], time.perf_counter() - started)


class OwnPiece(Pieces[T]):
    """This worker's piece of what all hold; every worker asks for the same totals."""

    def __init__(self, own: T, sums: SumOver) -> None:
        self.own, self.sums = own, sums

    def map(self, function: Callable[[T], U]) -> "OwnPiece[U]":
        """Return what a function makes of each worker's piece."""
        return OwnPiece(function(self.own), self.sums)

    def total(self, function: Callable[[T], U]) -> U:
        """Add up numbers, or arrays of them, over the workers."""
        return self.sums(function(self.own))  # type: ignore[arg-type,return-value]


def plain_text(text: str) -> str:
    """Return a model's text without the settings of the network that it was grown over."""
    return "\n".join(line for line in text.split("\n") if not line.startswith(_NETWORK))


def _reduced_quality(
    shard: Shard, sums: SumOver
) -> tuple[RankingDataset, Callable[[Floats], float]]:
    """Return lists and the function from their scores to the quality over all workers."""
    lists, own = _own_quality(shard)

    def quality(scores: Floats) -> float:
        total, weight = sums(own(scores))
        return float(total / weight) if weight else 0.0

    return lists, quality


def _own_quality(shard: Shard) -> tuple[RankingDataset, QualitySums]:
    judged = shard.judged
    if judged is None or judged.docs == 0 or shard.clicks is None:
        # LightGBM takes no empty data set: one row that counts for nothing
        row = np.zeros((1, shard.dataset.features.shape[1]), np.float32)
        return RankingDataset(row, np.array([0, 1])), lambda scores: [0.0, 0.0]
    return judged, shard.clicks
