"""Lists of docs out of frames: pandas, Polars, Arrow, DuckDB relations, mappings of arrays."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.data.ids import id_array, plain_array
from prsrank.errors import InputError
from prsrank.types import Floats, IdArray, Longs, Reals

_MOST_NAMED = 12


@dataclass(frozen=True, eq=False)
class FrameColumns:
    """The columns of a frame, read when they are asked for. Messages count rows from 0.

    Attributes:
        columns: a narwhals series or an array of each column, by name as text.
        rows: number of rows.
    """

    columns: Mapping[str, Any]
    rows: int

    @classmethod
    def of(cls, frame: Any) -> "FrameColumns":
        """Open a frame of any library."""
        if hasattr(frame, "fetchnumpy"):  # a DuckDB relation, which needs no Arrow so
            frame = frame.fetchnumpy()
        if not isinstance(frame, Mapping):
            return cls(*_series(frame))
        columns = {
            str(name): np.ma.asanyarray(values if hasattr(values, "mask") else plain_array(values))
            for name, values in frame.items()
        }
        lengths = {name: values.shape for name, values in columns.items()}
        if any(len(shape) != 1 for shape in lengths.values()) or len(set(lengths.values())) > 1:
            shapes = ", ".join(f"{name} {shape}" for name, shape in lengths.items())
            raise InputError(f"the columns must be flat and of one length: {shapes}")
        return cls(columns, len(next(iter(columns.values()), ())))

    def array(self, name: str, asked: str = "") -> np.ma.MaskedArray:
        """Return a column, nulls masked; an InputError if there is none of that name."""
        if name not in self.columns:
            raise InputError(f"the frame has no column {name!r}{asked}{_hint(name, self.columns)}")
        values = self.columns[name]
        if isinstance(values, np.ndarray):
            null = np.ma.getmaskarray(values)
            if _mixed(values):
                null = null | np.array([v is None or v != v for v in values], bool)
            return np.ma.array(values, mask=null)
        return np.ma.array(values.to_numpy(), mask=values.is_null().to_numpy())

    def is_number(self, name: str) -> bool:
        """Tell whether a column holds numbers, or nothing but numbers and nulls."""
        values = self.array(name)
        if not _mixed(values):
            return values.dtype.kind in "iuf"
        present = values.compressed()
        return len(present) > 0 and all(map(_is_number, present))

    def numbers(self, name: str, asked: str = "") -> Floats:
        """Return a column of numbers or booleans, NaN where it is null."""
        values = self.array(name, asked)
        missing = np.ma.getmaskarray(values)
        if values.dtype.kind not in "iufb":
            good = np.array([isinstance(v, bool) or _is_number(v) for v in values.data], bool)
            bad = np.flatnonzero(~(good | missing))
            if len(bad):
                row = int(bad[0])
                raise InputError(
                    f"column {name!r} must hold numbers, but row {row} has {values.data[row]!r}"
                )
        return np.where(missing, np.nan, np.where(missing, 0, values.data).astype(np.float64))

    def ids(self, name: str, asked: str = "") -> IdArray:
        """Return a column of ids: integers or strings, none of them null."""
        values = self.array(name, asked)
        missing = np.ma.getmaskarray(values)
        if missing.any():
            raise InputError(f"column {name!r} is null in row {int(missing.argmax())}")
        try:
            return id_array(values.data)
        except InputError as error:
            raise InputError(f"column {name!r}: {error}") from None

    def matrix(self, names: Sequence[str]) -> Reals:
        """Return columns as features (rows x names)."""
        matrix = np.empty((self.rows, len(names)), np.float32)
        for index, name in enumerate(names):
            values = self.numbers(name)
            with np.errstate(over="ignore"):
                matrix[:, index] = values
            beyond = np.isinf(matrix[:, index]) & np.isfinite(values)
            if beyond.any():
                row = int(beyond.argmax())
                raise InputError(
                    f"column {name!r}: {values[row]:g} in row {row} is too large for a feature"
                )
        return matrix


def feature_names(
    columns: FrameColumns, keys: Mapping[str | None, str], features: Sequence[str] | None
) -> list[str]:
    """Return the columns that are features: those asked for, or all numbers that are no keys."""
    if features is None:
        names = [name for name in columns.columns if name not in keys and columns.is_number(name)]
    else:
        names = [features] if isinstance(features, str) else list(map(str, features))
    for name in names:
        if name in keys:
            raise InputError(f"column {name!r} is the {keys[name]}, so it cannot be a feature")
    if len(set(names)) < len(names):
        raise InputError(f"a feature is named twice: {', '.join(names)}")
    if not names:
        raise InputError("the frame has no column of numbers that could be a feature")
    return names


def features_of(frame: Any, names: Sequence[str]) -> npt.NDArray:
    """Return the named features of each row of a frame or a data set (rows x names)."""
    if not hasattr(frame, "feature_names"):
        return FrameColumns.of(frame).matrix(names)
    if frame.feature_names == tuple(names):
        return np.asarray(frame.features)
    index = {name: column for column, name in enumerate(frame.feature_names)}
    for name in names:
        if name not in index:
            raise InputError(f"the data set has no feature {name!r}{_hint(name, index)}")
    return np.asarray(frame.features)[:, [index[name] for name in names]]


def is_frame(values: object) -> bool:
    """Tell a frame or a mapping from an array of features.

    >>> is_frame({"x": [1.0]}), is_frame(np.eye(2)), is_frame([[1.0]])
    (True, False, False)
    """
    return (
        isinstance(values, Mapping) or hasattr(values, "fetchnumpy") or hasattr(values, "columns")
    )


def aligned(scores: Floats, frame: Any) -> Any:
    """Return scores of a frame's rows: a series with its index for pandas, else as they are."""
    if type(frame).__module__.split(".")[0] != "pandas":
        return scores
    import pandas

    return pandas.Series(scores, index=frame.index, name="score")


def _series(frame: Any) -> tuple[dict[str, Any], int]:
    """Return the series of a pandas, Polars or Arrow frame, and the number of its rows."""
    import narwhals

    try:
        opened: Any = narwhals.from_native(frame)
        if isinstance(opened, narwhals.LazyFrame):
            opened = opened.collect()
        columns = {str(name): opened.get_column(name) for name in opened.columns}
    except TypeError as error:
        raise InputError(
            "give a pandas, Polars, Arrow or DuckDB frame or a mapping of arrays, "
            f"not {type(frame).__name__}"
        ) from error
    except narwhals.exceptions.DuplicateError as error:
        raise InputError(
            f"the frame has two columns of one name: {error}".replace("\n", " ")
        ) from None
    return columns, len(opened)


def in_order_of_appearance(ids: IdArray) -> tuple[Longs, Longs]:
    """Return the index of each row's list, and the first row of each list."""
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first)
    index = np.empty(len(first), np.int64)
    index[order] = np.arange(len(first))
    return index[inverse], first[order]


def check_once(lists: Longs, docs: IdArray, queries: IdArray) -> None:
    """Raise an InputError for the first row whose doc an earlier row of the list has."""
    codes = np.unique(docs, return_inverse=True)[1]
    keys = lists * (codes.max(initial=0) + 1) + codes
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(again):
        row = int(order[again + 1].min())
        first = int(np.flatnonzero(keys == keys[row])[0])
        raise InputError(
            f"rows {first} and {row} are both doc {docs[row]} of query {queries[row]}: "
            f"{len(again)} of {len(docs)} rows repeat a doc of their query"
        )


def _hint(name: str, columns: Mapping[str, Any]) -> str:
    lower = {column.lower(): column for column in columns}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    more = ", ..." if len(columns) > _MOST_NAMED else ""
    return f"; it has {', '.join(list(columns)[:_MOST_NAMED])}{more}"


def _mixed(values: npt.NDArray) -> bool:
    return values.dtype.kind == "O"


def _is_number(value: object) -> bool:
    return isinstance(value, Number) and not isinstance(value, (bool, complex))
