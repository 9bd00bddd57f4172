r"""Where expectation-maximisation for the position-based model comes to rest, on counts.

The model: P(click) = p_k r_d for doc d at position k. With w sessions and c clicks in a cell,
a step adds up what single events would give: c certain events and w - c non-clicks with
P(seen) = p (1 - r) / (1 - p r) and P(relevant) = r (1 - p) / (1 - p r).
"""

import numpy as np
from numba import njit
from scipy.sparse import csr_array

from prsrank.logs.pieces import Pieces
from prsrank.propensity.bootstrap import UnitSums, linked_to_first, solve_grounded, units_of
from prsrank.propensity.cells import Cells
from prsrank.types import Floats, Longs

_FRESH = 4


class CellLikelihood:
    """The likelihood of counts as a function of p alone, every doc's r at its best.

    What it returns adds up over the pieces of a log.
    """

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self._at: tuple[Floats, Floats] | None = None

    def relevance(self, p: Floats) -> Floats:
        """Return the best r of each doc."""
        if self._at is None or self._at[0] is not p:
            self.height(p)
        assert self._at is not None  # noqa: S101
        return self._at[1]

    def height(self, p: Floats) -> float:
        """Return the log-likelihood."""
        r, height = best_relevance_per_doc(self.cells, p)
        self._at = p, r
        return height

    def information(self, p: Floats) -> Floats:
        r"""Return how strongly docs tie each two positions together, their r being free.

        With $I_{dk} = w p r / (1 - p r)$: $\sum_d I_{dk} I_{dk'} / \sum_j I_{dj}$, the negative
        second derivative of the likelihood by log p_k and log p_k', r at its best (the upper
        triangle).
        """
        _, own = cell_scores(self.cells, p, self.relevance(p))
        cells = (self.cells.positions - 1, self.cells.offsets)
        shape = (self.cells.docs, self.cells.depth)
        shares, ties = (csr_array((x, *cells), shape) for x in (self._shares(own), own))
        # what a doc says of a position alone goes into its free r: only ties are left
        return np.triu((shares.T @ ties).toarray(), 1)

    def scores(self, p: Floats, queries: int | None = None) -> UnitSums:
        """Return the derivative by log p of each unit's counts, or of all of them.

        Args:
            p: the curve.
            queries: of the whole log; see `Cells.unit_keys`. None: all counts are one unit.
        """
        cells = self.cells
        surplus, own = cell_scores(cells, p, self.relevance(p))
        of_doc = cells.sums(surplus)
        # the surplus is what the doc's r takes up when it follows
        moves = surplus - self._shares(own) * of_doc[cells.cell_docs]
        none = np.zeros(cells.docs, np.int64)
        keys, unit = units_of(none if queries is None else cells.unit_keys(queries))
        at = unit[cells.cell_docs] * cells.depth + cells.positions - 1
        sums = np.bincount(at, moves, len(keys) * cells.depth).astype(np.float64)
        return UnitSums(keys, np.arange(cells.depth), sums.reshape(-1, cells.depth))

    def _shares(self, own: Floats) -> Floats:
        """Return each cell's share of its doc's information."""
        total = self.cells.sums(own)[self.cells.cell_docs]
        return np.divide(own, total, out=np.zeros(len(own)), where=total > 0)


def most_likely_curve(
    likelihood: Pieces[CellLikelihood],
    clicks_at: Longs,
    *,
    tolerance: float = 1e-6,
    iterations: int = 60,
) -> Floats:
    """Return the p (p_1 = 1) at which EM steps with an r for each doc would come to rest.

    That is the maximum of the likelihood. EM creeps towards it for thousands of steps;
    Newton's method on log p, with the best r for each p, takes about ten.

    Args:
        likelihood: of the counts, in pieces.
        clicks_at: clicks at each position.
        tolerance: a step of log p below this is the last.
        iterations: at most so many steps.
    """

    def height(p: Floats) -> float:
        return likelihood.total(lambda piece: piece.height(p))

    p: Floats = np.arange(1, len(clicks_at) + 1, dtype=np.float64) ** -0.5
    # without a click p = 0 is the most likely, and log p has no finite step
    p[clicks_at == 0] = 0.0
    reached = height(p)
    for iteration in range(iterations):
        # the curvature changes little near the end, and is the costly part
        if iteration < _FRESH or iteration % _FRESH == 0:
            information = likelihood.total(lambda piece, p=p: piece.information(p))  # type: ignore[misc]
            linked = linked_to_first(information)
        scores = likelihood.total(lambda piece, p=p: piece.scores(p))  # type: ignore[misc]
        move = np.nan_to_num(solve_grounded(information, scores.values, linked)[0])
        # far from the top the quadratic may send p anywhere: at most a factor of e
        move, before = np.clip(move, -1.0, 1.0), reached
        # the likelihood is not concave in log p: a step that does not climb is halved
        for halving in range(8):
            trial = np.asarray(p * np.exp(move * 0.5**halving))
            if (trial_height := height(trial)) > reached:
                p, reached = trial, trial_height
                break
        if np.abs(move).max(initial=0.0) < tolerance or reached - before < 1e-12 * abs(reached):
            break
    return p


def best_relevance_per_doc(cells: Cells, p: Floats) -> tuple[Floats, float]:
    """Return the most likely r of each doc given p, and the log-likelihood there.

    r may reach 1 / max p over the doc's positions: only p r is a probability.
    """
    r = np.empty(cells.docs)
    height = _relevance_kernel(
        cells.offsets, cells.positions, cells.shown, cells.clicked, np.ascontiguousarray(p), r
    )
    return r, float(height)


def propensity_given_relevance(
    cells: Cells, p: Floats, r: Floats, *, tolerance: float = 1e-4
) -> Floats:
    """Return the p at which the steps' p would come to rest if r stayed as it is.

    Newton's method on log p, each position for itself.
    """
    for _ in range(20):
        score, information = (
            np.bincount(cells.positions - 1, values, cells.depth)
            for values in cell_scores(cells, p, r)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            move = np.clip(np.where(information > 0, score / information, 0.0), -0.7, 0.7)
        p = p * np.exp(move)
        if np.abs(move[cells.clicks_at > 0]).max(initial=0.0) < tolerance:
            break
    return np.asarray(p)


def relevance_gradient(cells: Cells, p: Floats, r: Floats) -> tuple[Floats, Floats]:
    r"""Return first and second derivative of the loss by the logit of each doc's r.

    The first is w (r - mean P(relevant)), what an M step descends. The second is that of the
    log-likelihood, $(1-r)^2 \sum w p r / (1 - p r)$, without the part that EM guesses: a doc
    far down carries little information, and so moves as fast as one at the top.
    """
    surplus, information = cell_scores(cells, p, r)
    docs, far = cells.cell_docs, 1 - r
    return -cells.sums(surplus * far[docs]), cells.sums(information * far[docs] ** 2)


def cell_scores(cells: Cells, p: Floats, r: Floats) -> tuple[Floats, Floats]:
    """Return the likelihood's first and negative second derivative by log(p r) of each cell."""
    both = np.minimum(p[cells.positions - 1] * r[cells.cell_docs], 1 - 1e-6)
    missed = 1 - both
    return (cells.clicked - cells.shown * both) / missed, cells.shown * both / missed


@njit(cache=True, nogil=True)
def _relevance_kernel(offsets, positions, shown, clicked, p, r):  # type: ignore[no-untyped-def]
    total = 0.0
    for doc in range(len(r)):
        start, stop = offsets[doc], offsets[doc + 1]
        clicks = 0.0
        exposure = 0.0
        most = 0.0
        for i in range(start, stop):
            clicks += clicked[i]
            exposure += shown[i] * p[positions[i] - 1]
            most = max(most, p[positions[i] - 1])
        if clicks == 0:
            r[doc] = 0.0
            continue
        # the slope falls in r, so its root stays bracketed while Newton speeds the search up
        low, high = 0.0, (1 - 1e-9) / most
        value = min(clicks / exposure, 0.5 * high)
        for _ in range(100):
            slope = clicks
            curvature = 0.0
            for i in range(start, stop):
                both = value * p[positions[i] - 1]
                odds = both / (1 - both)
                slope -= (shown[i] - clicked[i]) * odds
                curvature += (shown[i] - clicked[i]) * odds / (1 - both)
            if slope > 0:
                low = value
            else:
                high = value
            # a step in log r keeps r above 0
            step = value * np.exp(min(slope / curvature, 1.0)) if curvature > 0 else high
            if not low < step < high:
                step = 0.5 * (low + high)
            moved = abs(step - value)
            value = step
            if moved < 1e-12 * value:
                break
        r[doc] = value
        for i in range(start, stop):
            both = value * p[positions[i] - 1]
            if clicked[i] > 0:
                total += clicked[i] * np.log(both)
            if shown[i] > clicked[i]:
                total += (shown[i] - clicked[i]) * np.log1p(-both)
    return total
