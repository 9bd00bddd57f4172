"""Hyper-parameters: which settings are tried for a method, and which is best on validation."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from prsrank.experiment.jobs import seed_of
from prsrank.experiment.spec import Method, Panel, RankerSettings, Spec
from prsrank.weighting import WEIGHTINGS

Configuration = dict[str, dict[str, Any]]


def configurations(spec: Spec, panel: Panel, method: Method) -> list[Configuration]:
    """Return the settings that are tried for a method: the product of its grids.

    Every method has the same budget. A larger product is cut down to the budget by a random
    choice that depends on the names alone.

    Returns:
        For each the ranker's `settings` and the weighting's `parameters`; the first is what
        is used where nothing is tuned.
    """
    ranker = spec.rankers.get(method.ranker or panel.ranker, RankerSettings())
    grid: Mapping[str, Any] = {**ranker.grid, **method.grid}
    of_weighting = WEIGHTINGS[method.weighting].parameters if method.weighting else {}
    tried = []
    for values in product(*(grid[name] for name in grid)):
        one = dict(zip(grid, values, strict=True))
        parameters = {name: one.pop(name) for name in grid if name in of_weighting}
        tried.append(
            {
                "settings": {**ranker.settings, **one},
                "parameters": {**method.parameters, **parameters},
            }
        )
    if len(tried) <= spec.tuning.budget:
        return tried
    rng = np.random.default_rng(seed_of(spec.seed, method.weighting, method.ranker or panel.ranker))
    kept = np.sort(rng.choice(len(tried), spec.tuning.budget, replace=False))
    return [tried[i] for i in kept]


def short_form(chosen: Configuration, tried: list[Configuration]) -> dict[str, Any]:
    """Return only the values of a configuration that were there to choose.

    >>> tried = [{"settings": {"l2": 1, "t": 9}, "parameters": {}}, {"settings": {"l2": 2, "t": 9}, "parameters": {}}]
    >>> short_form(tried[1], tried)
    {'l2': 2}
    """
    varied = {}
    for part in ("parameters", "settings"):
        for name, value in chosen[part].items():
            if any(other[part].get(name) != value for other in tried):
                varied[name] = value
    return varied
