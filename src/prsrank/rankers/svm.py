"""Propensity SVM-Rank: each clicked doc against all others of its list, hinge loss."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from prsrank.errors import DataWarning
from prsrank.losses.hinge import HingeValue, hinge_hessian_product, hinge_loss
from prsrank.rankers.linear_scores import LinearScores
from prsrank.rankers.newton import NewtonSolver, Point, ScoreLoss
from prsrank.rankers.pair_matrix import PairMatrix
from prsrank.types import Floats

_FIRST_SMOOTHING = 2.0
_LESS_SMOOTHING = 0.1
_LEAST_SMOOTHING = 1e-12
_ACCURACY = 0.3
# a smoothed problem counts as solved when its own gap is this share of the whole gap
_SOLVED = 0.1


@dataclass(eq=False, repr=False, kw_only=True)
class SVMRanker(LinearScores):
    r"""Propensity SVM-Rank (Joachims, Swaminathan and Schnabel 2017), solved to a known gap.

    `fit` minimises, with $s = w \cdot x'$ on standardised features,

    $$J(w) = \frac{1}{2} |w|^2 + \frac{C}{\sum W_{ij}} \sum_{ij} W_{ij} \max(0, 1 - (s_i - s_j)).$$

    With pairs of the weighting "ips_all", $W_{ij}$ is the sum over the clicks on i of 1 / p_i, for
    every other doc j: the paper's sum. Clipping by tau belongs to the weighting. The paper divides
    its C by the number of clicks n; here C is divided by the sum of the weights, so that the same C
    suits any number of clicks, any propensities and any length of lists:
    $C_\text{paper} = C\, n / \sum W_{ij}$. Any other PairSet will do as well.

    The hinge is smoothed, less and less, and each smoothed problem solved by Newton's method.
    Its slopes are feasible for the dual problem, so the objective is known to lie within `gap_`
    of the optimum.

    Args:
        C: weight of the loss, above 0.
        missing: "error" or "impute"; see `LinearRanker`.
        tolerance: the solver stops when the duality gap is at most this share of J.
        max_iterations: Newton steps at most.
        threads: default: the cores this process may use. No effect on the result.

    Attributes (with those of `LinearScores`):
        gap_: J minus the best lower bound (duality gap).
        weight_sum_: $\sum W_{ij}$.

    >>> import numpy as np
    >>> from prsrank.data.dataset import RankingDataset
    >>> from prsrank.pairs.pair_set import PairSet
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 2))
    >>> data = RankingDataset(x, np.arange(0, 201, 10), labels=(x[:, 0] > 0.5))
    >>> ranker = SVMRanker(C=10).fit(data, PairSet.from_labels(data))
    >>> ranker.converged_, bool(ranker.weights_[0] > 5 * abs(ranker.weights_[1]))
    (True, True)
    """

    name: ClassVar[str] = "svm"

    C: float = 10.0
    missing: str = "error"
    tolerance: float = 1e-4
    max_iterations: int = 300
    threads: int | None = None

    default_weighting: ClassVar[str] = "ips_all"
    _takes_vectors: ClassVar[bool] = False  # the hinge sums sort rows of weights
    search_grid: ClassVar[Sequence[Mapping[str, Any]]] = [
        {"C": C, "missing": "impute"} for C in (10.0, 1.0, 100.0, 3.0, 30.0, 0.3, 300.0, 0.1)
    ]
    chart_style: ClassVar[int | None] = 7

    def _learn(self, matrix: PairMatrix) -> None:
        self.weight_sum_ = matrix.weight_sum
        loss = _SmoothedHingeLoss(matrix, self.C)
        solver = NewtonSolver(loss, 1.0, curvature=self.C / _FIRST_SMOOTHING)
        point = solver.start()
        now = best = loss.bounds(point)
        self.weights_, bound, iterations = point.weights, best.dual, 0
        while best.primal - bound > self.tolerance * best.primal:
            if iterations == self.max_iterations or loss.smoothing < _LEAST_SMOOTHING:
                break
            # solved well enough under this smoothing: what is left of the gap is the smoothing's
            if point.gradient_norm**2 / 2 <= _SOLVED * (now.primal - now.dual):
                point = loss.sharpen(solver, point)
            point = solver.step(point, _ACCURACY) or loss.sharpen(solver, point)
            iterations += 1
            now = loss.bounds(point)
            # any dual value bounds the minimum, so the best of all steps holds
            bound = max(bound, now.dual)
            if now.primal < best.primal:
                best, self.weights_ = now, point.weights
        self.objective_, self.gap_, self.iterations_ = best.primal, best.primal - bound, iterations
        self.converged_ = bool(self.gap_ <= self.tolerance * best.primal)
        if not self.converged_:
            warnings.warn(
                f"SVMRanker stopped after {iterations} iterations with a duality gap of "
                f"{self.gap_:.2g} at an objective of {self.objective_:.4g}, "
                f"above the tolerance {self.tolerance:g}",
                DataWarning,
                stacklevel=3,
            )


class _Bounds(NamedTuple):
    """The objective at a point, and the dual objective of its slopes."""

    primal: float
    dual: float


class _SmoothedHingeLoss(ScoreLoss):
    """C times the weighted mean of the smoothed hinge loss over the pairs."""

    def __init__(self, matrix: PairMatrix, C: float) -> None:
        super().__init__(matrix)
        self.factor = C / matrix.weight_sum
        self.smoothing = _FIRST_SMOOTHING
        self.last: HingeValue

    def evaluate(self, scores: Floats) -> tuple[float, Floats]:
        self.last = hinge_loss(scores, self.pairs, smoothing=self.smoothing, threads=self.threads)
        return self.factor * self.last.smoothed, self.factor * self.last.gradient

    def hessian_product(self, scores: Floats, vector: Floats) -> Floats:
        product = hinge_hessian_product(
            scores, vector, self.pairs, smoothing=self.smoothing, threads=self.threads
        )
        return self.factor * product

    def sharpen(self, solver: NewtonSolver, point: Point) -> Point:
        """Smooth less; return the same point under the new loss."""
        self.smoothing *= _LESS_SMOOTHING
        return solver.at(point.weights, point.scores)

    def bounds(self, point: Point) -> _Bounds:
        """Return J at the last point evaluated, and a lower bound of its minimum.

        The slopes a of the smoothed loss, times any t of at most 1, are feasible for the dual
        t sum(a) - t^2 |v|^2 / 2, where v, the sum of a_ij (x_i - x_j), is w less the gradient.
        """
        primal = self.factor * self.last.loss + float(point.weights @ point.weights) / 2
        v = point.weights - point.gradient
        total, length = self.factor * self.last.slopes, float(v @ v)
        t = min(1.0, total / length) if length > 0 else 1.0
        return _Bounds(primal, t * total - t**2 * length / 2)
