"""The linear ranker: pairwise logistic loss, solved to a stated accuracy.

On pieces of a log its value, gradient and curvature are sums over them (`fit_linear`).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.preprocess import FeatureScaling
from prsrank.errors import DataWarning, InputError
from prsrank.logs.pieces import Pieces
from prsrank.losses.logistic import logistic_hessian_product, logistic_loss
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.linear_scores import LinearScores, check_finite
from prsrank.rankers.newton import NewtonSolver, ScoreLoss
from prsrank.rankers.pair_matrix import PairMatrix
from prsrank.types import Floats

Folded = tuple[RankingDataset, PairSet]
"""Lists of a piece with their pairs."""


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRanker(LinearScores):
    r"""Scores that are a weighted sum of standardised features, $s = w \cdot x'$.

    `fit` minimises, over all pairs of a PairSet with their weights $W_{ij}$,

    $$F(w) = \frac{1}{\sum W_{ij}} \sum_{ij} W_{ij} \log(1 + e^{-(s_i - s_j)})
    + \frac{\text{l2}}{2} |w|^2 .$$

    The loss is a mean over pairs, so the same `l2` suits any number of clicks and any scale of
    the weights. scikit-learn's `LogisticRegression` without intercept, given $x'_i - x'_j$ and
    sample weights $W_{ij}$, has the same solution at C = 1 / (l2 $\sum W_{ij}$).

    Args:
        l2: strength of the regularisation, above 0.
        missing: "error" refuses missing feature values; "impute" replaces them by the training
            mean and adds an indicator column for each feature that has any.
        tolerance: the Euclidean norm of the gradient of F at which the solver stops.
        max_iterations: Newton steps at most.
        threads: default: the cores this process may use. No effect on the result.

    Attributes (with those of `LinearScores`):
        objective_: F at the solution.
        gradient_norm_: norm of the gradient there.
        converged_: whether that is at most `tolerance`.
        iterations_: Newton steps taken.

    >>> from prsrank.data.dataset import RankingDataset
    >>> from prsrank.pairs.pair_set import PairSet
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 2))
    >>> data = RankingDataset(x, np.arange(0, 201, 10), labels=(x[:, 0] > 0.5))
    >>> ranker = LinearRanker(l2=0.01).fit(data, PairSet.from_labels(data))
    >>> ranker.converged_, bool(ranker.weights_[0] > 10 * abs(ranker.weights_[1]))
    (True, True)
    """

    name: ClassVar[str] = "linear"
    search_grid: ClassVar[Sequence[Mapping[str, Any]]] = [
        {"l2": l2, "missing": "impute"}
        for l2 in (1e-2, 1e-1, 1e-3, 1.0, 1e-4, 3e-2, 3e-1, 3e-3, 3.0, 3e-4, 10.0, 1e-5)
    ]
    # a line cannot give all docs that are alike one score: pairs that ask for it cost the order
    weighting_grid: ClassVar[Mapping[str, Sequence[Mapping[str, float]]]] = {
        "posterior": ({"own": 0.5, "one_way": 1.0},)
    }
    sums_over_pieces: ClassVar[bool] = True

    l2: float = 0.01
    missing: str = "error"
    tolerance: float = 1e-6
    max_iterations: int = 100
    threads: int | None = None

    def _learn(self, matrix: PairMatrix) -> None:
        self._solve(_MeanLogisticLoss(matrix))

    def _solve(self, loss: ScoreLoss) -> None:
        solver = NewtonSolver(loss, self.l2, curvature=0.25)
        point = solver.start()
        first, iterations = point.gradient_norm, 0
        while point.gradient_norm > self.tolerance and iterations < self.max_iterations:
            accuracy = max(
                min(0.1, np.sqrt(point.gradient_norm / first)),
                0.3 * self.tolerance / point.gradient_norm,
            )
            stepped = solver.step(point, accuracy)
            if stepped is None:
                break
            point = stepped
            iterations += 1
        self.weights_ = point.weights
        self.objective_ = point.value
        self.gradient_norm_ = point.gradient_norm
        self.converged_ = bool(point.gradient_norm <= self.tolerance)
        self.iterations_ = iterations
        if not self.converged_:
            warnings.warn(
                f"LinearRanker stopped after {iterations} iterations with a gradient of norm "
                f"{self.gradient_norm_:.2g}, above the tolerance {self.tolerance:g}",
                DataWarning,
                stacklevel=3,
            )


class _MeanLogisticLoss(ScoreLoss):
    """The weighted mean of the logistic loss over the pairs."""

    def __init__(self, matrix: PairMatrix) -> None:
        super().__init__(matrix)
        self.share = 1 / matrix.weight_sum

    def evaluate(self, scores: Floats) -> tuple[float, Floats]:
        loss, gradient = logistic_loss(scores, self.pairs, threads=self.threads)
        return loss * self.share, gradient * self.share

    def hessian_product(self, scores: Floats, vector: Floats) -> Floats:
        product = logistic_hessian_product(scores, vector, self.pairs, threads=self.threads)
        return product * self.share


def fit_linear(
    rankers: Sequence[LinearRanker], folded: Pieces[Folded], feature_names: tuple[str, ...]
) -> None:
    """Fit linear rankers, one by one, to lists and their pairs that stay where they are.

    The solver is the ranker's own. Rankers that treat missing values alike share the standardised
    docs.
    """
    for ranker in rankers:
        ranker.check_settings()
    for missing in dict.fromkeys(ranker.missing for ranker in rankers):
        scaling = _find_scaling(folded, missing, feature_names)
        loss = _LossOfPieces(folded, scaling)
        for ranker in rankers:
            if ranker.missing == missing:
                ranker.scaling_, ranker.feature_names_ = scaling, feature_names
                ranker._solve(loss)


class _LossOfPieces(ScoreLoss):
    """The weighted mean of the logistic loss over the pairs of all pieces.

    Scores of docs never leave the workers: to the solver, the "scores" of weights are the weights
    themselves, and the loss maps weights to value and gradient, summed over the pieces.
    """

    def __init__(self, folded: Pieces[Folded], scaling: FeatureScaling) -> None:
        self.matrices = folded.map(lambda piece: _matrix(*piece, scaling))
        self.columns = scaling.columns
        self.weight = self.matrices.total(lambda part: 0.0 if part is None else part.weight_sum)
        if not np.isfinite(self.weight):
            raise InputError("the weights of pairs must be finite and at least 0")
        if self.weight == 0:
            raise InputError("there are no pairs to learn from: no list has a winner and a loser")
        self.scores = self.gather = np.copy
        self.spread = self._mean(lambda matrix: matrix.spread_of_pairs() * matrix.weight_sum)

    def evaluate(self, weights: Floats) -> tuple[float, Floats]:
        def of_piece(matrix: PairMatrix) -> Floats:
            scores = matrix.scores(weights)
            loss, by_doc = logistic_loss(scores, matrix.pairs, threads=matrix.threads)
            return np.append(matrix.gather(by_doc), loss)

        total = self._mean(of_piece, more=1)
        return float(total[-1]), total[:-1]

    def hessian_product(self, weights: Floats, vector: Floats) -> Floats:
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
    scaling = FeatureScaling.of_total(
        lambda function: folded.total(lambda piece: function(piece[0].features))
    )
    if missing == "error" and len(scaling.indicators):
        raise InputError(
            f"feature {feature_names[scaling.indicators[0]]} is missing (NaN) in "
            f"{scaling.indicator_share[0]:.2%} of the docs; missing='impute' would replace it by "
            "the training mean and an indicator"
        )
    check_finite(scaling, feature_names)
    return scaling
