"""Integer codes for distinct keys, distinct rankings and distinct docs of queries."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.data.ids import id_array
from prsrank.errors import InputError
from prsrank.sorting import rows_by_group, sort_with_index
from prsrank.types import Floats, IdArray, Ints, Longs

_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_SALTS = 3


def number_keys(keys: npt.NDArray) -> tuple[Ints, Longs]:
    """Number distinct 64-bit keys 0, 1, 2, ... as they first appear.

    Returns:
        The code of each key, and where each code first appears.

    >>> number_keys(np.array([7, 7, 3, 7]))
    (array([0, 0, 1, 0], dtype=int32), array([0, 2]))
    """
    import pyarrow as pa

    codes: Ints = pa.array(keys).dictionary_encode().indices.to_numpy()
    return codes, np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=np.int32(-1)))


@dataclass(frozen=True, eq=False)
class IdKeys:
    """What 64-bit integers stand for that a kernel or a sort takes in place of ids.

    Attributes:
        ids: the distinct ids, sorted; None: the keys are the ids.
        keys: the key of each of them; None: its index.
    """

    ids: IdArray | None = None
    keys: Longs | None = None

    def ranks(self, keys: Longs | Ints) -> Longs:
        """Return integers that sort as the ids of the keys do."""
        if self.keys is None:
            return np.asarray(keys, np.int64)
        import pyarrow as pa
        import pyarrow.compute as pc

        index = pc.index_in(pa.array(keys), value_set=pa.array(self.keys))
        return np.asarray(index, np.int64)

    def named(self, ranks: Longs) -> IdArray:
        """Return the ids of ranks."""
        return id_array(ranks if self.ids is None else self.ids[ranks])

    def id(self, key: int) -> str:
        """Return the id of one key, for messages."""
        return str(self.named(self.ranks(np.array([key])))[0])


@njit(cache=True, nogil=True, inline="always")
def _mixed(state, value):  # type: ignore[no-untyped-def]
    state = (state ^ value) * _ODD
    return state ^ (state >> _HALF)


def code_pairs(first: npt.NDArray, second: npt.NDArray) -> tuple[Ints, Longs]:
    """Number the distinct pairs (first[i], second[i]) 0, 1, 2, ... as they first appear.

    Args:
        first: 64-bit integers.
        second: 64-bit integers, as many.

    Returns:
        The code of each pair, and where each code first appears.

    >>> code_pairs(np.array([7, 7, 3, 7]), np.array([1, 2, 1, 1]))
    (array([0, 1, 2, 0], dtype=int32), array([0, 1, 2]))
    """
    # equal pairs mostly stand together: only where they change they are looked at
    changes = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    starts = np.flatnonzero(np.concatenate([np.ones(min(len(first), 1), bool), changes]))
    same = np.zeros(len(starts), np.int32)
    single = np.arange(len(starts) + 1)
    codes, firsts = code_rankings(single, first[starts], same, second[starts], same)
    return np.repeat(codes, np.diff(starts, append=len(first))), starts[firsts]


@njit(cache=True, nogil=True)
def _ranking_keys(offsets, query, design, docs, positions, propensities, salt, keys):  # type: ignore[no-untyped-def]
    for ranking in range(len(query)):
        key = _mixed(_mixed(salt, query[ranking]), np.uint64(design[ranking]))
        for slot in range(offsets[ranking], offsets[ranking + 1]):
            key = _mixed(key, docs[slot] ^ (np.uint64(positions[slot]) << _HALF))
            if len(propensities) > 0:
                key = _mixed(key, propensities[slot])
        keys[ranking] = key


@njit(cache=True, nogil=True)
def _are_same(offsets, query, design, docs, positions, propensities, others):  # type: ignore[no-untyped-def]
    """Tell whether each ranking is the same as another one."""
    for a in range(len(query)):
        b = others[a]
        length = offsets[a + 1] - offsets[a]
        if query[a] != query[b] or design[a] != design[b] or offsets[b + 1] - offsets[b] != length:
            return False
        for index in range(length if a != b else 0):
            i, j = offsets[a] + index, offsets[b] + index
            if docs[i] != docs[j] or positions[i] != positions[j]:
                return False
            if len(propensities) > 0 and propensities[i] != propensities[j]:
                return False
    return True


def code_rankings(
    offsets: Longs,
    query: npt.NDArray,
    design: npt.NDArray,
    docs: npt.NDArray,
    positions: npt.NDArray,
    propensities: Floats | None = None,
) -> tuple[Ints, Longs]:
    """Number the distinct rankings 0, 1, 2, ... as they first appear.

    Two rankings are the same if query, design, docs, positions and propensities all are.

    Args:
        offsets: where each ranking's slots begin, and the end (rankings + 1).
        query: 64-bit integer that names each ranking's query.
        design: integer that names each ranking's design.
        docs: 64-bit integer that names each slot's doc.
        positions: position of each slot.
        propensities: propensity of each slot, if known.

    Returns:
        The code of each ranking, and where each code first appears.

    >>> code_rankings(np.array([0, 2, 4]), np.zeros(2, int), np.zeros(2, int),
    ...     np.array([5, 6, 5, 6]), np.array([1, 2, 1, 2]))
    (array([0, 0], dtype=int32), array([0]))
    """
    columns = (
        offsets,
        _bits(query),
        np.asarray(design, np.int32),
        _bits(docs),
        np.asarray(positions, np.int32),
        np.empty(0, np.uint64) if propensities is None else propensities.view(np.uint64),
    )
    keys = np.empty(len(query), np.uint64)
    for salt in range(_SALTS):  # should the keys of two rankings meet, others are taken
        _ranking_keys(*columns, _ODD + np.uint64(salt), keys)
        codes, firsts = number_keys(keys)
        if _are_same(*columns, firsts[codes]):
            return codes, firsts
    raise InputError("the rankings of the log cannot be told apart")


@njit(cache=True, nogil=True)
def _repeat_kernel(offsets, docs, shown_in):  # type: ignore[no-untyped-def]
    for ranking in range(len(offsets) - 1):
        for slot in range(offsets[ranking], offsets[ranking + 1]):
            if shown_in[docs[slot]] == ranking:
                return slot
            shown_in[docs[slot]] = ranking
    return np.int64(-1)


def first_repeated_doc(offsets: Longs, docs: Ints) -> int:
    """Return a slot whose doc the same ranking shows in an earlier slot, or -1.

    Args:
        offsets: where each ranking's slots begin, and the end (rankings + 1).
        docs: index of each slot's doc.

    >>> first_repeated_doc(np.array([0, 2, 4]), np.array([5, 6, 5, 5]))
    3
    """
    return int(_repeat_kernel(offsets, docs, np.full(docs.max(initial=-1) + 1, -1)))


@njit(cache=True, nogil=True)
def _doc_table_kernel(starts, order, docs, offsets, table, index):  # type: ignore[no-untyped-def]
    for query in range(len(starts) - 1):
        rows = order[starts[query] : starts[query + 1]]
        ordered, by_doc = sort_with_index(docs[rows])
        last = offsets[query]
        for i in range(len(ordered)):
            if i == 0 or ordered[i] != ordered[i - 1]:
                table[last] = ordered[i]
                last += 1
            index[rows[by_doc[i]]] = last - 1
        offsets[query + 1] = last


def doc_table(query: npt.NDArray, doc: npt.NDArray, queries: int) -> tuple[Longs, Longs, Ints]:
    """Make the table of distinct (query, doc) pairs, sorted by query, then doc.

    Args:
        query: index of each slot's query, 0 to `queries` - 1.
        doc: integer that names each slot's doc; its order is the order of the table.
        queries: the number of queries.

    Returns:
        Where each query's docs begin in the table, and the end; the docs of the table; and
        each slot's index into the table.

    >>> doc_table(np.array([1, 0, 1]), np.array([8, 4, 6]), 2)
    (array([0, 1, 3]), array([4, 6, 8]), array([2, 0, 1], dtype=int32))
    """
    starts, order = rows_by_group(query, queries)
    offsets, table = np.zeros(queries + 1, np.int64), np.empty(len(doc), np.int64)
    index = np.empty(len(doc), np.int32)
    _doc_table_kernel(starts, order, np.ascontiguousarray(doc, np.int64), offsets, table, index)
    return offsets, table[: offsets[-1]].copy(), index


def _bits(values: npt.NDArray) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(values, np.int64).view(np.uint64)
