"""Sessions folded by distinct (showing, click set), where pairs do not suffice."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from prsrank.clicks.cascade import Cascade, CascadeCounts, clicks_below
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.hashing import STEP, mixed
from prsrank.logs.array_checks import warn_of_weights
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.log_on_lists import (
    LogOnLists,
    PropensitySource,
    ShownLists,
    WeightRows,
)
from prsrank.propensity.cells import ENOUGH_QUERIES
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.ragged import list_of_row, offsets_of, ragged_rows
from prsrank.relevance.dependence import dependence_statistic
from prsrank.relevance.prior import Prior
from prsrank.types import Bytes, Floats, IdArray, Ints, Longs
from prsrank.weighting import WeightFunction, Weighting, find_weighting


class SetArrays(NamedTuple):
    """Distinct sets of clicked slots of each showing. Kernels take it as it is.

    Attributes:
        offsets: offsets of the data set's lists (lists + 1).
        list_offsets: where each list's sets begin, and the end (lists + 1).
        set_showing: showing of each set (sets).
        set_offsets: where each set's clicks begin, and the end (sets + 1).
        set_slots: 0-based slot of each clicked doc, rising within a set.
        set_counts: number of sessions (sets).
        slot_offsets: where each showing's slots begin (showings + 1).
        slot_rows: row in its list of the doc in each slot.
        slot_compared: 0 for slots that no click is compared with (slots).
        rows: weights of the pairs of slots.
    """

    offsets: Longs
    list_offsets: Longs
    set_showing: Longs
    set_offsets: Longs
    set_slots: Ints
    set_counts: Longs
    slot_offsets: Longs
    slot_rows: Ints
    slot_compared: Bytes
    rows: WeightRows


@dataclass(frozen=True, eq=False)
class ClickSets:
    """Distinct sets of clicked slots of each showing, and how many sessions had each.

    How far a swap of two docs changes MAP or MRR depends on the session's other clicks, so
    sessions fold only as far as their clicks are the same.

    Attributes:
        query_ids: the data set's query ids.
        arrays: the sets.
    """

    query_ids: IdArray
    arrays: SetArrays

    @property
    def offsets(self) -> Longs:
        """Offsets of the data set's lists (lists + 1)."""
        return self.arrays.offsets

    @classmethod
    def from_log(
        cls,
        log: ClickLog,
        dataset: RankingDataset,
        propensities: PropensitySource = None,
        weighting: str | Weighting | WeightFunction = "prs",
        *,
        parameters: Mapping[str, float] | None = None,
        context: str | None = None,
    ) -> "ClickSets":
        """Fold the sessions of a log; the arguments are those of `PairSet.from_log`.

        A swap of two clicked docs changes neither MAP nor MRR, so a clicked doc is never
        compared with another one, whatever the weighting says.
        """
        chosen = find_weighting(weighting, parameters)
        if chosen.against == "labels":
            return cls.from_labels(dataset)
        warn_of_weights(log, "an objective of whole sessions (map, mrr)")
        placed = LogOnLists(log, dataset, propensities, chosen, context)
        shown = placed.shown
        rows = placed.shared_rows(chosen) or placed.own_rows(chosen, 0, dataset.lists)
        sessions, counts, showing = _distinct(shown)
        list_of_showing = np.empty(len(shown.by_list), np.int64)
        list_of_showing[shown.by_list] = list_of_row(shown.list_offsets)
        order = np.argsort(list_of_showing[showing], kind="stable")
        slots, set_offsets = ragged_rows(shown.click_offsets, sessions[order])
        irrelevant_only = chosen.against == "irrelevant"
        arrays = SetArrays(
            offsets=dataset.offsets,
            list_offsets=offsets_of(np.bincount(list_of_showing[showing], minlength=dataset.lists)),
            set_showing=showing[order],
            set_offsets=set_offsets,
            set_slots=shown.clicks[slots],
            set_counts=counts[order],
            slot_offsets=shown.slot_offsets,
            slot_rows=shown.slot_rows,
            slot_compared=(placed.relevance == 0).astype(np.uint8)
            if irrelevant_only
            else np.ones(len(shown.slot_rows), np.uint8),
            rows=rows,
        )
        return cls(dataset.query_ids, arrays)

    @classmethod
    def from_labels(cls, dataset: RankingDataset) -> "ClickSets":
        """Full information: one session per list in which all relevant docs are clicked."""
        if dataset.labels is None:
            raise InputError("this data set has no labels")
        clicks = np.flatnonzero(dataset.relevance)
        before = offsets_of(dataset.relevance)
        per_list = np.diff(before[dataset.offsets])
        some = per_list > 0
        zeros = np.zeros(dataset.docs, np.int64)
        arrays = SetArrays(
            offsets=dataset.offsets,
            list_offsets=offsets_of(some),
            set_showing=np.flatnonzero(some),
            set_offsets=offsets_of(per_list[some]),
            set_slots=dataset.rows_in_list[clicks].astype(np.int32),
            set_counts=np.ones(int(some.sum()), np.int64),
            slot_offsets=dataset.offsets,
            slot_rows=dataset.rows_in_list.astype(np.int32),
            slot_compared=np.ones(dataset.docs, np.uint8),
            rows=WeightRows(zeros, zeros, np.ones(1), np.zeros(1, np.uint8)),
        )
        return cls(dataset.query_ids, arrays)


def _distinct(shown: ShownLists) -> tuple[Longs, Longs, Longs]:
    """Return a session, the number of sessions and the showing of each distinct click set.

    Sets are told apart by 64 bits: the sum of their slots' hashes.
    """
    clicks, offsets = ragged_rows(shown.click_offsets, shown.sessions)
    bits = mixed((shown.clicks[clicks] + 1).astype(np.uint64) * STEP)
    sums = offsets_of(bits)[offsets]
    showing, sets = list_of_row(shown.session_offsets), sums[1:] - sums[:-1]
    order = np.lexsort((sets, showing))
    showing, sets = showing[order], sets[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (showing[1:] != showing[:-1]) | (sets[1:] != sets[:-1])
    firsts = np.flatnonzero(fresh)
    return shown.sessions[order[firsts]], np.diff(firsts, append=len(order)), showing[firsts]


# Independent clicks exceed it once in a thousand logs (chi-squared of 2 degrees).
DEPENDENT = 13.8
# Clicks that depend on one another are a cascade's unless it is so much the worse at them.
WORSE = -3.0
# A log without the sessions that have no click shows dependence of its own making.
LEAST_WITHOUT_CLICK = 0.01


@dataclass(frozen=True)
class ClickChoice:
    """What was found about the clicks of a log.

    Attributes:
        cascade: whether they are taken for a cascade's.
        dependence: how far clicks of a session are from independent; see
            `prsrank.relevance.dependence`.
        advantage: how much likelier the cascade makes clicks at or above the last one than the
            position-based model does, in standard errors; NaN where nobody asked.
        go_on: probability of reading on after a skip; NaN where no cascade was fitted.
    """

    cascade: bool
    dependence: float
    advantage: float = float("nan")
    go_on: float = float("nan")

    @property
    def sentence(self) -> str:
        """The finding in plain words."""
        if self.cascade:
            return (
                "clicks of a session depend on one another as those of users who read from the "
                f"top, and on with probability {self.go_on:.2f}: docs at or above the last click "
                "count as seen, and the curve is not used"
            )
        if self.dependence > DEPENDENT:
            why = "too few lists, or sessions without a click, tell how"
            if not np.isnan(self.advantage):
                why = "not as those of users who read from the top"
            return (
                f"clicks of a session depend on one another, but {why}: "
                "the position-based model is kept"
            )
        return "clicks of a session look independent: the position-based model is kept"


def clicks_may_be_a_cascade(by_list: Floats, sessions: float, with_click: float) -> ClickChoice:
    """Test independence; `cascade` of the answer says whether a cascade is worth fitting.

    Args:
        by_list: what `prsrank.relevance.dependence.dependence_of_clicks` found.
        sessions: how many there are.
        with_click: how many of them have a click.
    """
    dependence = dependence_statistic(by_list)
    enough = by_list.any(axis=0).sum() >= ENOUGH_QUERIES
    enough &= sessions - with_click >= LEAST_WITHOUT_CLICK * sessions
    return ClickChoice(bool(enough and dependence > DEPENDENT), dependence)


def compared(
    choice: ClickChoice,
    cascade: Cascade,
    counts: CascadeCounts,
    lists: RankingDataset,
    position_based: tuple[Prior, Floats],
) -> ClickChoice:
    """Let both models predict the clicks at or above the last one, each by its cross-fitted prior.

    Args:
        choice: what the test of independence found.
        cascade: the fitted cascade.
        counts: the log.
        lists: the data set.
        position_based: the prior of the position-based model, and the propensity of each slot.
    """
    prior, p = position_based
    below = clicks_below(counts.lengths, p * prior.q[counts.docs], 1.0)
    other = counts.evidence(lists.docs, p, below).log_likelihood(prior.q)
    gain = np.bincount(
        list_of_row(lists.offsets), cascade.prior.log_likelihood - other, lists.lists
    )
    total = gain.sum()
    advantage = total / max(np.sqrt(max((gain**2).sum() - total**2 / len(gain), 0.0)), 1e-12)
    return ClickChoice(bool(advantage > WORSE), choice.dependence, float(advantage), cascade.go_on)


def slot_propensities(
    counts: CascadeCounts, counted: CountedClicks, *, power: float = 1.0
) -> Floats:
    """Return the mean propensity of each slot's doc at its position, at most 1.

    Contexts may give several to a doc at one position; slots nobody saw get 1.
    """
    cells = counted.cells
    several = int(max(cells.positions.max(initial=0), counts.positions.max(initial=0))) + 1
    keys, cell = np.unique(cells.cell_docs * several + cells.positions, return_inverse=True)
    p = np.minimum(counted.propensity**power, 1.0)
    mean = np.bincount(cell, p * cells.shown) / np.bincount(cell, cells.shown)
    wanted = counts.docs * several + counts.positions
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, mean[index], 1.0)
