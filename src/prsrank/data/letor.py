"""Reader of LETOR / SVMlight text: `<label> qid:<id> <feature>:<value> ... # comment`."""

import os
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import id_array, joined_ids, texts_of
from prsrank.data.letor_lines import (
    MAX_FEATURE_ID,
    LetorBlock,
    LineError,
    blocks_of_lines,
    parse_lines,
)
from prsrank.errors import InputError
from prsrank.files import FileName, existing_file
from prsrank.ragged import offsets_of, row_in_list
from prsrank.threads import map_in_order
from prsrank.types import IdArray, Longs, Reals


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
    if features is not None and not 0 < features <= MAX_FEATURE_ID:
        raise InputError(f"the number of features must be 1 to {MAX_FEATURE_ID:,}")
    blocks: list[LetorBlock] = []
    places: list[str] = []
    for path in map(existing_file, paths):
        parse = partial(_parsed, path=path, features=features)
        line = 0
        try:
            for block in map_in_order(parse, blocks_of_lines(path), threads=threads):
                places += [f"{path}:{line + number}:1" for number in block.list_lines.tolist()]
                blocks.append(block)
                line += block.lines
        except LineError as error:
            raise InputError(f"{path}:{line + error.line}:{error.column}: {error}") from None
    if not places:
        raise InputError(f"{paths[0]}: holds no data line")
    return _assemble(blocks, places, regroup, relevant_from)


def _parsed(text: bytes, path: Path, features: int | None) -> LetorBlock:
    try:
        return parse_lines(text, features)
    except UnicodeDecodeError:
        raise InputError(f"{path}: a query or doc id is not valid UTF-8") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _assemble(
    blocks: list[LetorBlock], places: list[str], regroup: bool, relevant_from: float
) -> RankingDataset:
    """Join blocks of lines; `places` names the line where each of their lists begins."""
    rows = offsets_of([len(block.labels) for block in blocks])
    # runs of lines of one query; one that goes on in the next block is two
    tokens = [token for block in blocks for token in block.query_ids]
    starts = [block.starts + row for block, row in zip(blocks, rows, strict=False)]
    index = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    lists = np.array([index[token] for token in tokens])
    scattered = np.flatnonzero(np.diff(lists) < 0) + 1
    if len(scattered) and not regroup:
        first = scattered[0]
        raise InputError(
            f"{places[first]}: the lines of query {tokens[first]} are not adjacent "
            "(regroup=True gathers them)"
        )
    lists = np.repeat(lists, np.diff(np.append(np.concatenate(starts), rows[-1])))
    order = np.argsort(lists, kind="stable") if len(scattered) else slice(None)
    offsets = offsets_of(np.bincount(lists))
    doc_ids = joined_ids([block.doc_ids for block in blocks])[order]
    return RankingDataset(
        features=_joined_features(blocks, rows)[order],
        offsets=offsets,
        query_ids=_query_ids(list(index)),
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
