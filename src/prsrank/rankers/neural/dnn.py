"""The neural ranker: a fully connected net on weighted pairs, on the CPU or a GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.rankers.neural.net_ranker import FeatureInput, NetRanker, default_batch

_RATES = {"sgd": 0.03, "adamw": 0.001}


@dataclass(eq=False, repr=False)
class NeuralRanker(NetRanker):
    r"""Fully connected ReLU layers on the pairwise logistic loss of a PairSet.

    Minimises $\frac{1}{n \bar w} \sum_{ij} W_{ij} \log(1 + e^{-(s_i - s_j)})$ over the n lists
    that have pairs, s the net's scores and $\bar w$ the mean weight of a list: the step is the
    same whatever unit the weights are in.

    Args:
        optimiser: "sgd" (momentum 0.9) or "adamw".
        learning_rate: default 0.03 for SGD, 0.001 for AdamW.
        weight_decay: of the optimiser; default 2 / lists for SGD (as much in all as two lists
            count), 0.01 for AdamW.
        batch_lists: lists per batch; default: a 32nd of the lists, from 16 to 4,096.
        precision: of activations and matrix products in training: "float32", "bf16", or
            "auto", bf16 on a GPU. Weights and scores are float32.
        hidden: this and the others as in `NetRanker`.

    >>> import numpy as np
    >>> from prsrank.pairs.pair_set import PairSet
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 2))
    >>> data = RankingDataset(x, np.arange(0, 401, 10), labels=(x[:, 0] > 1).astype(float))
    >>> ranker = NeuralRanker((8,), epochs=20, device="cpu").fit(data, PairSet.from_labels(data))
    >>> bool(ranker.score([[2.0, 0.0]]) > ranker.score([[0.0, 0.0]]))
    True
    """

    name: ClassVar[str] = "dnn"
    search_grid: ClassVar[Sequence[Mapping[str, Any]]] = [
        {"hidden": hidden, "learning_rate": rate, "missing": "impute"}
        for rate in (0.03, 0.01)
        for hidden in ((256, 256, 256), (64, 64), (32,))
    ]

    _: KW_ONLY
    optimiser: str = "sgd"
    learning_rate: float | None = None
    weight_decay: float | None = None
    batch_lists: int | None = None
    precision: str = "auto"

    def _learner(self, lists: RankingDataset, what: Any, net_input: FeatureInput) -> Any:
        from prsrank.rankers.neural.list_blocks import training_lists
        from prsrank.rankers.neural.score_net import ScoreNet
        from prsrank.rankers.neural.torch_library import find_device, find_precision
        from prsrank.rankers.neural.trainer import OPTIMISERS, Trainer

        if self.optimiser not in OPTIMISERS:
            raise InputError(
                f"there is no optimiser '{self.optimiser}'; there are: {', '.join(OPTIMISERS)}"
            )
        device = find_device(self.device)
        dtype = find_precision(self.precision, device)
        columns = net_input.columns
        source = training_lists(
            lists, what, net_input, columns, device=device, dtype=dtype, seed=self.seed
        )
        net = ScoreNet(columns, self.hidden, seed=self.seed, device=device, dtype=dtype)
        size = min(self.batch_lists or default_batch(source.lists), source.lists)
        return Trainer(
            net,
            OPTIMISERS[self.optimiser](net, *self._rate_and_decay(source.lists)),
            source,
            batch_lists=size,
            scale=source.lists / (what.weight_sum * size),
            seed=self.seed,
        )

    def _rate_and_decay(self, lists: int) -> tuple[float, float]:
        rate, decay = self.learning_rate, self.weight_decay
        if rate is None:
            rate = _RATES[self.optimiser]
        if decay is None:
            decay = 2 / lists if self.optimiser == "sgd" else 0.01
        return rate, decay
