"""Kernels that fold sessions into one weight per ordered pair of docs of a list.

For one showing, with w_ij the weight of slots (i, j), n_i the sum of the session constants of
the sessions that clicked i, and n_ij of those that clicked both, the sessions add
w_ij (n_i - n_ij): nothing is ever expanded to sessions x docs. The constants are whole numbers
of a small unit, so the sums and differences are exact and their order does not matter.
"""

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from prsrank.sorting import longest_list
from prsrank.types import Bytes, Floats, Longs

if TYPE_CHECKING:
    from prsrank.pairs.fold import PairDraft
    from prsrank.pairs.log_on_lists import ShownLists, WeightRows


NON_CLICKED, OTHERS, IRRELEVANT = 0, 1, 2

# columns of the totals that the fold keeps per list
PAIRS, SUM, SQUARES, LARGEST, CLIPPED = range(5)


@njit(cache=True, nogil=True)
def fold_kernel(
    first: int,
    last: int,
    shown: "ShownLists",
    rows: "WeightRows",
    against: int,
    relevance: Bytes,
    units: Longs,
    factors: Floats,
    most: int,
    draft: "PairDraft",
) -> None:
    """Add the weights of lists first to last - 1 to a draft, and their totals.

    Args:
        first: first list.
        last: the list after the last.
        shown: what was shown and clicked.
        rows: weights of the pairs of slots.
        against: NON_CLICKED, OTHERS or IRRELEVANT.
        relevance: of the doc in each slot.
        units: session constant of a session with m clicks, in units (index m).
        factors: value of one unit in each list.
        most: the greatest number of slots clicked in any one showing.
        draft: rows of weights and totals; added to.
    """
    doc_offsets, weights = draft.offsets, draft.weights
    longest = longest_list(first, last, doc_offsets)
    number = np.full(longest, -1, np.int64)  # of a clicked slot, in order of its first click
    slots = np.empty(most, np.int64)
    single = np.zeros((most, 2), np.int64)  # sessions, and units, that clicked a slot
    both = np.zeros((most, most, 2), np.int64)  # that clicked two slots
    count = np.empty(longest, np.int64)
    mass = np.empty(longest, np.int64)
    for q in range(first, last):
        for t in range(shown.list_offsets[q], shown.list_offsets[q + 1]):
            r = shown.by_list[t]
            begin = shown.slot_offsets[r]
            length = shown.slot_offsets[r + 1] - begin
            # only clicked slots are numbered, so the square of counts stays small in long lists
            clicked = count_clicks(shown, r, units, number, slots, single, both)
            for k in range(clicked):
                count[:length] = single[k, 0]
                mass[:length] = single[k, 1]
                # n_i - n_ij: sessions that clicked both compare neither with the other
                if against == NON_CLICKED:
                    for k2 in range(clicked):
                        count[slots[k2]] -= both[k, k2, 0]
                        mass[slots[k2]] -= both[k, k2, 1]
                elif against == IRRELEVANT:
                    for j in range(length):
                        if relevance[begin + j] > 0:
                            count[j] = 0
                            mass[j] = 0
                # a doc is not compared with itself
                count[slots[k]] = 0
                mass[slots[k]] = 0
                doc = doc_offsets[q] + shown.slot_rows[begin + slots[k]]
                list_length = doc_offsets[q + 1] - doc_offsets[q]
                row = draft.weight_starts[q] + draft.winner_of_doc[doc] * list_length
                source = rows.starts[begin + slots[k]]
                for j in range(length):
                    index = source + rows.columns[begin + j]
                    w = rows.table[index]
                    weights[row + shown.slot_rows[begin + j]] += w * (mass[j] * factors[q])
                    if count[j] > 0 and w > 0:
                        add_pairs(draft.totals[q], count[j], w, rows.clipped[index])
            # undo what was touched: clearing everything would cost the longest list each time
            for k in range(clicked):
                number[slots[k]] = -1
                single[k, :] = 0
                both[k, :clicked, :] = 0


@njit(cache=True, nogil=True)
def weighted_fold_kernel(
    first: int,
    last: int,
    shown: "ShownLists",
    rows: "WeightRows",
    against: int,
    relevance: Bytes,
    constants: Floats,
    factors: Floats,
    draft: "PairDraft",
) -> None:
    """Do what `fold_kernel` does where clicks count differently: session after session.

    The arguments are those of `fold_kernel`, but for `constants`: the session constant of a
    session with m clicks as it is (index m).
    """
    doc_offsets, weights = draft.offsets, draft.weights
    longest = longest_list(first, last, doc_offsets)
    compared = np.empty(longest, np.bool_)
    for q in range(first, last):
        for t in range(shown.list_offsets[q], shown.list_offsets[q + 1]):
            r = shown.by_list[t]
            begin = shown.slot_offsets[r]
            length = shown.slot_offsets[r + 1] - begin
            for s in range(shown.session_offsets[r], shown.session_offsets[r + 1]):
                session = shown.sessions[s]
                start, stop = shown.click_offsets[session], shown.click_offsets[session + 1]
                constant = constants[stop - start] * factors[q]
                for j in range(length):
                    compared[j] = against != IRRELEVANT or relevance[begin + j] == 0
                if against == NON_CLICKED:
                    for c in range(start, stop):
                        compared[shown.clicks[c]] = False
                for c in range(start, stop):
                    slot = shown.clicks[c]
                    doc = doc_offsets[q] + shown.slot_rows[begin + slot]
                    list_length = doc_offsets[q + 1] - doc_offsets[q]
                    row = draft.weight_starts[q] + draft.winner_of_doc[doc] * list_length
                    source = rows.starts[begin + slot]
                    for j in range(length):
                        index = source + rows.columns[begin + j]
                        w = rows.table[index] * shown.click_weights[c]
                        if j != slot and compared[j] and w > 0:
                            weights[row + shown.slot_rows[begin + j]] += w * constant
                            add_pairs(draft.totals[q], 1, w, rows.clipped[index])


@njit(cache=True, nogil=True, inline="always")
def add_pairs(totals: Floats, count: int, w: float, clipped: int) -> None:
    """Add single pairs of one weight to the totals of their list."""
    totals[PAIRS] += count
    totals[SUM] += count * w
    totals[SQUARES] += count * w * w
    totals[LARGEST] = max(totals[LARGEST], w)
    totals[CLIPPED] += count * clipped


@njit(cache=True, nogil=True, inline="always")
def count_clicks(
    shown: "ShownLists",
    showing: int,
    units: Longs,
    number: Longs,
    slots: Longs,
    single: Longs,
    both: Longs,
) -> int:
    """Count the clicks on each slot and on each two slots; return how many slots have clicks."""
    clicked = 0
    for s in range(shown.session_offsets[showing], shown.session_offsets[showing + 1]):
        session = shown.sessions[s]
        start, stop = shown.click_offsets[session], shown.click_offsets[session + 1]
        unit = units[stop - start]
        for c in range(start, stop):
            k = number[shown.clicks[c]]
            if k < 0:
                k = clicked
                number[shown.clicks[c]] = k
                slots[k] = shown.clicks[c]
                clicked += 1
            single[k, 0] += 1
            single[k, 1] += unit
            for d in range(start, c):
                k2 = number[shown.clicks[d]]
                both[k, k2, 0] += 1
                both[k, k2, 1] += unit
                both[k2, k, 0] += 1
                both[k2, k, 1] += unit
    return clicked


@njit(cache=True, nogil=True)
def label_kernel(first: int, last: int, gains: Floats, factors: Floats, draft: "PairDraft") -> None:
    """Set the weights of lists first to last - 1 to max(0, gain_i - gain_j) times a factor."""
    for q in range(first, last):
        begin = draft.offsets[q]
        length = draft.offsets[q + 1] - begin
        index = draft.weight_starts[q]
        for v in range(draft.winner_offsets[q], draft.winner_offsets[q + 1]):
            own = gains[begin + draft.winner_row[v]]
            for j in range(length):
                w = own - gains[begin + j]
                if w > 0:
                    draft.weights[index + j] = w * factors[q]
                    add_pairs(draft.totals[q], 1, w, 0)
            index += length
