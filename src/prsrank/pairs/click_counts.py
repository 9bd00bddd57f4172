"""Click logs folded into counts per showing: who won against whom, and how often.

Unlike a PairSet, which holds weights, the counts leave the weights of positions open, so that
they can be learned on the way (`prsrank.losses.unbiased_lambdas`).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from prsrank.data.dataset import RankingDataset
from prsrank.logs.array_checks import warn_of_weights
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.fold import SessionConstant, session_units
from prsrank.pairs.fold_kernels import count_clicks
from prsrank.pairs.log_on_lists import LogOnLists, ShownLists
from prsrank.ragged import list_of_row, offsets_of, ragged_rows
from prsrank.sorting import sort_with_index
from prsrank.types import Floats, IdArray, Ints, Longs
from prsrank.weighting import WEIGHTINGS


class ShownCounts(NamedTuple):
    """How often which doc was clicked and which was not, by showing. Kernels take it as it is.

    Only showings with a click are here, ordered by list. A count is a sum over sessions of the
    session constant of the metric.

    Attributes:
        list_offsets: where each list's showings begin (lists + 1).
        slot_offsets: where each showing's slots begin (showings + 1).
        slot_rows: row in its list of the doc in each slot (slots).
        slot_positions: 1-based position of each slot (slots).
        winner_offsets: where each showing's clicked slots begin (showings + 1).
        winner_slots: index in its showing of each clicked slot (winners).
        winner_counts: n_i of each clicked slot (winners).
        both_offsets: where each winner's co-clicked slots begin (winners + 1).
        both_slots: index in its showing of each slot that a session clicked with the winner.
        both_counts: N_ij of these; against any other slot of the showing it is n_i.
    """

    list_offsets: Longs
    slot_offsets: Longs
    slot_rows: Ints
    slot_positions: Ints
    winner_offsets: Longs
    winner_slots: Ints
    winner_counts: Floats
    both_offsets: Longs
    both_slots: Ints
    both_counts: Floats


class ClickCounts:
    """A click log folded into counts of pairs per showing, exactly.

    Args:
        log: the clicks; its queries and docs must be in the data set.
        dataset: the lists.
        normalise: the session constant: "ndcg" for 1 / IDCG of the session's number of clicks,
            "arp" for 1 / the list's length, None for 1.
        truncation: IDCG is that of the top `truncation` ranks.

    Attributes:
        offsets: offsets of the data set's lists.
        query_ids: the data set's query ids.
        normalise: as given.
        shown: the counts.
        position_shown: how often sessions showed a doc at positions 1, 2, ...
        position_clicks: and how often one was clicked there.
    """

    def __init__(
        self,
        log: ClickLog,
        dataset: RankingDataset,
        *,
        normalise: str | None = "ndcg",
        truncation: int | None = None,
    ) -> None:
        warn_of_weights(log, "unbiased_lambdamart")
        constant = SessionConstant(normalise, truncation)
        placed = LogOnLists(log, dataset, None, WEIGHTINGS["naive"], None)
        units, unit = session_units(log, placed, constant)
        self.offsets = dataset.offsets
        self.query_ids: IdArray = dataset.query_ids
        self.normalise = normalise
        self.position_shown, self.position_clicks = log.position_counts()
        factors = unit * constant.of_lists(dataset.list_lengths)
        self.shown = _counted(placed, log.ranking_positions, units, factors)

    @property
    def docs(self) -> int:
        """Number of docs of the data set."""
        return int(self.offsets[-1])

    @property
    def pair_rows(self) -> Longs:
        """Slots that clicked slots are compared with, summed up to each list (lists + 1)."""
        shown = self.shown
        sizes = np.diff(shown.winner_offsets) * np.diff(shown.slot_offsets)
        return offsets_of(sizes)[shown.list_offsets]


def _counted(placed: LogOnLists, positions: Ints, units: Longs, factors: Floats) -> ShownCounts:
    whole = placed.shown
    clicked = np.diff(whole.session_offsets) > 0
    showings = whole.by_list[clicked[whole.by_list]]
    list_offsets = offsets_of(clicked[whole.by_list])[whole.list_offsets]
    slots, slot_offsets = ragged_rows(whole.slot_offsets, showings)
    list_of_showing = list_of_row(list_offsets)
    winners = np.diff(offsets_of(whole.slot_clicked)[whole.slot_offsets])[showings]
    most = int(winners.max(initial=1))
    winner_offsets = offsets_of(winners)
    sizes = np.zeros(winner_offsets[-1], np.int64)
    none, nothing = np.empty(0, np.int32), np.empty(0)
    arguments = (whole, showings, units, factors[list_of_showing], most, winner_offsets)
    # twice over the log: first how much room, then the counts, so that nothing has to grow
    _count_kernel(*arguments, sizes, none, nothing, offsets_of(sizes), none, nothing, False)
    both_offsets = offsets_of(sizes)
    counts = ShownCounts(
        list_offsets=list_offsets,
        slot_offsets=slot_offsets,
        slot_rows=whole.slot_rows[slots],
        slot_positions=positions[slots],
        winner_offsets=winner_offsets,
        winner_slots=np.empty(winner_offsets[-1], np.int32),
        winner_counts=np.empty(winner_offsets[-1]),
        both_offsets=both_offsets,
        both_slots=np.empty(both_offsets[-1], np.int32),
        both_counts=np.empty(both_offsets[-1]),
    )
    _count_kernel(*arguments, sizes, *counts[5:], True)
    return counts


@njit(cache=True, nogil=True)
def _count_kernel(
    whole: ShownLists,
    showings: Longs,
    units: Longs,
    factors: Floats,
    most: int,
    winner_offsets: Longs,
    sizes: Longs,
    winner_slots: Ints,
    winner_counts: Floats,
    both_offsets: Longs,
    both_slots: Ints,
    both_counts: Floats,
    fill: bool,
) -> None:
    """Set the sizes of the winners' co-clicked slots; if `fill`, instead set all counts."""
    longest = 1
    for r in showings:
        longest = max(longest, whole.slot_offsets[r + 1] - whole.slot_offsets[r])
    number = np.full(longest, -1, np.int64)
    slots = np.empty(most, np.int64)
    single, both = np.zeros((most, 2), np.int64), np.zeros((most, most, 2), np.int64)
    for t in range(len(showings)):
        found = count_clicks(whole, showings[t], units, number, slots, single, both)
        _, order = sort_with_index(slots[:found])
        for a in range(found):
            k, v = order[a], winner_offsets[t] + a
            if fill:
                winner_slots[v] = slots[k]
                winner_counts[v] = single[k, 1] * factors[t]
            at = both_offsets[v]
            for k2 in order:
                # only slots that were clicked together differ from the winner's own count
                if both[k, k2, 0] > 0:
                    if fill:
                        both_slots[at] = slots[k2]
                        both_counts[at] = (single[k, 1] - both[k, k2, 1]) * factors[t]
                    at += 1
            if not fill:
                sizes[v] = at - both_offsets[v]
        for k in range(found):
            number[slots[k]] = -1
            single[k, :] = 0
            both[k, :found, :] = 0
