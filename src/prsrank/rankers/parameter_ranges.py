"""What the parameters of rankers and weightings may be: one range for one name."""

import inspect
from collections.abc import Mapping
from types import GenericAlias
from typing import Any, NamedTuple

from prsrank.errors import InputError
from prsrank.files.schema import check


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
