"""The neural ranker: a fully connected net on weighted pairs, on the CPU or a GPU."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.preprocess import FeatureScaling
from prsrank.errors import InputError
from prsrank.rankers.net_ranker import (
    FeatureInput,
    NetRanker,
    check_net_parameters,
    default_batch,
)

if TYPE_CHECKING:
    from prsrank.pairs.pair_set import PairSet
    from prsrank.rankers.neural_validation import Quality

_RATES = {"sgd": 0.03, "adamw": 0.001}


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

    >>> from prsrank.pairs.pair_set import PairSet
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 2))
    >>> data = RankingDataset(x, np.arange(0, 401, 10), labels=(x[:, 0] > 1).astype(float))
    >>> ranker = NeuralRanker((8,), epochs=20, device="cpu").fit(data, PairSet.from_labels(data))
    >>> bool(ranker.score([[2.0, 0.0]]) > ranker.score([[0.0, 0.0]]))
    True
    """

    name = "dnn"

    def __init__(
        self,
        hidden: Sequence[int] = (256, 256, 256),
        *,
        optimiser: str = "sgd",
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        batch_lists: int | None = None,
        epochs: int = 100,
        patience: int | None = 10,
        device: str = "auto",
        precision: str = "auto",
        seed: int = 0,
        missing: str = "error",
        log_tails: bool = True,
    ) -> None:
        self.hidden = hidden
        self.optimiser = optimiser
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_lists = batch_lists
        self.epochs = epochs
        self.patience = patience
        self.device = device
        self.precision = precision
        self.seed = seed
        self.missing = missing
        self.log_tails = log_tails

    def fit(
        self,
        dataset: RankingDataset,
        pairs: "PairSet",
        *,
        validation: "RankingDataset | tuple[RankingDataset, PairSet | Quality] | None" = None,
    ) -> Self:
        """Train; with `validation` keep the best epoch's weights and stop early.

        Args:
            dataset: the lists.
            pairs: their weighted pairs.
            validation: lists with labels, to stop by NDCG@10 of the relevance; lists and a
                function of their scores (higher is better), such as a `CounterfactualMetric`;
                or held-out lists and their pairs, to stop by the pair loss.
        """
        from prsrank.rankers.neural_batches import training_lists
        from prsrank.rankers.neural_net import ScoreNet
        from prsrank.rankers.neural_training import OPTIMISERS, Progress, Trainer
        from prsrank.rankers.neural_validation import validation_measure
        from prsrank.rankers.torch_library import find_device, find_precision

        check_net_parameters(self.hidden, self.epochs, self.batch_lists)
        if self.optimiser not in OPTIMISERS:
            raise InputError(f"no optimiser '{self.optimiser}': one of {', '.join(OPTIMISERS)}")
        if hasattr(pairs, "dense"):  # OuterPairs: the device works on rows of weights
            pairs = pairs.dense(np.float32)
        device = find_device(self.device)
        dtype = find_precision(self.precision, device)
        scaling = FeatureScaling.fit(dataset.features, missing=self.missing)
        net_input = FeatureInput(scaling, log_tails=self.log_tails)
        source = training_lists(
            dataset, pairs, net_input, net_input.columns, device=device, dtype=dtype, seed=self.seed
        )
        net = ScoreNet(net_input.columns, self.hidden, seed=self.seed, device=device, dtype=dtype)
        rate = _RATES[self.optimiser] if self.learning_rate is None else self.learning_rate
        decay = self.weight_decay
        if decay is None:
            decay = 2 / source.lists if self.optimiser == "sgd" else 0.01
        size = min(self.batch_lists or default_batch(source.lists), source.lists)
        trainer = Trainer(
            net,
            OPTIMISERS[self.optimiser](net, rate, decay),
            source,
            batch_lists=size,
            scale=source.lists / (float(pairs.weights.sum(dtype=np.float64)) * size),
            seed=self.seed,
        )
        measure = validation_measure(validation, net, net_input)
        progress = Progress(self.patience)
        for _ in range(self.epochs):
            if not progress.add(trainer.epoch(), measure(), [net.weights]):
                break
        progress.restore([net.weights])
        self.net_, self.input_, self.feature_names_ = net, net_input, dataset.feature_names
        self.history_, self.best_epoch_ = progress.history, progress.best_epoch
        return self
