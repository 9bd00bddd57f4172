"""The neural ranker: a fully connected net on weighted pairs, on the CPU or a GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.rankers.base import Progress, Validation
from prsrank.rankers.neural.net_ranker import NetRanker, check_net_parameters, default_batch

if TYPE_CHECKING:
    from prsrank.pairs.outer_pairs import OuterPairs
    from prsrank.pairs.pair_set import PairSet

_RATES = {"sgd": 0.03, "adamw": 0.001}


@dataclass(eq=False, repr=False)
class NeuralRanker(NetRanker):
    r"""Fully connected ReLU layers on the pairwise logistic loss of a PairSet.

    Minimises $\frac{1}{n \bar w} \sum_{ij} W_{ij} \log(1 + e^{-(s_i - s_j)})$ over the n lists
    that have pairs, s the net's scores and $\bar w$ the mean weight of a list: the step is the
    same whatever unit the weights are in.

    Args:
        hidden: width of each hidden layer.
        optimiser: "sgd" (momentum 0.9) or "adamw".
        learning_rate: default 0.03 for SGD, 0.001 for AdamW.
        weight_decay: of the optimiser; default 2 / lists for SGD (as much in all as two lists
            count), 0.01 for AdamW.
        batch_lists: lists per batch; default: a 32nd of the lists, from 16 to 4,096.
        epochs: the most epochs.
        patience: epochs without a better validation value after which training stops.
        device: "auto" (a CUDA GPU if there is one), "cpu", "cuda", "cuda:1", ...
        precision: of activations and matrix products in training: "float32", "bf16", or
            "auto", bf16 on a GPU. Weights and scores are float32.
        seed: of initial weights and batches.
        missing: "error" or "impute": what to do with missing values; see `FeatureScaling`.
        log_tails: draw in the long tails of features, sign(z) log(1 + |z|) of the standardised
            z. False for a net that Solr is to serve, which knows no logarithm.

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

    hidden: Sequence[int] = (256, 256, 256)
    _: KW_ONLY
    optimiser: str = "sgd"
    learning_rate: float | None = None
    weight_decay: float | None = None
    batch_lists: int | None = None
    epochs: int = 100
    patience: int | None = 10
    device: str = "auto"
    precision: str = "auto"
    seed: int = 0
    missing: str = "error"
    log_tails: bool = True

    def fit(
        self,
        lists: RankingDataset,
        what: "PairSet | OuterPairs",
        *,
        validation: "Validation | tuple[RankingDataset, PairSet | OuterPairs] | None" = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train; with `validation` keep the best epoch's weights and stop early.

        Args:
            lists: the lists.
            what: their weighted pairs.
            validation: also held-out lists and their pairs, to stop by the pair loss.
            progress: is told the number of epochs and the validation value after each.
        """
        from prsrank.rankers.neural.list_blocks import training_lists
        from prsrank.rankers.neural.score_net import ScoreNet
        from prsrank.rankers.neural.torch_library import find_device, find_precision
        from prsrank.rankers.neural.trainer import OPTIMISERS, Trainer

        check_net_parameters(self.hidden, self.epochs, self.batch_lists)
        if self.optimiser not in OPTIMISERS:
            raise InputError(
                f"there is no optimiser '{self.optimiser}'; there are: {', '.join(OPTIMISERS)}"
            )
        device = find_device(self.device)
        dtype = find_precision(self.precision, device)
        seen = self._input(lists)
        source = training_lists(
            lists, what, seen, seen.columns, device=device, dtype=dtype, seed=self.seed
        )
        net = ScoreNet(seen.columns, self.hidden, seed=self.seed, device=device, dtype=dtype)
        size = min(self.batch_lists or default_batch(source.lists), source.lists)
        trainer = Trainer(
            net,
            OPTIMISERS[self.optimiser](net, *self._rate_and_decay(source.lists)),
            source,
            batch_lists=size,
            scale=source.lists / (what.weight_sum * size),
            seed=self.seed,
        )
        self._train(net, seen, trainer.epoch, [net.weights], validation, progress)
        self.feature_names_ = lists.feature_names
        return self

    def _rate_and_decay(self, lists: int) -> tuple[float, float]:
        rate, decay = self.learning_rate, self.weight_decay
        if rate is None:
            rate = _RATES[self.optimiser]
        if decay is None:
            decay = 2 / lists if self.optimiser == "sgd" else 0.01
        return rate, decay
