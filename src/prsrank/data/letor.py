"""Reader of LETOR / SVMlight text: `<label> qid:<id> [cost:<c>] <feature>:<value> ... # comment`."""

import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from prsrank.data import letor_lines as lines
from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import SIDE_BY_SIDE, check_id_lengths, id_array, texts_of
from prsrank.data.line_blocks import blocks_of_lines
from prsrank.errors import InputError
from prsrank.files import FileName, existing_file
from prsrank.ragged import offsets_of
from prsrank.threads import map_in_order
from prsrank.types import Bytes, IdArray, Longs, Reals

_MOST_DIGITS = len(str(np.iinfo(np.int64).min))
_LARGEST = float(np.finfo(np.float32).max)


def read_letor(
    files: FileName | Sequence[FileName],
    *,
    regroup: bool = False,
    features: int | None = None,
    relevant_from: float = 1.0,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
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
        progress: is told the number of bytes of text parsed so far.

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
    if features is not None and not 0 < features <= lines.MAX_FEATURE_ID:
        raise InputError(f"the number of features must be 1 to {lines.MAX_FEATURE_ID:,}")
    reader = _Reader(features)
    blocks: list[_Block] = []
    done = 0
    for path in map(existing_file, paths):
        line = 0
        for block in map_in_order(reader.parse, blocks_of_lines(path), threads=threads):
            if block.error is not None and block.column == 0:  # of all its lines, not of one
                raise InputError(f"{path}: {block.error}")
            if block.error is not None:
                raise InputError(f"{path}:{line + block.lines}:{block.column}: {block.error}")
            block.path, block.first_line = path, line
            line += block.lines
            done += block.size
            blocks.append(block)
            if progress is not None:
                progress(done)
    if not sum(len(block.labels) for block in blocks):
        raise InputError(f"{paths[0]}: holds no data line")
    return _assemble(blocks, features, regroup, relevant_from)


def first_lines(file: Path, count: int) -> list[str]:
    """Return the first lines of a text, unpacked, as they are."""
    for text in blocks_of_lines(file):
        return bytes(text[: 1 << 20]).decode(errors="replace").splitlines()[:count]
    return []


@dataclass
class _Block:
    """What some whole lines of text hold."""

    size: int
    lines: int
    features: Reals
    labels: Reals
    costs: Reals | None
    starts: Longs
    list_lines: Longs
    query_ids: list[bytes]
    doc_ids: npt.NDArray | None
    error: str | None = None
    column: int = 0
    path: Path = Path()
    first_line: int = 0


class _Reader:
    """Parses blocks; remembers the widest row so far as the guess for the next block."""

    def __init__(self, features: int | None) -> None:
        self._fixed = features is not None
        self._width = features or 0

    def parse(self, text: Bytes) -> _Block:
        width = self._width or max(1, int(lines.largest_id(text[: 1 << 16])))
        width = min(width, lines.MAX_FEATURE_ID)
        patches = 64
        while True:
            block, code, found = _parse(text, width, patches)
            if code == lines.TOO_MANY_PATCHES:
                patches *= 16
            elif code == lines.TOO_WIDE and not self._fixed and width < lines.MAX_FEATURE_ID:
                widest = max(int(lines.largest_id(text)), int(found[lines.MAX_ID]))
                width = min(widest, lines.MAX_FEATURE_ID)
            else:
                break
        if not self._fixed:
            self._width = max(self._width, width)
        if code != lines.OK:
            block.error = lines.MESSAGES[code]
            block.column = int(found[lines.ERROR_AT] - found[lines.LINE_START]) + 1
        return block


def _parse(text: Bytes, width: int, max_patches: int) -> tuple[_Block, int, Longs]:
    rows = int(lines.count_lines(text))
    features = _mapped_zeros(rows, width)
    labels, costs = np.empty(rows, np.float32), np.empty(rows, np.float32)
    lists, docs = np.empty((rows, 4), np.int64), np.empty((rows, 2), np.int64)
    patches, found = np.empty((max_patches, 4), np.int64), np.zeros(9, np.int64)
    code = lines.parse_lines(text, features, labels, costs, lists, docs, patches, found)
    if code == lines.OK:
        code = _apply_patches(text, patches[: found[lines.PATCHES]], features, labels, costs, found)
    good, lists = int(found[lines.ROWS]), lists[: found[lines.LISTS]]
    block = _Block(
        size=len(text),
        lines=int(found[lines.LINES]),
        features=features[:good],
        labels=labels[:good],
        costs=costs[:good] if found[lines.COSTS] else None,
        starts=lists[:, 0].copy(),
        list_lines=lists[:, 1].copy(),
        query_ids=[text[a:b].tobytes() for a, b in lists[:, 2:]],
        doc_ids=None,
    )
    if found[lines.DOC_IDS]:
        try:
            block.doc_ids = _doc_ids(text, docs[:good])
        except InputError as error:
            block.error = str(error)
    return block, int(code), found


def _mapped_zeros(rows: int, width: int) -> Reals:
    """Zeros that go back to the system when dropped; the allocator would keep blocks of this size."""
    memory = mmap.mmap(-1, max(rows * width * 4, 1))
    return np.frombuffer(memory, np.float32, count=rows * width).reshape(rows, width)


def _apply_patches(
    text: Bytes, patches: Longs, features: Reals, labels: Reals, costs: Reals, found: Longs
) -> int:
    """Fill in the values that only `float` rounds right; return OK or the first error."""
    targets = {
        lines.LABEL_COLUMN: (labels, lines.NO_LABEL),
        lines.COST_COLUMN: (costs, lines.BAD_COST),
    }
    for row, column, start, end in patches:
        value = float(text[start:end].tobytes())
        target, code = targets.get(column, (features[:, column], lines.TOO_LARGE))
        if abs(value) > _LARGEST or (code == lines.BAD_COST and value <= 0):
            before = text[:start].tobytes()
            found[lines.LINES] = before.count(b"\n") + 1
            found[lines.LINE_START] = before.rfind(b"\n") + 1
            found[lines.ERROR_AT] = start
            return code
        target[row] = value
    return lines.OK


def _doc_ids(text: Bytes, spans: Longs) -> npt.NDArray:
    """Return ids undecoded: bytes side by side, or objects where one would take too much room."""
    longest = check_id_lengths(spans[:, 1] - spans[:, 0])
    if longest > SIDE_BY_SIDE:
        return np.array([text[start:end].tobytes() for start, end in spans], object)
    ids = np.zeros((len(spans), longest), np.uint8)
    lines.copy_spans(text, spans, ids)
    return ids.view(f"S{longest}")[:, 0]


def _assemble(
    blocks: list[_Block], features: int | None, regroup: bool, relevant_from: float
) -> RankingDataset:
    """Join the blocks; each is dropped once copied, so the peak is little above the result."""
    width = features or max(block.features.shape[1] for block in blocks)
    rows = offsets_of([len(block.labels) for block in blocks])
    tokens, starts = _lists(blocks, rows)
    labels = np.concatenate([block.labels for block in blocks])
    costs = _joined_costs(blocks)
    doc_ids = _joined_doc_ids(blocks, rows)
    order = None
    if len(set(tokens)) < len(tokens):
        if not regroup:
            _raise_scattered(blocks)
        tokens, starts, order = _regrouped(tokens, starts, int(rows[-1]))
    data = RankingDataset(
        features=_joined_features(blocks, rows, width),
        offsets=np.append(starts, rows[-1]),
        query_ids=_ids(tokens, str(blocks[0].path)),
        labels=labels,
        doc_ids=doc_ids,
        costs=costs,
        relevant_from=relevant_from,
    )
    data = data if order is None else _reordered(data, order)
    return _with_every_doc_named(data)


def _with_every_doc_named(data: RankingDataset) -> RankingDataset:
    """Name docs without an id by their row in the list, where others have ids."""
    if data.doc_ids is None or not (unnamed := data.doc_ids == "").any():
        return data
    return replace(data, doc_ids=np.where(unnamed, texts_of(data.rows_in_list), data.doc_ids))


def _lists(blocks: list[_Block], rows: Longs) -> tuple[list[bytes], Longs]:
    """Query id and first row of each list; a list that goes on in the next block is one."""
    tokens: list[bytes] = []
    starts = []
    for block, row in zip(blocks, rows, strict=False):
        goes_on = bool(tokens and block.query_ids and block.query_ids[0] == tokens[-1])
        tokens += block.query_ids[goes_on:]
        starts.append(block.starts[goes_on:] + row)
    return tokens, np.concatenate(starts)


def _raise_scattered(blocks: list[_Block]) -> None:
    seen: set[bytes] = set()
    last = None
    for block in blocks:
        for token, line in zip(block.query_ids, block.list_lines, strict=True):
            if token in seen and token != last:
                raise InputError(
                    f"{block.path}:{block.first_line + line}:1: the lines of query "
                    f"{token.decode(errors='replace')} are not adjacent (regroup=True gathers them)"
                )
            seen.add(token)
            last = token


def _regrouped(tokens: list[bytes], starts: Longs, docs: int) -> tuple[list[bytes], Longs, Longs]:
    index = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    list_of_row = np.repeat([index[token] for token in tokens], np.diff(np.append(starts, docs)))
    order = np.argsort(list_of_row, kind="stable")
    return list(index), np.searchsorted(list_of_row[order], np.arange(len(index))), order


def _reordered(data: RankingDataset, order: Longs) -> RankingDataset:
    assert data.labels is not None  # noqa: S101 - every line has a label
    return replace(
        data,
        features=data.features[order],
        labels=data.labels[order],
        doc_ids=None if data.doc_ids is None else data.doc_ids[order],
        costs=None if data.costs is None else data.costs[order],
    )


def _joined_features(blocks: list[_Block], rows: Longs, width: int) -> Reals:
    if len(blocks) == 1 and blocks[0].features.shape[1] == width:
        return blocks[0].features
    joined = np.empty((int(rows[-1]), width), np.float32)
    for i, block in enumerate(blocks):
        part, own = joined[rows[i] : rows[i + 1]], block.features.shape[1]
        part[:, :own] = block.features
        part[:, own:] = 0
        block.features = joined[:0]
    return joined


def _joined_costs(blocks: list[_Block]) -> Reals | None:
    if all(block.costs is None for block in blocks):
        return None
    none = (np.full(len(block.labels), np.nan, np.float32) for block in blocks)
    pairs = zip(blocks, none, strict=True)
    return np.concatenate([gap if b.costs is None else b.costs for b, gap in pairs])


def _joined_doc_ids(blocks: list[_Block], rows: Longs) -> IdArray | None:
    present = [block.doc_ids for block in blocks if block.doc_ids is not None]
    if not present:
        return None
    long = any(ids.dtype.kind == "O" for ids in present)
    widest = max(ids.dtype.itemsize for ids in present)
    joined: npt.NDArray = np.full(int(rows[-1]), "", object if long else f"U{widest}")
    for i, block in enumerate(blocks):
        if block.doc_ids is not None:
            joined[rows[i] : rows[i + 1]] = _decoded(block.doc_ids, str(block.path))
        block.doc_ids = None
    return joined


def _decoded(ids: npt.NDArray, path: str) -> npt.NDArray:
    try:
        if ids.dtype.kind == "O":
            return np.array([token.decode() for token in ids], object)
        return np.strings.decode(ids, "utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: a query or doc id is not valid UTF-8") from None


def _ids(tokens: list[bytes], path: str) -> IdArray:
    """Integers if every id is written as one, else strings."""
    if check_id_lengths(list(map(len, tokens))) <= _MOST_DIGITS:
        try:
            numbers = np.array(tokens).astype(np.int64)
            if numbers.astype("S").tolist() == tokens:
                return id_array(numbers)
        except (ValueError, OverflowError):
            pass
    return id_array(_decoded(np.array(tokens, object), path))
