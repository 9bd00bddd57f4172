"""Large arrays in files without a name: pages that the system may take back when memory is short."""

import mmap
import os
import tempfile

import numpy as np
import numpy.typing as npt

from prsrank.types import Longs

_ROWS_AT_ONCE = 65_536


def new_array(shape: tuple[int, int], dtype: npt.DTypeLike, *, most: int) -> npt.NDArray:
    """Return an array to be filled: in memory if it takes `most` bytes or less, else in a file.

    The file goes when the array does, however the process ends.

    Raises:
        OSError: if the disk has no room for it.

    >>> values = new_array((2, 3), np.float32, most=0)
    >>> values[:] = 7.0
    >>> is_in_file(values), is_in_file(values[1:]), is_in_file(values + 1)
    (True, True, False)
    """
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if size <= max(most, 1):
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="prsrank-") as file:
        if hasattr(
            os, "posix_fallocate"
        ):  # a full disk is an error now, and a crash when written to
            os.posix_fallocate(file.fileno(), 0, size)
        return np.asarray(np.memmap(file, dtype, "w+", shape=shape))


def is_in_file(array: npt.NDArray) -> bool:
    """Tell whether an array, or what it is a part of, lies in a file."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


def rows_of(matrix: npt.NDArray, rows: Longs) -> npt.NDArray:
    """Return a copy of rows of a matrix: in a file, if the matrix is in one.

    >>> rows_of(np.eye(3), np.array([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    if not is_in_file(matrix):
        return np.asarray(matrix[rows])
    chosen = new_array((len(rows), matrix.shape[1]), matrix.dtype, most=0)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        np.take(matrix, rows[part], axis=0, out=chosen[part])
    return chosen
