"""Kernels that turn counted pairs into rows of weights, one per winner.

Each counted pair becomes one whole number (a *code*) whose bits hold all that its weight
depends on: rows of winner and loser, levels of their keys, kind, from high to low. The codes
of a list are sorted before they are added up, so the result does not depend on the order in
which an engine hands the rows over.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.pairs.fold import PairDraft
from prsrank.pairs.fold_kernels import add_pairs
from prsrank.sorting import sort_with_index
from prsrank.threads import for_each_piece
from prsrank.types import Bytes, Floats, IdArray, Ints, Longs

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SHORT = 16


class PairRows(NamedTuple):
    """Counted pairs, with docs and keys as whole numbers. Kernels take it as it is.

    Attributes:
        queries: a whole number that stands for the query of each row.
        winners: the same for the winner.
        losers: the same for the loser.
        winner_keys: index into `levels`, of the winner; empty where there are no keys.
        loser_keys: the same of the loser.
        levels: index into the levels of propensity, by key.
        kinds: index into the kinds of sessions and actions; empty if there is one kind.
        pairs: how many single pairs the row stands for.
    """

    queries: npt.NDArray
    winners: npt.NDArray
    losers: npt.NDArray
    winner_keys: npt.NDArray
    loser_keys: npt.NDArray
    levels: Ints
    kinds: Ints
    pairs: Longs


class PairWeights(NamedTuple):
    """What counted pairs weigh. Kernels take it as it is.

    Attributes:
        table: weight by key of the winner and key of the loser (keys x keys; twice as many
            columns, irrelevant then relevant losers, where the weight depends on that).
        clipped: 1 where a clip changed the weight.
        relevance: of each doc of the data set, or empty.
        only_irrelevant: leave out losers that are relevant.
        actions: weight of the action, by kind.
        constants: session constant, by kind.
        factors: factor of each list.
    """

    table: Floats
    clipped: Bytes
    relevance: Bytes
    only_irrelevant: bool
    actions: Floats
    constants: Floats
    factors: Floats


class DocIndex:
    """Finds (query, doc) in a data set, by 64-bit keys that stand for the ids.

    Args:
        dataset: the lists.
        query_keys: a whole number for each list; default: the query ids.
        doc_keys: a whole number for each doc; default: the doc ids.

    >>> data = RankingDataset(np.eye(3), np.array([0, 2, 3]), np.array([7, 9]),
    ...     doc_ids=np.array([5, 4, 5]))
    >>> DocIndex(data).find(np.array([7, 9, 8]), np.array([4, 5, 5]))
    (array([ 0,  1, -1], dtype=int32), array([ 1,  0, -1], dtype=int32))
    """

    def __init__(
        self,
        dataset: RankingDataset,
        query_keys: Longs | None = None,
        doc_keys: Longs | None = None,
    ) -> None:
        queries = np.ascontiguousarray(dataset.query_ids if query_keys is None else query_keys)
        docs = np.ascontiguousarray(dataset.doc_names if doc_keys is None else doc_keys)
        self.offsets = dataset.offsets
        self.query_keys = queries.astype(np.int64, copy=False)
        self.doc_keys = docs.astype(np.int64, copy=False)
        self.table = _query_table(self.query_keys)
        self.order = np.empty(0, np.int32)
        # rows of a list are mostly numbered in order: then no copy and no order to look up
        if not _is_sorted(self.offsets, self.doc_keys):
            self.doc_keys = self.doc_keys.copy()
            self.order = np.empty(len(self.doc_keys), np.int32)
            _sort_lists(self.offsets, self.doc_keys, self.order)

    def find(
        self, queries: npt.NDArray, docs: npt.NDArray, *, threads: int | None = None
    ) -> tuple[Ints, Ints]:
        """Return list and row in the list of each (query, doc); -1 where there is none."""
        lists, rows = np.empty(len(docs), np.int32), np.empty(len(docs), np.int32)
        cuts = _cuts(len(docs))
        for_each_piece(
            lambda a, b: _find_kernel(cuts[a], cuts[b], queries, docs, self.arrays, lists, rows),
            cuts,
            threads=threads,
        )
        return lists, rows

    @property
    def arrays(self) -> tuple[npt.NDArray, ...]:
        """What kernels need of the index."""
        return self.table, self.query_keys, self.offsets, self.doc_keys, self.order


def fold_pairs(
    draft: PairDraft,
    index: DocIndex,
    rows: PairRows,
    weights: PairWeights,
    *,
    threads: int | None = None,
) -> None:
    r"""Add counted pairs to rows of weights: $W_{ij} = \sum_{rows} n \, k \, a \, w(k_i, k_j)$.

    All rows of a list must come in one call: the sum of a list is then the same whatever the
    order of the rows. Rows of queries that are not in the data set are passed over.

    Raises:
        InputError: if a query of the data set has a doc that is not in it.
    """
    longest = int(np.diff(draft.offsets).max(initial=1))
    bits = [(n - 1).bit_length() for n in (longest, len(weights.table), len(weights.actions))]
    # a row is one integer, two rows and two positions and a kind: sorting it sorts them all
    if 2 * bits[0] + 2 * bits[1] + bits[2] > 63:
        raise InputError("the lists are too long to fold pairs of so many distinct positions")
    widths = np.array(bits)
    lists, codes = np.empty(len(rows.pairs), np.int32), np.empty(len(rows.pairs), np.int64)
    cuts = _cuts(len(codes))
    for_each_piece(
        lambda a, b: _encode_kernel(cuts[a], cuts[b], rows, index.arrays, widths, lists, codes),
        cuts,
        threads=threads,
    )
    if codes.min(initial=0) < 0:
        raise InputError("a doc that the log shows is not in its list in the data set")
    starts, codes, counts = _sorted_by_list(lists, codes, rows.pairs, len(draft.offsets) - 1)
    for_each_piece(
        lambda a, b: _fold_kernel(a, b, starts, codes, counts, widths, weights, draft),
        starts,
        threads=threads,
    )


def _cuts(rows: int) -> Longs:
    return np.linspace(0, rows, 65).astype(np.int64)


@njit(cache=True, nogil=True)
def _query_table(keys):  # type: ignore[no-untyped-def]
    size = 16
    # half empty at least: a miss, which many logs have, ends soon
    while size < 2 * len(keys):
        size *= 2
    table = np.full(size, -1, np.int32)
    for index in range(len(keys)):
        slot = _slot(keys[index], size)
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = index
    return table


@njit(cache=True, nogil=True, inline="always")
def _slot(key, size):  # type: ignore[no-untyped-def]
    mixed = np.uint64(key) * _ODD
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(size - 1))


@njit(cache=True, nogil=True)
def _is_sorted(offsets, keys):  # type: ignore[no-untyped-def]
    for q in range(len(offsets) - 1):
        for i in range(offsets[q] + 1, offsets[q + 1]):
            if keys[i] <= keys[i - 1]:
                return False
    return True


@njit(cache=True, nogil=True)
def _sort_lists(offsets, keys, order):  # type: ignore[no-untyped-def]
    for q in range(len(offsets) - 1):
        here = slice(offsets[q], offsets[q + 1])
        keys[here], order[here] = sort_with_index(keys[here])


@njit(cache=True, nogil=True, inline="always")
def _find_list(query, table, query_keys):  # type: ignore[no-untyped-def]
    slot = _slot(query, len(table))
    found = table[slot]
    while found >= 0 and query_keys[found] != query:
        slot = (slot + 1) & (len(table) - 1)
        found = table[slot]
    return found


@njit(cache=True, nogil=True, inline="always")
def _find_row(doc, begin, end, doc_keys, order):  # type: ignore[no-untyped-def]
    low, high = begin, end
    while high - low > _SHORT:
        middle = (low + high) // 2
        if doc_keys[middle] < doc:
            low = middle + 1
        else:
            high = middle
    # counting has no branch to guess wrong, unlike the last steps of halving
    smaller = 0
    for slot in range(low, high):
        smaller += doc_keys[slot] < doc
    return _row_at(low + smaller, doc, begin, end, doc_keys, order)


@njit(cache=True, nogil=True, inline="always")
def _find_two_rows(one, other, begin, end, doc_keys, order):  # type: ignore[no-untyped-def]
    if end - begin > _SHORT:
        return (
            _find_row(one, begin, end, doc_keys, order),
            _find_row(other, begin, end, doc_keys, order),
        )
    below_one, below_other = 0, 0
    for slot in range(begin, end):
        below_one += doc_keys[slot] < one
        below_other += doc_keys[slot] < other
    return (
        _row_at(begin + below_one, one, begin, end, doc_keys, order),
        _row_at(begin + below_other, other, begin, end, doc_keys, order),
    )


@njit(cache=True, nogil=True, inline="always")
def _row_at(slot, doc, begin, end, doc_keys, order):  # type: ignore[no-untyped-def]
    if slot == end or doc_keys[slot] != doc:
        return np.int64(-1)
    return np.int64(order[slot]) if len(order) else slot - begin


@njit(cache=True, nogil=True)
def _find_kernel(first, last, queries, docs, index, lists, rows):  # type: ignore[no-untyped-def]
    table, query_keys, offsets, doc_keys, order = index
    for row in range(first, last):
        q = _find_list(queries[row], table, query_keys)
        lists[row] = q
        rows[row] = -1
        if q >= 0:
            rows[row] = _find_row(docs[row], offsets[q], offsets[q + 1], doc_keys, order)


@njit(cache=True, nogil=True)
def _encode_kernel(first, last, rows, index, widths, lists, codes):  # type: ignore[no-untyped-def]
    """Set list and code of each row; a code of -1 for a doc that its list does not have."""
    table, query_keys, offsets, doc_keys, order = index
    row_bits, key_bits, kind_bits = widths
    for row in range(first, last):
        q = _find_list(rows.queries[row], table, query_keys)
        lists[row] = q
        codes[row] = 0
        if q < 0:
            continue
        winner, loser = _find_two_rows(
            rows.winners[row], rows.losers[row], offsets[q], offsets[q + 1], doc_keys, order
        )
        if winner < 0 or loser < 0:
            codes[row] = -1
            continue
        code = winner << row_bits | loser
        if key_bits:
            code = code << key_bits | rows.levels[rows.winner_keys[row]]
            code = code << key_bits | rows.levels[rows.loser_keys[row]]
        code <<= kind_bits
        if len(rows.kinds):
            code |= rows.kinds[row]
        codes[row] = code


@njit(cache=True, nogil=True, inline="always")
def _split(code, bits):  # type: ignore[no-untyped-def]
    """Return a code without its lowest bits, and these."""
    return code >> bits, code & ((1 << bits) - 1)


@njit(cache=True, nogil=True)
def _sorted_by_list(lists, codes, pairs, count):  # type: ignore[no-untyped-def]
    """Return where each list's rows begin, and code and count of each row, list after list."""
    starts = np.zeros(count + 1, np.int64)
    for row in range(len(lists)):
        if lists[row] >= 0:
            starts[lists[row] + 1] += 1
    for q in range(count):
        starts[q + 1] += starts[q]
    free = starts[:-1].copy()
    sorted_codes = np.empty(starts[count], np.int64)
    counts = np.empty(starts[count], np.int64)
    for row in range(len(lists)):
        if lists[row] >= 0:
            target = free[lists[row]]
            sorted_codes[target] = codes[row]
            counts[target] = pairs[row]
            free[lists[row]] = target + 1
    return starts, sorted_codes, counts


@njit(cache=True, nogil=True)
def _sort_rows(codes, counts):  # type: ignore[no-untyped-def]
    if len(codes) > 128:
        codes[:], order = sort_with_index(codes)
        counts[:] = counts[order]
        return
    for i in range(1, len(codes)):
        code, count, j = codes[i], counts[i], i
        while j > 0 and codes[j - 1] > code:
            codes[j], counts[j] = codes[j - 1], counts[j - 1]
            j -= 1
        codes[j], counts[j] = code, count


@njit(cache=True, nogil=True)
def _fold_kernel(first, last, starts, codes, counts, widths, given, draft):  # type: ignore[no-untyped-def]
    row_bits, key_bits, kind_bits = widths
    keys = len(given.table)
    for q in range(first, last):
        begin, length = draft.offsets[q], draft.offsets[q + 1] - draft.offsets[q]
        # floating sums depend on the order: in this one, rows may come as they like
        _sort_rows(codes[starts[q] : starts[q + 1]], counts[starts[q] : starts[q + 1]])
        for row in range(starts[q], starts[q + 1]):
            rest, kind = _split(codes[row], kind_bits)
            rest, loser_key = _split(rest, key_bits)
            rest, winner_key = _split(rest, key_bits)
            winner, loser = _split(rest, row_bits)
            relevant = 0 if len(given.relevance) == 0 else np.int64(given.relevance[begin + loser])
            if winner == loser or (given.only_irrelevant and relevant):
                continue
            column = loser_key
            # a second half of columns is for relevant losers, where the weighting asks for that
            if given.table.shape[1] > keys:
                column += keys * relevant
            w = given.table[winner_key, column] * given.actions[kind]
            if w == 0:
                continue
            first_cell = draft.weight_starts[q] + draft.winner_of_doc[begin + winner] * length
            draft.weights[first_cell + loser] += w * (
                counts[row] * given.constants[kind] * given.factors[q]
            )
            add_pairs(draft.totals[q], counts[row], w, given.clipped[winner_key, column])


def whole_numbers(one: IdArray, other: IdArray) -> tuple[Longs, Longs]:
    """Return whole numbers for ids, the same for the same id in both arrays."""
    if one.dtype.kind in "iu" and other.dtype.kind in "iu":
        return one.astype(np.int64), other.astype(np.int64)
    both = np.concatenate([one.astype(np.str_), other.astype(np.str_)])
    codes = np.unique(both, return_inverse=True)[1].astype(np.int64)
    return codes[: len(one)], codes[len(one) :]
