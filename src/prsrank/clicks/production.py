"""The production ranker, trained on few lists, and the rankings of its that are clicked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from prsrank.clicks.stream import stream_key
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.ragged import list_of_row
from prsrank.types import Floats, Ints, Longs, Marks

Score = Callable[[npt.NDArray], Floats]

_L2 = 0.01


@dataclass(frozen=True, eq=False)
class ProductionRanker:
    """A ranker trained on a few lists of a data set.

    Attributes:
        scores: its score of every doc of the data set.
        training_lists: indices of the lists that it was trained on, rising.
        remaining: indices of the other lists, rising: sessions are drawn from these.
        score: scores any feature rows (docs x features).
    """

    scores: Floats
    training_lists: Longs
    remaining: Longs
    score: Score


def production_scores(
    dataset: RankingDataset, *, share: float = 0.01, ranker: str = "linear", seed: int = 0
) -> ProductionRanker:
    """Train a production ranker on a share of the lists, chosen at random.

    At least one list is used that has both a relevant and an irrelevant doc.

    Args:
        dataset: the training part, with labels.
        share: share of the lists to train on, in (0, 1).
        ranker: "linear" or "lightgbm".
        seed: seed of the choice of lists and of the training.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 2))
    >>> data = RankingDataset(x, np.arange(0, 401, 10), labels=(x[:, 0] > 0.5))
    >>> production = production_scores(data, share=0.1)
    >>> len(production.training_lists), len(production.remaining)
    (4, 36)
    >>> bool(np.corrcoef(production.scores, x[:, 0])[0, 1] > 0.9)
    True
    """
    if not 0 < share < 1:
        raise InputError(f"the share of lists to train on must be in (0, 1), not {share}")
    if ranker not in PRODUCTION_RANKERS:
        raise InputError(
            f"unknown production ranker '{ranker}'; there are: {', '.join(PRODUCTION_RANKERS)}"
        )
    chosen = _training_lists(dataset, share, seed)
    score = PRODUCTION_RANKERS[ranker](dataset.select(chosen), seed)
    remaining = np.setdiff1d(np.arange(dataset.lists), chosen)
    return ProductionRanker(score(dataset.features), chosen, remaining, score)


def logging_part(
    dataset: RankingDataset, rankers: Sequence[ProductionRanker]
) -> tuple[RankingDataset, list[Floats]]:
    """Return the lists that no ranker was trained on, and each ranker's scores of their docs.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 2))
    >>> data = RankingDataset(x, np.arange(0, 401, 10), labels=(x[:, 0] > 0.5))
    >>> rankers = [production_scores(data, share=0.1, seed=seed) for seed in range(2)]
    >>> rest, scores = logging_part(data, rankers)
    >>> rest.lists >= 32, [len(one) == rest.docs for one in scores]
    (True, [True, True])
    """
    free = np.ones(dataset.lists, bool)
    for ranker in rankers:
        free[ranker.training_lists] = False
    if not dataset.list_lengths[free].any():
        raise InputError("the production rankers were trained on every list: none is left to click")
    of_doc = np.repeat(free, dataset.list_lengths)
    return dataset.select(free), [ranker.scores[of_doc] for ranker in rankers]


def _training_lists(dataset: RankingDataset, share: float, seed: int) -> Longs:
    usable = _usable_lists(dataset)
    if dataset.lists < 2 or not usable.any():
        raise InputError(
            "a production ranker needs two lists, one of them with both a relevant and an "
            "irrelevant doc"
        )
    # a stream of its own: the clicks of a seed do not depend on the ranker's draw
    order = np.random.default_rng(int(stream_key(seed, 2))).permutation(dataset.lists)
    count = min(max(1, round(share * dataset.lists)), dataset.lists - 1)
    chosen = order[:count]
    # a list of one kind of docs has no pair to learn from: one other list must do
    if not usable[chosen].any():
        chosen[0] = order[usable[order].argmax()]
    return np.sort(chosen)


def _usable_lists(dataset: RankingDataset) -> Marks:
    """Return which lists have both a relevant and an irrelevant doc."""
    relevant = np.bincount(list_of_row(dataset.offsets), dataset.relevance, dataset.lists)
    return np.asarray((relevant > 0) & (relevant < dataset.list_lengths))


def _linear(training: RankingDataset, seed: int) -> Score:
    """Fit w to (mean over pairs of log(1 + exp(-w.(x_i - x_j)))) + l2/2 |w|^2."""
    mean, scale = _standardisation(training.features)

    def standardised(features: npt.NDArray) -> Floats:
        values = (np.asarray(features, np.float64) - mean) / scale
        # an unknown value counts as the mean
        return np.where(np.isfinite(values), values, 0.0)

    rows = standardised(training.features)
    better, worse = _pairs(training)

    def loss(weights: Floats) -> tuple[float, Floats]:
        scores = rows @ weights
        margins = scores[better] - scores[worse]
        # the sigmoid of -margin, without overflow
        slopes = -np.exp(-np.logaddexp(0, margins)) / len(margins)
        by_doc = np.bincount(better, slopes, len(rows)) - np.bincount(worse, slopes, len(rows))
        value = np.logaddexp(0, -margins).mean() + _L2 / 2 * weights @ weights
        return float(value), by_doc @ rows + _L2 * weights

    weights = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x
    return lambda features: np.asarray(standardised(features) @ weights)


def _standardisation(features: npt.NDArray) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each feature over its known values."""
    values = np.ma.masked_invalid(np.asarray(features, np.float64))
    mean, scale = values.mean(axis=0).filled(0.0), values.std(axis=0).filled(1.0)
    return mean, np.where(scale > 0, scale, 1.0)


def _pairs(training: RankingDataset) -> tuple[Longs, Longs]:
    """Return the rows of every (relevant, irrelevant) pair of docs of one list."""
    better, worse = [], []
    for start, stop in zip(training.offsets[:-1], training.offsets[1:], strict=True):
        relevant = training.relevance[start:stop] == 1
        winners, losers = np.flatnonzero(relevant), np.flatnonzero(~relevant)
        better.append(start + np.repeat(winners, len(losers)))
        worse.append(start + np.tile(losers, len(winners)))
    return np.concatenate(better), np.concatenate(worse)


def _lightgbm(training: RankingDataset, seed: int) -> Score:
    """Fit a small lambdarank model."""
    import lightgbm

    parameters = {
        "objective": "lambdarank",
        "num_leaves": 15,
        "min_data_in_leaf": 5,
        "learning_rate": 0.1,
        "feature_pre_filter": False,
        "deterministic": True,
        "force_row_wise": True,
        # so few rows cost more to share out among threads than to bin in one
        "num_threads": 1 if training.docs < 50_000 else 0,
        "seed": seed % (1 << 31),
        "verbosity": -1,
    }
    data = lightgbm.Dataset(
        training.features,
        label=training.relevance,
        group=training.list_lengths[training.list_lengths > 0],
    )
    booster = lightgbm.train(parameters, data, num_boost_round=50)
    return lambda features: np.asarray(booster.predict(features), dtype=np.float64)


PRODUCTION_RANKERS: dict[str, Callable[[RankingDataset, int], Score]] = {
    "linear": _linear,
    "lightgbm": _lightgbm,
}
"""The production rankers by name."""


def ranked_docs(scores: Floats, offsets: Longs, *, seed: int = 0) -> Ints:
    """Return the docs of each list by falling score; ties by a random number of each row.

    >>> ranked_docs(np.array([0.1, 0.3, 0.2, 0.5]), np.array([0, 3, 4])).tolist()
    [1, 2, 0, 3]
    """
    rng = np.random.default_rng(int(stream_key(seed, 1)))
    ties = rng.integers(0, 1 << 63, len(scores))
    return np.lexsort((ties, -scores, list_of_row(offsets))).astype(np.int32)
