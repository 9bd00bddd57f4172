"""Curves of observation propensities over positions."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NotRequired, Protocol, TypedDict

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.files import read_json, write_json
from prsrank.files.schema import check, keys_of
from prsrank.notebook import Chart, Columns, Shown
from prsrank.propensity.verdict import WIDE, Status, Verdict, has_few_clicks, in_words
from prsrank.types import Floats, Longs, Marks

MOST_POSITIONS = 2_000
"""Positions that are estimated at most, and whose errors are known: what they go by is squared."""

FEWEST_CLICKS = 10
"""A step of a curve that rests on fewer clicks than this tells nothing of its positions."""

_COVER = "prsrank.covering, or 'prsrank propensity --shape monotone', gives every position one"
_ARRAYS = ("propensity", "low", "high", "clicks")
_Z = 1.96
# A longer curve is stored without its covariance, whose size is the square of its length.
_MOST_STORED = 500


class PropensityCurve(Protocol):
    """Whatever knows the propensity of a position."""

    def at(self, positions: npt.ArrayLike, *, context: str | None = None) -> Floats:
        """Return the propensity of each 1-based position; an error names one it lacks."""
        ...


@dataclass(frozen=True)
class PowerLaw:
    r"""The propensity $p_k = (1/k)^\eta$ of every position k.

    Args:
        eta: severity of the position bias; 0 is none.

    >>> PowerLaw(1.0).at([1, 2, 4]).tolist()
    [1.0, 0.5, 0.25]
    """

    eta: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.eta) and self.eta >= 0):
            raise InputError(f"eta must be finite and at least 0, not {self.eta}")

    def at(self, positions: npt.ArrayLike, *, context: str | None = None) -> Floats:
        """Return the propensity of each 1-based position; a context changes nothing."""
        return np.asarray(checked_positions(positions) ** -float(self.eta), dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class Propensities(Shown):
    """A propensity for each position, with an interval. Index 0 is position 1, whose p is 1.

    Arrays are read-only. A position that the log says nothing about is NaN.

    Attributes:
        propensity: p_k / p_1 (positions).
        low: lower end of the 95 % interval (positions).
        high: upper end (positions).
        clicks: number of clicks behind each position (positions).
        verdict: text that begins with "identified", "weak: " (and which positions) or
            "not identified: " (why, and what would help); its `status` and `reason` are apart.
        method: name of the estimator.
        contexts: a curve of its own for each value of a context column.
        covariance: of log p (positions x positions, of the first MOST_POSITIONS); None where only
            the intervals are known.

    >>> curve = Propensities([1, 0.5], [1, 0.4], [1, 0.6], [80, 40], "identified", "randomised")
    >>> curve.at([2, 1]).tolist()
    [0.5, 1.0]
    >>> curve
    <Propensities: randomised, positions 1 to 2: identified>
    >>> sorted(curve.to_json_dict())
    ['clicks', 'high', 'low', 'propensity', 'verdict']
    """

    propensity: Floats
    low: Floats
    high: Floats
    clicks: Longs
    verdict: Verdict
    method: str
    contexts: Mapping[str, "Propensities"] = field(default_factory=dict)
    covariance: Floats | None = None

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            array = _column(name, getattr(self, name))
            if len(array) != np.size(self.propensity):
                raise InputError(
                    f"'{name}' has {len(array)} entries for {np.size(self.propensity)} propensities"
                )
            object.__setattr__(self, name, array)
        object.__setattr__(self, "verdict", Verdict(self.verdict))
        if self.propensity.size and self.propensity[0] != 1:
            raise InputError(f"the propensity of position 1 is {self.propensity[0]}: it must be 1")
        if self.covariance is not None:
            size = min(self.positions, MOST_POSITIONS)
            object.__setattr__(self, "covariance", _square(self.covariance, size))

    @property
    def log_covariance(self) -> Floats:
        """Covariance of log p of the first MOST_POSITIONS, 0 where nothing is known of it.

        Of a curve that came with intervals alone it is that of independent positions.
        """
        if self.covariance is not None:
            return self.covariance
        with np.errstate(divide="ignore", invalid="ignore"):
            deviation = (np.log(self.high) - np.log(self.low))[:MOST_POSITIONS] / (2 * _Z)
        return np.diag(np.where(np.isfinite(deviation), deviation, 0.0) ** 2)

    @property
    def weak(self) -> Marks:
        """Which positions have few clicks or a wide interval, where the verdict is not identified."""
        if str(self.verdict) == Status.IDENTIFIED or not self.positions:
            return np.zeros(self.positions, bool)
        return has_few_clicks(self.clicks) | ~(self.high - self.low <= 2 * WIDE * self.propensity)

    @property
    def positions(self) -> int:
        """Number of positions."""
        return len(self.propensity)

    def at(self, positions: npt.ArrayLike, *, context: str | None = None) -> Floats:
        """Return the propensity of each 1-based position, for one context value if named.

        A context value that has no curve of its own gets the shared one.

        Raises:
            InputError: naming a position that the curve does not cover or knows nothing of.
        """
        if context is not None and context in self.contexts:
            return self.contexts[context].at(positions)
        wanted = checked_positions(positions).astype(np.int64)
        beyond = wanted > self.positions
        if beyond.any():
            raise InputError(
                f"the curve ends at position {self.positions}: position {wanted[beyond].flat[0]} has no "
                f"propensity; {_COVER}"
            )
        values = self.propensity[wanted - 1]
        if np.isnan(values).any():
            position = wanted[np.isnan(values)].flat[0]
            raise InputError(
                f"the propensity of position {position} is not known ({self.verdict}); {_COVER}"
            )
        return np.asarray(values)

    def _line(self) -> str:
        curves = f", {len(self.contexts)} contexts" if self.contexts else ""
        return f"{self.method}, positions 1 to {self.positions}{curves}: {self.verdict}"

    def _table(self) -> Columns:
        curves = {"all": self, **self.contexts}
        table: dict[str, Any] = {
            "position": np.concatenate([np.arange(1, c.positions + 1) for c in curves.values()])
        }
        for name in _ARRAYS:
            table[name] = np.concatenate([getattr(curve, name) for curve in curves.values()])
        if self.contexts:
            table["context"] = [name for name, c in curves.items() for _ in range(c.positions)]
        return table

    def _chart(self) -> Chart:
        series = "context" if self.contexts else ""
        return Chart("lines", self._table(), "position", "propensity", "low", "high", series)

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists under propensity, low, high, clicks, verdict; NaN becomes None."""
        value: dict[str, Any] = {name: _plain(getattr(self, name)) for name in _ARRAYS}
        value["verdict"] = str(self.verdict)
        if self.contexts:
            value["contexts"] = {name: c.to_json_dict() for name, c in self.contexts.items()}
        return value

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the curve to a JSON file, whole or not at all; with its covariance, if known.

        Beyond 500 positions the intervals have to do.
        """
        write_json(path, self._stored())

    def _stored(self) -> dict[str, Any]:
        value = self.to_json_dict()
        if self.covariance is not None and self.positions <= _MOST_STORED:
            value["covariance"] = self.covariance.tolist()
        if self.contexts:
            value["contexts"] = {name: c._stored() for name, c in self.contexts.items()}
        return value

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Propensities":
        """Read a curve from a JSON file; only 'propensity' must be there."""
        value = _known(read_json(path), _CurveFile)
        if isinstance(value.get("contexts"), dict):
            value["contexts"] = {n: _known(c, _Curve) for n, c in value["contexts"].items()}
        check(value, _CurveFile, str(path))
        return _from_json(value, str(path))


def learned_curve(values: Floats, clicks: Longs | None, method: str) -> Propensities:
    """Return propensities that a ranker learned as a curve without intervals.

    Args:
        values: of positions 1, 2, ..., relative to position 1.
        clicks: clicks at these positions; None where they are not known.
        method: name of the ranker.
    """
    unknown = np.full(len(values), np.nan)
    counted = np.zeros(len(values), np.int64) if clicks is None else clicks
    verdict = Verdict.of(Status.WEAK, "learned together with the ranker, without intervals")
    return Propensities(values, unknown, unknown, counted, verdict, method)


def covering(curve: Propensities, depth: int, *, fewest: int = FEWEST_CLICKS) -> Propensities:
    """Return a curve that knows every position up to `depth`, as `fit` makes it.

    A position without an estimate above 0, or whose step of the curve (neighbours of equal
    propensity) rests on fewer than `fewest` clicks, gets the propensity of the nearest
    known one above it, no interval and no clicks; the verdict says so. A weight 1 / p from two
    clicks would be worth more than all others, and is as likely ten times too large.

    >>> p, clicks = [1, 0.5, np.nan, 0.01], [50, 25, 0, 2]
    >>> covering(Propensities(p, p, p, clicks, "weak: ...", "swap"), 5).propensity.tolist()
    [1.0, 0.5, 0.5, 0.5, 0.5]
    """
    # a curve that was given as it is rests on no clicks at all
    fewest = fewest if curve.clicks.any() else 0
    covered = np.zeros(depth, bool)
    size = min(depth, curve.positions)
    with np.errstate(invalid="ignore"):
        covered[:size] = curve.propensity[:size] > 0
    covered[:size] &= _clicks_of_steps(curve)[:size] >= fewest
    covered[0] = True
    if covered.all():
        return curve
    source = np.maximum.accumulate(np.where(covered, np.arange(depth), 0))
    gaps = in_words(np.flatnonzero(~covered) + 1)
    return replace(
        curve,
        propensity=curve.propensity[source],
        low=np.where(covered, curve.low[source], np.nan),
        high=np.where(covered, curve.high[source], np.nan),
        clicks=np.where(covered, curve.clicks[source], 0),
        # what is taken as the position above moves with it
        covariance=curve.log_covariance[np.ix_(source[:MOST_POSITIONS], source[:MOST_POSITIONS])],
        verdict=Verdict(f"{curve.verdict}; positions {gaps}: taken as the position above"),
    )


def _clicks_of_steps(curve: Propensities) -> Longs:
    """Return, for each position, the clicks of all positions on the same step of the curve."""
    step = np.cumsum(np.diff(curve.propensity, prepend=curve.propensity[:1]) != 0)
    totals = np.bincount(step, curve.clicks).astype(np.int64)
    return np.asarray(totals[step])


def checked_positions(positions: npt.ArrayLike) -> Floats:
    """Return positions as float64 after checking that they are whole and at least 1."""
    values = np.asarray(positions, dtype=np.float64)
    bad = ~(values >= 1) | (values != np.floor(values))
    if bad.any():
        raise InputError(f"a position is {values[bad].flat[0]:g}: positions are 1, 2, 3, ...")
    return values


def _numbers(name: str, values: npt.ArrayLike, form: str, dimensions: int = 1) -> npt.NDArray:
    """Return an array of its own; an InputError says what form it must have."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.ndim != dimensions:
        raise InputError(f"'{name}' must be {form}")
    return array


def _column(name: str, values: npt.ArrayLike) -> npt.NDArray:
    array = _numbers(name, values, "a list of numbers")
    for fault, places in (("infinite", np.isinf(array)), ("negative", array < 0)):
        if places.any():
            raise InputError(f"'{name}' of position {int(places.argmax()) + 1} is {fault}")
    if name == "clicks":
        if (array != np.floor(array)).any():  # as NaN is
            raise InputError("'clicks' must be whole numbers")
        array = array.astype(np.int64)
    array.flags.writeable = False
    return array


def _square(values: npt.ArrayLike, size: int) -> Floats:
    form = f"{size} rows of {size} numbers, symmetric"
    array = _numbers("covariance", values, form, 2)
    if array.shape != (size, size) or not np.isfinite(array).all() or (array != array.T).any():
        raise InputError(f"'covariance' must be {form}")
    array.flags.writeable = False
    return array


def _plain(values: npt.NDArray) -> list[float | int | None]:
    return [v if np.isfinite(v) else None for v in values.tolist()]


class _Curve(TypedDict):
    """What a file says of one curve; only `propensity` must be there."""

    propensity: list[float | None]
    low: NotRequired[list[float | None]]
    high: NotRequired[list[float | None]]
    clicks: NotRequired[list[int]]
    verdict: NotRequired[str]
    covariance: NotRequired[list[list[float]]]


class _CurveFile(_Curve):
    contexts: NotRequired[dict[str, _Curve]]


def _known(value: Any, kind: Any) -> Any:
    """Leave out what we do not know: other programs may keep notes of their own with a curve."""
    if not isinstance(value, dict):
        return value
    return {name: one for name, one in value.items() if name in keys_of(kind)[0]}


def _from_json(value: Mapping[str, Any], where: str) -> Propensities:
    size = len(value["propensity"])
    if size == 0:
        raise InputError(f"{where}: 'propensity' is empty")
    unknown: dict[str, Any] = {"low": [None] * size, "high": [None] * size, "clicks": [0] * size}
    contexts = value.get("contexts", {})
    try:
        return Propensities(
            **{name: value.get(name, unknown.get(name)) for name in _ARRAYS},
            verdict=Verdict(value.get("verdict", Status.GIVEN)),
            method="file",
            contexts={n: _from_json(c, f"{where}: context {n}") for n, c in contexts.items()},
            covariance=value.get("covariance"),
        )
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
