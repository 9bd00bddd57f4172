"""Parts of a log on Spark: limits by sums over its pieces, then marks on the sessions of each."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prsrank.errors import InputError
from prsrank.fit.parts import BUCKETS, QUERY, TIME, VALIDATION_SHARE, Split, bucket_limit
from prsrank.logs.click_log import ClickLog
from prsrank.logs.held_out import SessionMarks
from prsrank.types import Longs, Marks

if TYPE_CHECKING:
    from prsrank.spark.pieces import SparkPieces

# Bins of time that a cut is looked for in, again and again until one is a microsecond wide.
_BINS = 10_000


def find_limits(pieces: "SparkPieces[ClickLog]", how: Split) -> "Limits":
    """Find the limits of a split, which depend on the whole log."""
    found = Limits(how)
    if how.way == QUERY:
        queries = pieces.total(lambda log: _histogram(how, log, np.ones(log.sessions, bool)))
        found = Limits(how, held=bucket_limit(queries, how.share))
        queries[: found.held] = 0
    else:
        if how.way == TIME:
            found = Limits(how, cut=_time_cut(pieces, how.share))
        queries = pieces.total(lambda log: _histogram(how, log, found.marks(log).learning(log)))
    # where nothing is left to learn from, the parts say so
    limit = bucket_limit(queries, VALIDATION_SHARE) if queries.any() else 0
    return Limits(how, found.held, found.cut, limit)


@dataclass(frozen=True)
class Limits:
    """Which sessions are in which part, whatever piece they are in; see `SessionMarks`."""

    how: Split
    held: int = 0
    cut: int = 0
    validation: int = 0

    def marks(self, log: ClickLog) -> SessionMarks:
        """Return the marks of a piece."""
        buckets = self.how.buckets(log.query_ids)
        return SessionMarks(
            self.how, log.query_ids, buckets, False, self.held, self.cut, self.validation
        )


def _histogram(how: Split, log: ClickLog, sessions: Marks) -> Longs:
    """Count the queries of some sessions by bucket."""
    used = np.unique(log.ranking_query[log.session_ranking[sessions]])
    return np.bincount(how.buckets(log.query_ids[used]), minlength=BUCKETS)


@dataclass(frozen=True)
class _Span:
    """First and last time of sessions, and how many they are."""

    first: int
    last: int
    count: int

    def __add__(self, other: "_Span") -> "_Span":
        return _Span(
            min(self.first, other.first), max(self.last, other.last), self.count + other.count
        )


def _time_cut(pieces: "SparkPieces[ClickLog]", share: float) -> int:
    """Return the time from which on the latest share of the sessions begins.

    That of the session at index (1 - share) n in the order of time, found by counts in bins:
    no sort of all sessions, and no more than _BINS numbers come to the driver at once.
    """
    span = pieces.total(lambda log: _Span(*_ends(log)))
    index = min(round((1 - share) * span.count), span.count - 1)
    low, width = span.first, span.last - span.first + 1
    while width > 1:
        step = -(-width // _BINS)
        counts = pieces.total(lambda log, low=low, step=step: _bins(log, low, step))  # type: ignore[misc]
        chosen = int(np.searchsorted(np.cumsum(counts), index, side="right"))
        index -= int(counts[:chosen].sum())
        low, width = low + chosen * step, step
    if low == span.first:
        raise InputError(f"a split at {np.datetime64(low, 'us')} leaves one part without sessions")
    return low


def _ends(log: ClickLog) -> tuple[int, int, int]:
    if log.session_times is None:
        raise InputError("the log has no timestamps to split by")
    return int(log.session_times.min()), int(log.session_times.max()), log.sessions


def _bins(log: ClickLog, low: int, step: int) -> Longs:
    assert log.session_times is not None  # noqa: S101
    number = (log.session_times - low) // step
    return np.bincount(number[(number >= 0) & (number < _BINS)], minlength=_BINS)
