"""One worker of a LambdaMART that several processes grow together. Knows nothing of Spark."""

import gc
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning, InputError
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.spark.shard import QualitySums, Shard
from prsrank.types import Floats

Sums = Callable[[Sequence[float]], Floats]

_NETWORK = (
    "machines",
    "num_machines",
    "local_listen_port",
    "time_out",
    "tree_learner",
    "pre_partition",
    "machine_list_filename",
)


@dataclass(frozen=True)
class Place:
    """Where a worker stands among all.

    Attributes:
        worker: its number.
        machines: "address:port" of every worker, for LightGBM's own sockets.
        sums: adds up numbers over all workers.
        timeout: minutes that LightGBM waits for the others to come.
    """

    worker: int
    machines: tuple[str, ...]
    sums: Sums
    timeout: int = 2


@dataclass(frozen=True)
class TrainedModel:
    """What a training gives.

    Attributes:
        text: the trees as LightGBM's text.
        history: the value after each tree.
        seconds: how long the workers were at it, from when all had their shards.
    """

    text: str
    history: list[float]
    seconds: float = 0.0


def train_worker(
    parameters: Mapping[str, Any],
    shard: Shard,
    place: Place,
) -> TrainedModel:
    """Grow trees on one shard, together with all other workers; all return the same trees.

    Histograms are added up by LightGBM's socket collective. After each tree the quality on
    the lists to judge by is added up over the workers before anyone decides to stop.

    Args:
        parameters: of a LambdaMART.
        shard: this worker's lists, pairs and lists to judge by.
        place: where this worker stands.

    Raises:
        InputError: on all workers, if a worker has no list.
    """
    started = time.perf_counter()
    judging = place.sums([shard.judged is not None])[0] > 0
    if place.sums([shard.dataset.docs == 0])[0] > 0:
        raise InputError("a worker has no list to learn from: use fewer workers")
    own = dict(parameters.get("parameters") or {})
    if len(place.machines) > 1:
        own |= _network(place)
    ranker = LambdaMART(**{**parameters, "parameters": own})
    validation = _reduced_quality(shard, place.sums) if judging else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        ranker.fit(shard.dataset, shard.pairs, validation=validation)
    gc.collect()  # a booster closes its network when it goes, which must be before the next opens
    text = plain_text(ranker.booster_.model_to_string())
    return TrainedModel(text, ranker.history_, time.perf_counter() - started)


def _network(place: Place) -> dict[str, Any]:
    return {
        "machines": ",".join(place.machines),
        "num_machines": len(place.machines),
        "local_listen_port": int(place.machines[place.worker].rpartition(":")[2]),
        "time_out": place.timeout,
        "tree_learner": "data",
        "pre_partition": True,
    }


def plain_text(text: str) -> str:
    """Return a model's text without the settings of the network that it was grown over."""
    kept = [
        line
        for line in text.split("\n")
        if not any(line.startswith(f"[{name}: ") for name in _NETWORK)
    ]
    return "\n".join(kept)


def _reduced_quality(shard: Shard, sums: Sums) -> tuple[RankingDataset, Callable[[Floats], float]]:
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
