"""Jobs: what an experiment asks to be computed, each named by all that decides its result.

A job's identity is plain JSON; its id is the SHA-256 of the canonical form. Two experiments that
ask for the same thing so ask for one job. An identity holds only what matters: a ranker trained
on labels is the same for every click setting, and `naive` the same whatever propensities are
assumed.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from prsrank.experiment.spec import Point

Identity = Mapping[str, Any]

RESULTS_VERSION = 1
"""Raised when the same identity would give other results than before."""


@dataclass(frozen=True, eq=False)
class Job:
    """One thing to compute.

    Attributes:
        identity: all that decides the result, as plain JSON.
        data: name of the data set to read; its content, not its name, is in the identity.
        relevant_from: the least label that counts as relevant; None: the collection's.
    """

    identity: Identity
    data: str
    relevant_from: float | None = None

    @cached_property
    def id(self) -> str:
        """The SHA-256 of the identity."""
        return hashlib.sha256(canonical(self.identity).encode()).hexdigest()

    @property
    def group(self) -> str:
        """What jobs that share a click log have in common."""
        keys = ("data", "fold", "production", "clicks")
        return canonical({key: self.identity.get(key) for key in keys})


@dataclass(frozen=True)
class Cell:
    """Where a result belongs in an experiment."""

    panel: str
    method: str
    point: Point
    fold: int
    run: int


@dataclass(frozen=True)
class Source:
    """A data set: its name, and what its folds hold.

    Attributes:
        name: as `prsrank.data.collections.open_collection` takes it.
        fingerprints: SHA-256 of the content of each fold, from fold 1.
        queries: query ids of the test part of each fold.
        lists: number of training lists of each fold.
        title: the collection's name.
        note: what to say of its folds.
        relevant_from: the least label that counts as relevant; None: the collection's.
    """

    name: str
    fingerprints: tuple[str, ...]
    queries: tuple[tuple[str, ...], ...]
    lists: tuple[int, ...]
    title: str
    note: str = ""
    relevant_from: float | None = None

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.fingerprints)


def canonical(value: Any) -> str:
    """Return the one JSON text of a value.

    >>> canonical({"b": 1, "a": (0.5,)})
    '{"a":[0.5],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def seed_of(*parts: Any) -> int:
    """Return a seed (31 bits) that depends on all the parts and nothing else."""
    digest = hashlib.sha256(canonical(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") & 0x7FFFFFFF
