"""Standardisation and imputation, fitted on the training part and kept with the ranker."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.types import Floats, Longs

_ROWS = 1 << 16


class StoredScaling(TypedDict):
    """What `FeatureScaling.to_dict` returns."""

    mean: list[float]
    scale: list[float]
    indicators: list[int]
    indicator_share: list[float]


@dataclass(frozen=True, eq=False)
class FeatureScaling:
    r"""x' = (x - mean) / scale, missing values replaced by the mean, with indicators.

    Attributes:
        mean: training mean of each feature over its present values.
        scale: training standard deviation; 1 for a constant feature.
        indicators: features that had missing values in training; each adds a column that is
            1 where the value is missing, standardised likewise.
        indicator_share: share of missing values of those features in training.

    >>> scaling = FeatureScaling.fit(np.array([[1.0], [3.0], [np.nan]]), missing="impute")
    >>> scaling.transform(np.array([[3.0], [np.nan]])).round(2).tolist()
    [[1.0, -0.71], [0.0, 1.41]]
    """

    mean: Floats
    scale: Floats
    indicators: Longs
    indicator_share: Floats

    @classmethod
    def fit(cls, features: npt.ArrayLike, *, missing: str = "error") -> "FeatureScaling":
        """Fit to training features.

        Args:
            features: of all docs.
            missing: "error" (NaN is refused) or "impute".
        """
        if missing not in ("error", "impute"):
            raise InputError(f"missing must be 'error' or 'impute', not '{missing}'")
        values = np.asarray(features)
        if missing == "error":
            refuse_missing(values)
        return cls.of_total(lambda function: function(values))

    @classmethod
    def of_total(
        cls, total: Callable[[Callable[[npt.NDArray], Floats]], Floats]
    ) -> "FeatureScaling":
        """Fit to features that lie in pieces: `total` adds up what a function makes of each."""
        docs, present, sums = total(_presence)
        mean = sums / np.maximum(present, 1)
        # two passes: the sum of squares less the square of the sum loses digits
        squares = total(
            lambda values: _summed(values, lambda block: np.nansum((block - mean) ** 2, axis=0))
        )
        deviation = np.sqrt(squares / np.maximum(present, 1))
        indicators = np.flatnonzero(present < docs)
        # A feature that varies only by rounding is constant: dividing would blow that up.
        constant = deviation <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
        share = 1 - present[indicators] / docs[indicators]
        return cls(mean, np.where(constant, 1.0, deviation), indicators, share)

    @property
    def columns(self) -> int:
        """Number of columns after the transformation."""
        return len(self.mean) + len(self.indicators)

    def transform(self, features: npt.ArrayLike) -> Floats:
        """Return the standardised features with the indicator columns behind them."""
        values = np.asarray(features)
        if values.ndim != 2 or values.shape[1] != len(self.mean):
            raise InputError(f"features have shape {values.shape}; {len(self.mean)} columns belong")
        if not len(self.indicators):
            refuse_missing(values)
        out = np.empty((len(values), self.columns))
        width = len(self.mean)
        for start in range(0, len(values), _ROWS):
            block = values[start : start + _ROWS]
            rows = out[start : start + _ROWS]
            np.subtract(block, self.mean, out=rows[:, :width])
            rows[:, :width] /= self.scale
            np.nan_to_num(rows[:, :width], copy=False, nan=0.0)
            share = self.indicator_share
            spread = np.sqrt(share * (1 - share))
            rows[:, width:] = (np.isnan(block[:, self.indicators]) - share) / np.where(
                spread > 0, spread, 1.0
            )
        return out

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, for JSON."""
        return {name: getattr(self, name).tolist() for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, values: StoredScaling) -> "FeatureScaling":
        """Rebuild from `to_dict`; an InputError where the parts do not fit together."""
        mean, scale, share = (
            np.array(values[name], np.float64) for name in ("mean", "scale", "indicator_share")
        )
        indicators, columns = np.array(values["indicators"], np.int64), len(mean)
        if len(scale) != columns or len(share) != len(indicators):
            raise InputError("the scaling has lists of different lengths")
        if not (scale > 0).all() or not ((share >= 0) & (share <= 1)).all():
            raise InputError("the scaling has a scale of 0, or a share that is none")
        if (np.diff(indicators, prepend=-1, append=columns) <= 0).any():
            raise InputError(f"the indicators of the scaling are not among its {columns} features")
        return cls(mean, scale, indicators, share)


def refuse_missing(features: npt.NDArray) -> None:
    """Raise an InputError that names the first missing value, if there is one."""
    for start in range(0, len(features), _ROWS):
        gaps = np.isnan(features[start : start + _ROWS])
        if gaps.any():
            row, column = np.argwhere(gaps)[0]
            raise InputError(
                f"feature {column + 1} of doc row {start + row} is missing (NaN); "
                "missing='impute' would replace it by the training mean and an indicator"
            )


def _presence(values: npt.NDArray) -> Floats:
    """Return how many docs there are, with a value of each feature, and the sum of these."""

    def sums(block: Floats) -> Floats:
        there = ~np.isnan(block)
        docs = np.full(block.shape[1], float(len(block)))
        return np.array([docs, there.sum(axis=0), np.where(there, block, 0).sum(axis=0)])

    return _summed(values, sums)


def _summed(values: npt.NDArray, function: Callable[[Floats], Floats]) -> Floats:
    """Return the sum of what a function makes of blocks of rows."""
    starts = range(0, max(len(values), 1), _ROWS)
    blocks = (values[start : start + _ROWS].astype(np.float64) for start in starts)
    return np.asarray(sum(map(function, blocks)))
