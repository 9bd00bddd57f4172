"""The linear ranker on Spark: value, gradient and curvature summed over partitions."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.data.preprocess import FeatureScaling
from prsrank.errors import InputError
from prsrank.losses.logistic import logistic_hessian_product, logistic_loss
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.linear import LinearRanker
from prsrank.rankers.linear_scores import check_positive
from prsrank.rankers.newton import NewtonSolver
from prsrank.rankers.pair_matrix import PairMatrix
from prsrank.spark.shard import Shard
from prsrank.types import Floats, Reals

if TYPE_CHECKING:
    from pyspark import RDD


def fit_linear(
    rankers: Sequence[LinearRanker], shards: "RDD[bytes]", feature_names: tuple[str, ...]
) -> None:
    """Fit linear rankers, one by one, to packed shards that stay where they are.

    The solver is the ranker's own. Scores of docs never leave the executors: to the solver,
    the "scores" of weights are the weights themselves, and the loss that it asks for maps
    weights to value and gradient, summed over the partitions. Rankers that treat missing values
    alike share the standardised docs.
    """
    for one in rankers:
        check_positive(l2=one.l2, tolerance=one.tolerance, max_iterations=one.max_iterations)
    for missing in dict.fromkeys(one.missing for one in rankers):
        scaling = _find_scaling(shards, missing, feature_names)
        with _Sums.over(shards, scaling) as sums:
            for one in rankers:
                if one.missing == missing:
                    one.scaling_, one.feature_names_ = scaling, feature_names
                    solver = NewtonSolver(sums.matrix, one.l2, curvature=0.25)  # type: ignore[arg-type]
                    one._solve(solver, sums)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class _WeightsForScores:
    """Stands for X where X stays on the executors: scores are weights, and back."""

    rows: Reals
    spread: Floats

    def scores(self, weights: Floats) -> Floats:
        return np.array(weights)

    def gather(self, by_weight: Floats) -> Floats:
        return np.array(by_weight)

    def spread_of_pairs(self) -> Floats:
        return self.spread


class _Sums:
    """The weighted mean of the logistic loss over the pairs of all partitions."""

    def __init__(self, matrices: "RDD[bytes]", weight: float, columns: int) -> None:
        self.matrices = matrices
        self.weight = weight
        spread = self._sum(lambda matrix: matrix.spread_of_pairs() * matrix.weight_sum)
        self.matrix = _WeightsForScores(np.empty((0, columns), np.float32), spread)

    @classmethod
    @contextmanager
    def over(cls, shards: "RDD[bytes]", scaling: FeatureScaling) -> "Iterator[_Sums]":
        """Standardise the shards, and keep them as long as the sums are asked for."""
        matrices = shards.map(lambda data: _standardise(data, scaling)).filter(bool)
        matrices = matrices.persist(_storage())
        try:
            of_shards = matrices.map(lambda data: _unpack(data).weight_sum)
            weight = of_shards.fold(0.0, lambda a, b: a + b)
            if not np.isfinite(weight):
                raise InputError("the weights of pairs must be finite and at least 0")
            if weight == 0:
                raise InputError(
                    "there are no pairs to learn from: no list has a winner and a loser"
                )
            yield cls(matrices, weight, scaling.columns)
        finally:
            matrices.unpersist()

    def evaluate(self, weights: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient with respect to the weights."""

        def of_shard(matrix: PairMatrix) -> Floats:
            loss, by_doc = logistic_loss(matrix.scores(weights), matrix.pairs, threads=1)
            return np.append(matrix.gather(by_doc), loss)

        total = self._sum(of_shard)
        return float(total[-1]), total[:-1]

    def hessian_product(self, weights: Floats, vector: Floats) -> Floats:
        """Return the Hessian with respect to the weights, times a vector."""

        def of_shard(matrix: PairMatrix) -> Floats:
            scores, along = matrix.scores(weights), matrix.scores(vector)
            by_doc = logistic_hessian_product(scores, along, matrix.pairs, threads=1)
            return matrix.gather(by_doc)

        return self._sum(of_shard)

    def _sum(self, of_shard: Callable[[PairMatrix], Floats]) -> Floats:
        parts = self.matrices.map(lambda data: of_shard(_unpack(data)))
        total: Floats = parts.treeReduce(lambda a, b: a + b)
        return total / self.weight


def _find_scaling(
    shards: "RDD[bytes]", missing: str, feature_names: tuple[str, ...]
) -> FeatureScaling:
    """Fit the scaling to the docs of all shards: what `FeatureScaling.fit` does."""
    if missing not in ("error", "impute"):
        raise InputError(f"missing must be 'error' or 'impute', not '{missing}'")
    docs, present, total = shards.map(_presence).treeReduce(_add)
    gaps = np.flatnonzero(present < docs)
    if missing == "error" and len(gaps):
        raise InputError(
            f"feature {feature_names[gaps[0]]} is missing (NaN) in {int(docs - present[gaps[0]])} "
            "docs; missing='impute' would replace it by the training mean and an indicator"
        )
    mean = total / np.maximum(present, 1)
    squares = shards.map(lambda data: _squares(data, mean)).treeReduce(lambda a, b: a + b)
    deviation = np.sqrt(squares / np.maximum(present, 1))
    broken = ~(np.isfinite(mean) & np.isfinite(deviation))
    if broken.any():
        name = feature_names[int(broken.argmax())]
        raise InputError(f"feature {name} has values that are infinite")
    constant = deviation <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
    share = 1 - present[gaps] / max(docs, 1)
    return FeatureScaling(mean, np.where(constant, 1.0, deviation), gaps, share)


def _presence(data: bytes) -> tuple[int, Floats, Floats]:
    features = Shard.unpack(data).dataset.features.astype(np.float64)
    there = ~np.isnan(features)
    return len(features), there.sum(axis=0).astype(np.float64), np.nansum(features, axis=0)


def _squares(data: bytes, mean: Floats) -> Floats:
    features = Shard.unpack(data).dataset.features.astype(np.float64)
    return np.asarray(np.nansum((features - mean) ** 2, axis=0))


def _add(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _standardise(data: bytes, scaling: FeatureScaling) -> bytes:
    """Return the standardised docs of lists with winners, packed; nothing if there is no pair."""
    shard = Shard.unpack(data)
    if not shard.pairs.weights.any():
        return b""
    matrix = PairMatrix.build(shard.dataset, shard.pairs, scaling, threads=1)
    pairs = matrix.pairs
    target = io.BytesIO()
    np.savez(
        target,
        allow_pickle=False,
        rows=matrix.rows,
        offsets=pairs.offsets,
        query_ids=pairs.query_ids,
        winner_offsets=pairs.winner_offsets,
        winner_row=pairs.winner_row,
        weights=pairs.weights,
        totals=pairs.totals,
    )
    return target.getvalue()


def _unpack(data: bytes) -> PairMatrix:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    rows = arrays.pop("rows")
    pairs = PairSet(**arrays)
    return PairMatrix(rows, pairs, float(pairs.weights.sum(dtype=np.float64)), 1)


def _storage() -> Any:
    from pyspark import StorageLevel

    return StorageLevel.MEMORY_AND_DISK
