"""Propensities from experiments: sessions that showed docs in random order, or swapped two."""
# ruff: noqa: S608 -- the queries hold constants

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from prsrank.logs.click_log import ClickLog
from prsrank.logs.pieces import Pieces
from prsrank.propensity.bootstrap import (
    CurveOptions,
    RawCurve,
    UnitSums,
    clicks_by_unit,
    linked_to_first,
    session_keys,
    solve_grounded,
    units_of,
)
from prsrank.propensity.identification import (
    SHUFFLED,
    Identified,
    any_marked,
    depth_of,
    judged,
    linked_positions,
)
from prsrank.ragged import list_of_row
from prsrank.types import Floats, LogTables, Longs

_NO_SHUFFLES = (
    "no session is marked as shuffled; show a share of the sessions in random order "
    "(design 'uniform' or 'top-k')"
)
_NOT_REACHED = "no shuffled list reaches them with clicks at position 1"
_SHUFFLED_CLICKS = (
    "WITH shuffled AS (SELECT q, s, k, c FROM {events} "
    "SEMI JOIN (SELECT q, s FROM {sessions} WHERE lo = 1 AND other_design != '') USING (q, s) "
    f"WHERE shuffled AND NOT starts_with(design, 'swap:') AND {SHUFFLED}), "
    "firsts AS (SELECT q, s, bool_or(c AND k = 1) AS first FROM shuffled GROUP BY q, s) "
    "SELECT k, count(*) FILTER (c), count(*) FILTER (first), count(*) FROM shuffled x "
    "JOIN firsts f ON x.q = f.q AND x.s = f.s GROUP BY k ORDER BY k"
)


_NO_SWAPS = (
    "no session is marked as a swap of two positions; swap a share of the sessions at random "
    "(design 'adjacent' or 'pivot')"
)
_NOT_LINKED = "no swaps with clicks link them to position 1"
_SWAPPED_CLICKS = (
    "WITH swapped AS (SELECT *, TRY_CAST(split_part(design, ':', 2) AS INTEGER) AS a, "
    "TRY_CAST(split_part(design, ':', 3) AS INTEGER) AS b FROM {events} "
    "WHERE starts_with(design, 'swap:')), "
    "pairs AS (SELECT least(a, b) AS one, greatest(a, b) AS two, count(*) AS n, "
    "count(*) FILTER (c AND k = least(a, b)) AS at_one, "
    "count(*) FILTER (c AND k = greatest(a, b)) AS at_two "
    "FROM swapped WHERE k IN (a, b) GROUP BY q, s, a, b) "
    "SELECT one, two, count(*), sum(at_one)::BIGINT, sum(at_two)::BIGINT FROM pairs "
    "WHERE n = 2 GROUP BY one, two ORDER BY one, two"
)


@dataclass(frozen=True, kw_only=True)
class RandomisedEstimator(CurveOptions):
    r"""The ratio of click-through rates in shuffled sessions.

    Shuffling gives every position docs of the same mean relevance, so
    $p_k / p_1 = \mathrm{CTR}_k / \mathrm{CTR}_1$ over the same sessions: those shuffled at
    least down to k, of lists that have positions 1 and k. Uses sessions marked "uniform" and,
    for k up to K, "top-k:K". Sessions are the units of the bootstrap.

    References:
        Joachims, Swaminathan, Schnabel: Unbiased learning-to-rank with biased feedback.
        WSDM 2017.
    """

    method: ClassVar[str] = "randomised"
    needs: ClassVar[str] = "shuffled sessions"
    only_randomised: ClassVar[bool] = True

    def identify(self, tables: LogTables) -> Identified:
        """Judge by the positions that shuffled lists with a click at position 1 reach."""
        rows = tables.rows(_SHUFFLED_CLICKS) if any_marked(tables, "NOT") else []
        sessions = max((shown for _, _, _, shown in rows), default=0)
        clicks = {k: clicked for k, clicked, _, _ in rows}
        none = "no session is marked as shuffled (randomised 'uniform' or 'top-k:K')"
        if sessions:
            none = "no shuffled session has a click at position 1 and further docs"
        return judged(
            self.method,
            {k for k, _, first, _ in rows if first},
            clicks,
            depth=depth_of(tables),
            none=none,
            unlinked=_NOT_REACHED,
            counts={"sessions": sessions, "clicks": sum(clicks.values())},
        )

    def raw_curve(self, pieces: Pieces[ClickLog], depth: int) -> RawCurve:
        """Return the estimate of a log that lies in pieces."""
        counts = pieces.total(lambda log: shuffled_clicks(log, depth=depth)).values
        here, first = counts[:, :depth], counts[:, depth:]
        if not len(here):
            return RawCurve.unknown(np.zeros(depth, np.int64), _NO_SHUFFLES)
        clicks, at_first = here.sum(axis=0), first.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p = np.where(at_first > 0, np.log(clicks / at_first), np.nan)
            influence = here / clicks - first / at_first
            # no click among n: with 95 % confidence fewer than 3.0 were expected
            zero_high = -np.log(0.05) / at_first
        return RawCurve(
            log_p,
            influence,
            clicks.astype(np.int64),
            _NOT_REACHED,
            zero_high=zero_high,
            zero_impressions=at_first,
            carriers=(here > 0).sum(axis=0),
        )


RANDOMISED = RandomisedEstimator()


def shuffled_clicks(log: ClickLog, *, depth: int) -> UnitSums:
    """Count clicks of shuffled sessions at each position k, and at 1 where k was shown.

    Returns:
        By session, or group of sessions: clicks at positions 1 to depth, then clicks at
        position 1 of the sessions that showed them, both of sessions shuffled down to the
        position at least (units x 2 depth).
    """
    reach = np.array([_reach(mark) for mark in log.designs], dtype=np.int64)
    ranking = list_of_row(log.ranking_offsets)
    ranking_reach = np.minimum(reach[log.ranking_design], depth)
    # only lists shown from position 1 can be compared with it
    at_one = log.ranking_positions == 1
    ranking_reach[~np.isin(np.arange(log.rankings), ranking[at_one])] = 0
    sessions = np.flatnonzero(ranking_reach[log.session_ranking] > 0)
    keys, unit = units_of(session_keys(log)[sessions])
    column = log.ranking_positions.astype(np.int64) - 1
    column[column >= ranking_reach[ranking]] = -1
    here = clicks_by_unit(log, sessions, unit, column, (len(keys), depth))
    # clicks at 1, once for each position shown with it: (units x rankings) (rankings x depth)
    named = column >= 0
    slots = (np.ones(int(named.sum())), (ranking[named], column[named]))
    shown = csr_array(slots, shape=(log.rankings, depth))
    first = np.flatnonzero(log.session_clicks[sessions])
    first = first[log.clicks[log.click_offsets[sessions[first]]] == 0]
    cells = (np.ones(len(first)), (unit[first], log.session_ranking[sessions[first]]))
    at_first = (csr_array(cells, shape=(len(keys), log.rankings)) @ shown).toarray()
    counts = np.hstack([here, at_first])
    return UnitSums(keys, np.arange(2 * depth), counts)


def _reach(mark: str) -> int:
    if mark == "uniform":
        return np.iinfo(np.int32).max
    return int(mark.removeprefix("top-k:")) if mark.startswith("top-k:") else 0


@dataclass(frozen=True, kw_only=True)
class SwapEstimator(CurveOptions):
    r"""The ratio of click-through rates of swapped docs at their two positions.

    In sessions marked "swap:A:B" the two docs change places with probability 1/2, so both
    positions get docs of the same mean relevance and $p_B / p_A = C_B / C_A$, C being clicks.
    A chain of adjacent swaps multiplies up, a swap with position 1 counts directly; where
    swaps offer several ways from position 1 to k, log p minimises the squared distance to all
    log ratios, each weighted by its precision $C_A C_B / (C_A + C_B)$. Sessions are the
    units of the bootstrap.

    References:
        Joachims, Swaminathan, Schnabel: Unbiased learning-to-rank with biased feedback.
        WSDM 2017. Wang et al.: Position bias estimation for unbiased learning to rank in
        personal search. WSDM 2018.
    """

    method: ClassVar[str] = "swap"
    needs: ClassVar[str] = "swaps"
    only_randomised: ClassVar[bool] = True

    def identify(self, tables: LogTables) -> Identified:
        """Judge by the positions that swaps with clicks at both link to position 1."""
        rows = tables.rows(_SWAPPED_CLICKS) if any_marked(tables, "") else []
        clicks: dict[int, int] = {}
        for one, two, _, at_one, at_two in rows:
            clicks[one] = clicks.get(one, 0) + at_one
            clicks[two] = clicks.get(two, 0) + at_two
        sessions = sum(row[2] for row in rows)
        none = "no session is marked as a swap (randomised 'swap:A:B')"
        if sessions:
            none = "no swaps with clicks at both positions link any position to position 1"
        counts = {"sessions": sessions, "swaps": len(rows), "clicks": sum(clicks.values())}
        return judged(
            self.method,
            linked_positions((one, two) for one, two, _, c1, c2 in rows if c1 and c2),
            clicks,
            depth=depth_of(tables),
            none=none,
            unlinked=_NOT_LINKED,
            counts=counts,
        )

    def raw_curve(self, pieces: Pieces[ClickLog], depth: int) -> RawCurve:
        """Return the estimate of a log that lies in pieces."""
        sums = pieces.total(lambda log: swapped_clicks(log, depth=depth))
        pairs = _pairs_of(sums.columns[::2])
        counts = sums.values.reshape(len(sums.keys), len(pairs), 2)
        clicks = np.zeros(depth)
        np.add.at(clicks, pairs - 1, counts.sum(axis=0))
        behind = clicks.astype(np.int64)
        if not len(counts):
            return RawCurve.unknown(behind, _NO_SWAPS)
        log_p, influence = curve_of_pairs(pairs, counts, depth=depth)
        carriers = np.zeros(depth, np.int64)
        np.add.at(carriers, pairs - 1, (counts > 0).sum(axis=0))
        return RawCurve(log_p, influence, behind, _NOT_LINKED, carriers=carriers)


SWAP = SwapEstimator()


def curve_of_pairs(pairs: Longs, counts: Floats, *, depth: int) -> tuple[Floats, Floats]:
    """Return log p and the groups' influences from clicks of swapped docs.

    Args:
        pairs: the two positions A, B of each kind of swap (pairs x 2).
        counts: clicks at A and at B, per group of sessions (groups x pairs x 2).
        depth: number of positions.
    """
    total = counts.sum(axis=0)
    # a pair with clicks on one side only has no finite log ratio
    usable = (total > 0).all(axis=1)
    ends, total, counts = pairs[usable] - 1, total[usable], counts[:, usable]
    # the precision of a log ratio of two counts: 1 / (1/a + 1/b)
    weight = total.prod(axis=1) / total.sum(axis=1)
    ratios = np.log(total[:, 0]) - np.log(total[:, 1])
    moves = counts[:, :, 0] / total[:, 0] - counts[:, :, 1] / total[:, 1]
    conductance = np.zeros((depth, depth))
    np.add.at(conductance, (ends[:, 0], ends[:, 1]), weight)
    linked = linked_to_first(conductance)
    flows = np.zeros((len(counts) + 1, depth))
    weighted = np.vstack([ratios, moves]) * weight
    np.add.at(flows.T, ends[:, 0], weighted.T)
    np.add.at(flows.T, ends[:, 1], -weighted.T)
    solved = solve_grounded(conductance, flows, linked)
    return solved[0], solved[1:]


# A swap of positions A and B has the columns (A << 21 | B) << 1, and the one after it.
_BITS = 21


def _pairs_of(columns: Longs) -> Longs:
    swaps = columns >> 1
    return np.stack([swaps >> _BITS, swaps & ((1 << _BITS) - 1)], axis=1)


def swapped_clicks(log: ClickLog, *, depth: int) -> UnitSums:
    """Count the clicks at both positions of every kind of swap.

    Returns:
        By session, or group of sessions: clicks at A and at B, swap after swap, of the
        sessions that had docs at both.
    """
    code_of_design = np.array([_swap_code(mark, depth) for mark in log.designs], np.int64)
    codes = np.setdiff1d(code_of_design, [0])
    pairs = _pairs_of(codes)
    pair = np.where(code_of_design > 0, np.searchsorted(codes, code_of_design), -1)
    ranking_pair = pair[log.ranking_design]
    sessions = np.flatnonzero(ranking_pair[log.session_ranking] >= 0)
    keys, unit = units_of(session_keys(log)[sessions])
    shape = (len(keys), 2 * len(pairs))
    column = _swapped_slots(log, pairs, ranking_pair)
    counts = clicks_by_unit(log, sessions, unit, column, shape)
    return UnitSums(keys, (codes[:, None] + [0, 1]).ravel(), counts)


def _swap_code(mark: str, depth: int) -> int:
    """Return the first column of the swap that a design names, 0 for another one or a deeper swap.

    >>> _swap_code("swap:2:1", 5) == (1 << 21 | 2) << 1
    True
    """
    upper, lower = sorted(map(int, mark.split(":")[1:])) if mark.startswith("swap:") else (0, 0)
    return (upper << _BITS | lower) << 1 if lower <= depth else 0


def _swapped_slots(log: ClickLog, pairs: Longs, ranking_pair: Longs) -> Longs:
    """Return 2 x pair + end of each slot at an end of its ranking's swap; -1 for the others."""
    ranking = list_of_row(log.ranking_offsets)
    pair = ranking_pair[ranking]
    # rankings without a swap have pair -1, the last row: no slot is at position 0
    at_end = log.ranking_positions[:, None] == np.vstack([pairs, [[0, 0]]])[pair]
    # where a doc was missing at one of the two positions there was nothing to swap
    ends = np.bincount(ranking, at_end.any(axis=1), log.rankings)
    swapped = at_end & (ends[ranking] == 2)[:, None]
    return np.where(swapped.any(axis=1), 2 * pair + swapped[:, 1], -1)
