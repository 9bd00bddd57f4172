"""Integer codes for distinct keys and distinct rankings, in the order they first appear."""

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.sorting import rows_by_group, sort_with_index
from prsrank.types import Floats, Ints, Longs

_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_FIRST_CAPACITY = 1024


@njit(cache=True, nogil=True, inline="always")
def _mixed(state, value):  # type: ignore[no-untyped-def]
    state = (state ^ value) * _ODD
    return state ^ (state >> _HALF)


@njit(cache=True, nogil=True, inline="always")
def _free_place(table, key):  # type: ignore[no-untyped-def]
    bucket = np.int64(key & np.uint64(len(table) - 1))
    while table[bucket] >= 0:
        bucket = (bucket + 1) & (len(table) - 1)
    return bucket


@njit(cache=True, nogil=True)
def _enlarged(hashes, firsts, key):  # type: ignore[no-untyped-def]
    """Return a larger table (-1 is empty), room for twice as many codes, a new key's bucket."""
    table = np.full(4 * len(hashes), -1, np.int32)
    for code in range(len(hashes)):
        table[_free_place(table, hashes[code])] = code
    longer = np.concatenate((hashes, np.empty_like(hashes)))
    return table, longer, np.concatenate((firsts, np.empty_like(firsts))), _free_place(table, key)


@njit(cache=True, nogil=True)
def _code_pairs_kernel(one, two, codes):  # type: ignore[no-untyped-def]
    hashes = np.empty(_FIRST_CAPACITY, np.uint64)
    firsts = np.empty(_FIRST_CAPACITY, np.int64)
    table = np.full(4 * _FIRST_CAPACITY, -1, np.int32)
    count, code = 0, np.int32(-1)
    for row in range(len(one)):
        # equal pairs often stand together, or come again in the order of before: no hash for those
        if row > 0 and one[row] == one[row - 1] and two[row] == two[row - 1]:
            codes[row] = code
            continue
        code += 1
        if code < count and one[firsts[code]] == one[row] and two[firsts[code]] == two[row]:
            codes[row] = code
            continue
        key = _mixed(_mixed(_ODD, one[row]), two[row])
        bucket = np.int64(key & np.uint64(len(table) - 1))
        code = table[bucket]
        while code >= 0 and (one[firsts[code]] != one[row] or two[firsts[code]] != two[row]):
            bucket = (bucket + 1) & (len(table) - 1)
            code = table[bucket]
        if code < 0:
            if count == len(firsts):
                table, hashes, firsts, bucket = _enlarged(hashes, firsts, key)
            code = np.int32(count)
            table[bucket], hashes[count], firsts[count] = code, key, row
            count += 1
        codes[row] = code
    return firsts[:count].copy()


def code_pairs(one: npt.NDArray, two: npt.NDArray) -> tuple[Ints, Longs]:
    """Number the distinct pairs (one[i], two[i]) 0, 1, 2, ... as they first appear.

    Args:
        one: 64-bit integers.
        two: 64-bit integers, as many.

    Returns:
        The code of each pair, and where each code first appears.

    >>> code_pairs(np.array([7, 7, 3, 7]), np.array([1, 2, 1, 1]))
    (array([0, 1, 2, 0], dtype=int32), array([0, 1, 2]))
    """
    codes = np.empty(len(one), np.int32)
    firsts = _code_pairs_kernel(_bits(one), _bits(two), codes)
    return codes, firsts


@njit(cache=True, nogil=True)
def _same_list(offsets, docs, positions, propensities, a, b):  # type: ignore[no-untyped-def]
    length = offsets[a + 1] - offsets[a]
    if offsets[b + 1] - offsets[b] != length:
        return False
    for index in range(length):
        i, j = offsets[a] + index, offsets[b] + index
        if docs[i] != docs[j] or positions[i] != positions[j]:
            return False
        if len(propensities) > 0 and propensities[i] != propensities[j]:
            return False
    return True


@njit(cache=True, nogil=True)
def _code_rankings_kernel(offsets, query, design, docs, positions, propensities, codes):  # type: ignore[no-untyped-def]
    hashes = np.empty(_FIRST_CAPACITY, np.uint64)
    firsts = np.empty(_FIRST_CAPACITY, np.int64)
    table = np.full(4 * _FIRST_CAPACITY, -1, np.int32)
    count = 0
    for ranking in range(len(query)):
        key = _mixed(_mixed(_ODD, query[ranking]), np.uint64(design[ranking]))
        for slot in range(offsets[ranking], offsets[ranking + 1]):
            key = _mixed(key, docs[slot] ^ (np.uint64(positions[slot]) << _HALF))
            if len(propensities) > 0:
                key = _mixed(key, propensities[slot])
        bucket = np.int64(key & np.uint64(len(table) - 1))
        code = table[bucket]
        while code >= 0:
            first = firsts[code]
            if (
                # the hash first: it tells nearly all different rankings apart without their slots
                hashes[code] == key
                and query[first] == query[ranking]
                and design[first] == design[ranking]
                and _same_list(offsets, docs, positions, propensities, first, ranking)
            ):
                break
            bucket = (bucket + 1) & (len(table) - 1)
            code = table[bucket]
        if code < 0:
            if count == len(firsts):
                table, hashes, firsts, bucket = _enlarged(hashes, firsts, key)
            code = np.int32(count)
            table[bucket], hashes[count], firsts[count] = code, key, ranking
            count += 1
        codes[ranking] = code
    return firsts[:count].copy()


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
    codes = np.empty(len(query), np.int32)
    bits = np.empty(0, np.uint64) if propensities is None else propensities.view(np.uint64)
    firsts = _code_rankings_kernel(
        offsets,
        _bits(query),
        np.asarray(design, np.int32),
        _bits(docs),
        np.asarray(positions, np.int32),
        bits,
        codes,
    )
    return codes, firsts


@njit(cache=True, nogil=True)
def _sort_groups(value, offsets, order):  # type: ignore[no-untyped-def]
    for index in range(len(offsets) - 1):
        rows = order[offsets[index] : offsets[index + 1]]
        if len(rows) > 256:
            # one width of keys, and no assigning by slices, which takes numba seconds to compile
            keys, unordered = np.empty(len(rows), np.int64), rows.copy()
            for i in range(len(rows)):
                keys[i] = value[rows[i]]
            _, by_value = sort_with_index(keys)
            for i in range(len(rows)):
                rows[i] = unordered[by_value[i]]
            continue
        # insertion beats a general sort on the short lists that groups mostly are
        for i in range(1, len(rows)):
            row, j = rows[i], i
            while j > 0 and value[rows[j - 1]] > value[row]:
                rows[j] = rows[j - 1]
                j -= 1
            rows[j] = row


def group_rows(group: Ints, groups: int, value: npt.NDArray) -> tuple[Longs, Longs]:
    """Return where each group's rows begin, and the rows sorted by (group, value), stably.

    >>> group_rows(np.array([1, 0, 1], np.int32), 2, np.array([9, 5, 8]))
    (array([0, 1, 3]), array([1, 2, 0]))
    """
    offsets, order = rows_by_group(group, groups)
    _sort_groups(value, offsets, order)
    return offsets, order


@njit(cache=True, nogil=True)
def _repeat_kernel(offsets, docs):  # type: ignore[no-untyped-def]
    for ranking in range(len(offsets) - 1):
        shown = docs[offsets[ranking] : offsets[ranking + 1]]
        if len(shown) > 64:
            ordered, order = sort_with_index(shown.astype(np.int64))
            for i in range(1, len(order)):
                if ordered[i] == ordered[i - 1]:
                    return offsets[ranking] + order[i]
            continue
        # a short list is compared with itself faster than it is sorted
        for i in range(1, len(shown)):
            for j in range(i):
                if shown[i] == shown[j]:
                    return offsets[ranking] + i
    return np.int64(-1)


def first_repeated_doc(offsets: Longs, docs: npt.NDArray) -> int:
    """Return a slot whose doc the same ranking shows in an earlier slot, or -1.

    >>> first_repeated_doc(np.array([0, 2, 4]), np.array([5, 6, 5, 5]))
    3
    """
    return int(_repeat_kernel(offsets, docs))


@njit(cache=True, nogil=True)
def _place(table, first, last, doc):  # type: ignore[no-untyped-def]
    """Return where a doc is, or would be, among sorted docs."""
    while first < last:
        middle = (first + last) // 2
        if table[middle] < doc:
            first = middle + 1
        else:
            last = middle
    return first


@njit(cache=True, nogil=True)
def _doc_table_kernel(starts, order, docs, offsets, table, index):  # type: ignore[no-untyped-def]
    for query in range(len(starts) - 1):
        rows = order[starts[query] : starts[query + 1]]
        first = last = offsets[query]
        if len(rows) > 256:
            ordered, _ = sort_with_index(docs[rows])
            for doc in ordered:
                if last == first or table[last - 1] != doc:
                    table[last] = doc
                    last += 1
        else:  # few docs, shown in several rankings: most are there already
            for row in rows:
                doc = docs[row]
                place = _place(table, first, last, doc)
                if place < last and table[place] == doc:
                    continue
                for after in range(last, place, -1):
                    table[after] = table[after - 1]
                table[place] = doc
                last += 1
        for row in rows:
            index[row] = _place(table, first, last, docs[row])
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
