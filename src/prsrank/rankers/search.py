"""Try candidates, keep the best: what every search for settings does."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

C = TypeVar("C")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Trial(Generic[C, R]):
    """A candidate that was tried.

    Attributes:
        candidate: what was tried.
        value: how good it was; higher is better.
        result: what came of it, such as a fitted ranker.
    """

    candidate: C
    value: float
    result: R


@dataclass(frozen=True, eq=False)
class Search(Generic[C, R]):
    """All trials in the order tried, and the best of them."""

    best: Trial[C, R]
    trials: tuple[Trial[C, R], ...]


def drawn(candidates: Sequence[C], size: int, seed: int = 0) -> list[C]:
    """Return so many candidates at most: the first, and others drawn at random, in their order.

    >>> drawn("abcdef", 3), drawn("ab", 3)
    (['a', 'd', 'f'], ['a', 'b'])
    """
    others = np.random.default_rng(seed).permutation(len(candidates) - 1)[: size - 1] + 1
    return [candidates[i] for i in (0, *sorted(others))]


def best_of(candidates: Sequence[C], try_one: Callable[[C], tuple[float, R]]) -> Search[C, R]:
    """Try every candidate and keep the best; of equal ones the first.

    Args:
        candidates: what to try, at least one, the likeliest first.
        try_one: returns how good a candidate is (higher is better) and what came of it.

    >>> found = best_of([1, 3, -3], lambda x: (x * x, f"square of {x}"))
    >>> found.best.result, [trial.value for trial in found.trials]
    ('square of 3', [1, 9, 9])
    """
    trials = [Trial(candidate, *try_one(candidate)) for candidate in candidates]
    # a value that is no number is worse than any, so that it wins only among its like
    best = max(trials, key=lambda t: -math.inf if math.isnan(t.value) else t.value)
    return Search(best, tuple(trials))
