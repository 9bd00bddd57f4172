"""Lines of LETOR / SVMlight text as arrays: cut by NumPy, numbers parsed by Arrow.

Lines in which something is odd are looked at again one by one, in plain Python, which knows where
the first error is and what to say about it.
"""

import mmap
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.data.ids import id_array
from prsrank.ragged import runs
from prsrank.types import Bytes, Floats, IdArray, Longs, Reals

MAX_FEATURE_ID = 100_000

_LARGEST = float(np.finfo(np.float32).max)
_MISSING = (b"null", b"nan")
_WORD = re.compile(rb"[^ \t\r]+")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DOC_ID = re.compile(rb"#[ \t\r]*docid[ \t\r]*=[ \t\r]*([^ \t\r\n]*)")


class LineError(Exception):
    """What is wrong in some text, and the line and column where it is, both from 1."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(message)
        self.line, self.column = line, column


class _OddText(Exception):
    """The arrays cannot be made of the text as it stands."""


@dataclass
class LetorBlock:
    """What some whole lines hold: a row for each doc.

    Attributes:
        lines: how many there are.
        size: their bytes.
        features: the values.
        labels: of the rows.
        costs: NaN where a row has none.
        starts: the first row of each list.
        list_lines: the line of that row, from 1.
        query_ids: of the lists.
        doc_ids: of the rows; empty where a row has none.
    """

    lines: int
    size: int
    features: Reals
    labels: Reals
    costs: Reals
    starts: Longs
    list_lines: Longs
    query_ids: list[str]
    doc_ids: IdArray


def parse_lines(text: bytes, features: int | None = None) -> LetorBlock:
    """Return what whole lines hold.

    Args:
        text: the lines.
        features: the number of features; default: the largest id in these lines.

    Raises:
        LineError: for the first thing wrong.
    """
    import pyarrow as pa

    try:
        return _parse(text, features, _floats)
    except (_OddText, pa.ArrowInvalid):
        check_lines(text, features or MAX_FEATURE_ID)
        return _parse(text, features, _python_floats)


@dataclass
class _Words:
    """Where words stand: all of them, and the rows that they make up.

    Attributes:
        text: the bytes.
        starts: where each word begins.
        ends: and where it ends.
        lines: the line of each row, from 0: those that hold a word before their comment.
        first: the first word of each row.
        behind: the word behind the last of each row.
        comments: where each row's comment begins, or else its line ends.
    """

    text: Bytes
    starts: Longs
    ends: Longs
    lines: Longs
    first: Longs
    behind: Longs
    comments: Longs

    def begin_with(self, words: Longs, prefix: bytes) -> npt.NDArray[np.bool_]:
        """Tell which words begin with a prefix and go on behind it."""
        letters = self.starts[words, None] + np.arange(len(prefix))
        same = self.text[np.minimum(letters, len(self.text) - 1)] == np.frombuffer(prefix, np.uint8)
        longer = self.ends[words] - self.starts[words] > len(prefix)
        return np.asarray(same.all(axis=1) & longer)


def _words(text: Bytes) -> tuple[_Words, int]:
    """Return the words of some text, and its number of lines."""
    gaps = np.ones(len(text) + 2, bool)
    newline, comment = text == ord("\n"), text == ord("#")
    gaps[1:-1] = newline | comment | (text == ord(" ")) | (text == ord("\t")) | (text == ord("\r"))
    edges = np.flatnonzero(gaps[1:] != gaps[:-1])
    starts = edges[::2]
    line_ends = np.flatnonzero(newline)
    if not newline[-1]:
        line_ends = np.append(line_ends, len(text))
    line_starts = np.append(0, line_ends[:-1] + 1)
    hashes = np.append(np.flatnonzero(comment), len(text))
    comments = np.minimum(hashes[np.searchsorted(hashes, line_starts)], line_ends)
    first = np.searchsorted(starts, line_starts)
    behind = np.searchsorted(starts, comments)
    rows = np.flatnonzero(behind > first)
    words = _Words(text, starts, edges[1::2], rows, first[rows], behind[rows], comments[rows])
    return words, len(line_ends)


_ParseFloats = Callable[[Bytes, Longs, Longs], Floats]


def _parse(data: bytes, width: int | None, floats: _ParseFloats) -> LetorBlock:
    text = np.frombuffer(data, np.uint8)
    words, lines = _words(text)
    starts, ends, query = words.starts, words.ends, words.first + 1
    if (query >= words.behind).any() or not words.begin_with(query, b"qid:").all():
        raise _OddText
    labels = floats(text, starts[words.first], ends[words.first])
    costed = np.flatnonzero(query + 1 < words.behind)
    costed = costed[words.begin_with(query[costed] + 1, b"cost:")]
    costs = np.full(len(query), np.nan, np.float32)
    costs[costed] = floats(text, starts[query[costed] + 1] + len("cost:"), ends[query[costed] + 1])
    if not (costs[costed] > 0).all():
        raise _OddText
    feature = query + 1
    feature[costed] += 1
    features = _features(words, feature, width, floats)
    spans = zip((starts[query] + len("qid:")).tolist(), ends[query].tolist(), strict=True)
    queries = [data[start:end] for start, end in spans]
    new = [i for i, token in enumerate(queries) if i == 0 or token != queries[i - 1]]
    return LetorBlock(
        lines=lines,
        size=len(data),
        features=features,
        labels=labels.astype(np.float32),
        costs=costs,
        starts=np.array(new, np.int64),
        list_lines=words.lines[new] + 1,
        query_ids=[queries[i].decode() for i in new],
        doc_ids=_doc_ids(data, words.comments),
    )


def _features(words: _Words, first: Longs, width: int | None, floats: _ParseFloats) -> Reals:
    """Return the values of the rows, whose features begin with the words `first`."""
    text, sizes = words.text, words.behind - first
    word = runs(first, sizes)
    starts, ends = words.starts[word], words.ends[word]
    colons = np.flatnonzero(text == ord(":"))
    bounds = np.searchsorted(colons, words.ends[np.stack([first, words.behind]) - 1])
    colons = colons[runs(bounds[0], bounds[1] - bounds[0])]
    if len(colons) != len(word) or not ((starts < colons) & (colons < ends)).all():
        raise _OddText
    if (text[starts + 1] | 32 == ord("x")).any():  # Arrow would take 0x1F for a number
        raise _OddText
    ids = _cast(text, starts, colons, "uint32")
    most = width or int(ids.max(initial=1))
    if ids.min(initial=1) < 1 or ids.max(initial=1) > min(most, MAX_FEATURE_ID):
        raise _OddText
    cells = np.repeat(np.arange(len(first)) * most - 1, sizes) + ids
    if not (np.diff(cells) > 0).all() and len(np.unique(cells)) < len(cells):
        raise _OddText
    features = _mapped_zeros(len(first), most)
    flat = features.reshape(-1)
    missing = _are_missing(text, colons + 1, ends)
    if missing.any():
        flat[cells[missing]] = np.nan
        cells, colons, ends = cells[~missing], colons[~missing], ends[~missing]
    flat[cells] = floats(text, colons + 1, ends)
    return features


def _are_missing(text: Bytes, starts: Longs, ends: Longs) -> npt.NDArray[np.bool_]:
    """Tell which spans of text are NULL or nan, in letters of any size."""
    missing = np.zeros(len(starts), bool)
    begun = np.flatnonzero(text[np.minimum(starts, len(text) - 1)] | 32 == ord("n"))
    for word in _MISSING:
        spans = begun[ends[begun] - starts[begun] == len(word)]
        for i, letter in enumerate(word):
            spans = spans[text[starts[spans] + i] | 32 == letter]
        missing[spans] = True
    return missing


def _floats(text: Bytes, starts: Longs, ends: Longs) -> Floats:
    """Parse spans of text as numbers that float32 can hold."""
    values = _cast(text, starts, ends, "float64")
    if not (np.abs(values) <= _LARGEST).all():
        raise _OddText
    return values


def _python_floats(text: Bytes, starts: Longs, ends: Longs) -> Floats:
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return np.array([float(text[start:end].tobytes()) for start, end in spans], np.float64)


def _cast(text: Bytes, starts: Longs, ends: Longs, kind: str) -> npt.NDArray[Any]:
    """Parse rising spans of text as numbers, by Arrow.

    It is given an array of texts without a copy: spans, and what lies between them as null.
    """
    import pyarrow as pa

    count = 2 * len(starts)
    offsets = np.empty(count + 1, np.int32)
    offsets[:-1:2], offsets[1::2] = starts, ends
    offsets[-1] = len(text)
    valid = np.full(count // 8 + 1, 0b01010101, np.uint8)
    buffers = [pa.py_buffer(array) for array in (valid, offsets, text)]
    parsed = pa.Array.from_buffers(pa.string(), count, buffers).cast(kind)
    return np.frombuffer(parsed.buffers()[1], kind, count)[::2]


def _mapped_zeros(rows: int, width: int) -> Reals:
    """Zeros that go back to the system when dropped; the allocator would keep blocks of this size."""
    memory = mmap.mmap(-1, max(rows * width * 4, 1))
    return np.frombuffer(memory, np.float32, count=rows * width).reshape(rows, width)


def _doc_ids(text: bytes, comments: Longs) -> IdArray:
    if b"docid" not in text:
        return np.full(len(comments), "")
    matches = (_DOC_ID.match(text, start) for start in comments.tolist())
    return id_array([match[1].decode() if match else "" for match in matches])


def check_lines(text: bytes, features: int) -> None:
    r"""Raise a LineError for the first thing wrong in some lines, if there is any.

    >>> check_lines(b"1 qid:1 1:0.5\n1 qid:1 1:x\n", features=46)
    Traceback (most recent call last):
    prsrank.data.letor_lines.LineError: the feature value is neither a number nor NULL
    """
    for number, line in enumerate(text.split(b"\n"), 1):
        content = line.partition(b"#")[0]
        words = [(match.start() + 1, match[0]) for match in _WORD.finditer(content)]
        error = _error_in(words, len(content) + 1, features) if words else None
        if error is not None:
            raise LineError(number, *error)


def _error_in(words: list[tuple[int, bytes]], end: int, width: int) -> tuple[int, str] | None:
    """Return the column and the text of the first error in the words of a line."""
    (label_at, label), (at, query), *rest = [*words, (end, b"")] if len(words) == 1 else words
    if not _is_number(label) or abs(float(label)) > _LARGEST:
        return label_at, "a label (a finite number) is expected here"
    if not query.startswith(b"qid:"):
        return at, "'qid:' is expected after the label"
    if query == b"qid:":
        return at + len("qid:"), "the query id is empty"
    if rest and rest[0][1].startswith(b"cost:"):
        at, cost = rest.pop(0)
        if (
            not _is_number(cost[5:])
            or not 0 < np.float32(min(float(cost[5:]), 2 * _LARGEST)) < np.inf
        ):
            return at + len("cost:"), "the cost is not a finite number above 0"
    seen: set[int] = set()
    for at, word in rest:
        name, colon, value = word.partition(b":")
        digits = name.lstrip(b"0")
        value_at = at + len(name) + 1
        if not (colon and name.isdigit() and digits):
            return at, "'feature:value' is expected here, with a feature id from 1 up"
        if len(digits) > len(str(MAX_FEATURE_ID)) or int(digits) > width:
            return (
                at,
                f"the feature id is above the number of features (at most {MAX_FEATURE_ID:,})",
            )
        if int(digits) in seen:
            return at, "this feature is given twice in the line"
        seen.add(int(digits))
        if value.lower() in _MISSING:
            continue
        if not _is_number(value):
            return value_at, "the feature value is neither a number nor NULL"
        if abs(float(value)) > _LARGEST:
            return value_at, "the feature value is infinite or too large for float32"
    return None


def _is_number(text: bytes) -> bool:
    return _NUMBER.fullmatch(text) is not None
