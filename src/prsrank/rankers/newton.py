"""Newton's method for convex losses of linear scores, with conjugate gradients inside."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from prsrank.rankers.pair_matrix import PairMatrix
from prsrank.types import Floats

_SUFFICIENT_DECREASE = 1e-4
_MOST_HALVINGS = 40
_MOST_PRODUCTS = 200


class ScoreLoss(ABC):
    """A convex, twice differentiable loss of the scores X w of a PairMatrix's docs.

    Args:
        matrix: X and the pairs.
    """

    def __init__(self, matrix: PairMatrix) -> None:
        self.pairs, self.threads = matrix.pairs, matrix.threads
        self.scores: Callable[[Floats], Floats] = matrix.scores
        self.gather: Callable[[Floats], Floats] = matrix.gather
        self.spread = matrix.spread_of_pairs()

    @abstractmethod
    def evaluate(self, scores: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient with respect to the scores."""

    @abstractmethod
    def hessian_product(self, scores: Floats, vector: Floats) -> Floats:
        """Return its Hessian with respect to the scores, times a vector."""


@dataclass
class Point:
    """A point in the space of weights, with what is known there.

    Attributes:
        weights: w.
        scores: X w.
        value: loss(X w) + l2/2 |w|^2.
        gradient: of the value with respect to w.
    """

    weights: Floats
    scores: Floats
    value: float
    gradient: Floats

    @property
    def gradient_norm(self) -> float:
        """Euclidean norm of the gradient."""
        return float(np.linalg.norm(self.gradient))


class NewtonSolver:
    r"""Steps down $F(w) = L(X w) + \frac{\lambda}{2} |w|^2$.

    A step solves $(X^\top L'' X + \lambda I)\, d = -\nabla F$ by conjugate gradients,
    preconditioned by the spread of the pairs, which takes the correlations between features
    away, and then halves d until F falls enough. Scores are linear in the step, so the search
    needs no product with X.
    """

    def __init__(self, loss: ScoreLoss, l2: float, *, curvature: float) -> None:
        """Prepare the preconditioner.

        Args:
            loss: L and X.
            l2: strength of the regularisation.
            curvature: about the second derivative of the loss of a pair in its margin, at the
                start; each step measures it again.
        """
        self.loss, self.l2 = loss, l2
        self._curvature = curvature
        self._spread = loss.spread.copy()
        # float32 sums may leave it not quite positive definite
        self._spread.flat[:: len(self._spread) + 1] += (
            1e-5 * self._spread.trace() / len(self._spread)
        )

    def start(self) -> Point:
        """Return the point at w = 0."""
        weights = np.zeros(len(self._spread))
        return self.at(weights, self.loss.scores(weights))

    def at(self, weights: Floats, scores: Floats) -> Point:
        """Return the point at `weights`, whose scores are known."""
        return self._point(weights, scores, *self._evaluate(weights, scores))

    def step(self, point: Point, accuracy: float) -> Point | None:
        """Return the next point; None if no step makes F fall, for rounding.

        Args:
            point: where to step from.
            accuracy: relative residual at which the conjugate gradients stop.
        """
        direction, change = self._direction(point, accuracy)
        slope = float(point.gradient @ direction)
        length = 1.0
        # Armijo's rule
        for _ in range(_MOST_HALVINGS):
            weights, scores = point.weights + length * direction, point.scores + length * change
            value, by_doc = self._evaluate(weights, scores)
            if value <= point.value + _SUFFICIENT_DECREASE * length * slope:
                return self._point(weights, scores, value, by_doc)
            length /= 2
        return None

    def _evaluate(self, weights: Floats, scores: Floats) -> tuple[float, Floats]:
        value, by_doc = self.loss.evaluate(scores)
        return value + self.l2 / 2 * float(weights @ weights), by_doc

    def _point(self, weights: Floats, scores: Floats, value: float, by_doc: Floats) -> Point:
        return Point(weights, scores, value, self.loss.gather(by_doc) + self.l2 * weights)

    def _direction(self, point: Point, accuracy: float) -> tuple[Floats, Floats]:
        """Return the Newton direction and X times it."""
        factor = self._curvature * self._spread
        factor.flat[:: len(factor) + 1] += self.l2
        _factor_kernel(factor)
        residual = -point.gradient
        solution, change = np.zeros_like(residual), np.zeros_like(point.scores)
        search = _solved(factor, residual)
        energy = float(residual @ search)
        # in the norm of the preconditioner, which the loop has at hand
        goal = accuracy**2 * energy
        for _ in range(_MOST_PRODUCTS):
            along = self.loss.scores(search)
            product = self.loss.gather(self.loss.hessian_product(point.scores, along))
            product += self.l2 * search
            step = energy / float(search @ product)
            solution += step * search
            # X d comes for nothing: the line search then needs no product
            change += step * along
            residual = residual - step * product
            relaxed = _solved(factor, residual)
            before, energy = energy, float(residual @ relaxed)
            if energy <= goal:
                break
            search = relaxed + energy / before * search
        # -gradient - residual is the Hessian times the direction, already computed; the next step
        # takes the curvature that this leaves to the spread of the pairs along the direction
        spread = float(solution @ self._spread @ solution)
        bend = float(solution @ (-point.gradient - residual))
        bend -= self.l2 * float(solution @ solution)
        if spread > 0:
            self._curvature = max(bend, 0.0) / spread
        return solution, change


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _factor_kernel(matrix: Floats) -> None:
    """Put the lower Cholesky factor in place; LAPACK's threads would cost more than they save."""
    for i in range(len(matrix)):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = np.sqrt(total) if i == j else total / matrix[j, j]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _solved(factor: Floats, right: Floats) -> Floats:
    """Return the solution x of (factor factor^T) x = right."""
    size, vector = len(right), right.copy()
    for i in range(size):
        total = vector[i]
        for k in range(i):
            total -= factor[i, k] * vector[k]
        vector[i] = total / factor[i, i]
    for i in range(size - 1, -1, -1):
        vector[i] /= factor[i, i]
        for k in range(i):
            vector[k] -= factor[i, k] * vector[i]
    return vector
