"""Sorting and grouping inside kernels.

Cached kernels may not call `np.sort` or `np.argsort`: numba gives the inner functions of both the
same symbols when they are first compiled in different processes, and a process that then loads
both caches calls the wrong one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.types import Longs

_RUN = 16
"""Length of the runs that insertion sorts before they are merged."""


@njit(cache=True, nogil=True)
def sort_with_index(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Longs]:
    """Sort a one-dimensional array in rising order, stably: equal values keep their order.

    Merges from runs of 16, keys and indices side by side, so that no comparison looks anything
    up. NaN has no order and must not occur.

    Returns:
        The sorted values, and the index that each of them had.

    >>> values, index = sort_with_index(np.array([3.0, 1.0, 3.0, 2.0]))
    >>> values.tolist(), index.tolist()
    ([1.0, 2.0, 3.0, 3.0], [1, 3, 0, 2])
    """
    length = len(values)
    keys, index = values.copy(), np.arange(length)
    for start in range(0, length, _RUN):
        _insert(keys[start : start + _RUN], index[start : start + _RUN])
    if length <= _RUN:
        return keys, index
    other_keys, other_index = np.empty_like(keys), np.empty_like(index)
    width = _RUN
    while width < length:
        for start in range(0, length, 2 * width):
            middle, stop = min(start + width, length), min(start + 2 * width, length)
            _merge(keys, index, other_keys, other_index, start, middle, stop)
        keys, other_keys = other_keys, keys
        index, other_index = other_index, index
        width *= 2
    return keys, index


@njit(cache=True, nogil=True)
def longest_list(first: int, last: int, offsets: Longs) -> int:
    """Return the length of the longest of lists first to last - 1, at least 1."""
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@njit(cache=True, nogil=True)
def rows_by_group(groups: npt.NDArray[Any], count: int) -> tuple[Longs, Longs]:
    """Return where the rows of groups 0 to count - 1 begin, and the rows, in their order.

    Rows of a group below 0 are left out.

    >>> rows_by_group(np.array([1, 0, -1, 1]), 2)
    (array([0, 1, 3]), array([1, 0, 3]))
    """
    starts = np.zeros(count + 1, np.int64)
    for group in groups:
        if group >= 0:
            starts[group + 1] += 1
    for group in range(count):
        starts[group + 1] += starts[group]
    following, rows = starts[:-1].copy(), np.empty(starts[count], np.int64)
    for row in range(len(groups)):
        if groups[row] >= 0:
            rows[following[groups[row]]] = row
            following[groups[row]] += 1
    return starts, rows


@njit(cache=True, nogil=True, inline="always")
def _insert(keys, index):  # type: ignore[no-untyped-def]
    # unsigned, because numba looks at every signed index for being negative
    unit = np.uint64(1)
    for i in range(1, len(keys)):
        key, origin, j = keys[i], index[i], np.uint64(i)
        while j > 0 and keys[j - unit] > key:
            keys[j] = keys[j - unit]
            index[j] = index[j - unit]
            j -= unit
        keys[j] = key
        index[j] = origin


@njit(cache=True, nogil=True, inline="always")
def _merge(keys, index, to_keys, to_index, start, middle, stop):  # type: ignore[no-untyped-def]
    unit, left, right, to = np.uint64(1), np.uint64(start), np.uint64(middle), np.uint64(start)
    end_of_left, end_of_right = np.uint64(middle), np.uint64(stop)
    while left < end_of_left and right < end_of_right:
        # chosen without a branch, which random keys would mispredict half of the time
        a, b = keys[left], keys[right]
        i, j = index[left], index[right]
        second = b < a
        to_keys[to] = b if second else a
        to_index[to] = j if second else i
        step = np.uint64(second)
        right += step
        left += unit - step
        to += unit
    rest, end = (left, end_of_left) if left < end_of_left else (right, end_of_right)
    while rest < end:
        to_keys[to] = keys[rest]
        to_index[to] = index[rest]
        rest += unit
        to += unit
