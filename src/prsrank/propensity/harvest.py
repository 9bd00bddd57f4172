"""Propensities from docs that different rankings showed at different positions."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.pieces import Pieces, Sums
from prsrank.propensity.bootstrap import (
    CurveOptions,
    RawCurve,
    UnitSums,
    linked_to_first,
    solve_grounded,
    units_of,
)
from prsrank.propensity.cells import Cells, carriers_of, count_cells, queries_of
from prsrank.propensity.identification import Identified, MovedDocs
from prsrank.types import Floats, LogTables, Longs, Marks

FORMS = {"all-pairs": "harvest", "adjacent-chain": "harvest-chain"}
"""The forms, and what each is called as a method."""

_NONE = (
    "every doc was only ever shown at one position; log sessions of a second ranker "
    "or randomise a share"
)
_UNKNOWN = "no clicked docs link them to position 1"
_NEARLY_1 = 1 - 1e-6
_POLISHES, _FARTHEST_POLISH = 20, 1e-3


@dataclass(frozen=True, kw_only=True)
class HarvestEstimator(CurveOptions):
    r"""Intervention harvesting: docs that rankings showed at both k and k'.

    With w(q, d, k) the number of sessions with d at k, $\hat c_k(k, k')$ sums clicks at k / w
    over the docs shown at both k and k', and N(k, k') counts those docs.

    - "adjacent-chain": $p_{k+1} / p_k = \hat c_{k+1}(k, k+1) / \hat c_k(k, k+1)$, multiplied.
    - "all-pairs": maximises $\sum_{k \ne k'} \hat c_k \log(p_k r_{kk'}) +
      (N - \hat c_k) \log(1 - p_k r_{kk'})$, with $r_{kk'} = r_{k'k}$ of every pair its own.

    Every ranking counts, randomised or not. Queries are the units of the bootstrap (docs, if
    queries are few): for each of them the two sides of every comparison agree but for chance,
    however relevant its docs are.

    Args:
        form: "all-pairs" or "adjacent-chain".

    References:
        Agarwal, Zaitsev, Wang, Li, Najork, Joachims: Estimating position bias without
        intrusive interventions. WSDM 2019.
    """

    form: str = "all-pairs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form not in FORMS:
            raise InputError(
                f"unknown form '{self.form}' of harvest; there are: {', '.join(FORMS)}"
            )

    @property
    def method(self) -> str:
        """The name: each form has its own."""
        return FORMS[self.form]

    def identify(self, tables: LogTables) -> Identified:
        """Judge by the pairs of positions, or of neighbours, with clicks at both."""
        moved = MovedDocs(tables)
        apart = 1 if self.form == "adjacent-chain" else moved.paired
        links = [(k, other) for k, other, _, both in moved.pairs if both and other - k <= apart]
        return moved.judged(self.method, links)

    def raw_curve(self, pieces: Pieces[ClickLog], depth: int) -> RawCurve:
        """Return the estimate of a log that lies in pieces."""
        moved = pieces.map(lambda log: _moved_cells(log, depth))
        rates, docs, clicks, queries = moved.total(
            lambda cells: Sums((*pair_statistics(cells), cells.clicks_at, queries_of(cells)))
        )
        if not docs.any():
            return RawCurve.unknown(clicks, _NONE)
        fit = _FITS[self.form](rates, docs)
        count = len(queries.keys)
        flows = moved.total(lambda cells: _unit_flows(cells, fit.gain, count)).values
        influence = solve_grounded(fit.conductance, flows, fit.linked)
        carriers = carriers_of(queries)
        return RawCurve(np.log(fit.propensity), influence, clicks, _UNKNOWN, carriers=carriers)


HARVEST, HARVEST_CHAIN = HarvestEstimator(), HarvestEstimator(form="adjacent-chain")


@dataclass(frozen=True, eq=False)
class PairFit:
    """A curve fitted to pairs of positions, and what its influences need.

    Attributes:
        propensity: p_k, with p_1 = 1 (positions).
        linked: which positions comparisons link to position 1.
        conductance: precision of each comparison (positions x positions, symmetric).
        gain: by how much a doc's rate of clicks at k moves the flow from k to k'
            (positions x positions).
    """

    propensity: Floats
    linked: Marks
    conductance: Floats
    gain: Floats


def pair_statistics(cells: Cells) -> tuple[Floats, Floats]:
    r"""Return $\hat c_k(k, k')$ at [k - 1, k' - 1], and the number of docs behind it."""
    rates = np.zeros((cells.depth, cells.depth))
    docs = np.zeros((cells.depth, cells.depth))
    _pair_kernel(cells.offsets, cells.positions, cells.clicked / cells.shown, rates, docs)
    return rates, docs


def adjacent_chain(rates: Floats, docs: Floats) -> PairFit:
    """Multiply the ratios of neighbouring positions; stop where one has no clicks.

    >>> rates = np.array([[0, 0.8, 0], [0.4, 0, 0.6], [0, 0.2, 0]])
    >>> adjacent_chain(rates, np.ones((3, 3))).propensity.round(3).tolist()
    [1.0, 0.5, 0.167]
    """
    depth = len(rates)
    usable = np.minimum(rates, rates.T) > 0
    neighbours = np.abs(np.subtract.outer(np.arange(depth), np.arange(depth))) == 1
    usable &= neighbours
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.diagonal(rates, -1) / np.diagonal(rates, 1)
        gain = np.where(usable, 1 / rates, 0.0)
        curve = np.concatenate([[1.0], np.cumprod(steps)])
    linked = linked_to_first(usable.astype(np.float64))
    return PairFit(np.where(linked, curve, np.nan), linked, np.triu(usable.astype(float)), gain)


def all_pairs(rates: Floats, docs: Floats) -> PairFit:
    """Maximise the likelihood of all pairs of positions over log p, given the best r of each.

    The best r of a pair solves a quadratic, so only the curve itself is left to search.
    """
    from scipy.optimize import minimize

    # pairs with clicks on one side only would put a ratio at 0 or infinity: they link nothing
    linked = linked_to_first(np.minimum(rates, rates.T))
    # but among linked positions they count: without them p would be too high wherever clicks are few
    usable = (np.maximum(rates, rates.T) > 0) & np.logical_and.outer(linked, linked)
    k, other = np.nonzero(np.triu(usable))
    pairs = _Pairs(k, other, rates[k, other], rates[other, k], docs[k, other])
    free = np.flatnonzero(linked)[1:]
    log_p = np.zeros(len(rates))
    if free.size:
        # between no bias and 1/k
        start = -0.5 * np.log(free + 1.0)
        best = minimize(
            lambda x: _loss(x, free, pairs, len(rates)),
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30},
        )
        log_p[free] = _polished(best.x, free, pairs, linked)
    p = np.exp(log_p)
    return PairFit(np.where(linked, p, np.nan), linked, *_information(p, pairs))


def _information(p: Floats, pairs: "_Pairs") -> tuple[Floats, Floats]:
    """Return conductance and gain of each pair of positions, at a curve; see `PairFit`."""
    k, other = pairs.k, pairs.other
    one, two = (np.minimum(p[ends] * best_relevance(p, pairs), _NEARLY_1) for ends in (k, other))
    information_one, information_two = (pairs.docs * x / (1 - x) for x in (one, two))
    flow = 1 / ((1 - one) * (1 - two) * (one / (1 - one) + two / (1 - two)))
    conductance, gain = np.zeros((len(p), len(p))), np.zeros((len(p), len(p)))
    conductance[k, other] = information_one * information_two / (information_one + information_two)
    gain[k, other], gain[other, k] = flow * two, flow * one
    return conductance, gain


def _polished(log_free: Floats, free: Longs, pairs: "_Pairs", linked: Marks) -> Floats:
    """Return a minimum to the last digits, by Fisher scoring from where the search ended.

    The search ends where the loss no longer falls, which leaves half of the digits to the
    order of the sums: a log in pieces would have another curve.
    """
    last = _FARTHEST_POLISH
    for _ in range(_POLISHES):
        p = np.ones(len(linked))
        p[free] = np.exp(log_free)
        flows = np.zeros((1, len(p)))
        flows[0, free] = -_loss(log_free, free, pairs, len(p))[1] * pairs.docs.sum()
        step = solve_grounded(_information(p, pairs)[0], flows, linked)[0, free]
        size = float(np.abs(step).max())
        if not size < last:  # no minimum in the open, or nothing left but rounding
            break
        log_free, last = log_free + step, size
    return log_free


_FITS = {"all-pairs": all_pairs, "adjacent-chain": adjacent_chain}


@dataclass(frozen=True, eq=False)
class _Pairs:
    k: Longs
    other: Longs
    rate: Floats
    other_rate: Floats
    docs: Floats


def best_relevance(p: Floats, pairs: _Pairs) -> Floats:
    r"""Return the r of each pair that maximises its part of the likelihood.

    The smaller root of $2 N p p' r^2 - (c p' + c' p + N p + N p') r + c + c' = 0$.
    """
    one, two = p[pairs.k], p[pairs.other]
    a = 2 * pairs.docs * one * two
    b = pairs.rate * two + pairs.other_rate * one + pairs.docs * (one + two)
    c = pairs.rate + pairs.other_rate
    # this form of the root loses no digits where a c is small beside b^2
    return np.asarray(2 * c / (b + np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))))


def _loss(log_free: Floats, free: Longs, pairs: _Pairs, depth: int) -> tuple[float, Floats]:
    log_p = np.zeros(depth)
    log_p[free] = log_free
    p = np.exp(log_p)
    r = best_relevance(p, pairs)
    # a mean, so that the tolerances hold for logs of any size
    total = pairs.docs.sum()
    loss, gradient = 0.0, np.zeros(depth)
    for ends, rate in ((pairs.k, pairs.rate), (pairs.other, pairs.other_rate)):
        x = np.minimum(p[ends] * r, 1 - 1e-12)
        loss -= float((rate * np.log(x) + (pairs.docs - rate) * np.log1p(-x)).sum())
        gradient -= np.bincount(ends, (rate - pairs.docs * x) / (1 - x), depth)
    return loss / total, gradient[free] / total


def _moved_cells(log: ClickLog, depth: int) -> Cells:
    """Return the cells of the docs that were shown at several positions."""
    cells = count_cells(log, depth=depth)
    return cells.of_docs(np.diff(cells.offsets) > 1)


def _unit_flows(cells: Cells, gain: Floats, queries: int) -> UnitSums:
    r"""Return the flow that each unit of resampling sends from each position.

    With c a unit's own part of the rates, and g the gain:
    $\sum_{k'} g_{kk'} c_k(k, k') - g_{k'k} c_{k'}(k, k')$.
    """
    keys, unit = units_of(cells.unit_keys(queries))
    flows = np.zeros((len(keys), cells.depth))
    rate = cells.clicked / cells.shown
    _flow_kernel(cells.offsets, cells.positions, rate, gain, unit, flows)
    return UnitSums(keys, np.arange(cells.depth), flows)


@njit(cache=True, nogil=True)
def _pair_kernel(offsets, positions, rate, rates, docs):  # type: ignore[no-untyped-def]
    for doc in range(len(offsets) - 1):
        for i in range(offsets[doc], offsets[doc + 1]):
            k = positions[i] - 1
            for j in range(offsets[doc], offsets[doc + 1]):
                if i != j:
                    # each doc counts once per pair, however often it was shown: its relevance cancels
                    rates[k, positions[j] - 1] += rate[i]
                    docs[k, positions[j] - 1] += 1


@njit(cache=True, nogil=True)
def _flow_kernel(offsets, positions, rate, gain, unit, flows):  # type: ignore[no-untyped-def]
    for doc in range(len(offsets) - 1):
        for i in range(offsets[doc], offsets[doc + 1]):
            k = positions[i] - 1
            for j in range(i + 1, offsets[doc + 1]):
                other = positions[j] - 1
                flow = gain[k, other] * rate[i] - gain[other, k] * rate[j]
                flows[unit[doc], k] += flow
                flows[unit[doc], other] -= flow
