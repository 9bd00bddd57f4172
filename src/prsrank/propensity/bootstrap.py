r"""Intervals for curves, by a bootstrap of the estimators' linear terms.

Every estimator here is a smooth function of sums over independent units (sessions, or
queries), so its logarithm moves by the sum of the units' *influences* when units are drawn
again: log p* = log p + sum_u (n_u - 1) influence_u, with n_u how often unit u was drawn.
A replicate costs one product of matrices, never another pass over the log.

Positions that are linked by comparisons are a network whose potentials are log p. A comparison of
positions k and k' with precision g pulls log p_k - log p_k' towards its own value; the weighted
least squares solve L x = b with the network's Laplacian L and b the sums of precision times value
at each position, position 1 held at 0.

Sums by unit of several pieces of a log add up to those of the whole, in whatever order rows,
files or tasks come: a unit is known by its ids, not by where it stands.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri, stdtrit

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.hashing import id_keys, joined_keys
from prsrank.logs.click_log import ClickLog, LogOrFrame, as_click_log
from prsrank.logs.pieces import Extent, LocalPieces, Pieces
from prsrank.propensity.curve import MOST_POSITIONS, Propensities
from prsrank.propensity.shapes import SHAPES, check_shape
from prsrank.propensity.verdict import FEW_CARRIERS, LEAST_SECOND, judge_counts
from prsrank.ragged import ragged_rows
from prsrank.threads import one_blas_thread
from prsrank.types import Floats, Longs, Marks

NO_CLICKS = "the log has no clicks at all: propensities cannot be estimated"

_LEVEL = 0.95
_HOLD = 1e-12
# so few units may agree by accident, and then show less chance than there is
_CARRIERS_THAT_SHOW_CHANCE = 10


@dataclass(frozen=True, kw_only=True)
class CurveOptions(ABC):
    """What all estimators from logs share; the facts about them are those of `Estimator`.

    Args:
        positions: estimate positions 1 to this one; default all that were shown, 2,000 at most.
        shape: "monotone" or "power": fit the curve, and every replicate, to this shape.
        replicates: number of bootstrap replicates behind the intervals.
    """

    needs: ClassVar[str] = "several rankings"
    uses_features: ClassVar[bool] = False
    only_randomised: ClassVar[bool] = False

    positions: int | None = None
    shape: str | None = None
    replicates: int = 200

    def __post_init__(self) -> None:
        if self.positions is not None and not 1 <= self.positions <= MOST_POSITIONS:
            raise InputError(f"positions must be 1 to {MOST_POSITIONS:,}, not {self.positions}")
        if self.replicates < 20:
            raise InputError(f"replicates must be at least 20, not {self.replicates}")
        check_shape(self.shape)

    def depth(self, extent: Extent) -> int:
        """Return the last position to estimate; an error if the log has nothing to say."""
        if extent.sessions == 0 or extent.depth == 0:
            raise InputError("the log has no sessions")
        if extent.clicks == 0:
            raise InputError(NO_CLICKS)
        return min(self.positions or MOST_POSITIONS, extent.depth)

    def estimate(
        self, log: LogOrFrame, *, dataset: RankingDataset | None = None, seed: int = 0
    ) -> Propensities:
        """Return the curve of the log; see `Estimator`."""
        return self.estimate_pieces(LocalPieces([as_click_log(log)]), seed=seed)

    def estimate_pieces(self, pieces: Pieces[ClickLog], *, seed: int = 0) -> Propensities:
        """Return the curve of a log that lies in pieces; the same, however it is cut."""
        depth = self.depth(pieces.total(Extent.of))
        return self.with_intervals(self.raw_curve(pieces, depth), seed)

    @property
    @abstractmethod
    def method(self) -> str:
        """Its name; see `Estimator`."""

    @abstractmethod
    def raw_curve(self, pieces: Pieces[ClickLog], depth: int) -> "RawCurve":
        """Return the estimate for positions 1 to `depth` of a log that lies in pieces."""

    @one_blas_thread()
    def with_intervals(self, raw: "RawCurve", seed: int) -> Propensities:
        """Return the curve with intervals, shaped if asked.

        Intervals are p_k exp(± t s_k): s_k is the standard deviation of log p, over bootstrap
        replicates if they take a shape, t Student's quantile with as many degrees of freedom as
        the units' influences amount to: few where few units carry the estimate.
        """
        log_p, covariance = raw.log_p, raw.covariance
        if self.shape is not None and np.isfinite(log_p[1:]).any():
            fit = SHAPES[self.shape](log_p, raw.deviation, raw.zero_impressions)
            log_p = fit(log_p)
            # the replicates take the same shape, so that intervals are those of the shaped curve
            drawn = replicate_curves(raw, replicates=self.replicates, seed=seed)
            moves = _centred(np.array([fit(row) for row in drawn]), log_p)
            covariance = np.asarray(moves.T @ moves / (len(moves) - 1))
        second = np.array([raw.log_p[1:2], log_p[1:2]])
        if ((second > -np.inf) & (second < np.log(LEAST_SECOND))).any():
            why = (
                f"position 2 would have a propensity of {np.exp(second.min()):.1g}, as no page has"
            )
            return self.with_intervals(RawCurve.unknown(raw.clicks, why), seed)
        t = stdtrit(degrees_of_freedom(raw.influence), (1 + _LEVEL) / 2)
        reach = t * np.where(np.isfinite(log_p), np.sqrt(np.diagonal(covariance)), np.nan)
        with np.errstate(invalid="ignore", over="ignore"):
            low, p, high = np.exp(log_p - reach), np.exp(log_p), np.exp(log_p + reach)
        zero = log_p == -np.inf
        low[zero] = 0.0
        high[zero] = np.nan if raw.zero_high is None else raw.zero_high[zero]
        high[np.isinf(high)] = np.nan
        if self.shape == "monotone":  # below the last click there is no lower end
            last = max(np.flatnonzero(np.isfinite(raw.log_p)), default=-1)
            low[last + 1 :][raw.log_p[last + 1 :] == -np.inf] = 0.0
        p[0] = low[0] = high[0] = 1.0
        # as wide as the intervals, which know how few units there are
        wide = covariance * np.outer(t, t) / ndtri((1 + _LEVEL) / 2) ** 2
        few = None
        # sessions of one query are independent, docs of one query are not
        if raw.carriers is not None and not self.only_randomised:
            few = raw.carriers <= FEW_CARRIERS
        verdict = judge_counts(~np.isnan(p), raw.clicks, why_unknown=raw.why_unknown, few=few)
        doubt = None if verdict.unknown else wide
        return Propensities(p, low, high, raw.clicks, verdict, self.method, covariance=doubt)


@dataclass(frozen=True, eq=False)
class RawCurve:
    """An estimate before intervals.

    Attributes:
        log_p: log(p_k / p_1); -inf for no clicks, NaN where the log says nothing.
        influence: effect of each unit of resampling on log p (units x positions).
        clicks: clicks behind each position.
        why_unknown: why positions are NaN, and what would help.
        zero_high: upper end of the interval where p is 0.
        zero_impressions: clicks that would be expected at each position if its p were 1; of matter
            where p is 0. None: not known.
        carriers: queries, or sessions, with clicks behind each position (positions). None: not
            known, and taken as enough.
    """

    log_p: Floats
    influence: Floats
    clicks: Longs
    why_unknown: str
    zero_high: Floats | None = None
    zero_impressions: Floats | None = None
    carriers: Longs | None = None

    @classmethod
    def unknown(cls, clicks: Longs, why: str) -> "RawCurve":
        """Return the curve of a log that tells nothing beyond position 1."""
        log_p = np.full(len(clicks), np.nan)
        log_p[:1] = 0.0
        return cls(log_p, np.zeros((0, len(clicks))), clicks, why)

    @property
    def deviation(self) -> Floats:
        r"""Standard deviation of log p at each position; NaN where log p is not finite.

        That of the bootstrap, $\frac{n}{n-1} (\sum v^2 - (\sum v)^2 / n)$ for n units
        of influence v, in closed form. Fewer than 10 carriers may agree by accident (a single
        one always does): there it is at least what chance gives a ratio of two counts,
        $1/c_1 + 1/c_k$.
        """
        return np.sqrt(self._bootstrapped() + self.unseen)

    @property
    def covariance(self) -> Floats:
        """Covariance of log p (positions x positions), with these deviations; 0 where not known."""
        units, estimated = len(self.influence), np.isfinite(self.log_p)
        unseen = np.diag(np.where(estimated, self.unseen, 0.0))
        if units < 2:
            return unseen
        v = _centred(np.nan_to_num(self.influence), self.log_p)
        return np.asarray(v.T @ v * (units / (units - 1)) + unseen)

    @property
    def unseen(self) -> Floats:
        """Variance by chance that the units do not show, where few carry a position."""
        seen = self._bootstrapped()
        if self.carriers is None:
            return np.zeros_like(seen)
        with np.errstate(divide="ignore"):
            chance = 1 / self.clicks[0] + 1 / self.clicks.astype(np.float64)
        few = (self.carriers < _CARRIERS_THAT_SHOW_CHANCE) & np.isfinite(chance)
        few[0] = False
        return np.where(few, np.maximum(chance - np.nan_to_num(seen), 0.0), 0.0)

    def _bootstrapped(self) -> Floats:
        units = len(self.influence)
        if units < 2:
            return np.where(np.isfinite(self.log_p), 0.0, np.nan)
        v = np.nan_to_num(self.influence)
        variance = ((v**2).sum(axis=0) - v.sum(axis=0) ** 2 / units) * (units / (units - 1))
        return np.where(np.isfinite(self.log_p), np.maximum(variance, 0.0), np.nan)


def _centred(rows: Floats, log_p: Floats) -> Floats:
    """Return rows less their mean, 0 where log p is not finite."""
    moves = np.where(np.isfinite(log_p), rows, 0.0)
    return np.asarray(moves - moves.mean(axis=0))


def replicate_curves(raw: RawCurve, *, replicates: int, seed: int) -> Floats:
    """Return bootstrap replicates of log p (replicates x positions)."""
    units = len(raw.influence)
    rng = np.random.default_rng(seed)
    unseen = rng.normal(size=(replicates, len(raw.log_p))) * np.sqrt(raw.unseen)
    if units < 2:
        return np.asarray(raw.log_p + unseen)
    # a draw with replacement is a number of copies of each unit: influences make it one product
    drawn = rng.multinomial(units, np.full(units, 1 / units), size=replicates)
    moves = (drawn - 1.0) @ np.nan_to_num(raw.influence)
    # the variance over n drawn units is too small by (n - 1) / n
    return np.asarray(raw.log_p + moves * np.sqrt(units / (units - 1)) + unseen)


def degrees_of_freedom(influence: Floats) -> Floats:
    r"""Return how many independent terms each position's variance amounts to.

    $3 (\sum_u v_u^2)^2 / \sum_u v_u^4$ (Satterthwaite's, for normal influences v), never
    below 3.
    """
    squares = np.nan_to_num(influence) ** 2
    # one unit that carries all has 3 degrees of freedom, however many units there are
    fourth = (squares**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        degrees = 3 * squares.sum(axis=0) ** 2 / fourth
    return np.asarray(np.maximum(np.nan_to_num(degrees, nan=3.0), 3.0))


def linked_to_first(conductance: Floats) -> Marks:
    """Return which positions comparisons link to position 1, at once or through others.

    >>> linked_to_first(np.array([[0, 2.0, 0], [0, 0, 0], [0, 0, 0]])).tolist()
    [True, True, False]
    """
    from scipy.sparse.csgraph import connected_components

    _, part = connected_components(conductance > 0, directed=False)
    return np.asarray(part == part[0])


@one_blas_thread()
def solve_grounded(conductance: Floats, flows: Floats, linked: Marks) -> Floats:
    """Return the potentials for each row of flows, that of position 1 being 0.

    Args:
        conductance: precision of the comparison of k and k', in one or both triangles
            (positions x positions).
        flows: what flows in at each position (rows x positions).
        linked: which positions are linked to the first; the others become NaN.
    """
    result = np.full(flows.shape, np.nan)
    result[:, 0] = 0.0
    both = conductance + conductance.T
    # a propensity that falls towards 0 takes all that ties it to others with it: without this
    # share of its own, nothing would hold it
    laplacian = np.diag(both.sum(axis=1) * (1 + _HOLD)) - both
    free = np.flatnonzero(linked)[1:]
    if free.size:
        result[:, free] = np.linalg.solve(laplacian[np.ix_(free, free)], flows[:, free].T).T
    return result


MOST_UNITS = 2000
"""More units than this are joined by their hash: their sums are as good, and small."""

_PROBE = 50 * MOST_UNITS


def query_keys(log: ClickLog) -> Longs:
    """Return the key of each query of a log."""
    return id_keys(log.query_ids)


def session_keys(log: ClickLog) -> Longs:
    """Return the key of each session of a log: of its query and its own id."""
    ids = np.arange(log.sessions) if log.session_ids is None else log.session_ids
    queries = query_keys(log)[log.ranking_query][log.session_ranking]
    return joined_keys(queries, id_keys(ids))


def units_of(keys: Longs) -> tuple[Longs, Longs]:
    """Return the keys of at most MOST_UNITS units, rising, and the index of each entry's unit.

    >>> units_of(np.array([7, 7, 9]))
    (array([7, 9]), array([0, 0, 1]))
    """
    # telling millions of keys apart takes a sort, which many keys do not need
    few = len(keys) <= _PROBE or len(np.unique(keys[:_PROBE])) <= MOST_UNITS
    if few:
        names, index = np.unique(keys, return_inverse=True)
        # where one piece was joined, the few units of another have to be, too
        if len(names) <= MOST_UNITS and not (names[:1] < 0).any():
            return names, index
    # a joined key is its remainder less MOST_UNITS: told from an id's key by being below 0, and
    # of the same remainder, so that pieces may be joined at any time
    used = np.zeros(MOST_UNITS, bool)
    remainder = keys % MOST_UNITS
    used[remainder] = True
    return np.flatnonzero(used) - MOST_UNITS, (np.cumsum(used) - 1)[remainder]


def clicks_by_unit(
    log: ClickLog, sessions: Longs, unit: Longs, column: Longs, shape: tuple[int, int]
) -> Floats:
    """Count the clicks of some sessions by their unit and the column of the clicked slot.

    Args:
        log: the log.
        sessions: those that count.
        unit: index of each one's unit.
        column: of each slot of the log's rankings; -1 for slots that do not count.
        shape: number of units and of columns.
    """
    clicks, offsets = ragged_rows(log.click_offsets, sessions)
    counts = np.diff(offsets)
    starts = log.ranking_offsets[log.session_ranking[sessions]]
    columns = column[np.repeat(starts, counts) + log.clicks[clicks]]
    cells = (np.repeat(unit, counts) * shape[1] + columns)[columns >= 0]
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


@dataclass(frozen=True, eq=False)
class UnitSums:
    """Sums by unit of resampling; those of several pieces add up with `+`.

    Attributes:
        keys: of the units, rising.
        columns: a number for each column, rising.
        values: the sums (units x columns).

    >>> sums = UnitSums.of(np.array([5, 6]), np.array([[1.0], [2.0]]))
    >>> (sums + UnitSums.of(np.array([6]), np.array([[3.0]]))).values.tolist()
    [[1.0], [5.0]]
    """

    keys: Longs
    columns: Longs
    values: Floats

    @classmethod
    def of(cls, keys: Longs, values: Floats, columns: Longs | None = None) -> "UnitSums":
        """Add up rows of values by the keys of their units."""
        names, index = units_of(keys)
        sums = np.zeros((len(names), values.shape[1]))
        np.add.at(sums, index, values)
        return cls(names, np.arange(values.shape[1]) if columns is None else columns, sums)

    def __add__(self, other: "UnitSums") -> "UnitSums":
        """Return the sums of both, over the units and columns of either."""
        columns = np.union1d(self.columns, other.columns)
        names, index = units_of(np.concatenate([self.keys, other.keys]))
        values = np.zeros((len(names), len(columns)))
        for sums, rows in (
            (self, index[: len(self.keys)]),
            (other, index[len(self.keys) :]),
        ):
            np.add.at(values, np.ix_(rows, np.searchsorted(columns, sums.columns)), sums.values)
        return UnitSums(names, columns, values)
