"""Kernels that parse the lines of LETOR / SVMlight text."""

import math

import numpy as np
from numba import njit

from prsrank.data.decimals import NOT_A_NUMBER, SETTLED, UNSETTLED, parse_decimal
from prsrank.types import Bytes, Longs, Reals

# What a kernel can find wrong; the texts are shown behind file, line and column.
OK, NO_LABEL, NO_QID, EMPTY_QID, BAD_ID, BAD_VALUE, TWICE, TOO_LARGE, TOO_WIDE, BAD_COST = range(10)
TOO_MANY_PATCHES = 100
MAX_FEATURE_ID = 100_000
MESSAGES = {
    NO_LABEL: "a label (a finite number) is expected here",
    NO_QID: "'qid:' is expected after the label",
    EMPTY_QID: "the query id is empty",
    BAD_ID: "'feature:value' is expected here, with a feature id from 1 up",
    BAD_VALUE: "the feature value is neither a number nor NULL",
    TWICE: "this feature is given twice in the line",
    TOO_LARGE: "the feature value is infinite or too large for float32",
    TOO_WIDE: f"the feature id is above the number of features (at most {MAX_FEATURE_ID:,})",
    BAD_COST: "the cost is not a finite number above 0",
}

# Where a patch goes, a value that only Python's `float` rounds right: a feature's column, or
LABEL_COLUMN, COST_COLUMN = -1, -2

# Entries of the `found` array that the kernels fill.
ROWS, LISTS, LINES, LINE_START, ERROR_AT, MAX_ID, PATCHES, COSTS, DOC_IDS = range(9)

_LARGEST = float(np.finfo(np.float32).max)
_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _ZERO, _COLON, _EQUALS = 9, 10, 13, 32, 35, 48, 58, 61
_QID, _COST, _DOCID = (np.frombuffer(word, np.uint8) for word in (b"qid:", b"cost:", b"docid"))


@njit(cache=True, nogil=True)
def count_lines(text: Bytes) -> int:
    """Number of lines, the last one counted also where it has no line end."""
    lines = 0
    for byte in text:
        lines += byte == _NEWLINE
    return lines + (len(text) > 0 and text[-1] != _NEWLINE)


@njit(cache=True, nogil=True)
def largest_id(text: Bytes) -> int:
    """The largest whole number that stands before a colon, up to one above MAX_FEATURE_ID."""
    largest = number = 0
    inside = True
    for byte in text:
        if byte == _COLON:
            if inside:
                largest = max(largest, number)
            inside = False
        elif byte == _SPACE or byte == _TAB:
            number = 0
            inside = True
        elif byte - np.uint8(_ZERO) <= 9:
            number = min(number * 10 + int(byte) - _ZERO, MAX_FEATURE_ID + 1)
        else:
            inside = False
    return largest


@njit(cache=True, nogil=True)
def parse_lines(
    text: Bytes,
    features: Reals,
    labels: Reals,
    costs: Reals,
    lists: Longs,
    docs: Longs,
    patches: Longs,
    found: Longs,
) -> int:
    """Parse whole lines into preallocated arrays.

    Args:
        text: the bytes.
        features: zeros (rows x width), filled with the values.
        labels: one per row.
        costs: one per row; NaN where there is none.
        lists: (rows x 4) for each new list its first row, its line, and its id's span.
        docs: (rows x 2) span of each row's doc id.
        patches: (n x 4) row, column and span of values left to Python's `float`.
        found: counts, and the position of an error, by the names above.

    Returns:
        OK, or what is wrong at found[ERROR_AT].
    """
    seen = np.zeros(features.shape[1], np.int64)
    start = row = 0
    while start < len(text):
        end = start
        while end < len(text) and text[end] != _NEWLINE:
            end += 1
        found[LINE_START] = start
        found[LINES] += 1
        at = _skip_gap(text, start, end)
        if at < end and text[at] != _HASH:
            at, code = _label(text, at, end, row, labels, patches, found)
            if code == OK:
                at, code = _query(text, at, end, row, lists, found)
            if code == OK:
                at, code = _cost(text, at, end, row, costs, patches, found)
            if code == OK:
                at, code = _features(text, at, end, row, features, seen, patches, found)
            if code != OK:
                return code
            docs[row, 0], docs[row, 1] = _doc_id(text, at, end)
            found[DOC_IDS] += docs[row, 1] > docs[row, 0]
            row += 1
            found[ROWS] = row
        start = end + 1
    return OK


@njit(cache=True, nogil=True)
def _label(
    text: Bytes, at: int, end: int, row: int, labels: Reals, patches: Longs, found: Longs
) -> tuple[int, int]:
    found[ERROR_AT] = start = at
    at, value, status = parse_decimal(text, at, end)
    if status == NOT_A_NUMBER or not _is_end(text, at, end) or abs(value) > _LARGEST:
        return at, NO_LABEL
    labels[row] = value
    if status == UNSETTLED:
        return at, _add_patch(patches, found, row, LABEL_COLUMN, start, at)
    return at, OK


@njit(cache=True, nogil=True)
def _query(text: Bytes, at: int, end: int, row: int, lists: Longs, found: Longs) -> tuple[int, int]:
    found[ERROR_AT] = at = _skip_gap(text, at, end)
    if not _starts_with(text, at, end, _QID):
        return at, NO_QID
    found[ERROR_AT] = start = at = at + len(_QID)
    while not _is_end(text, at, end):
        at += 1
    if at == start:
        return at, EMPTY_QID
    n = found[LISTS]
    if n == 0 or not _same(text, start, at, lists[n - 1, 2], lists[n - 1, 3]):
        lists[n, 0] = row
        lists[n, 1] = found[LINES]
        lists[n, 2] = start
        lists[n, 3] = at
        found[LISTS] = n + 1
    return at, OK


@njit(cache=True, nogil=True)
def _cost(
    text: Bytes, at: int, end: int, row: int, costs: Reals, patches: Longs, found: Longs
) -> tuple[int, int]:
    costs[row] = math.nan
    at = _skip_gap(text, at, end)
    if not _starts_with(text, at, end, _COST):
        return at, OK
    found[COSTS] += 1
    found[ERROR_AT] = start = at + len(_COST)
    at, value, status = parse_decimal(text, start, end)
    if status == NOT_A_NUMBER or not _is_end(text, at, end):
        return at, BAD_COST
    costs[row] = value
    if status == UNSETTLED:
        return at, _add_patch(patches, found, row, COST_COLUMN, start, at)
    return at, OK if 0 < costs[row] <= _LARGEST else BAD_COST


@njit(cache=True, nogil=True)
def _features(
    text: Bytes,
    at: int,
    end: int,
    row: int,
    features: Reals,
    seen: Longs,
    patches: Longs,
    found: Longs,
) -> tuple[int, int]:
    at = _skip_gap(text, at, end)
    while at < end and text[at] != _HASH:
        found[ERROR_AT] = start = at
        feature = 0
        while at < end:
            digit = text[at] - np.uint8(_ZERO)
            if digit > 9:
                break
            feature = min(feature * 10 + int(digit), MAX_FEATURE_ID + 1)
            at += 1
        if at == start or at == end or text[at] != _COLON or feature == 0:
            return at, BAD_ID
        if feature > features.shape[1]:
            found[MAX_ID] = feature
            return at, TOO_WIDE
        column = feature - 1
        if seen[column] == row + 1:
            return at, TWICE
        seen[column] = row + 1
        found[ERROR_AT] = start = at + 1
        at, value, status = parse_decimal(text, start, end)
        if status == SETTLED:
            if abs(value) > _LARGEST:
                return at, TOO_LARGE
            features[row, column] = value
        elif status == UNSETTLED:
            if _add_patch(patches, found, row, column, start, at) != OK:
                return at, TOO_MANY_PATCHES
        else:
            at = _skip_missing(text, start, end)
            features[row, column] = math.nan
        if at == start or not _is_end(text, at, end):
            return at, BAD_VALUE
        at = _skip_gap(text, at, end)
    return at, OK


@njit(cache=True, nogil=True)
def _add_patch(patches: Longs, found: Longs, row: int, column: int, start: int, end: int) -> int:
    used = found[PATCHES]
    if used == len(patches):
        return TOO_MANY_PATCHES
    patches[used, 0] = row
    patches[used, 1] = column
    patches[used, 2] = start
    patches[used, 3] = end
    found[PATCHES] = used + 1
    return OK


@njit(cache=True, nogil=True)
def _doc_id(text: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where the doc id of a comment `#docid = X ...` begins and ends; (0, 0) if there is none."""
    if at >= end:
        return 0, 0
    at = _skip_gap(text, at + 1, end)
    if not _starts_with(text, at, end, _DOCID):
        return 0, 0
    at = _skip_gap(text, at + len(_DOCID), end)
    if at >= end or text[at] != _EQUALS:
        return 0, 0
    start = at = _skip_gap(text, at + 1, end)
    while at < end and not _is_gap(text[at]):
        at += 1
    return start, at


@njit(cache=True, nogil=True)
def _is_gap(byte: int) -> bool:
    return byte == _SPACE or byte == _TAB or byte == _RETURN


@njit(cache=True, nogil=True)
def _is_end(text: Bytes, at: int, end: int) -> bool:
    return at >= end or _is_gap(text[at]) or text[at] == _HASH


@njit(cache=True, nogil=True)
def _skip_gap(text: Bytes, at: int, end: int) -> int:
    while at < end and _is_gap(text[at]):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _skip_missing(text: Bytes, at: int, end: int) -> int:
    """Step over NULL or nan, in any case."""
    if end - at >= 4:
        a, b, c, d = text[at] | 32, text[at + 1] | 32, text[at + 2] | 32, text[at + 3] | 32
        if a == ord("n") and b == ord("u") and c == ord("l") and d == ord("l"):
            return at + 4
    if end - at >= 3:
        a, b, c = text[at] | 32, text[at + 1] | 32, text[at + 2] | 32
        if a == ord("n") and b == ord("a") and c == ord("n"):
            return at + 3
    return at


@njit(cache=True, nogil=True)
def _starts_with(text: Bytes, at: int, end: int, word: Bytes) -> bool:
    if end - at < len(word):
        return False
    for i in range(len(word)):
        if text[at + i] != word[i]:
            return False
    return True


@njit(cache=True, nogil=True)
def _same(text: Bytes, a: int, a_end: int, b: int, b_end: int) -> bool:
    if a_end - a != b_end - b:
        return False
    for i in range(a_end - a):
        if text[a + i] != text[b + i]:
            return False
    return True


@njit(cache=True, nogil=True)
def copy_spans(text: Bytes, spans: Longs, out: Bytes) -> None:
    """Copy text[spans[i, 0]:spans[i, 1]] into the zeroed row i of `out`."""
    for i in range(len(spans)):
        for j in range(spans[i, 1] - spans[i, 0]):
            out[i, j] = text[spans[i, 0] + j]
