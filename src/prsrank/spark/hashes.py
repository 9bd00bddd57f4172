"""Hashes of ids and features: the same for the same values, whatever read them and on which machine."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.data.ids import frozen
from prsrank.hashing import STEP, mixed_in_kernel
from prsrank.types import Longs

if TYPE_CHECKING:
    import pyarrow


def id_hashes(ids: "pyarrow.Array") -> Longs:
    """Return a hash of each id: of the number, however wide its type, or of the text.

    Args:
        ids: integers or texts; null is as 0 or "".

    >>> import pyarrow as pa
    >>> id_hashes(pa.array([7, 8], pa.int16())) == id_hashes(pa.array([7, 8]))
    array([ True,  True])
    """
    import pyarrow as pa

    if pa.types.is_integer(ids.type):
        return _mixed_kernel(_values(ids.cast(pa.int64()).fill_null(0)))  # type: ignore[no-any-return]
    texts = ids.cast(pa.large_string()).fill_null("")
    _, ends, letters = texts.buffers()
    ends = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    hashes: Longs = _texts_kernel(ends, np.frombuffer(letters or b"", np.uint8))
    return hashes


def pair_hashes(ones: Longs, others: Longs) -> Longs:
    """Return a hash of each pair of hashes, which tells the two from one another."""
    return _pairs_kernel(ones, others)  # type: ignore[no-any-return]


def feature_hashes(columns: npt.NDArray[np.float32]) -> Longs:
    """Return a hash of the values that each doc has, all NaN being one.

    Args:
        columns: a row of values for each feature; 0 has no sign.
    """
    return _rows_kernel(columns.view(np.uint32), np.isnan(columns))  # type: ignore[no-any-return]


def buckets_of(hashes: Longs, count: int) -> Longs:
    """Return the bucket, of so many, that each hash stands for."""
    return (hashes.view(np.uint64) % np.uint64(count)).astype(np.int64)


def _values(ids: "pyarrow.Array") -> Longs:
    # a kernel is compiled once more for arrays that can be written to
    return frozen(ids.to_numpy(), np.int64)


@njit(cache=True, nogil=True)
def _mixed_kernel(values):  # type: ignore[no-untyped-def]
    hashes = np.empty(len(values), np.int64)
    for row in range(len(values)):
        hashes[row] = np.int64(mixed_in_kernel(np.uint64(values[row]) + STEP))
    return hashes


@njit(cache=True, nogil=True)
def _texts_kernel(ends, letters):  # type: ignore[no-untyped-def]
    """Hash the bytes of each text by FNV-1a, then mix."""
    hashes = np.empty(len(ends) - 1, np.int64)
    for row in range(len(hashes)):
        bits = np.uint64(0xCBF29CE484222325)
        for index in range(ends[row], ends[row + 1]):
            bits = (bits ^ np.uint64(letters[index])) * np.uint64(0x100000001B3)
        hashes[row] = np.int64(mixed_in_kernel(bits))
    return hashes


@njit(cache=True, nogil=True)
def _pairs_kernel(ones, others):  # type: ignore[no-untyped-def]
    hashes = np.empty(len(ones), np.int64)
    for row in range(len(ones)):
        bits = np.uint64(ones[row]) * STEP + np.uint64(others[row])
        hashes[row] = np.int64(mixed_in_kernel(bits))
    return hashes


@njit(cache=True, nogil=True)
def _rows_kernel(columns, missing):  # type: ignore[no-untyped-def]
    features, rows = columns.shape
    bits = np.zeros(rows, np.uint64)
    for feature in range(features):
        for row in range(rows):
            value = (
                np.uint64(1 << 32) if missing[feature, row] else np.uint64(columns[feature, row])
            )
            bits[row] = mixed_in_kernel(bits[row] + value + STEP)
    return bits.view(np.int64)
