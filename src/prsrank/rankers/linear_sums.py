"""The linear ranker on pieces of a log: value, gradient and curvature are sums over them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.preprocess import FeatureScaling
from prsrank.errors import InputError
from prsrank.logs.pieces import Pieces
from prsrank.losses.logistic import logistic_hessian_product, logistic_loss
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.linear import LinearRanker
from prsrank.rankers.linear_scores import check_positive
from prsrank.rankers.newton import NewtonSolver
from prsrank.rankers.pair_matrix import PairMatrix
from prsrank.types import Floats, Reals

Folded = tuple[RankingDataset, PairSet]
"""Lists of a piece with their pairs."""


def fit_linear(
    rankers: Sequence[LinearRanker],
    folded: Pieces[Folded],
    feature_names: tuple[str, ...],
) -> None:
    """Fit linear rankers, one by one, to lists and their pairs that stay where they are.

    The solver is the ranker's own. Scores of docs never leave the workers: to the solver,
    the "scores" of weights are the weights themselves, and the loss that it asks for maps
    weights to value and gradient, summed over the pieces. Rankers that treat missing values
    alike share the standardised docs.
    """
    for ranker in rankers:
        check_positive(
            l2=ranker.l2, tolerance=ranker.tolerance, max_iterations=ranker.max_iterations
        )
    for missing in dict.fromkeys(ranker.missing for ranker in rankers):
        scaling = _find_scaling(folded, missing, feature_names)
        sums = _LossSums(folded, scaling)
        for ranker in rankers:
            if ranker.missing == missing:
                ranker.scaling_, ranker.feature_names_ = scaling, feature_names
                solver = NewtonSolver(sums.matrix, ranker.l2, curvature=0.25)  # type: ignore[arg-type]
                ranker._solve(solver, sums)  # type: ignore[arg-type]


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

    def __init__(self, folded: Pieces[Folded], scaling: FeatureScaling) -> None:
        self.matrices = folded.map(lambda piece: _matrix(*piece, scaling))
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
            scores = matrix.scores(weights)
            loss, by_doc = logistic_loss(scores, matrix.pairs, threads=matrix.threads)
            return np.append(matrix.gather(by_doc), loss)

        total = self._mean(of_piece, more=1)
        return float(total[-1]), total[:-1]

    def hessian_product(self, weights: Floats, vector: Floats) -> Floats:
        """Return the Hessian with respect to the weights, times a vector."""

        def of_piece(matrix: PairMatrix) -> Floats:
            scores, along = matrix.scores(weights), matrix.scores(vector)
            pairs, threads = matrix.pairs, matrix.threads
            return matrix.gather(logistic_hessian_product(scores, along, pairs, threads=threads))

        return self._mean(of_piece)

    def _mean(self, of_piece: Callable[[PairMatrix], Floats], *, more: int = 0) -> Floats:
        """Return the mean of what a function says of each piece: a number a column, and more."""
        nothing = np.zeros(self.columns + more)
        total = self.matrices.total(lambda matrix: nothing if matrix is None else of_piece(matrix))
        return total / self.weight


def _matrix(lists: RankingDataset, pairs: PairSet, scaling: FeatureScaling) -> PairMatrix | None:
    """Standardise the docs of a piece; None where it has no pair."""
    return PairMatrix.build(lists, pairs, scaling) if pairs.weight_sum else None


def _find_scaling(
    folded: Pieces[Folded], missing: str, feature_names: tuple[str, ...]
) -> FeatureScaling:
    """Fit the scaling to the docs of all pieces: what `FeatureScaling.fit` does."""
    if missing not in ("error", "impute"):
        raise InputError(f"missing must be 'error' or 'impute', not '{missing}'")
    scaling = FeatureScaling.of_total(
        lambda function: folded.total(lambda piece: function(piece[0].features))
    )
    if missing == "error" and len(scaling.indicators):
        raise InputError(
            f"feature {feature_names[scaling.indicators[0]]} is missing (NaN) in "
            f"{scaling.indicator_share[0]:.2%} of the docs; missing='impute' would replace it by "
            "the training mean and an indicator"
        )
    broken = ~(np.isfinite(scaling.mean) & np.isfinite(scaling.scale))
    if broken.any():
        raise InputError(
            f"feature {feature_names[int(broken.argmax())]} has values that are infinite"
        )
    return scaling
