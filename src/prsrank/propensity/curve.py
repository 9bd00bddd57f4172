"""Curves of observation propensities over positions."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.files import read_json, write_json
from prsrank.types import Floats, Longs

_ARRAYS = ("propensity", "low", "high", "clicks")


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


@dataclass(frozen=True, eq=False)
class Propensities:
    """A propensity for each position, with an interval. Index 0 is position 1, whose p is 1.

    Arrays are read-only. A position that the log says nothing about is NaN.

    Attributes:
        propensity: p_k / p_1 (positions).
        low: lower end of the 95 % interval (positions).
        high: upper end (positions).
        clicks: number of clicks behind each position (positions).
        verdict: begins with "identified", "weak: " (and which positions) or
            "not identified: " (why, and what would help).
        method: name of the estimator.
        contexts: a curve of its own for each value of a context column.

    >>> curve = Propensities([1, 0.5], [1, 0.4], [1, 0.6], [80, 40], "identified", "randomised")
    >>> curve.at([2, 1]).tolist()
    [0.5, 1.0]
    >>> sorted(curve.to_json_dict())
    ['clicks', 'high', 'low', 'propensity', 'verdict']
    """

    propensity: Floats
    low: Floats
    high: Floats
    clicks: Longs
    verdict: str
    method: str
    contexts: Mapping[str, "Propensities"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            array = _column(name, getattr(self, name))
            if len(array) != np.size(self.propensity):
                raise InputError(
                    f"'{name}' has {len(array)} entries for {np.size(self.propensity)} propensities"
                )
            object.__setattr__(self, name, array)
        if self.propensity.size and self.propensity[0] != 1:
            raise InputError(f"the propensity of position 1 is {self.propensity[0]}: it must be 1")

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
                f"the curve ends at position {self.positions}: position {wanted[beyond].flat[0]} has no propensity"
            )
        values = self.propensity[wanted - 1]
        if np.isnan(values).any():
            position = wanted[np.isnan(values)].flat[0]
            raise InputError(f"the propensity of position {position} is not known ({self.verdict})")
        return np.asarray(values)

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists under propensity, low, high, clicks, verdict; NaN becomes None."""
        value: dict[str, Any] = {name: _plain(getattr(self, name)) for name in _ARRAYS}
        value["verdict"] = self.verdict
        if self.contexts:
            value["contexts"] = {name: c.to_json_dict() for name, c in self.contexts.items()}
        return value

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the curve to a JSON file, whole or not at all."""
        write_json(path, self.to_json_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Propensities":
        """Read a curve from a JSON file; only 'propensity' must be there."""
        return _from_json(read_json(path), str(path))


def power_law(eta: float, positions: npt.ArrayLike) -> Floats:
    r"""Return $(1/k)^\eta$ for each 1-based position k.

    >>> power_law(0.5, [1, 4]).tolist()
    [1.0, 0.5]
    """
    return PowerLaw(eta).at(positions)


def learned_curve(values: Floats, clicks: Longs | None, method: str) -> Propensities:
    """Return propensities that a ranker learned as a curve without intervals.

    Args:
        values: of positions 1, 2, ..., relative to position 1.
        clicks: clicks at these positions; None where they are not known.
        method: name of the ranker.
    """
    unknown = np.full(len(values), np.nan)
    counted = np.zeros(len(values), np.int64) if clicks is None else clicks
    verdict = "weak: learned together with the ranker, without intervals"
    return Propensities(values, unknown, unknown, counted, verdict, method)


def parse_propensity(text: str) -> PowerLaw | Propensities:
    """Return the curve that a command line names: "power:ETA", or a JSON file.

    >>> parse_propensity("power:1.5")
    PowerLaw(eta=1.5)
    """
    if not text.startswith("power:"):
        return Propensities.load(text)
    try:
        return PowerLaw(float(text.removeprefix("power:")))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"'{text}': what follows 'power:' must be a number") from None


def checked_positions(positions: npt.ArrayLike) -> Floats:
    """Return positions as float64 after checking that they are whole and at least 1."""
    values = np.asarray(positions, dtype=np.float64)
    bad = ~(values >= 1) | (values != np.floor(values))
    if bad.any():
        raise InputError(f"a position is {values[bad].flat[0]:g}: positions are 1, 2, 3, ...")
    return values


def _column(name: str, values: npt.ArrayLike) -> npt.NDArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"'{name}' must be a list of numbers") from None
    if array.ndim != 1:
        raise InputError(f"'{name}' must be a list of numbers, not {array.ndim}-dimensional")
    if np.isinf(array).any():
        raise InputError(f"'{name}' of position {int(np.isinf(array).argmax()) + 1} is infinite")
    if (array < 0).any():
        raise InputError(f"'{name}' of position {int((array < 0).argmax()) + 1} is negative")
    if name == "clicks":
        if np.isnan(array).any() or (array != np.floor(array)).any():
            raise InputError("'clicks' must be whole numbers")
        array = array.astype(np.int64)
    array.flags.writeable = False
    return array


def _plain(values: npt.NDArray) -> list[float | int | None]:
    return [v if np.isfinite(v) else None for v in values.tolist()]


def _from_json(value: dict[str, Any], where: str) -> Propensities:
    if "propensity" not in value:
        raise InputError(f"{where}: has no 'propensity' list")
    given = value["propensity"]
    size = len(given) if isinstance(given, list) else 0
    if size == 0:
        raise InputError(f"{where}: 'propensity' is empty or not a list")
    unknown: dict[str, Any] = {"low": [None] * size, "high": [None] * size, "clicks": [0] * size}
    contexts = value.get("contexts", {})
    if not isinstance(contexts, dict) or not all(isinstance(c, dict) for c in contexts.values()):
        raise InputError(f"{where}: 'contexts' must hold one curve for each value")
    parts: dict[str, Any] = {name: value.get(name, unknown.get(name)) for name in _ARRAYS}
    for name, part in parts.items():
        if not isinstance(part, list) or any(isinstance(v, (bool, str)) for v in part):
            raise InputError(f"{where}: '{name}' must be a list of numbers")
    try:
        return Propensities(
            **parts,
            verdict=str(value.get("verdict", "given")),
            method="file",
            contexts={n: _from_json(c, f"{where}: context {n}") for n, c in contexts.items()},
        )
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
