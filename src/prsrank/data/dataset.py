"""Lists of docs with feature values: the data set that rankers learn from and score.

A large array lies in a file without a name, whose pages the system may take back when memory is
short. LightGBM's form of lists is made once for all that learn from them.
"""

import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from prsrank.data.frames import FrameColumns, check_once, feature_names, in_order_of_appearance
from prsrank.data.ids import frozen, id_array, joined_ids
from prsrank.errors import InputError
from prsrank.notebook import Chart, Shown, frame_of
from prsrank.ragged import offsets_of, ragged_rows, row_in_list
from prsrank.threads import import_lightgbm, tree_threads
from prsrank.types import Bytes, IdArray, Longs, Reals


@dataclass(frozen=True, eq=False, repr=False)
class RankingDataset(Shown):
    """Lists of docs, ragged: list q holds the rows offsets[q] to offsets[q + 1] - 1.

    All arrays are read-only.

    Attributes:
        features: one row per doc (docs x features); NaN is a missing value.
        offsets: where each list begins, and the end (lists + 1).
        query_ids: one id per list, integers or strings; default 0, 1, 2, ...
        labels: graded judgement of each doc, if known.
        doc_ids: id of each doc, if known; else a doc is named by its 0-based row in the list.
        feature_names: default "1", "2", ... as in LETOR files.
        relevant_from: the least label that counts as relevant; None where nobody has said.

    >>> data = RankingDataset(np.eye(3), np.array([0, 2, 3]), labels=np.array([0, 2, 1]))
    >>> data
    <RankingDataset: 2 lists, 3 docs, 3 features, labels>
    >>> data.lists, data.docs, data.relevance.tolist()
    (2, 3, [0, 1, 1])
    >>> data.select([1]).query_ids.tolist()
    [1]
    """

    features: Reals
    offsets: Longs
    query_ids: IdArray = None  # type: ignore[assignment]
    labels: Reals | None = None
    doc_ids: IdArray | None = None
    feature_names: tuple[str, ...] = ()
    relevant_from: float | None = 1.0

    def __post_init__(self) -> None:
        features = np.atleast_2d(frozen(self.features, np.float32))
        offsets = frozen(self.offsets, np.int64)
        lists = len(offsets) - 1
        if lists < 0 or offsets[0] != 0 or np.any(np.diff(offsets) < 0):
            raise InputError("offsets must start at 0 and never fall")
        if offsets[-1] != len(features):
            raise InputError(f"offsets end at {offsets[-1]}, but there are {len(features)} docs")
        ids = np.arange(lists) if self.query_ids is None else self.query_ids
        names = self.feature_names or tuple(str(i + 1) for i in range(features.shape[1]))
        self._set("features", features)
        self._set("offsets", offsets)
        self._set("query_ids", _sized(id_array(ids), lists, "query_ids", "lists"))
        self._set("feature_names", tuple(names))
        if len(names) != features.shape[1]:
            raise InputError(f"{len(names)} feature names for {features.shape[1]} features")
        if self.labels is not None:
            labels = _sized(frozen(self.labels, np.float32), len(features), "labels", "docs")
            self._set("labels", labels)
            if np.isnan(labels).any():
                raise InputError(f"the label of doc {int(np.isnan(labels).argmax())} is NaN")
        if self.doc_ids is not None:
            self._set("doc_ids", _sized(id_array(self.doc_ids), len(features), "doc_ids", "docs"))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        query: str = "query_id",
        doc: str | None = "doc_id",
        label: str | None = None,
        features: Sequence[str] | None = None,
        relevant_from: float | None = 1.0,
    ) -> "RankingDataset":
        """Make lists of a frame with one row per query and doc, in any order.

        Lists come in the order in which their queries first appear, docs in that of their rows.
        `Ranker.predict(frame)` gives scores in the order of the frame's own rows.

        Args:
            frame: pandas, Polars, Arrow, a DuckDB relation, or a mapping of arrays.
            query: the column with the query of each row: integers or strings.
            doc: the column with the id of the doc; None where docs have no ids.
            label: the column with the label, if there is one.
            features: columns of numbers, in which null is a missing value; default: all columns
                of numbers but those of query, doc and label.
            relevant_from: the least label that counts as relevant.

        Raises:
            InputError: one line that names a column, and the row, counted from 0.

        >>> data = RankingDataset.from_frame(
        ...     {"q": ["b", "a", "b"], "d": [1, 1, 2], "price": [3.0, None, 5.0]}, query="q", doc="d")
        >>> data.query_ids.tolist(), data.doc_ids.tolist(), data.features[:, 0].tolist()
        (['b', 'a'], [1, 2, 1], [3.0, 5.0, nan])
        """
        columns = FrameColumns.of(frame)
        queries = columns.ids(query, " (query)")
        docs = None if doc is None else columns.ids(doc, " (doc); doc=None where docs have no ids")
        labels = None if label is None else columns.numbers(label, " (label)")
        if labels is not None and np.isnan(labels).any():
            raise InputError(f"column {label!r} is null in row {int(np.isnan(labels).argmax())}")
        names = feature_names(columns, {query: "query", doc: "doc", label: "label"}, features)
        if not columns.rows:
            raise InputError("the frame has no rows")
        lists, firsts = in_order_of_appearance(queries)
        if docs is not None:
            check_once(lists, docs, queries)
        order = np.argsort(lists, kind="stable")
        return cls(
            features=columns.matrix(names)[order],
            offsets=offsets_of(np.bincount(lists)),
            query_ids=queries[firsts],
            labels=None if labels is None else labels[order].astype(np.float32),
            doc_ids=None if docs is None else docs[order],
            feature_names=tuple(names),
            relevant_from=relevant_from,
        )

    def to_frame(self) -> Any:
        """Return a pandas frame, one row per doc: query_id, doc_id, label if known, features."""
        columns: dict[str, Any] = {
            "query_id": np.repeat(self.query_ids, self.list_lengths),
            "doc_id": self.doc_names,
        }
        if self.labels is not None:
            columns["label"] = self.labels
        return frame_of(columns | dict(zip(self.feature_names, self.features.T, strict=True)))

    def _line(self) -> str:
        labels = "" if self.labels is None else ", labels"
        count = len(self.feature_names)
        return f"{self.lists:,} lists, {self.docs:,} docs, {count:,} features{labels}"

    def _table(self) -> dict[str, Any]:
        lengths, lists = np.unique(self.list_lengths, return_counts=True)
        return {"docs in a list": lengths, "lists": lists}

    def _chart(self) -> Chart:
        return Chart("lines", self._table(), "docs in a list", "lists")

    @property
    def lists(self) -> int:
        """Number of lists."""
        return len(self.offsets) - 1

    @property
    def docs(self) -> int:
        """Number of docs in all lists together."""
        return len(self.features)

    @property
    def list_lengths(self) -> Longs:
        """Number of docs of each list."""
        return np.diff(self.offsets)

    @cached_property
    def relevance(self) -> Bytes:
        """1 for docs whose label is at least `relevant_from`, else 0."""
        if self.labels is None:
            raise InputError("this data set has no labels")
        if self.relevant_from is None:
            raise InputError(
                f"labels go up to {self.labels.max(initial=0):g} and the collection is not known: say "
                "from which label on a doc is relevant (relevant_from=, or 'prsrank convert DATA "
                "--relevant-from N --out FILE' for all commands)"
            )
        return frozen(self.labels >= self.relevant_from, np.uint8)

    @cached_property
    def rows_in_list(self) -> Longs:
        """0-based row of each doc in its list."""
        return frozen(row_in_list(self.offsets), np.int64)

    @property
    def doc_names(self) -> IdArray:
        """The doc ids, or each doc's 0-based row in its list where there are none."""
        return self.rows_in_list if self.doc_ids is None else self.doc_ids

    def select(self, lists: npt.ArrayLike) -> "RankingDataset":
        """Return the named lists (indices, a boolean mask, in the order given)."""
        chosen = np.asarray(lists)
        if chosen.dtype != bool and chosen.size == 0:
            chosen = chosen.astype(np.int64)
        chosen = np.arange(self.lists)[chosen]
        rows, offsets = ragged_rows(self.offsets, chosen)
        return replace(
            self,
            features=rows_of(self.features, rows),
            offsets=offsets,
            query_ids=self.query_ids[chosen],
            labels=None if self.labels is None else self.labels[rows],
            doc_ids=None if self.doc_ids is None else self.doc_ids[rows],
        )


def concatenate(parts: Sequence[RankingDataset]) -> RankingDataset:
    """Put the lists of several data sets behind one another.

    Optional arrays are kept if every part has them. Parts must have the same features and
    no query id twice; integer ids become strings if any part has string ids.
    """
    if not parts:
        raise InputError("nothing to concatenate")
    first = parts[0]
    for part in parts[1:]:
        if part.feature_names != first.feature_names:
            raise InputError(
                f"the parts differ in features: {len(first.feature_names)} and {len(part.feature_names)}"
            )
        if part.relevant_from != first.relevant_from:
            raise InputError("the parts differ in the label from which docs are relevant")
    ids = joined_ids([part.query_ids for part in parts])
    if len(np.unique(ids)) < len(ids):
        values, counts = np.unique(ids, return_counts=True)
        raise InputError(f"query id {values[counts.argmax()]} is in more than one part")
    starts = offsets_of([part.docs for part in parts])
    offsets = [p.offsets[1:] + start for p, start in zip(parts, starts, strict=False)]
    return RankingDataset(
        features=np.concatenate([part.features for part in parts]),
        offsets=np.concatenate([np.zeros(1, np.int64), *offsets]),
        query_ids=ids,
        labels=joined_arrays([part.labels for part in parts]),
        doc_ids=None
        if any(part.doc_ids is None for part in parts)
        else joined_ids([part.doc_names for part in parts]),
        feature_names=first.feature_names,
        relevant_from=first.relevant_from,
    )


def joined_arrays(arrays: Sequence[npt.NDArray | None]) -> npt.NDArray | None:
    """Concatenate arrays; None if any of them is None."""
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if len(present) == len(arrays) else None


def _sized(array: npt.NDArray, size: int, name: str, of: str) -> npt.NDArray:
    if array.ndim != 1 or len(array) != size:
        raise InputError(f"{name} has shape {array.shape}, but there are {size} {of}")
    return array


_BINNED: WeakKeyDictionary[RankingDataset, dict[int, Any]] = WeakKeyDictionary()
_JUDGED: WeakKeyDictionary[RankingDataset, Any] = WeakKeyDictionary()


def binned(lists: RankingDataset, seed: int) -> Any:
    """Return the features in LightGBM's bins, as `lightgbm.Dataset` has them by default.

    Finding the bins takes as long as a dozen trees: methods and settings that learn from the same
    lists share them. They are forgotten with the lists.

    Args:
        lists: the features.
        seed: LightGBM's, which draws the docs whose values the bins are made of.
    """
    by_seed = _BINNED.setdefault(lists, {})
    if seed not in by_seed:
        options = {
            "seed": seed,
            "num_threads": tree_threads(lists.features.size),
            "feature_pre_filter": False,
            "verbosity": -1,
        }
        data = import_lightgbm().Dataset(lists.features, params=options, free_raw_data=False)
        by_seed[seed] = data.construct()
    return by_seed[seed]


def judged_by(lists: RankingDataset, training: Any) -> Any:
    """Return lists in the bins of a training part, to judge its trees by while they grow.

    Args:
        lists: their features; the last form is kept for the next training on the same part.
        training: LightGBM's form of the training part.
    """
    judge = _JUDGED.get(lists)
    if judge is None or judge.reference is not training:
        judge = import_lightgbm().Dataset(lists.features, reference=training)
        _JUDGED[lists] = judge
    return judge


_ROWS_AT_ONCE = 65_536


def new_array(shape: tuple[int, int], dtype: npt.DTypeLike, *, most: int) -> npt.NDArray:
    """Return an array to be filled: in memory if it takes `most` bytes or less, else in a file.

    The file goes when the array does, however the process ends.

    Raises:
        OSError: if the disk has no room for it.

    >>> values = new_array((2, 3), np.float32, most=0)
    >>> values[:] = 7.0
    >>> is_in_file(values), is_in_file(values[1:]), is_in_file(values + 1)
    (True, True, False)
    """
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if size <= max(most, 1):
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="prsrank-") as file:
        if hasattr(
            os, "posix_fallocate"
        ):  # a full disk is an error now, and a crash when written to
            os.posix_fallocate(file.fileno(), 0, size)
        return np.asarray(np.memmap(file, dtype, "w+", shape=shape))


def is_in_file(array: npt.NDArray) -> bool:
    """Tell whether an array, or what it is a part of, lies in a file."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


def rows_of(matrix: npt.NDArray, rows: Longs) -> npt.NDArray:
    """Return a copy of rows of a matrix: in a file, if the matrix is in one.

    >>> rows_of(np.eye(3), np.array([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    if not is_in_file(matrix):
        return np.asarray(matrix[rows])
    chosen = new_array((len(rows), matrix.shape[1]), matrix.dtype, most=0)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        np.take(matrix, rows[part], axis=0, out=chosen[part])
    return chosen
