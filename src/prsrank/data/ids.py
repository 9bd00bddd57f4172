"""Ids of queries, docs and sessions: integers, or texts that take the room they hold.

Short texts stand side by side, each in room for the longest, which is fastest. Where one has more
than SIDE_BY_SIDE characters they are objects: so one long id does not widen all others. NumPy's
functions take both kinds, but `np.isin` is far too slow for objects: see `indices_of`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.ragged import offsets_of
from prsrank.types import IdArray, Longs

MOST_LETTERS = 10_000
"""An id has no more characters than this."""

SIDE_BY_SIDE = 64
"""Texts of so many characters stand side by side; longer ones are told apart as fast as objects."""

_LENGTHS = "_lengths"
_SURROGATES = "surrogatepass"  # halves of characters: NumPy's strings hold them too


def id_array(values: npt.ArrayLike) -> IdArray:
    """Return ids as a read-only array: int64, texts side by side, or texts as objects.

    Which of these it is follows from the ids alone.

    Raises:
        InputError: for ids that are neither integers nor texts, or longer than MOST_LETTERS.

    >>> id_array(["b", "a"]), id_array([7])
    (array(['b', 'a'], dtype='<U1'), array([7]))
    >>> id_array(["b", "a" * 100]).dtype
    dtype('O')
    """
    array = plain_array(values)
    if array.dtype.kind in "iub" or array.size == 0:
        return frozen(array, np.int64)
    if array.dtype.kind in "OST" and all(isinstance(value, (int, np.integer)) for value in array):
        return frozen(array, np.int64)
    if array.dtype.kind not in "OSTU":
        raise InputError(f"ids must be integers or strings, not {array.dtype}")
    if array.dtype.kind in "ST":
        array = array.astype(np.str_ if array.dtype.kind == "S" else object)
    if array.dtype.kind == "U" and array.dtype.itemsize <= 4 * SIDE_BY_SIDE:
        return frozen(array, array.dtype)
    longest = check_id_lengths(_lengths(array))
    if longest <= SIDE_BY_SIDE:
        return frozen(array, f"U{longest}")
    return frozen(np.array(list(map(str, array.tolist())), object), object)


def frozen(values: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray:
    """Return a read-only array of a type."""
    array = np.ascontiguousarray(values, dtype=dtype).view()
    array.flags.writeable = False
    return array


def check_id_lengths(lengths: npt.ArrayLike) -> int:
    """Return the most characters of an id; an InputError if they are too many.

    >>> check_id_lengths([5, 20_000])
    Traceback (most recent call last):
    prsrank.errors.InputError: an id has 20,000 characters, and 10,000 is the most
    """
    longest = int(np.max(lengths, initial=0))
    if longest > MOST_LETTERS:
        raise InputError(f"an id has {longest:,} characters, and {MOST_LETTERS:,} is the most")
    return longest


def is_text(ids: npt.NDArray) -> bool:
    """Tell texts from integers."""
    return ids.dtype.kind in "UO"


def texts_of(ids: IdArray) -> IdArray:
    """Return ids as texts: integers in digits.

    >>> texts_of(np.array([7, 12])).tolist()
    ['7', '12']
    """
    return ids if is_text(ids) else ids.astype(np.str_)


def plain_array(values: Any) -> npt.NDArray:
    """Return an array; of a list with texts one of objects, in which no text widens the others."""
    if isinstance(values, (list, tuple)) and any(isinstance(value, str) for value in values):
        return np.array(values, object)
    return np.asarray(values)


def objects(values: Any) -> npt.NDArray:
    """Return an array, of texts one of objects: DuckDB would sort others to number them."""
    array = plain_array(values)
    return array.astype(object) if array.dtype.kind in "UT" else array


def same_kind(ids: IdArray, others: IdArray) -> tuple[IdArray, IdArray]:
    """Return two arrays of ids that can be compared: as texts if either is text."""
    return (ids, others) if is_text(ids) == is_text(others) else (texts_of(ids), texts_of(others))


def joined_ids(arrays: Sequence[IdArray]) -> IdArray:
    """Concatenate ids; as texts if any of them are texts."""
    mixed = any(map(is_text, arrays))
    return id_array(np.concatenate([texts_of(ids) if mixed else ids for ids in arrays]))


def indices_of(wanted: IdArray, ids: IdArray) -> Longs:
    """Return where each id stands among some ids; -1: nowhere.

    >>> indices_of(np.array(["7", "x"]), np.array([5, 7])).tolist()
    [1, -1]
    """
    if not len(ids):
        return np.full(len(wanted), -1)
    wanted, ids = same_kind(wanted, ids)
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    index = np.minimum(np.searchsorted(ordered, wanted), len(ids) - 1)
    return np.where(ordered[index] == wanted, order[index], -1)


def letters_of(ids: IdArray) -> tuple[npt.NDArray[np.uint32], Longs]:
    """Return the code points of texts, and where those of each begin; some may be padded with 0.

    >>> letters_of(np.array(["a", "bc"]))
    (array([97,  0, 98, 99], dtype=uint32), array([0, 2, 4]))
    """
    if ids.dtype.kind == "O":
        text = "".join(ids.tolist()).encode("utf-32-le", _SURROGATES)
        return np.frombuffer(text, np.uint32), offsets_of(_lengths(ids))
    letters = np.ascontiguousarray(ids).view(np.uint32)
    return letters, np.arange(len(ids) + 1) * (ids.dtype.itemsize // 4)


def packed_ids(name: str, ids: IdArray) -> dict[str, npt.NDArray]:
    """Return ids as arrays of numbers, by name: what files hold; see `unpacked_ids`.

    Integers as they are; texts side by side as code points, a row each; objects as UTF-8, one
    behind the other, and how many characters each has.
    """
    if ids.dtype.kind == "O":
        text = "".join(ids.tolist()).encode("utf-8", _SURROGATES)
        return {name: np.frombuffer(text, np.uint8), name + _LENGTHS: _lengths(ids)}
    if not is_text(ids):
        return {name: ids}
    width = max(ids.dtype.itemsize // 4, 1)
    return {name: np.ascontiguousarray(ids, f"<U{width}").view(np.uint32).reshape(-1, width)}


def unpacked_ids(name: str, arrays: Mapping[str, npt.NDArray]) -> IdArray | None:
    """Return the ids that `packed_ids` has made arrays of; None where there are none.

    Raises:
        ValueError: if the arrays do not fit together.
    """
    if name not in arrays:
        return None
    packed = arrays[name]
    if packed.ndim == 2:
        return packed.view(f"<U{packed.shape[1]}")[:, 0]
    if name + _LENGTHS not in arrays:
        return packed
    text, lengths = packed.tobytes().decode("utf-8", _SURROGATES), arrays[name + _LENGTHS]
    whole = lengths.ndim == 1 and lengths.dtype == np.int64 and lengths.min(initial=0) >= 0
    check_id_lengths(lengths)
    ends = np.cumsum(lengths)
    if not whole or ends[-1:].sum() != len(text):
        raise ValueError(f"{name} and their lengths do not fit together")
    spans = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
    return id_array([text[start:end] for start, end in spans])


def _lengths(array: npt.NDArray) -> Longs:
    if array.dtype.kind == "U":
        return np.strings.str_len(array)
    try:
        return np.fromiter(map(len, array), np.int64, len(array))
    except TypeError:  # numbers among the texts
        return np.fromiter(map(len, map(str, array)), np.int64, len(array))
