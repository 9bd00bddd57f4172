"""Which queries are held out: by a hash of their ids and a seed, on every engine the same.

In whatever order the rows come, in one piece or in many, a query is on the same side: so two
commands with one seed agree on what is held out.
"""

from dataclasses import dataclass

import numpy as np

from prsrank.errors import InputError
from prsrank.hashing import sql_hashes
from prsrank.types import IdArray, Longs

QUERY, TIME, RANDOMISED = "query", "time", "randomised"
BUCKETS = 10_000


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

    def __post_init__(self) -> None:
        if self.way not in (QUERY, TIME, RANDOMISED):
            raise InputError(f"hold out by {QUERY}, {TIME} or {RANDOMISED}, not '{self.way}'")
        if self.way != RANDOMISED and not 0 < self.share < 1:
            raise InputError(f"the share to hold out must be between 0 and 1, not {self.share}")

    def buckets(self, queries: IdArray) -> Longs:
        """Return the bucket of each query: of BUCKETS, by a hash of seed and id.

        The first 32 bits of the MD5 of "seed:id", modulo BUCKETS: Spark's SQL can do it too.

        >>> Split("query", 0.2).buckets(np.array([7, 8])).tolist()
        [7895, 2094]
        """
        return sql_hashes([f"{self.seed}:{query}" for query in queries.tolist()]) % BUCKETS


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


def parse_hold_out(text: str) -> tuple[str, float]:
    """Return the way and the share that a command line names.

    >>> parse_hold_out("time:0.2"), parse_hold_out("query")
    (('time', 0.2), ('query', 0.2))
    """
    way, colon, share = text.partition(":")
    try:
        value = float(share) if colon else 0.2
    except ValueError:
        value = float("nan")
    if way not in (QUERY, TIME) or not 0 < value < 1:
        raise InputError(
            f"'{text}' does not say what to hold out: query:SHARE or time:SHARE, SHARE "
            "between 0 and 1"
        )
    return way, value
