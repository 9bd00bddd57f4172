"""Held-out sessions: parts of a log that share no list with the part that a ranker learns from."""

from dataclasses import dataclass

import numpy as np

from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_parts import GroupOf as GroupOf
from prsrank.logs.click_log_parts import split_by_group as split_by_group
from prsrank.types import Marks

WAYS = ("query", "time")
SIDES = ("held-out", "training")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A log in two parts without a common query, or group of queries.

    Attributes:
        training: the sessions to learn from.
        held_out: the sessions to judge by.
        way: "query" or "time".
        shared_queries: queries, or groups, with sessions on both sides of the cut in time.
        dropped_sessions: their sessions on one side, which neither part has.
    """

    training: ClickLog
    held_out: ClickLog
    way: str
    shared_queries: int = 0
    dropped_sessions: int = 0


def hold_out(
    log: ClickLog,
    *,
    by: str = "query",
    share: float = 0.2,
    seed: int = 0,
    keep: str = "held-out",
    group_of: GroupOf | None = None,
) -> HeldOut:
    """Split a log so that no list is in both parts.

    By "query": all sessions of `share` of the queries, drawn at random, are held out. By
    "time": the latest `share` of the sessions. A query then often has sessions before and
    after the cut: those on one side are dropped, else a ranker would be judged by lists it
    learned from. By default the held-out part stays whole, so that it stands for all searches
    of its time.

    Args:
        log: the sessions; with timestamps to split by time.
        by: "query" or "time".
        share: share of the queries, or of the sessions, to hold out.
        seed: of the choice of queries.
        keep: which side of a cut in time stays whole: "held-out" or "training".
        group_of: the group of each query: lists of one query that have ids of their own
            (`prsrank.logs.features.original_queries`) are nearly the same, and stay on one
            side. Default: each query is alone.

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
    if by not in WAYS:
        raise InputError(f"hold out by one of {', '.join(WAYS)}, not '{by}'")
    if keep not in SIDES:
        raise InputError(f"keep whole one of {', '.join(SIDES)}, not '{keep}'")
    if not 0 < share < 1:
        raise InputError(f"the share to hold out must be between 0 and 1, not {share}")
    if by == "query":
        held_out, training = split_by_group(log, share, seed=seed, group_of=group_of)
        return HeldOut(training, held_out, by)
    early, late = log.split_by_time(share=1 - share)
    return _without_shared(early, late, keep, group_of)


def in_groups(log: ClickLog, other: ClickLog, group_of: GroupOf | None = None) -> Marks:
    """Tell for each session of a log whether the other log has its query, or one of its group."""
    ids, others = log.query_ids, other.query_ids
    if group_of is not None:
        ids, others = group_of(ids), group_of(others)
    return np.isin(ids, others)[log.ranking_query][log.session_ranking]


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
    if way not in WAYS or not 0 < value < 1:
        raise InputError(
            f"'{text}' does not say what to hold out: query:SHARE or time:SHARE, SHARE "
            "between 0 and 1"
        )
    return way, value


def _without_shared(
    early: ClickLog, late: ClickLog, keep: str, group_of: GroupOf | None
) -> HeldOut:
    cut, whole = (early, late) if keep == "held-out" else (late, early)
    dropped = in_groups(cut, whole, group_of)
    if not dropped.any():
        return HeldOut(early, late, "time")
    if dropped.all():
        side = "before" if keep == "held-out" else "after"
        raise InputError(
            f"all queries {side} the cut in time are on the other side too: split by query"
        )
    kept = cut.select(~dropped)
    lost = cut.select(dropped).query_ids
    shared = len(np.unique(lost if group_of is None else group_of(lost)))
    training, held_out = (kept, late) if keep == "held-out" else (early, kept)
    return HeldOut(training, held_out, "time", shared, int(dropped.sum()))
