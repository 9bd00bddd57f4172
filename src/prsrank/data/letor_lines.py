"""Text in blocks of whole lines, and those of LETOR / SVMlight text as arrays: cut by NumPy, numbers parsed by Arrow.

Lines in which something is odd are read again one by one, in plain Python, which takes all that the
format allows and knows where the first error is and what to say about it.
"""

import lzma
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prsrank.data.ids import id_array
from prsrank.errors import InputError
from prsrank.types import Bytes, Floats, IdArray, Longs, Reals

MAX_FEATURE_ID = 100_000

_BLOCK = 1 << 19
_MOST_LINE = 32 << 20

_LARGEST = float(np.finfo(np.float32).max)
_WORD = re.compile(rb"[^ \t\r]+")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NULL = re.compile(rb":NULL(?![^ \t\r\n])")
_COMMENT = re.compile(rb"#[^\n]*")
_DOC_ID = re.compile(rb"[^#]*#[ \t\r]*docid[ \t\r]*=[ \t\r]*([^ \t\r]*)")


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
        features: the values.
        labels: of the rows.
        starts: the first row of each list.
        list_lines: the line of that row, from 1.
        query_ids: of the lists.
        doc_ids: of the rows; empty where a row has none.
    """

    lines: int
    features: Reals
    labels: Reals
    starts: Longs
    list_lines: Longs
    query_ids: list[str]
    doc_ids: IdArray


class _Rows(NamedTuple):
    """The docs in some text: line (from 1), label, query and number of features of each.

    `ids` and `values` are of the features, those of a row behind those of the row before.
    """

    lines: Longs
    labels: Floats
    queries: list[bytes]
    sizes: Longs
    ids: Longs
    values: Floats


def parse_lines(text: bytes, features: int | None = None) -> LetorBlock:
    r"""Return what whole lines hold.

    Args:
        text: the lines.
        features: the number of features; default: the largest id in these lines.

    Raises:
        LineError: for the first thing wrong.

    >>> parse_lines(b"1 qid:1 1:0.5\n1 qid:1 1:x\n")
    Traceback (most recent call last):
    prsrank.data.letor_lines.LineError: the feature value is neither a number nor NULL
    """
    import pyarrow as pa

    try:
        rows = _by_arrays(text)
        matrix = _matrix(rows, features)
    except (_OddText, pa.ArrowInvalid):
        rows = _by_lines(text, features or MAX_FEATURE_ID)
        matrix = _matrix(rows, features)
    queries = rows.queries
    new = [i for i, query in enumerate(queries) if i == 0 or query != queries[i - 1]]
    return LetorBlock(
        lines=text.count(b"\n") + (not text.endswith(b"\n")),
        features=matrix,
        labels=rows.labels.astype(np.float32),
        starts=np.array(new, np.int64),
        list_lines=rows.lines[new],
        query_ids=[queries[i].decode() for i in new],
        doc_ids=_doc_ids(text, rows.lines),
    )


def _by_arrays(text: bytes) -> _Rows:
    """Cut text into tokens: a row is its label, "qid", the query, and twos of feature and value."""
    if b"#" in text:
        text = _COMMENT.sub(lambda comment: b" " * len(comment[0]), text)
    if b"N" in text:
        text = _NULL.sub(b":nan ", text)
    if (b"x" in text or b"X" in text) and b"0x" in text.lower():  # a number to Arrow
        raise _OddText
    letters = np.frombuffer(text, np.uint8)
    newline, colon = letters == ord("\n"), letters == ord(":")
    gap = np.ones(len(letters) + 2, bool)
    gap[1:-1] = (
        newline | colon | (letters == ord(" ")) | (letters == ord("\t")) | (letters == ord("\r"))
    )
    edges = np.flatnonzero(gap[1:] != gap[:-1])
    starts, ends = edges[::2], edges[1::2]
    counts = np.diff(
        np.searchsorted(starts, np.flatnonzero(newline)), prepend=0, append=len(starts)
    )
    lines = np.flatnonzero(counts)
    counts = counts[lines]
    first = np.cumsum(counts) - counts
    if (counts < 3).any() or (counts % 2 == 0).any():
        raise _OddText
    qid = letters[starts[first + 1, None] + np.arange(4)] == np.frombuffer(b"qid:", np.uint8)
    of_features = np.ones(len(starts), bool)
    of_features[first[:, None] + np.arange(3)] = False
    begin, end = starts[of_features], ends[of_features]
    joined = colon[end[::2]] & (begin[1::2] == end[::2] + 1)
    colons = len(first) + len(joined)
    named = starts[first + 2] == ends[first + 1] + 1
    if not (qid.all() and named.all() and joined.all() and np.count_nonzero(colon) == colons):
        raise _OddText
    labels = _cast(letters, starts[first], ends[first], "float64")
    values = _cast(letters, begin[1::2], end[1::2], "float64")
    odd = ~(np.abs(values) <= _LARGEST)
    missing = np.isnan(values[odd]) & ((end - begin)[1::2][odd] == len("nan"))  # -nan is no number
    if not (missing.all() and (np.abs(labels) <= _LARGEST).all()):
        raise _OddText
    spans = zip(starts[first + 2].tolist(), ends[first + 2].tolist(), strict=True)
    queries = [text[start:end] for start, end in spans]
    ids = _cast(letters, begin[::2], end[::2], "uint32")
    return _Rows(lines + 1, labels, queries, (counts - 3) // 2, ids, values)


def _cast(text: Bytes, starts: Longs, ends: Longs, kind: str) -> npt.NDArray[Any]:
    """Parse rising spans of text as numbers, by Arrow.

    It is given an array of texts without a copy: spans, and what lies between them as null.
    """
    import pyarrow as pa

    count = 2 * len(starts)
    offsets = np.empty(count + 1, np.int32)
    offsets[:-1:2], offsets[1::2], offsets[-1] = starts, ends, len(text)
    valid = np.full(count // 8 + 1, 0b01010101, np.uint8)
    buffers = [pa.py_buffer(array) for array in (valid, offsets, text)]
    parsed = pa.Array.from_buffers(pa.string(), count, buffers).cast(kind)
    return np.frombuffer(parsed.buffers()[1], kind, count)[::2]


def _matrix(rows: _Rows, width: int | None) -> Reals:
    """Return the features of the rows, 0 where a row does not name one."""
    columns = width or int(rows.ids.max(initial=1))
    if rows.ids.min(initial=1) < 1 or rows.ids.max(initial=1) > min(columns, MAX_FEATURE_ID):
        raise _OddText
    cells = np.repeat(np.arange(len(rows.sizes)) * columns - 1, rows.sizes) + rows.ids
    if not (np.diff(cells) > 0).all() and len(np.unique(cells)) < len(cells):
        raise _OddText
    matrix = np.zeros((len(rows.sizes), columns), np.float32)
    matrix.reshape(-1)[cells] = rows.values
    return matrix


def _doc_ids(text: bytes, rows: Longs) -> IdArray:
    if b"#" not in text:
        return np.full(len(rows), "")
    lines = text.split(b"\n")
    matches = (_DOC_ID.match(lines[row - 1]) for row in rows.tolist())
    return id_array([match[1].decode() if match else "" for match in matches])


def _by_lines(text: bytes, width: int) -> _Rows:
    rows: list[tuple[int, float, bytes, int]] = []
    features: list[tuple[int, float]] = []
    for number, line in enumerate(text.split(b"\n"), 1):
        content = line.partition(b"#")[0]
        words = [(match.start() + 1, match[0]) for match in _WORD.finditer(content)]
        if words:
            label, query, values = _row(number, [*words, (len(content) + 1, b"")], width)
            rows.append((number, label, query, len(values)))
            features += values.items()
    lines, labels, queries, sizes = zip(*rows, strict=True) if rows else ((),) * 4
    pairs = np.array(features, np.float64).reshape(-1, 2)
    return _Rows(
        np.array(lines, np.int64),
        np.array(labels, np.float64),
        list(queries),
        np.array(sizes, np.int64),
        pairs[:, 0].astype(np.int64),
        pairs[:, 1],
    )


def _row(
    line: int, words: list[tuple[int, bytes]], width: int
) -> tuple[float, bytes, dict[int, float]]:
    """Return label, query and features of a line; its last word is empty and marks its end."""
    (label_at, label), (query_at, query), *rest = words
    if not _NUMBER.fullmatch(label) or abs(float(label)) > _LARGEST:
        raise LineError(line, label_at, "a label (a finite number) is expected here")
    if not query.startswith(b"qid:"):
        raise LineError(line, query_at, "'qid:' is expected after the label")
    if query == b"qid:":
        raise LineError(line, query_at + len("qid:"), "the query id is empty")
    if rest[0][1].startswith(b"cost:"):  # SVM-rank's weight of a click: nothing asks for it
        at, cost = rest.pop(0)
        _value(line, at + len("cost:"), cost[len("cost:") :], "cost")
    features: dict[int, float] = {}
    for at, word in rest[:-1]:
        name, colon, text = word.partition(b":")
        digits = name.lstrip(b"0")
        if not (colon and name.isdigit() and digits):
            raise LineError(
                line, at, "'feature:value' is expected here, with a feature id from 1 up"
            )
        if len(digits) > len(str(MAX_FEATURE_ID)) or int(digits) > width:
            most = f"at most {MAX_FEATURE_ID:,}"
            raise LineError(line, at, f"the feature id is above the number of features ({most})")
        if int(digits) in features:
            raise LineError(line, at, "this feature is given twice in the line")
        features[int(digits)] = _value(line, at + len(name) + 1, text, "feature value")
    return float(label), query[len("qid:") :], features


def _value(line: int, column: int, text: bytes, name: str) -> float:
    if text.lower() in (b"null", b"nan"):
        return np.nan
    if not _NUMBER.fullmatch(text):
        raise LineError(line, column, f"the {name} is neither a number nor NULL")
    if abs(float(text)) > _LARGEST:
        raise LineError(line, column, f"the {name} is infinite or too large for float32")
    return float(text)


def blocks_of_lines(path: Path) -> Iterator[bytes]:
    """Yield a file's text in blocks of whole lines; an endless line is an InputError."""
    rest = b""
    opened = _UNPACKERS.get(path.suffix, open)
    try:
        with opened(path, "rb") as stream:
            while piece := stream.read(_BLOCK):
                cut = piece.rfind(b"\n") + 1
                if cut:
                    yield rest + piece[:cut]
                    rest = b""
                rest += piece[cut:]
                if len(rest) > _MOST_LINE:
                    raise InputError(f"{path}: a line has more than {_MOST_LINE >> 20} MiB")
    except (EOFError, OSError, lzma.LZMAError) as error:
        raise InputError(f"{path}: cannot be unpacked, damaged or cut short: {error}") from error
    if rest:
        yield rest


def _unpacked(path: Path, mode: str) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(path), compression="detect")


_UNPACKERS: dict[str, Callable[[Path, str], Any]] = {
    ".gz": _unpacked,
    ".xz": lzma.open,
    ".zst": _unpacked,
}
