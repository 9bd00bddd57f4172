"""Held-out sessions: parts of a log that share no list with the part that a ranker learns from."""

from dataclasses import dataclass, replace

import numpy as np

from prsrank.data.ids import id_array, joined_ids
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog, LogOrFrame, as_click_log
from prsrank.logs.click_log_parts import time_cut
from prsrank.logs.features import original_queries
from prsrank.logs.pieces import LocalPieces, Pieces
from prsrank.logs.split import BUCKETS, QUERY, TIME, Split, bucket_limit
from prsrank.types import IdArray, Longs, Marks


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A log in two parts without a common query.

    Attributes:
        training: the sessions to learn from.
        held_out: the sessions to judge by.
        way: "query", "time" or "randomised".
        shared_queries: queries with sessions to hold out and others.
        dropped_sessions: those others, which neither part has.
    """

    training: ClickLog
    held_out: ClickLog
    way: str
    shared_queries: int = 0
    dropped_sessions: int = 0


def hold_out(log: LogOrFrame, *, by: str = "query", share: float = 0.2, seed: int = 0) -> HeldOut:
    """Split a log so that no list is in both parts.

    By "query": all sessions of `share` of the queries, by a hash of their ids, are held out: the
    same that `prsrank fit` holds out with this share and seed. By "time": the latest `share` of
    the sessions; by "randomised": the sessions in random order. A query then often has other
    sessions too: they are dropped, else a ranker would be judged by lists it learned from. The
    held-out part stays whole, so that it stands for all searches of its time.

    Args:
        log: the sessions, or a frame of them; with timestamps to split by time.
        by: "query", "time" or "randomised".
        share: share of the queries, or of the sessions, to hold out.
        seed: of the choice of queries.

    Raises:
        InputError: if a part would be empty: with few queries that come back all the time,
            split by query.

    >>> log = ClickLog.from_frame({
    ...     "query_id": np.array([7, 7, 8, 8, 7, 7]), "session_id": np.array([1, 1, 2, 2, 3, 3]),
    ...     "doc_id": np.array([3, 4, 5, 6, 3, 4]), "position": np.array([1, 2, 1, 2, 1, 2]),
    ...     "click": np.array([1, 0, 0, 1, 0, 1]), "timestamp": np.array([1, 1, 2, 2, 3, 3])})
    >>> parts = hold_out(log, by="time", share=0.4)
    >>> parts.training.query_ids.tolist(), parts.held_out.query_ids.tolist()
    ([8], [7])
    >>> parts.shared_queries, parts.dropped_sessions
    (1, 1)
    """
    log = as_click_log(log)
    marks = SessionMarks.of(LocalPieces([log]), Split(by, share, seed))
    held_out, training = marks.held_out(log), marks.learning(log)
    if not held_out.any():
        raise InputError("no session is marked as randomised: hold out by query or by time")
    if not training.any():
        raise InputError("every query has sessions to hold out: split by query")
    dropped = ~held_out & ~training
    shared = np.unique(log.ranking_query[log.session_ranking[dropped]])
    parts = log.select(training), log.select(held_out)
    return HeldOut(*parts, by, len(shared), int(dropped.sum()))


@dataclass(frozen=True, eq=False)
class SessionMarks:
    """Which sessions of a piece are in which part, whatever piece they are in.

    Attributes:
        how: the log is split.
        grouped: whether lists of one query have ids of their own, and stay together.
        held_limit: queries of buckets below it are held out, where queries are.
        cut: sessions from this time on are held out, where the latest are.
        validation_limit: learning queries of buckets below it validate.
        table: all queries, rising, and the bucket of each, where this process goes through the
            pieces again and again: hashing takes longer than looking up.
    """

    how: Split
    grouped: bool = False
    held_limit: int = 0
    cut: int = 0
    validation_limit: int = 0
    table: tuple[IdArray, Longs] | None = None

    @classmethod
    def of(
        cls,
        pieces: Pieces[ClickLog],
        how: Split,
        *,
        grouped: bool = False,
        validation: float = 0.0,
    ) -> "SessionMarks":
        """Find the limits of a split, which depend on the whole log.

        Args:
            pieces: the log, in pieces without a common query; gone through more than once.
            how: to split it.
            grouped: whether lists of one query have ids of their own, and stay together.
            validation: share of the learning queries that validate.
        """
        marks = cls(how, grouped)
        if isinstance(pieces, LocalPieces):
            ids = id_array(np.sort(joined_ids([piece.query_ids for piece in pieces])))
            marks = replace(marks, table=(ids, marks._hashed(ids)))
        if how.way == QUERY:
            queries = pieces.total(lambda log: marks._histogram(log, np.ones(log.queries, bool)))
            marks = replace(marks, held_limit=bucket_limit(queries, how.share))
        elif how.way == TIME:
            marks = replace(
                marks, cut=time_cut(np.concatenate(pieces.total(_times_of)), 1 - how.share)
            )
        if not validation:
            return marks
        learning = pieces.total(lambda log: marks._histogram(log, marks._learning_queries(log)))
        if not learning.any():
            return marks  # the parts say what is wrong
        return replace(marks, validation_limit=bucket_limit(learning, validation))

    def _hashed(self, ids: IdArray) -> Longs:
        return self.how.buckets(original_queries(ids) if self.grouped else ids)

    def _buckets(self, log: ClickLog) -> Longs:
        """Return the bucket of each query."""
        if self.table is None:
            return self._hashed(log.query_ids)
        ids, buckets = self.table
        return buckets[np.searchsorted(ids, log.query_ids)]

    def _learning_queries(self, log: ClickLog) -> Marks:
        queries = np.zeros(log.queries, bool)
        queries[log.ranking_query[log.session_ranking[self.learning(log)]]] = True
        return queries

    def _histogram(self, log: ClickLog, queries: Marks) -> Longs:
        """Count the queries of each bucket; lists of one query are one."""
        chosen = self._buckets(log)[queries]
        if self.grouped:
            # a query with many lists must not count for many
            originals = original_queries(log.query_ids[queries])
            chosen = chosen[np.unique(originals, return_index=True)[1]]
        return np.bincount(chosen, minlength=BUCKETS)

    def _bucket(self, log: ClickLog) -> Longs:
        """Return the bucket of each session's query."""
        return self._buckets(log)[log.ranking_query][log.session_ranking]

    def held_out(self, log: ClickLog) -> Marks:
        """Mark the sessions to judge by."""
        if self.how.way == QUERY:
            return self._bucket(log) < self.held_limit
        if self.how.way == TIME:
            assert log.session_times is not None  # noqa: S101 - the cut was made of them
            return np.asarray(log.session_times >= self.cut)
        randomised = np.array([design != "" for design in log.designs])
        return randomised[log.ranking_design][log.session_ranking]

    def learning(self, log: ClickLog) -> Marks:
        """Mark the sessions of queries that have none to judge by."""
        group = np.arange(log.queries)
        if self.grouped:
            group = np.unique(original_queries(log.query_ids), return_inverse=True)[1]
        of_session = group[log.ranking_query][log.session_ranking]
        shared = np.bincount(of_session, self.held_out(log), log.queries) > 0
        return ~shared[of_session]

    def validation(self, log: ClickLog) -> Marks:
        """Mark the sessions whose queries validate, if they are to learn from."""
        return self._bucket(log) < self.validation_limit

    def first_half(self, log: ClickLog) -> Marks:
        """Mark the sessions of one half of the queries."""
        return np.asarray(self._bucket(log) % 2 == 0)


def _times_of(log: ClickLog) -> list[Longs]:
    if log.session_times is None:
        raise InputError("the log has no timestamps to split by")
    return [log.session_times]
