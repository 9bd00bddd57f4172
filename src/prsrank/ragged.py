"""Ragged arrays: the entries of all lists behind one another, and offsets where each list begins.

List i of a flat array has the entries `offsets[i]` to `offsets[i + 1]`; there is one offset more than
there are lists.
"""

import numpy as np
import numpy.typing as npt

from prsrank.types import Longs


def offsets_of(sizes: npt.ArrayLike) -> Longs:
    """Return where lists of these sizes begin, and the end of the last.

    Of marks (0 or 1 for each entry) it is how many are set before each entry.

    >>> offsets_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    counts = np.asarray(sizes).astype(np.int64, copy=False)
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def list_of_row(offsets: Longs) -> Longs:
    """Return the list of each row.

    >>> list_of_row(np.array([0, 2, 2, 5])).tolist()
    [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def row_in_list(offsets: Longs) -> Longs:
    """Return the 0-based row of each entry in its list.

    >>> row_in_list(np.array([0, 2, 2, 5])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))


def runs(starts: Longs, lengths: Longs) -> Longs:
    """Return starts[k], starts[k] + 1, ..., lengths[k] of them, for each k.

    >>> runs(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    offsets = offsets_of(lengths)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)


def ragged_rows(offsets: Longs, chosen: npt.NDArray) -> tuple[Longs, Longs]:
    """Return the rows of the chosen lists (indices or a mask), in that order, and their offsets.

    >>> ragged_rows(np.array([0, 2, 5]), np.array([1, 0]))
    (array([2, 3, 4, 0, 1]), array([0, 3, 5]))
    """
    lengths = np.diff(offsets)[chosen]
    return runs(offsets[:-1][chosen], lengths), offsets_of(lengths)
