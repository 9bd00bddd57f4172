"""Click logs: which rankings were shown, in which sessions, and what was clicked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import frozen, id_array, indices_of, is_text, same_kind
from prsrank.errors import InputError
from prsrank.logs.click_log_parts import Context as Context
from prsrank.logs.click_log_parts import Time, same, select, split_by_time
from prsrank.logs.split import QUERY, Split, bucket_limit
from prsrank.notebook import Chart, Shown, frame_of
from prsrank.ragged import offsets_of, ragged_rows
from prsrank.types import Floats, IdArray, Ints, Longs

LogOrFrame = Any
"""A `ClickLog`, or a frame of events that `ClickLog.from_frame` makes one of."""


@dataclass(frozen=True, eq=False, repr=False)
class ClickLog(Shown):
    """Rankings, the sessions that showed them, and the clicks. All arrays are read-only.

    A doc is named by its index into `doc_ids`, a table of the distinct (query, doc) pairs
    grouped by query; so statistics per (query, doc) are sums over that index. Non-clicks
    are the shown docs that are not among a session's clicks: they need no space.

    Attributes:
        query_ids: the distinct queries.
        doc_offsets: where each query's docs begin in `doc_ids`, and the end (queries + 1).
        doc_ids: the distinct docs of each query.
        ranking_query: index of each ranking's query (rankings).
        ranking_offsets: where each ranking's slots begin, and the end (rankings + 1).
        ranking_docs: the docs shown, in the order shown (slots).
        ranking_positions: the 1-based positions at which they were shown, rising within a
            ranking; there may be gaps (slots).
        session_ranking: index of the ranking that each session showed (sessions).
        session_clicks: how many docs were clicked in each session (sessions).
        clicks: 0-based index into the ranking of each clicked doc, rising within a session,
            session after session (clicks).
        ranking_design: index into `designs` of each ranking (rankings).
        designs: how sessions were randomised; the first is "", not at all. "uniform": all
            positions shuffled; "top-k:K": positions 1 to K shuffled; "swap:A:B": the docs at
            positions A and B changed places with probability 1/2 (sessions that drew
            "no change" are marked too).
        ranking_propensities: logged propensity of each slot, if known (slots).
        session_ids: the sessions' own ids, if known; else 0, 1, 2, ...
        session_times: microseconds since 1970, if known (sessions).
        contexts: further columns with one value per session.
        click_weights: how much each click counts, above 0 (clicks): a purchase may count for
            more than a click. None: every click counts 1.

    >>> log = ClickLog.from_frame({
    ...     "query_id": np.array([7, 7, 7, 7]), "session_id": np.array([1, 1, 2, 2]),
    ...     "doc_id": np.array([30, 40, 30, 40]), "position": np.array([1, 2, 1, 2]),
    ...     "click": np.array([True, False, True, True])})
    >>> log.sessions, log.rankings, log.clicks.tolist()
    (2, 1, [0, 0, 1])
    >>> log
    <ClickLog: 2 sessions of 1 queries, 3 clicks, positions 1 to 2>
    >>> shown, clicked = log.position_counts()
    >>> (clicked / shown).tolist()
    [1.0, 0.5]
    """

    query_ids: IdArray
    doc_offsets: Longs
    doc_ids: IdArray
    ranking_query: Ints
    ranking_offsets: Longs
    ranking_docs: Ints
    ranking_positions: Ints
    session_ranking: Ints
    session_clicks: Ints
    clicks: Ints
    ranking_design: Ints = None  # type: ignore[assignment]
    designs: tuple[str, ...] = ("",)
    ranking_propensities: Floats | None = None
    session_ids: IdArray | None = None
    session_times: Longs | None = None
    contexts: Mapping[str, Context] = field(default_factory=dict)
    click_weights: Floats | None = None

    def __post_init__(self) -> None:
        if getattr(self, "ranking_design", None) is None:
            object.__setattr__(self, "ranking_design", np.zeros(len(self.ranking_query), np.int32))
        for name in ("query_ids", "doc_ids", "session_ids"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, id_array(getattr(self, name)))
        for name, dtype in _DTYPES.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen(getattr(self, name), dtype))
        self._check_sizes()

    def _check_sizes(self) -> None:
        slots = self.ranking_offsets[-1]
        for name, size in (
            ("doc_offsets", self.queries + 1),
            ("doc_ids", self.doc_offsets[-1]),
            ("ranking_offsets", self.rankings + 1),
            ("ranking_docs", slots),
            ("ranking_positions", slots),
            ("ranking_design", self.rankings),
            ("ranking_propensities", slots),
            ("session_clicks", self.sessions),
            ("session_ids", self.sessions),
            ("session_times", self.sessions),
            ("clicks", self.session_clicks.sum(dtype=np.int64)),
            ("click_weights", len(self.clicks)),
        ):
            array = getattr(self, name)
            if array is not None and len(array) != size:
                raise InputError(f"the log's {name} has {len(array)} entries where {size} belong")

    @property
    def queries(self) -> int:
        """Number of distinct queries."""
        return len(self.query_ids)

    @property
    def rankings(self) -> int:
        """Number of distinct rankings."""
        return len(self.ranking_query)

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return len(self.session_ranking)

    @property
    def click_offsets(self) -> Longs:
        """Where each session's clicks begin in `clicks`, and the end (sessions + 1)."""
        return offsets_of(self.session_clicks)

    @cached_property
    def max_position(self) -> int:
        """The lowest position at which any doc was shown; 0 for an empty log."""
        return int(self.ranking_positions.max(initial=0))

    @classmethod
    def from_frame(cls, frame: object, *, contexts: Sequence[str] = ()) -> "ClickLog":
        """Make a log of a frame of events, one row per shown doc.

        See `prsrank.logs.events.from_frame`, which this calls.
        """
        from prsrank.logs.events import from_frame

        return from_frame(frame, contexts=contexts)

    def to_frame(self) -> Any:
        """Return the events as a pandas frame, one row per shown doc: the inverse of `from_frame`."""
        from prsrank.logs.events import event_blocks

        rows = int(np.diff(self.ranking_offsets)[self.session_ranking].sum())
        return frame_of(next(event_blocks(self, rows=rows), {}))

    def _line(self) -> str:
        return (
            f"{self.sessions:,} sessions of {self.queries:,} queries, {len(self.clicks):,} clicks, "
            f"positions 1 to {self.max_position}"
        )

    def _table(self) -> dict[str, npt.NDArray]:
        shown, clicked = self.position_counts()
        rate = np.divide(clicked, shown, out=np.full(len(shown), np.nan), where=shown > 0)
        position = np.arange(1, self.max_position + 1)
        return {"position": position, "shown": shown, "clicks": clicked, "click rate": rate}

    def _chart(self) -> Chart:
        return Chart("lines", self._table(), "position", "click rate")

    def slot_statistics(self) -> tuple[Longs, Longs]:
        """Return how often each slot of each ranking was shown, and clicked (slots each).

        Every statistic that needs no session of its own is a sum of these: per position by
        `ranking_positions`, per (query, doc) by `ranking_docs`.
        """
        sessions = np.bincount(self.session_ranking, minlength=self.rankings)
        clicked = np.bincount(self._clicked_slots(), minlength=len(self.ranking_docs))
        return np.repeat(sessions, np.diff(self.ranking_offsets)), clicked

    def slot_click_weights(self) -> Floats:
        """Return the summed weight of the clicks on each slot (slots)."""
        slots, weights = self._clicked_slots(), self.click_weights
        return np.bincount(slots, weights, len(self.ranking_docs)).astype(np.float64)

    def _clicked_slots(self) -> Longs:
        first = self.ranking_offsets[self.session_ranking]
        return np.repeat(first, self.session_clicks) + self.clicks

    def position_counts(self) -> tuple[Longs, Longs]:
        """Return how many docs were shown, and clicked, at positions 1, 2, ..., max_position."""
        shown, clicked = self.slot_statistics()
        index, size = self.ranking_positions - 1, self.max_position
        # sums of integers in floating point are exact below 2^53
        return (
            np.bincount(index, shown, size).astype(np.int64),
            np.bincount(index, clicked, size).astype(np.int64),
        )

    def select(self, sessions: npt.ArrayLike) -> "ClickLog":
        """Return the named sessions (indices in the order given, or a boolean mask).

        Rankings, queries and docs that none of them shows are left out.
        """
        return select(self, sessions)

    def split_by_query(self, share: float, *, seed: int = 0) -> tuple["ClickLog", "ClickLog"]:
        """Return the sessions of `share` of the queries, by a hash of their ids, and the others.

        All sessions of a query are on one side; each side has a query.
        """
        bucket = Split(QUERY, share, seed).buckets(self.query_ids)
        shown = np.unique(self.ranking_query[self.session_ranking])
        limit = bucket_limit(np.bincount(bucket[shown]), share)
        chosen = (bucket < limit)[self.ranking_query][self.session_ranking]
        return self.select(chosen), self.select(~chosen)

    def split_by_time(
        self, *, at: Time | None = None, share: float | None = None
    ) -> tuple["ClickLog", "ClickLog"]:
        """Return the sessions before a time, and those at or after it.

        A query may be on both sides: to hold clicks out for evaluation use
        `prsrank.logs.held_out.hold_out`, which keeps each query on one.

        Args:
            at: the time: microseconds since 1970, a datetime, or text such as "2026-01-31".
            share: instead of `at`: the share of sessions, earliest first, that the first
                part gets. Sessions of equal time stay together.
        """
        return split_by_time(self, at=at, share=share)

    def equals(self, other: "ClickLog") -> bool:
        """Tell whether two logs say the same: the same sessions, whatever their order.

        How queries, docs and rankings are numbered does not matter, nor does what no
        session shows.
        """
        return same(self, other)

    def name_slot(self, slot: int) -> str:
        """Return words that name a slot, for messages: position, doc and query."""
        doc = int(self.ranking_docs[slot])
        query = int(np.searchsorted(self.doc_offsets, doc, side="right")) - 1
        return (
            f"position {self.ranking_positions[slot]} (doc {self.doc_ids[doc]} "
            f"of query {self.query_ids[query]})"
        )

    def doc_rows(self, dataset: RankingDataset) -> Longs:
        """Return the row in `dataset` of each (query, doc) of the log.

        Docs of a data set without doc ids are named by their 0-based row in the list.

        Raises:
            InputError: if a query or doc of the log is not in the data set.
        """
        lists, rows = self.find_docs(dataset)
        if lists.min(initial=0) < 0:
            query = self.query_ids[lists.argmin()]
            raise InputError(f"query {query} is in the log but not in the data set")
        if rows.min(initial=0) < 0:
            if dataset.doc_ids is None and is_text(self.doc_ids):
                raise InputError(
                    "the log names docs by strings, but the data set has no doc ids to match"
                )
            doc = int(rows.argmin())
            query = int(np.searchsorted(self.doc_offsets, doc, side="right")) - 1
            raise InputError(
                f"doc {self.doc_ids[doc]} of query {self.query_ids[query]} is in the log "
                "but not in the data set"
            )
        return rows

    def find_docs(self, dataset: RankingDataset) -> tuple[Longs, Longs]:
        """Return the list of each query in a data set, and the row of each doc; -1: not there."""
        kept = _FOUND.setdefault(self, WeakKeyDictionary())
        if dataset not in kept:  # every step of a fit asks for it
            kept[dataset] = self._find_docs(dataset)
            for found in kept[dataset]:
                found.flags.writeable = False
        return kept[dataset]

    def _find_docs(self, dataset: RankingDataset) -> tuple[Longs, Longs]:
        lists = indices_of(self.query_ids, dataset.query_ids)
        list_of_doc = np.repeat(lists, np.diff(self.doc_offsets))
        if dataset.doc_ids is None and not is_text(self.doc_ids):
            row: npt.NDArray = self.doc_ids
            is_there = (list_of_doc >= 0) & (row >= 0) & (row < dataset.list_lengths[list_of_doc])
            return lists, np.where(is_there, dataset.offsets[list_of_doc] + row, -1)
        # of these queries only: a piece of a log has few of a data set's
        listed = lists[lists >= 0]
        there, offsets = ragged_rows(dataset.offsets, listed)
        ids, names = same_kind(self.doc_ids, dataset.doc_names[there])
        if np.array_equal(offsets, self.doc_offsets) and np.array_equal(ids, names):
            return lists, there  # as where the lists were made of the log
        codes = np.unique(np.concatenate([ids, names]), return_inverse=True)[1].astype(np.int64)
        several = codes.max(initial=0) + 1
        keys = list_of_doc * several + codes[: len(ids)]  # below 0 where the query is not there
        rows = indices_of(keys, np.repeat(listed, np.diff(offsets)) * several + codes[len(ids) :])
        return lists, np.append(there, -1)[rows]


def as_click_log(log: LogOrFrame) -> ClickLog:
    """Return a log as it is, and the log of a frame of events."""
    return log if isinstance(log, ClickLog) else ClickLog.from_frame(log)


_DTYPES: dict[str, type] = {
    **dict.fromkeys(("doc_offsets", "ranking_offsets", "session_times"), np.int64),
    **dict.fromkeys(("ranking_query", "ranking_docs", "ranking_positions"), np.int32),
    **dict.fromkeys(("ranking_design", "session_ranking", "session_clicks", "clicks"), np.int32),
    **dict.fromkeys(("ranking_propensities", "click_weights"), np.float64),
}


_FOUND: WeakKeyDictionary[ClickLog, WeakKeyDictionary[RankingDataset, tuple[Longs, Longs]]]
_FOUND = WeakKeyDictionary()
"""The docs of logs in data sets; forgotten with either."""
