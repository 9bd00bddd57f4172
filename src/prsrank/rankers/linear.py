"""The linear ranker: pairwise logistic loss, solved to a stated accuracy."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from prsrank.errors import DataWarning
from prsrank.losses.logistic import logistic_hessian_product, logistic_loss
from prsrank.rankers.linear_scores import LinearScores
from prsrank.rankers.newton import NewtonSolver
from prsrank.rankers.pair_matrix import PairMatrix
from prsrank.types import Floats


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
    _positive: ClassVar[tuple[str, ...]] = ("l2", "tolerance", "max_iterations")
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
        self._solve(NewtonSolver(matrix, self.l2, curvature=0.25), _MeanLogisticLoss(matrix))

    def _solve(self, solver: NewtonSolver, loss: "_MeanLogisticLoss") -> None:
        point = solver.start(loss, np.zeros(solver.matrix.rows.shape[1]))
        first, iterations = point.gradient_norm, 0
        while point.gradient_norm > self.tolerance and iterations < self.max_iterations:
            accuracy = max(
                min(0.1, np.sqrt(point.gradient_norm / first)),
                0.3 * self.tolerance / point.gradient_norm,
            )
            stepped = solver.step(loss, point, accuracy)
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


class _MeanLogisticLoss:
    """The weighted mean of the logistic loss over the pairs."""

    def __init__(self, matrix: PairMatrix) -> None:
        self.pairs, self.threads = matrix.pairs, matrix.threads
        self.share = 1 / matrix.weight_sum

    def evaluate(self, scores: Floats) -> tuple[float, Floats]:
        loss, gradient = logistic_loss(scores, self.pairs, threads=self.threads)
        return loss * self.share, gradient * self.share

    def hessian_product(self, scores: Floats, vector: Floats) -> Floats:
        product = logistic_hessian_product(scores, vector, self.pairs, threads=self.threads)
        return product * self.share
