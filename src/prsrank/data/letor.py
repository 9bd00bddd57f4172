r"""Reader of LETOR / SVMlight text: `<label> qid:<id> <feature>:<value> ... # comment`.

Blocks of whole lines are cut by NumPy, and their numbers parsed by Arrow. A block in which something
is odd is gone through line by line in plain Python, which takes all that the format allows, knows
where the first error is and what to say about it, and writes the lines anew without what was odd.
"""

import lzma
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import id_array, joined_ids, texts_of
from prsrank.errors import InputError
from prsrank.files import FileName, existing_file
from prsrank.ragged import offsets_of, row_in_list
from prsrank.threads import map_in_order
from prsrank.types import Bytes, Floats, IdArray, Longs, Reals

_MAX_FEATURE_ID = 100_000
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


@dataclass
class LetorBlock:
    """What some whole lines hold: a row for each doc.

    Attributes:
        lines: the line of each row in its file, from 1.
        labels: of the rows.
        queries: of the rows.
        features: the values.
        doc_ids: of the rows; empty where a row has none.
    """

    lines: Longs
    labels: Reals
    queries: list[str]
    features: Reals
    doc_ids: IdArray


def read_letor(
    files: FileName | Sequence[FileName],
    *,
    regroup: bool = False,
    features: int | None = None,
    relevant_from: float = 1.0,
    threads: int | None = None,
) -> RankingDataset:
    r"""Read one or several LETOR / SVMlight files into one data set.

    A feature that a line does not name is 0; `NULL` and `nan` are missing (NaN). Feature ids
    start at 1 and may come in any order. A comment `#docid = X ...` gives the doc's id;
    empty lines and lines of comment alone are passed over. Files ending in .gz, .xz and
    .zst are unpacked on the fly.

    Args:
        files: a file, or several whose lists follow one another.
        regroup: gather the lines of a query that are not adjacent, in the order of each
            query's first line; without it they are an error.
        features: the number of features; default the largest id in the files.
        relevant_from: the least label that counts as relevant.
        threads: default one per core. The result does not depend on it.

    Raises:
        InputError: "file:line:column: what is wrong", for the first thing wrong.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "example.txt")
    >>> _ = file.write_text("2 qid:7 1:0.5 3:NULL #docid = a\n0 qid:7 2:1e-3 #docid = b\n")
    >>> data = read_letor(file)
    >>> data.features.tolist(), data.doc_ids.tolist()
    ([[0.5, 0.0, nan], [0.0, 0.0010000000474974513, 0.0]], ['a', 'b'])
    """
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    if not paths:
        raise InputError("no file to read")
    if features is not None and not 0 < features <= _MAX_FEATURE_ID:
        raise InputError(f"the number of features must be 1 to {_MAX_FEATURE_ID:,}")
    blocks: list[LetorBlock] = []
    files_of_blocks: list[Path] = []
    for path in map(existing_file, paths):
        numbered = blocks_of_lines(path)
        try:
            for block in map_in_order(
                lambda piece: parse_lines(*piece, features), numbered, threads=threads
            ):
                blocks.append(block)
                files_of_blocks.append(path)
        except LineError as error:
            raise InputError(f"{path}:{error.line}:{error.column}: {error}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path}: a query or doc id is not valid UTF-8") from None
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    return _assemble(blocks, files_of_blocks or paths, regroup, relevant_from)


def blocks_of_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield a file's text in blocks of whole lines, each with the number of its first line.

    Raises:
        InputError: for a line without end, or a file that cannot be unpacked.
    """
    line, rest = 1, b""
    try:
        with _opened(path) as stream:
            while piece := stream.read(_BLOCK):
                cut = piece.rfind(b"\n") + 1
                if cut:
                    text = rest + piece[:cut]
                    yield line, text
                    line += text.count(b"\n")
                    rest = b""
                rest += piece[cut:]
                if len(rest) > _MOST_LINE:
                    raise InputError(f"a line has more than {_MOST_LINE >> 20} MiB")
    except (EOFError, OSError, lzma.LZMAError) as error:
        raise InputError(f"cannot be unpacked, damaged or cut short: {error}") from error
    if rest:
        yield line, rest


def _opened(path: Path) -> Any:
    import pyarrow as pa

    is_xz = path.suffix == ".xz"  # which Arrow does not know
    return lzma.open(path) if is_xz else pa.input_stream(str(path), compression="detect")


def parse_lines(line: int, text: bytes, features: int | None = None) -> LetorBlock:
    r"""Return what whole lines hold.

    Args:
        line: the number of the first line.
        text: the lines.
        features: the number of features; default: the largest id in these lines.

    Raises:
        LineError: for the first thing wrong.

    >>> parse_lines(1, b"1 qid:1 1:0.5\n1 qid:1 1:x\n")
    Traceback (most recent call last):
    prsrank.data.letor.LineError: the feature value is neither a number nor NULL
    """
    try:
        rows, labels, queries, matrix = _parsed(text, features)
    except ValueError:
        width = features or _MAX_FEATURE_ID
        checked = [_checked(line + i, row, width) for i, row in enumerate(text.split(b"\n"))]
        rows, labels, _, matrix = _parsed(b"\n".join(plain for plain, _ in checked), features)
        queries = [query for plain, query in checked if plain]
    texts = {query: query.decode() for query in set(queries)}  # rows of a query share one
    names = [texts[query] for query in queries]
    return LetorBlock(rows + line, labels.astype(np.float32), names, matrix, _doc_ids(text, rows))


def _parsed(text: bytes, width: int | None) -> tuple[Longs, Floats, list[bytes], Reals]:
    """Return the line (from 0), label, query and features of each row; ValueError for odd text.

    Text is cut into tokens: a row is its label, "qid", the query, and twos of feature and value.
    """
    if b"#" in text:
        text = _COMMENT.sub(lambda comment: b" " * len(comment[0]), text)
    if b"N" in text:
        text = _NULL.sub(b":nan ", text)
    if (b"x" in text or b"X" in text) and b"0x" in text.lower():
        raise ValueError("Arrow reads numbers of base 16, and the format has none")
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
        raise ValueError("a row is not a label, a query and features")
    qid = letters[starts[first + 1, None] + np.arange(4)] == np.frombuffer(b"qid:", np.uint8)
    of_features = np.ones(len(starts), bool)
    of_features[first[:, None] + np.arange(3)] = False
    begin, end = starts[of_features], ends[of_features]
    joined = colon[end[::2]] & (begin[1::2] == end[::2] + 1)
    colons = len(first) + len(joined)
    named = starts[first + 2] == ends[first + 1] + 1
    if not (qid.all() and named.all() and joined.all() and np.count_nonzero(colon) == colons):
        raise ValueError("a colon stands elsewhere than after qid and features")
    labels = _cast(letters, starts[first], ends[first], "float64")
    values = _cast(letters, begin[1::2], end[1::2], "float64")
    odd = ~(np.abs(values) <= _LARGEST)
    missing = np.isnan(values[odd]) & ((end - begin)[1::2][odd] == len("nan"))  # -nan is no number
    if not (missing.all() and (np.abs(labels) <= _LARGEST).all()):
        raise ValueError("a number is none, or too large")
    spans = zip(starts[first + 2].tolist(), ends[first + 2].tolist(), strict=True)
    queries = [text[start:stop] for start, stop in spans]
    ids = _cast(letters, begin[::2], end[::2], "uint32").astype(np.int64)
    columns = width or int(ids.max(initial=1))
    if ids.min(initial=1) < 1 or ids.max(initial=1) > min(columns, _MAX_FEATURE_ID):
        raise ValueError("a feature id is out of range")
    cells = np.repeat(np.arange(len(first)) * columns - 1, (counts - 3) // 2) + ids
    if not (np.diff(cells) > 0).all() and len(np.unique(cells)) < len(cells):
        raise ValueError("a row names a feature twice")
    matrix = np.zeros((len(first), columns), np.float32)
    matrix.reshape(-1)[cells] = values
    return lines, labels, queries, matrix


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


def _doc_ids(text: bytes, rows: Longs) -> IdArray:
    if b"#" not in text:
        return np.full(len(rows), "")
    lines = text.split(b"\n")
    matches = (_DOC_ID.match(lines[row]) for row in rows.tolist())
    return id_array([match[1].decode() if match else "" for match in matches])


def _checked(line: int, text: bytes, width: int) -> tuple[bytes, bytes]:
    """Return a line as `_parsed` takes it, with q as its query, and the query; LineError if wrong."""
    content = text.partition(b"#")[0]
    words = [(match.start() + 1, match[0]) for match in _WORD.finditer(content)]
    if not words:
        return b"", b""
    # an empty word marks the end
    (label_at, label), (query_at, query), *rest = [*words, (len(content) + 1, b"")]
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
        if len(digits) > len(str(_MAX_FEATURE_ID)) or int(digits) > width:
            most = f"at most {_MAX_FEATURE_ID:,}"
            raise LineError(line, at, f"the feature id is above the number of features ({most})")
        if int(digits) in features:
            raise LineError(line, at, "this feature is given twice in the line")
        features[int(digits)] = _value(line, at + len(name) + 1, text, "feature value")
    plain = [f"{float(label)} qid:q", *(f"{name}:{value}" for name, value in features.items())]
    return " ".join(plain).encode(), query[len("qid:") :]


def _value(line: int, column: int, text: bytes, name: str) -> float:
    if text.lower() in (b"null", b"nan"):
        return np.nan
    if not _NUMBER.fullmatch(text):
        raise LineError(line, column, f"the {name} is neither a number nor NULL")
    if abs(float(text)) > _LARGEST:
        raise LineError(line, column, f"the {name} is infinite or too large for float32")
    return float(text)


def _assemble(
    blocks: list[LetorBlock], files: Sequence[FileName], regroup: bool, relevant_from: float
) -> RankingDataset:
    """Join blocks of lines, each of a file."""
    queries = [query for block in blocks for query in block.queries]
    if not queries:
        raise InputError(f"{files[0]}: holds no data line")
    rows = offsets_of([len(block.labels) for block in blocks])
    numbers = {query: i for i, query in enumerate(dict.fromkeys(queries))}
    lists = np.array([numbers[query] for query in queries])
    scattered = np.flatnonzero(np.diff(lists) < 0) + 1
    if len(scattered) and not regroup:
        first = scattered[0]
        block = int(np.searchsorted(rows, first, side="right")) - 1
        raise InputError(
            f"{files[block]}:{blocks[block].lines[first - rows[block]]}:1: the lines of query "
            f"{queries[first]} are not adjacent (regroup=True gathers them)"
        )
    order = np.argsort(lists, kind="stable") if len(scattered) else slice(None)
    offsets = offsets_of(np.bincount(lists))
    doc_ids = joined_ids([block.doc_ids for block in blocks])[order]
    return RankingDataset(
        features=_joined_features(blocks, rows)[order],
        offsets=offsets,
        query_ids=_query_ids(list(numbers)),
        labels=np.concatenate([block.labels for block in blocks])[order],
        doc_ids=_every_doc_named(doc_ids, offsets),
        relevant_from=relevant_from,
    )


def _joined_features(blocks: list[LetorBlock], rows: Longs) -> Reals:
    """Join features, and drop those of each block: the peak is little above the result."""
    width = max(block.features.shape[1] for block in blocks)
    joined = np.empty((int(rows[-1]), width), np.float32)
    for block, (start, stop) in zip(blocks, pairwise(rows), strict=True):
        own = block.features.shape[1]
        joined[start:stop, :own] = block.features
        joined[start:stop, own:] = 0
        block.features = joined[:0]
    return joined


def _query_ids(tokens: list[str]) -> IdArray:
    """Integers if every id is written as one, else texts."""
    ids = id_array(tokens)
    try:
        numbers = ids.astype(np.int64)
    except (ValueError, OverflowError):
        return ids
    return numbers if texts_of(numbers).tolist() == tokens else ids


def _every_doc_named(ids: IdArray, offsets: Longs) -> IdArray | None:
    """Return ids of docs, those without one named by their row in the list; None where none has."""
    unnamed = ids == ""
    if unnamed.all():
        return None
    return np.where(unnamed, texts_of(row_in_list(offsets)), ids) if unnamed.any() else ids
