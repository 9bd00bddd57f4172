"""The parts of a log that a fit trains on, tunes on and judges by: no query is in two.

Which part a query is in follows from a hash of its id and the seed alone, so it is the same on
every engine, in whatever order the rows come.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import md5
from typing import TYPE_CHECKING

import numpy as np

from prsrank.errors import InputError
from prsrank.logs.pieces import Extent
from prsrank.types import IdArray, Longs

if TYPE_CHECKING:
    from prsrank.fit.engine import EngineLog

QUERY, TIME, RANDOMISED = "query", "time", "randomised"
PARTS = TRAIN, VALIDATION, HELD_OUT = "train", "validation", "held out"
VALIDATION_SHARE = 0.2

BUCKETS = 10_000
HALF = "cross-fit half"
"""A context of the held-out sessions where they are randomised: half "1" or "2" of the queries."""


@dataclass(frozen=True)
class Split:
    """How a log is split.

    Attributes:
        way: "query": a share of the queries is held out; "time": the latest share of the
            sessions; "randomised": the sessions in random order. The other sessions of queries
            that are held out are dropped: a ranker is not judged by lists it learned from.
        share: of the queries, or sessions, to hold out.
        seed: other seeds give other parts.
    """

    way: str
    share: float
    seed: int = 0

    def buckets(self, queries: IdArray) -> Longs:
        """Return the bucket of each query: of BUCKETS, by a hash of seed and id.

        The first 32 bits of the MD5 of "seed:id", modulo BUCKETS: Spark's SQL can do it too.

        >>> Split("query", 0.2).buckets(np.array([7, 8])).tolist()
        [7895, 2094]
        """
        texts = (f"{self.seed}:{query}" for query in queries.tolist())
        # a hash to spread ids evenly, not to keep a secret
        heads = (md5(text.encode(), usedforsecurity=False).digest()[:4] for text in texts)
        numbers = (int.from_bytes(head, "big") % BUCKETS for head in heads)
        return np.fromiter(numbers, np.int64, len(queries))


def bucket_limit(histogram: Longs, share: float) -> int:
    """Return the bucket below which about a share of the queries lies, and never all or none.

    >>> bucket_limit(np.array([0, 2, 1, 2]), 0.5)
    2
    """
    total = int(histogram.sum())
    if total < 2:
        raise InputError(f"a log of {total} queries cannot be split by query")
    wanted = min(max(round(share * total), 1), total - 1)
    limit = int(np.searchsorted(np.cumsum(histogram), wanted)) + 1
    if histogram[limit:].sum() == 0:  # the last queries share a bucket: stop before it
        limit = int(np.flatnonzero(histogram)[-1])
    return limit


@dataclass(frozen=True, eq=False)
class LogParts:
    """A log in three parts without a common query.

    Attributes:
        train: sessions to learn from.
        validation: sessions to choose settings by.
        held_out: sessions to judge by, once; with the context HALF where they are randomised.
        learning: train and validation together.
        way: how it was held out; see `Split`.
        extents: how large each part is.
        dropped_sessions: sessions of queries that would be in two parts; in none.
        halves: the held-out sessions of each half of their queries, where they are randomised.
    """

    train: "EngineLog"
    validation: "EngineLog"
    held_out: "EngineLog"
    learning: "EngineLog"
    way: str
    extents: Mapping[str, Extent]
    dropped_sessions: int = 0
    halves: "tuple[EngineLog, EngineLog] | None" = None

    def __post_init__(self) -> None:
        if not self.extents[HELD_OUT].sessions:
            raise InputError(f"no session is marked as {self.way}: hold out by query or by time")
        if not self.extents[TRAIN].sessions:
            raise InputError(
                f"every query has sessions to hold out ({self.way}): hold out by query"
            )
        for name, extent in self.extents.items():
            if not extent.clicks:
                raise InputError(
                    f"the {name} part has no clicks ({extent.sessions} sessions): the log is too "
                    "small"
                )

    def counts(self) -> dict[str, dict[str, int]]:
        """Return sessions, queries and clicks of each part."""
        return {
            name: {"sessions": e.sessions, "queries": e.queries, "clicks": e.clicks}
            for name, e in self.extents.items()
        }
