"""Sessions folded by distinct (showing, click set), where pairs do not suffice."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

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
from prsrank.ragged import list_of_row, offsets_of, ragged_rows
from prsrank.types import Bytes, IdArray, Ints, Longs
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
