"""Numbers and texts packed into the text of a page, which a browser unpacks by itself."""

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.types import Reals


def packed(meta: Any, arrays: Mapping[str, npt.NDArray]) -> str:
    """Return a value and arrays as Base64 of gzip: letters that mean nothing in HTML.

    Within are the length of the JSON text (4 bytes, the lowest first), the text with `meta` and
    [name, "f" or "u", length] of each array, then each array as float32 or uint32: all lowest
    bytes, then all second ones, and so on, for equal bytes beside one another pack well.

    Args:
        meta: whatever JSON can hold.
        arrays: floats, or integers of at least 0.
    """
    plain = {name: _four_bytes(values) for name, values in arrays.items()}
    named = [[name, values.dtype.kind, values.size] for name, values in plain.items()]
    text = json.dumps({"meta": meta, "arrays": named}, allow_nan=False).encode()
    planes = [values.reshape(-1, 1).view(np.uint8).T.tobytes() for values in plain.values()]
    whole = b"".join([len(text).to_bytes(4, "little"), text, *planes])
    return base64.b64encode(gzip.compress(whole, mtime=0)).decode()


def rounded(values: npt.ArrayLike) -> Reals:
    """Return floats rounded to 12 bits, by one part in 4,096 at most: the rest packs to nothing.

    >>> rounded([1 / 3, 1000.1]).tolist()
    [0.3333740234375, 1000.0]
    """
    bits = np.array(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x800)) & np.uint32(0xFFFFF000)).view(np.float32)


def _four_bytes(values: npt.NDArray) -> npt.NDArray:
    return np.ascontiguousarray(values, "<f4" if values.dtype.kind == "f" else "<u4").ravel()
