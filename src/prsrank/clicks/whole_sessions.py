r"""The likelihood of whole sessions under any click model: one pass down each list.

With $\theta_k$ the probability that the doc of slot k is relevant, which is attractive here, m_s
that of all clicks and skips above k and of a user who reaches k in state s, and e that of a walk
which has ended, the tables of a model (`WalkTables`) say what becomes of both at k. A click in
state s has

$$\sum_r P(r)\, c_{srk}, \quad P(1) = \theta_k, \quad P(0) = 1 - \theta_k$$

and the walk ends after it as the model says, as it may after a skip. A click leaves nothing of
what had ended above it. The sum of e and all m is P(clicks and skips down to k), and its ratio to
that of the slot above is P(what happened at k | what happened above): sessions without a click
count, and so does what follows the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from prsrank.clicks.models import CLICK_MODELS, WalkTables
from prsrank.data.dataset import RankingDataset
from prsrank.hashing import id_keys
from prsrank.logs.click_log import ClickLog
from prsrank.ragged import list_of_row, offsets_of, ragged_rows, row_in_list
from prsrank.threads import for_each_piece
from prsrank.types import Floats, IdArray, Ints, Longs, Marks

DEPTH = 50
"""What is shown further down is left out."""

# So many sessions tell click models apart; so many of a list leave room for others.
_MOST, _MOST_OF_LIST = 10_000, 500
_LEAST = 1e-12
_TRIALS_OF_NUMBER, _FIRST_STEP, _FARTHEST = 30, 0.5, 5.0


@dataclass(frozen=True, eq=False)
class WholeSessions:
    """Some sessions of a log: those of whole queries by a hash, but few of a query of very many.

    Attributes:
        offsets: where the slots of each begin, and the end (sessions + 1).
        docs: row in the data set of each slot (slots).
        positions: position of each slot (slots).
        clicked: whether it was clicked (slots).
        half: 0 or 1: every second session of a query is in the same half (sessions).
    """

    offsets: Longs
    docs: Longs
    positions: Ints
    clicked: Marks
    half: Longs

    @classmethod
    def of_log(cls, log: ClickLog, lists: RankingDataset) -> "WholeSessions":
        """Take some sessions of a log, or of a piece of it; its docs must be among the lists.

        >>> log = ClickLog.from_frame({
        ...     "query_id": np.array([7] * 4), "session_id": np.array([1, 1, 2, 2]),
        ...     "doc_id": np.array([0, 1] * 2), "position": np.array([1, 2] * 2),
        ...     "click": np.array([False, True, False, False])})
        >>> lists = RankingDataset(np.eye(2), np.array([0, 2]), query_ids=np.array([7]))
        >>> WholeSessions.of_log(log, lists).clicked.tolist()
        [False, True, False, False]
        """
        query = log.ranking_query[log.session_ranking].astype(np.int64)
        order = np.argsort(query, kind="stable")
        place = np.empty(len(query), np.int64)
        place[order] = row_in_list(offsets_of(np.bincount(query, minlength=log.queries)))
        chosen = _sampled(log.query_ids, query, place < _MOST_OF_LIST)
        chosen &= np.diff(log.ranking_offsets)[log.session_ranking] > 0
        log = log.select(chosen)
        slots, offsets = ragged_rows(log.ranking_offsets, log.session_ranking)
        clicked = np.zeros(len(slots), np.bool_)
        clicked[np.repeat(offsets[:-1], log.session_clicks) + log.clicks] = True
        docs, positions = log.doc_rows(lists)[log.ranking_docs[slots]], log.ranking_positions[slots]
        seen = positions <= DEPTH
        offsets = offsets_of(seen)[offsets]
        return cls(offsets, docs[seen], positions[seen], clicked[seen], place[chosen] % 2)

    @classmethod
    def joined(cls, parts: Sequence["WholeSessions"], lists: RankingDataset) -> "WholeSessions":
        """Put those of pieces without a common query together, and take as many as of one log."""
        docs, positions, clicked, half = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("docs", "positions", "clicked", "half")
        )
        offsets = offsets_of(np.concatenate([np.diff(part.offsets) for part in parts]))
        whole = cls(offsets, docs, positions, clicked, half)
        chosen = _sampled(lists.query_ids, whole.owners(lists), np.ones(len(half), np.bool_))
        slots, offsets = ragged_rows(offsets, chosen)
        return cls(offsets, docs[slots], positions[slots], clicked[slots], half[chosen])

    def owners(self, lists: RankingDataset) -> Longs:
        """Return the list of each session; 0 for one that shows nothing."""
        filled = np.diff(self.offsets) > 0
        owners = np.zeros(len(self.half), np.int64)
        owners[filled] = list_of_row(lists.offsets)[self.docs[self.offsets[:-1][filled]]]
        return owners

    def sums(self, values: Floats | Marks) -> Floats:
        """Return the sum of values of slots over each session."""
        total = np.append(0.0, np.cumsum(values))
        return np.asarray(np.diff(total[self.offsets]))

    def chances(self, tables: WalkTables, theta: Floats) -> Floats:
        """Return P(what happened | what happened above) of each slot.

        Args:
            tables: the click model's, down to the last position.
            theta: P(relevant) of each doc.
        """
        chances = np.empty(len(self.docs))
        walk = (tables.click, tables.stop_after_click, tables.stop_after_skip)
        states = (tables.start, tables.after_click)
        slots = (self.offsets, self.docs, self.positions, self.clicked)
        for_each_piece(
            lambda a, b: _walk_kernel(a, b, *slots, theta, *walk, *states, chances), self.offsets
        )
        return chances


def _sampled(query_ids: IdArray, query: Longs, usable: Marks) -> Marks:
    """Mark usable sessions of the queries of the least hashes, about `_MOST` of them."""
    sessions = np.bincount(query[usable], minlength=len(query_ids))
    order = np.argsort(id_keys(query_ids), kind="stable")
    taken = np.zeros(len(query_ids), np.bool_)
    taken[order] = np.cumsum(sessions[order]) - sessions[order] < _MOST
    return usable & taken[query]


@njit(cache=True, nogil=True)
def _walk_kernel(  # type: ignore[no-untyped-def]
    first, last, offsets, docs, positions, clicked, theta,
    click, stop_after_click, stop_after_skip, start, after_click, chances,
):  # fmt: skip
    kinds = np.flatnonzero(start > 0)
    state, mass = kinds.copy(), np.empty(len(kinds))
    for session in range(first, last):
        state[:], mass[:], ended = kinds, start[kinds], 0.0
        for slot in range(offsets[session], offsets[session + 1]):
            k, relevant = positions[slot] - 1, theta[docs[slot]]
            total, ended = 0.0, 0.0 if clicked[slot] else ended
            for i in range(len(kinds)):
                s = state[i]
                stop, no, yes = stop_after_skip, 1 - click[s, 0, k], 1 - click[s, 1, k]
                if clicked[slot]:
                    stop, no, yes = stop_after_click, click[s, 0, k], click[s, 1, k]
                    state[i] = after_click[s, k]
                no, yes = no * (1 - relevant) * mass[i], yes * relevant * mass[i]
                mass[i] = no * (1 - stop[s, 0, k]) + yes * (1 - stop[s, 1, k])
                ended += no + yes - mass[i]
                total += mass[i]
            total = max(total + ended, _LEAST)
            chances[slot] = total
            mass /= total
            ended /= total


@dataclass(frozen=True, eq=False)
class SessionFit:
    """A click model that was fitted to whole sessions.

    Attributes:
        model: the model, with the numbers of the greatest likelihood.
        chances: P(what happened | what happened above) of each slot.
        theta: P(relevant) of each doc, with the level of the greatest likelihood.
    """

    model: Any
    chances: Floats
    theta: Floats


def fit_sessions(name: str, sessions: WholeSessions, theta: Floats, curve: Floats) -> SessionFit:
    """Fit the few numbers of a click model, and the level of the thetas, by whole sessions.

    Args:
        name: of `CLICK_MODELS`; its class has `numbers`, and makes a model of them by `of_numbers`.
        sessions: the sessions.
        theta: P(relevant) of each doc, up to a shift of their logits.
        curve: propensities of the positions, for models that have some.
    """
    from scipy.optimize import minimize

    kind: Any = CLICK_MODELS[name]
    bounded = np.clip(theta, 1e-6, 1 - 1e-6)
    logit, depth = np.log(bounded / (1 - bounded)), int(sessions.positions.max(initial=1))

    def fitted(numbers: Floats) -> SessionFit:
        *own, level = np.clip(numbers, -_FARTHEST, _FARTHEST)
        model, shifted = kind.of_numbers(own, curve), 1 / (1 + np.exp(-logit - level))
        return SessionFit(model, sessions.chances(model.tables(depth), shifted), shifted)

    start = np.array([*kind.numbers, 0.0])
    simplex = start + np.vstack([np.zeros(len(start)), _FIRST_STEP * np.eye(len(start))])
    lowest = minimize(
        lambda numbers: -np.log(fitted(numbers).chances).sum(),
        start,
        method="Nelder-Mead",
        options={
            "maxfev": _TRIALS_OF_NUMBER * len(start),
            "initial_simplex": simplex,
            "fatol": 0.2,
            "xatol": 0.03,
        },
    )
    return fitted(lowest.x)
