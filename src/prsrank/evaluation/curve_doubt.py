r"""What the doubt about a curve adds to an interval.

A click at position k weighs $1 / p_k$. If the curve that was estimated is off by $\delta_k$ in
log p, sums over the clicks at k are off by the factor $e^{-\delta_k}$: with $M_k$ the part of a
sum X that moves with position k, that is $X + \sum_k (e^{-\delta_k} - 1) M_k$. The estimators of
curves give the covariance of log p, from which $\delta$ is drawn. The curve comes from other
sessions than those that are judged, so both doubts are independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prsrank.propensity.curve import Propensities
from prsrank.types import Floats, Longs

# Of the largest variance, added to each: too little to widen anything.
_OWN_SHARE = 1e-9


@dataclass(frozen=True)
class CurveLevels:
    """The entries of a curve: position after position, of the shared curve, then of each context's.

    Attributes:
        contexts: the context values that have curves of their own.
        depth: positions of each whose errors are known; 0 where the curve is known.

    >>> CurveLevels(("a",), 3).of(np.array([1, 3, 5]), "a").tolist()
    [3, 5, -1]
    """

    contexts: tuple[str, ...] = ()
    depth: int = 0

    @classmethod
    def of_curve(cls, curve: object) -> "CurveLevels":
        """Return the entries of a curve that knows how uncertain it is, or none."""
        if not isinstance(curve, Propensities) or not _doubts(curve):
            return cls()
        return cls(tuple(curve.contexts), max(len(c.log_covariance) for c in _curves(curve)))

    @property
    def size(self) -> int:
        """Number of entries."""
        return (1 + len(self.contexts)) * self.depth

    def of(self, positions: Longs, context: str | None = None) -> Longs:
        """Return the entry of each position in a context; -1 where there is none."""
        own = self.contexts.index(context) + 1 if context in self.contexts else 0
        entries = own * self.depth + positions - 1
        return np.where(positions <= self.depth, entries, -1)

    def sums(self, levels: Longs, values: Floats) -> Floats:
        """Add up values by entry (entries)."""
        there = levels >= 0
        return np.bincount(levels[there], values[there], self.size).astype(np.float64)


@dataclass(frozen=True, eq=False)
class CurveDoubt:
    """The covariance of a curve's log p, in factors: F of a curve has $F F^T$ as its covariance.

    Attributes:
        factors: of each curve, in the order of `CurveLevels` (positions x positions).
    """

    factors: tuple[Floats, ...] = ()

    @classmethod
    def of_curve(cls, curve: object) -> "CurveDoubt":
        """Return the doubt about a curve; none if it is known."""
        depth = CurveLevels.of_curve(curve).depth
        if not depth or not isinstance(curve, Propensities):
            return cls()
        return cls(tuple(_factor(part, depth) for part in _curves(curve)))

    def draws(self, samples: int, seed: int) -> Floats:
        """Draw deviations of log p (samples x entries); none where the curve is known."""
        # not the draws of the queries: those have the seed itself
        rng = np.random.default_rng([seed, 1])
        parts = [rng.normal(size=(samples, f.shape[1])) @ f.T for f in self.factors]
        return np.concatenate([np.zeros((samples, 0)), *parts], axis=1)

    def deviation(self, moves: Floats) -> Floats:
        """Return the standard deviation of sums that move so (rows x entries) with log p."""
        variance, start = np.zeros(len(moves)), 0
        for factor in self.factors:
            part = moves[:, start : start + len(factor)]
            # a factor is triangular, and few positions of a long list have clicks
            used = np.flatnonzero(part.any(axis=0))
            part = part[:, used] @ factor[used, : used.max(initial=-1) + 1]
            variance += (part * part).sum(axis=1)
            start += len(factor)
        return np.sqrt(variance)


def _curves(curve: Propensities) -> Sequence[Propensities]:
    return [curve, *curve.contexts.values()]


def _doubts(curve: Propensities) -> bool:
    return any(part.log_covariance.any() for part in _curves(curve))


def _factor(curve: Propensities, depth: int) -> Floats:
    covariance = np.array(curve.log_covariance)
    # Positions on one step of a curve move as one. With a little doubt of its own for each there
    # is a factor all the same, and one that hardly moves with the rounding of the covariance.
    covariance[np.diag_indices_from(covariance)] += _OWN_SHARE * covariance.diagonal().max()
    factor = np.linalg.cholesky(covariance) if covariance.any() else covariance
    return np.pad(factor, (0, depth - len(factor)))
