"""Propensities from sessions that showed docs in random order."""
# ruff: noqa: S608 -- the query holds constants

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from prsrank.logs.click_log import ClickLog
from prsrank.logs.pieces import Extent, Pieces
from prsrank.logs.units import UnitSums, clicks_by_unit, session_keys, units_of
from prsrank.propensity.bootstrap import (
    CurveOptions,
    RawCurve,
    curve_with_intervals,
    not_identified,
)
from prsrank.propensity.curve import Propensities
from prsrank.propensity.identification import (
    SHUFFLED,
    Identified,
    any_marked,
    depth_of,
    judged,
)
from prsrank.ragged import offsets_of
from prsrank.types import LogTables, Longs, Marks

_NONE = (
    "no session is marked as shuffled; show a share of the sessions in random order "
    "(design 'uniform' or 'top-k')"
)
_UNKNOWN = "no shuffled list reaches them with clicks at position 1"
_SHUFFLED_CLICKS = (
    "WITH shuffled AS (SELECT q, s, k, c FROM {events} "
    "SEMI JOIN (SELECT q, s FROM {sessions} WHERE lo = 1 AND other_design != '') USING (q, s) "
    f"WHERE shuffled AND NOT starts_with(design, 'swap:') AND {SHUFFLED}), "
    "firsts AS (SELECT q, s, bool_or(c AND k = 1) AS first FROM shuffled GROUP BY q, s) "
    "SELECT k, count(*) FILTER (c), count(*) FILTER (first), count(*) FROM shuffled x "
    "JOIN firsts f ON x.q = f.q AND x.s = f.s GROUP BY k ORDER BY k"
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
        found = tables.rows(_SHUFFLED_CLICKS) if any_marked(tables, "NOT") else []
        sessions = max((shown for _, _, _, shown in found), default=0)
        clicks = {k: clicked for k, clicked, _, _ in found}
        none = "no session is marked as shuffled (randomised 'uniform' or 'top-k:K')"
        if sessions:
            none = "no shuffled session has a click at position 1 and further docs"
        return judged(
            self.method,
            {k for k, _, first, _ in found if first},
            clicks,
            depth=depth_of(tables),
            none=none,
            unlinked=_UNKNOWN,
            counts={"sessions": sessions, "clicks": sum(clicks.values())},
        )

    def estimate_pieces(self, pieces: Pieces[ClickLog], *, seed: int = 0) -> Propensities:
        """Return the curve of a log that lies in pieces."""
        depth = self.depth(pieces.total(Extent.of))
        counts = pieces.total(lambda log: shuffled_clicks(log, depth=depth)).values
        here, first = counts[:, :depth], counts[:, depth:]
        if not len(here):
            none = np.zeros(depth, np.int64)
            return not_identified(depth, none, method=self.method, why=_NONE)
        clicks, at_first = here.sum(axis=0), first.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p = np.where(at_first > 0, np.log(clicks / at_first), np.nan)
            influence = here / clicks - first / at_first
            # no click among n: with 95 % confidence fewer than 3.0 were expected
            zero_high = -np.log(0.05) / at_first
        raw = RawCurve(
            log_p,
            influence,
            clicks.astype(np.int64),
            _UNKNOWN,
            zero_high=zero_high,
            zero_impressions=at_first,
            carriers=(here > 0).sum(axis=0),
        )
        return curve_with_intervals(raw, options=self, method=self.method, seed=seed)


RANDOMISED = RandomisedEstimator()


def shuffled_clicks(log: ClickLog, *, depth: int) -> UnitSums:
    """Count clicks of shuffled sessions at each position k, and at 1 where k was shown.

    Returns:
        By session, or group of sessions: clicks at positions 1 to depth, then clicks at
        position 1 of the sessions that showed them, both of sessions shuffled down to the
        position at least (units x 2 depth).
    """
    reach = np.array([_reach(mark) for mark in log.designs], dtype=np.int64)
    ranking_reach = np.minimum(reach[log.ranking_design], depth)
    # only lists shown from position 1 can be compared with it
    ranking_reach[~_starts_at_one(log)] = 0
    sessions = np.flatnonzero(ranking_reach[log.session_ranking] > 0)
    keys, unit = units_of(session_keys(log)[sessions])
    column = log.ranking_positions.astype(np.int64) - 1
    column[column >= np.repeat(ranking_reach, np.diff(log.ranking_offsets))] = -1
    here = clicks_by_unit(log, sessions, unit, column, (len(keys), depth))
    # clicks at 1, once for each position shown with it: (units x rankings) (rankings x depth)
    shown = _matrix_of_rows(column, log.ranking_offsets, depth)
    first = np.flatnonzero(log.session_clicks[sessions])
    first = first[log.clicks[log.click_offsets[sessions[first]]] == 0]
    cells = (np.ones(len(first)), (unit[first], log.session_ranking[sessions[first]]))
    at_first = (csr_array(cells, shape=(len(keys), log.rankings)) @ shown).toarray()
    counts = np.hstack([here, at_first])
    return UnitSums(keys, np.arange(2 * depth), counts)


def _matrix_of_rows(column: Longs, offsets: Longs, columns: int) -> csr_array:
    """Return a matrix with a 1 in each column that a ragged row names; -1 is none."""
    named = column >= 0
    ones = np.ones(int(named.sum()))
    return csr_array((ones, column[named], offsets_of(named)[offsets]), (len(offsets) - 1, columns))


def _reach(mark: str) -> int:
    if mark == "uniform":
        return np.iinfo(np.int32).max
    return int(mark.removeprefix("top-k:")) if mark.startswith("top-k:") else 0


def _starts_at_one(log: ClickLog) -> Marks:
    filled = np.diff(log.ranking_offsets) > 0
    starts = np.zeros(log.rankings, bool)
    starts[filled] = log.ranking_positions[log.ranking_offsets[:-1][filled]] == 1
    return starts
