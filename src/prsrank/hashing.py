"""Hashes of ids: the same for the same values on every machine, whatever stands beside them.

Results depend on their values: which queries are held out, which part of a cross-fit a query is in,
in which order docs of equal scores come.
"""

from collections.abc import Collection
from hashlib import blake2b, md5
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.data.ids import letters_of
from prsrank.types import IdArray, Longs

STEP = np.uint64(0x9E3779B97F4A7C15)
"""2^64 by the golden ratio: multiples of it are spread evenly."""

_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_HEADS = 16**4


def mixed(bits: Any) -> Any:
    """Mix 64 bits, each into all, one to one: the end of splitmix64, of a number or an array."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


mixed_in_kernel = njit(cache=True, nogil=True)(mixed)
"""`mixed`, of a number, for kernels."""


def id_keys(ids: IdArray) -> Longs:
    """Return a whole number of 63 bits for each id, the same for the same id everywhere.

    >>> bool(id_keys(np.array(["a", "b", "a"]))[0] == id_keys(np.array(["a"]))[0])
    True
    """
    if ids.dtype.kind in "iu":
        return _key(ids.astype(np.int64).view(np.uint64))
    keys = np.empty(len(ids), np.uint64)
    _letters_kernel(*letters_of(ids), keys)
    return _key(keys)


def joined_keys(keys: Longs, others: Longs) -> Longs:
    """Return the key of each pair of keys."""
    return _key((keys.view(np.uint64) * STEP) ^ others.view(np.uint64))


def _key(bits: npt.NDArray[np.uint64]) -> Longs:
    return np.asarray((mixed(bits) >> np.uint64(1)).view(np.int64))


@njit(cache=True, nogil=True)
def _letters_kernel(letters, offsets, keys):  # type: ignore[no-untyped-def]
    """Hash the code points of texts by FNV-1a."""
    for i in range(len(keys)):
        key = _BASIS
        for letter in letters[offsets[i] : offsets[i + 1]]:
            # an id may be padded with zeros, which must not change its key
            if letter > 0:
                key = (key ^ np.uint64(letter)) * _PRIME
        keys[i] = key


def text_hashes(texts: Collection[str]) -> npt.NDArray[np.uint64]:
    """Return 64 bits of the BLAKE2b of each text.

    >>> text_hashes(["0 a", "0 b"]) % 5
    array([3, 1], dtype=uint64)
    """
    digests = (blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.fromiter((int.from_bytes(d, "little") for d in digests), np.uint64, len(texts))


def sql_hashes(texts: Collection[str]) -> Longs:
    """Return the first 32 bits of the MD5 of each text, which SQL can compute, too.

    >>> (sql_hashes(["0:7", "0:8"]) % 10_000).tolist()
    [7895, 2094]
    """
    # a hash to spread ids evenly, not to keep a secret
    heads = (md5(text.encode(), usedforsecurity=False).digest()[:4] for text in texts)
    return np.fromiter((int.from_bytes(head, "big") for head in heads), np.int64, len(texts))


def chosen_sql(ids: str, share: float) -> str:
    """Return SQL that is true for about that share of ids, by a hash that DuckDB and Spark have."""
    below = format(min(_HEADS - 1, int(_HEADS * share)), "04x")
    return f"substr(md5({ids}::VARCHAR), 1, 4) <= '{below}'"
