"""Whether CSV files hold throughout what DuckDB guessed of their first rows, by a look at the bytes.

Asking DuckDB (`prsrank.logs.column_types`) takes a pass that reads every value as text and casts
it, twice as long as reading the file. Files as programs mostly write them need no such pass.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numba import njit

from prsrank.data.decimals import SETTLED, parse_decimal
from prsrank.data.line_blocks import blocks_of_lines
from prsrank.threads import map_in_order
from prsrank.types import Bytes

_ANY, _WHOLE, _NUMBER, _TRUTH = range(4)
_KINDS = {"BIGINT": _WHOLE, "DOUBLE": _NUMBER, "BOOLEAN": _TRUTH}
_NEWLINE, _RETURN, _MINUS, _ZERO = b"\n\r-0"
_LARGE = 1e300
_TRUE, _FALSE = (np.frombuffer(word, np.uint8) for word in (b"true", b"false"))


def is_plain(
    files: Sequence[Path], guessed: Mapping[str, str], ids: Sequence[str], threads: int
) -> bool:
    """Tell whether all rows of CSV files can be read with the guessed types.

    False means that this cannot tell: something is quoted, or a line is short, or a number odd.
    Of what is called plain, `types_throughout` would find the guessed types.

    Args:
        files: they must have the same columns in the same order.
        guessed: DuckDB's types of all columns, by name, in their order.
        ids: columns that hold integers, or else text as it is written.
        threads: how many.
    """
    if any(guessed.get(name) not in (None, "BIGINT", "VARCHAR") for name in ids):
        return False
    kinds = np.array([_KINDS.get(kind, _ANY) for kind in guessed.values()], np.uint8)
    return all(_is_plain_file(file, list(guessed), kinds, threads) for file in files)


def _is_plain_file(file: Path, names: list[str], kinds: Bytes, threads: int) -> bool:
    blocks = blocks_of_lines(file)
    first = next(blocks, np.empty(0, np.uint8))
    header = first[: 1 << 20].tobytes().partition(b"\n")[0]
    delimiters = [one for one in (b",", b"\t", b";", b"|") if _is_header(header, names, one)]
    if not delimiters:
        return False
    delimiter = delimiters[0][0]
    if not _plain_lines(first[len(header) + 1 :], kinds, delimiter):
        return False
    return all(
        map_in_order(lambda text: _plain_lines(text, kinds, delimiter), blocks, threads=threads)
    )


def _is_header(line: bytes, names: list[str], delimiter: bytes) -> bool:
    return line.removesuffix(b"\r") == delimiter.join(name.encode() for name in names)


@njit(cache=True, nogil=True)
def _plain_lines(text: Bytes, kinds: Bytes, delimiter: int) -> bool:
    """Tell whether each line has a field of each kind, which may be empty."""
    at = 0
    while at < len(text):
        for column in range(len(kinds)):
            kind = kinds[column]
            if kind == _WHOLE:
                at = _after_whole(text, at)
            elif kind == _TRUTH:
                at = _after_truth(text, at)
            elif kind == _NUMBER:
                at = _after_number(text, at)
            else:
                while at < len(text) and text[at] != delimiter and text[at] != _NEWLINE:
                    at += 1
            if column < len(kinds) - 1:
                if at >= len(text) or text[at] != delimiter:
                    return False
                at += 1
        at += at < len(text) and text[at] == _RETURN
        if at < len(text) and text[at] != _NEWLINE:
            return False
        at += 1
    return True


@njit(cache=True, nogil=True)
def _after_whole(text: Bytes, start: int) -> int:
    """Return where an integer, written as 64-bit integers are, ends; `start` if it is another."""
    negative = start < len(text) and text[start] == _MINUS
    first = start + negative
    at = first
    while at < len(text) and _is_digit(text[at]):
        at += 1
    digits = at - first
    if digits == 0 or digits > 18 or (text[first] == _ZERO and (negative or digits > 1)):
        return start
    return at


@njit(cache=True, nogil=True)
def _after_number(text: Bytes, start: int) -> int:
    """Return where a number ends; `start` if DuckDB may not read it."""
    first = start + (start < len(text) and text[start] == _MINUS)
    if first >= len(text) or not _is_digit(text[first]):
        return start
    at, value, status = parse_decimal(text, start, len(text))
    read = status == SETTLED and abs(value) < _LARGE and _is_digit(text[at - 1])
    return at if read else start


@njit(cache=True, nogil=True)
def _after_truth(text: Bytes, at: int) -> int:
    """Return where `true` or `false`, in letters of any size, ends; `at` if it is another word."""
    for word in (_TRUE, _FALSE):
        same = at + len(word) <= len(text)
        for i in range(len(word)):
            same = same and text[at + i] | 32 == word[i]
        if same:
            return at + len(word)
    return at


@njit(cache=True, nogil=True)
def _is_digit(byte: int) -> bool:
    return _ZERO <= byte < _ZERO + 10
