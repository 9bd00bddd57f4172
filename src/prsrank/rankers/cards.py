"""The folder of a saved ranker: its card, checksums, and the ranges of its parameters."""

import hashlib
import inspect
import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import GenericAlias
from typing import Any, NamedTuple, NotRequired, TypedDict

from prsrank.errors import InputError
from prsrank.files import FileName, existing_file, plain_json
from prsrank.files.drafts import check_target
from prsrank.files.schema import check

CARD = "ranker.json"
_LIBRARIES = ("prsrank", "numpy", "lightgbm", "numba", "torch", "safetensors")


def check_free(path: FileName) -> None:
    """Raise an InputError if a ranker cannot be saved here: something else is there."""
    folder = Path(path)
    check_target(folder, folder=True)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / CARD).exists():
        raise InputError(f"{path}: is a folder with other things in it")


class Card(TypedDict):
    """What `ranker.json` holds."""

    ranker: str
    parameters: dict[str, Any]
    learned: dict[str, Any]
    files: dict[str, str]
    about: dict[str, Any]
    versions: NotRequired[dict[str, str]]
    checksum: NotRequired[str]  # cards of earlier versions have none


def checksum(card: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what the scores depend on: weights in the card, and its files' own."""
    kept = {name: card[name] for name in ("ranker", "parameters", "learned", "files")}
    return hashlib.sha256(json.dumps(plain_json(kept), sort_keys=True).encode()).hexdigest()


def check_card(card: Mapping[str, Any]) -> None:
    """Raise an InputError for a card that was changed, or names files elsewhere."""
    if card.get("checksum", expected := checksum(card)) != expected:
        raise InputError("is damaged (its checksum differs)")
    for name in card["files"]:
        if Path(name).name != name or name in ("", ".", "..") or "\0" in name:
            raise InputError(f"file '{name}' is not in the folder of the ranker")


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that shape a model."""
    versions = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            continue
    return versions


def checked_file(folder: Path, name: str, sha256: str) -> bytes:
    """Return the content of a file of the folder, if it is the one that was saved."""
    path = existing_file(folder / name)
    if path.resolve().parent != folder.resolve():
        raise InputError(f"file '{name}' is a link that leaves the folder of the ranker")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{path}: is damaged or cut short (its checksum differs)")
    return content


class Range(NamedTuple):
    """From `least` to `most`; without `least` itself if it is open."""

    least: float
    most: float
    open: bool = False

    def __str__(self) -> str:
        if self.open:
            return f"above {self.least:g} and at most {self.most:g}"
        return f"from {self.least:g} to {self.most:g}"

    def holds(self, value: float) -> bool:
        """Tell whether a number lies in it."""
        above = value > self.least if self.open else value >= self.least
        return above and value <= self.most


_MANY = 2**31 - 1
RANGES = {
    "trees": Range(1, 1_000_000),
    "leaves": Range(2, 131_072),
    "min_docs_in_leaf": Range(0, _MANY),
    "learning_rate": Range(0, 1000, open=True),
    "propensity_rate": Range(0, 1000, open=True),
    "sigma": Range(0, 1e6, open=True),
    "truncation": Range(1, _MANY),
    "patience": Range(1, _MANY),
    "seed": Range(0, _MANY),
    "threads": Range(1, 4096),
    "p": Range(0, float("inf")),
    "positions": Range(1, 1_000_000),
    "max_positions": Range(2, 1_000_000),
    "max_weight": Range(1, 1e30),
    "regularisation": Range(0, 1e30),
    "weight_decay": Range(0, 1e6),
    "l2": Range(0, 1e30, open=True),
    "C": Range(0, 1e30, open=True),
    "tolerance": Range(0, 1e30, open=True),
    "max_iterations": Range(1, _MANY),
    "epochs": Range(1, 1_000_000),
    "batch_lists": Range(1, _MANY),
    "batch_rankings": Range(1, _MANY),
    "hidden": Range(1, 1_000_000),
    "tau": Range(0, 1e6),
    "gamma": Range(0, 1e6),
    "power": Range(0, 1e6),
    "noise": Range(0, 1),
    "temper": Range(0, 1e6),
    "own": Range(0, 1e6),
    "one_way": Range(0, 1),
}
"""By the name of a parameter: those of all rankers and weightings that are numbers."""


def check_ranges(values: Mapping[str, Any], owner: str) -> None:
    """Raise an InputError for a number out of its range; types are checked before.

    >>> check_ranges({"leaves": 1}, "lambdamart")
    Traceback (most recent call last):
    prsrank.errors.InputError: lambdamart: leaves must be from 2 to 131072, not 1
    """
    for name, value in values.items():
        numbers = value if isinstance(value, list | tuple) else [value]
        held = [
            number is None or RANGES[name].holds(number) for number in numbers if name in RANGES
        ]
        if name in RANGES and not (held and all(held)):
            raise InputError(f"{owner}: {name} must be {RANGES[name]}, not {value}")


def check_parameters(kind: Any, values: Mapping[str, Any]) -> None:
    """Raise an InputError for a parameter that is unknown, of another type, or out of range."""
    parameters = inspect.signature(kind.__init__, eval_str=True).parameters
    for name, value in values.items():
        if name not in kind._parameter_names():
            raise InputError(f"{kind.name} has no parameter '{name}'")
        wanted: Any = GenericAlias(dict, (str, parameters[name].annotation))
        check({name: value}, wanted, kind.name)
    check_ranges(values, kind.name)
