"""Click logs folded into counts per showing: who won against whom, and how often.

Unlike a PairSet, which holds weights, the counts leave the weights of positions open, so that
they can be learned on the way (`prsrank.losses.unbiased_lambdas`).
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from prsrank.data.dataset import RankingDataset
from prsrank.logs.array_checks import warn_of_weights
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.fold import SessionConstant, session_units
from prsrank.pairs.log_on_lists import LogOnLists, ShownLists
from prsrank.ragged import list_of_row, offsets_of, ragged_rows
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
    winner_offsets = offsets_of(whole.slot_clicked[slots])[slot_offsets]
    showing = list_of_row(winner_offsets)
    winners = np.flatnonzero(whole.slot_clicked[slots])
    both = _clicks_together(whole, units)[slots[winners]]
    owner, began = list_of_row(both.indptr), whole.slot_offsets[showings[showing]]
    itself = both.indices == slots[winners][owner]
    own, factor = both.data[itself], factors[list_of_row(list_offsets)][showing]
    owner = owner[~itself]
    return ShownCounts(
        list_offsets=list_offsets,
        slot_offsets=slot_offsets,
        slot_rows=whole.slot_rows[slots],
        slot_positions=positions[slots],
        winner_offsets=winner_offsets,
        winner_slots=(winners - slot_offsets[showing]).astype(np.int32),
        winner_counts=own * factor,
        both_offsets=offsets_of(np.diff(both.indptr) - 1),
        both_slots=(both.indices[~itself] - began[owner]).astype(np.int32),
        both_counts=(own[owner] - both.data[~itself]) * factor[owner],
    )


def _clicks_together(shown: ShownLists, units: Longs) -> csr_array:
    """Return the units of the sessions that clicked two slots, or one (slots x slots)."""
    clicks, offsets = ragged_rows(shown.click_offsets, shown.sessions)
    sizes, showing = np.diff(offsets), list_of_row(shown.session_offsets)
    slots = shown.clicks[clicks] + np.repeat(shown.slot_offsets[showing], sizes)
    shape = (len(sizes), len(shown.slot_rows))
    clicked = csr_array((np.ones(len(slots), np.int64), slots, offsets), shape=shape)
    weighed = csr_array((np.repeat(units[sizes], sizes), slots, offsets), shape=shape)
    together = csr_array(clicked.T @ weighed)
    together.sort_indices()
    return together
