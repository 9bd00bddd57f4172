"""The linear ranker on pieces of a log: value, gradient and curvature are sums over them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from prsrank.data.preprocess import FeatureScaling
from prsrank.errors import InputError
from prsrank.logs.pieces import Pieces, Sums
from prsrank.losses.logistic import logistic_hessian_product, logistic_loss
from prsrank.rankers.linear import LinearRanker
from prsrank.rankers.linear_scores import check_positive
from prsrank.rankers.newton import NewtonSolver
from prsrank.rankers.pair_matrix import PairMatrix
from prsrank.spark.shard import Shard
from prsrank.types import Floats, Reals


def fit_linear(
    rankers: Sequence[LinearRanker], shards: Pieces[Shard], feature_names: tuple[str, ...]
) -> None:
    """Fit linear rankers, one by one, to shards that stay where they are.

    The solver is the ranker's own. Scores of docs never leave the workers: to the solver,
    the "scores" of weights are the weights themselves, and the loss that it asks for maps
    weights to value and gradient, summed over the pieces. Rankers that treat missing values
    alike share the standardised docs.
    """
    for one in rankers:
        check_positive(l2=one.l2, tolerance=one.tolerance, max_iterations=one.max_iterations)
    for missing in dict.fromkeys(one.missing for one in rankers):
        scaling = _find_scaling(shards, missing, feature_names)
        sums = _LossSums(shards, scaling)
        for one in rankers:
            if one.missing == missing:
                one.scaling_, one.feature_names_ = scaling, feature_names
                solver = NewtonSolver(sums.matrix, one.l2, curvature=0.25)  # type: ignore[arg-type]
                one._solve(solver, sums)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class _WeightsForScores:
    """Stands for X where X stays on the workers: scores are weights, and back."""

    rows: Reals
    spread: Floats

    def scores(self, weights: Floats) -> Floats:
        return np.array(weights)

    def gather(self, by_weight: Floats) -> Floats:
        return np.array(by_weight)

    def spread_of_pairs(self) -> Floats:
        return self.spread


class _LossSums:
    """The weighted mean of the logistic loss over the pairs of all pieces."""

    def __init__(self, shards: Pieces[Shard], scaling: FeatureScaling) -> None:
        self.matrices = shards.map(lambda shard: _matrix(shard, scaling))
        self.columns = scaling.columns
        self.weight = self.matrices.total(lambda one: 0.0 if one is None else one.weight_sum)
        if not np.isfinite(self.weight):
            raise InputError("the weights of pairs must be finite and at least 0")
        if self.weight == 0:
            raise InputError("there are no pairs to learn from: no list has a winner and a loser")
        spread = self._mean(lambda matrix: matrix.spread_of_pairs() * matrix.weight_sum)
        self.matrix = _WeightsForScores(np.empty((0, scaling.columns), np.float32), spread)

    def evaluate(self, weights: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient with respect to the weights."""

        def of_piece(matrix: PairMatrix) -> Floats:
            loss, by_doc = logistic_loss(matrix.scores(weights), matrix.pairs, threads=1)
            return np.append(matrix.gather(by_doc), loss)

        total = self._mean(of_piece, more=1)
        return float(total[-1]), total[:-1]

    def hessian_product(self, weights: Floats, vector: Floats) -> Floats:
        """Return the Hessian with respect to the weights, times a vector."""

        def of_piece(matrix: PairMatrix) -> Floats:
            scores, along = matrix.scores(weights), matrix.scores(vector)
            by_doc = logistic_hessian_product(scores, along, matrix.pairs, threads=1)
            return matrix.gather(by_doc)

        return self._mean(of_piece)

    def _mean(self, of_piece: Callable[[PairMatrix], Floats], *, more: int = 0) -> Floats:
        """Return the mean of what a function says of each piece: a number a column, and more."""
        nothing = np.zeros(self.columns + more)
        total = self.matrices.total(lambda one: nothing if one is None else of_piece(one))
        return total / self.weight


def _matrix(shard: Shard, scaling: FeatureScaling) -> PairMatrix | None:
    """Standardise the docs of a piece; None where it has no pair."""
    if not shard.pairs.weights.any():
        return None
    return PairMatrix.build(shard.dataset, shard.pairs, scaling, threads=1)


def _find_scaling(
    shards: Pieces[Shard], missing: str, feature_names: tuple[str, ...]
) -> FeatureScaling:
    """Fit the scaling to the docs of all shards: what `FeatureScaling.fit` does."""
    if missing not in ("error", "impute"):
        raise InputError(f"missing must be 'error' or 'impute', not '{missing}'")
    docs, present, total = shards.total(_presence)
    gaps = np.flatnonzero(present < docs)
    if missing == "error" and len(gaps):
        raise InputError(
            f"feature {feature_names[gaps[0]]} is missing (NaN) in {int(docs - present[gaps[0]])} "
            "docs; missing='impute' would replace it by the training mean and an indicator"
        )
    mean = total / np.maximum(present, 1)
    # two passes: the sum of squares less the square of the sum loses digits
    deviation = np.sqrt(shards.total(lambda shard: _squares(shard, mean)) / np.maximum(present, 1))
    broken = ~(np.isfinite(mean) & np.isfinite(deviation))
    if broken.any():
        name = feature_names[int(broken.argmax())]
        raise InputError(f"feature {name} has values that are infinite")
    constant = deviation <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
    share = 1 - present[gaps] / max(docs, 1)
    return FeatureScaling(mean, np.where(constant, 1.0, deviation), gaps, share)


def _presence(shard: Shard) -> Sums:
    features = shard.dataset.features.astype(np.float64)
    there = ~np.isnan(features)
    return Sums((len(features), there.sum(axis=0).astype(float), np.nansum(features, axis=0)))


def _squares(shard: Shard, mean: Floats) -> Floats:
    features = shard.dataset.features.astype(np.float64)
    return np.asarray(np.nansum((features - mean) ** 2, axis=0))
