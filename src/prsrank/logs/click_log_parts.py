"""What a click log's methods do: select, split and merge sessions; the order that logs compare in.

Logs are made with `replace`, so that the class can import this module.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import joined_arrays
from prsrank.data.ids import id_array, joined_ids
from prsrank.errors import InputError
from prsrank.logs.distinct import IdKeys, code_rankings, doc_table, number_keys
from prsrank.ragged import offsets_of, ragged_rows
from prsrank.types import Floats, IdArray, Ints, Longs

if TYPE_CHECKING:
    from prsrank.logs.click_log import ClickLog

Keyed = tuple[Longs | Ints, IdKeys]
"""Keys of queries or docs, and what they stand for."""

Time = int | str | datetime | np.datetime64


@dataclass(frozen=True, eq=False)
class Context:
    """A column of the log with one value per session, such as the device.

    Attributes:
        values: the distinct values, as strings.
        codes: index into `values` of each session.
    """

    values: tuple[str, ...]
    codes: Ints


def select(log: "ClickLog", sessions: npt.ArrayLike) -> "ClickLog":
    """Return the named sessions of a log; see `ClickLog.select`."""
    query = log.ranking_query, IdKeys(log.query_ids)
    docs = log.ranking_docs, IdKeys(log.doc_ids)
    return _renumbered(log, _session_indices(log, sessions), query, docs)


def _renumbered(log: "ClickLog", sessions: Longs, query: Keyed, docs: Keyed) -> "ClickLog":
    """Return sessions of a log, with queries and docs in the order of their keys.

    Args:
        log: the log.
        sessions: their indices.
        query: of each ranking.
        docs: of each slot.
    """
    ranking, firsts = number_keys(log.session_ranking[sessions])
    shown = log.session_ranking[sessions][firsts]
    slots, offsets = ragged_rows(log.ranking_offsets, shown)
    fields = ranking_fields(
        offsets,
        (query[0][shown], query[1]),
        log.ranking_design[shown],
        (docs[0][slots], docs[1]),
        log.ranking_positions[slots],
        _taken(log.ranking_propensities, slots),
    )
    fields["session_ranking"] = fields["session_ranking"][ranking]
    clicks, _ = ragged_rows(log.click_offsets, sessions)
    return replace(
        log,
        **fields,
        session_clicks=log.session_clicks[sessions],
        clicks=log.clicks[clicks],
        # sessions that are only numbered keep their numbers: they are what tells them apart
        session_ids=_session_ids(log)[sessions],
        session_times=_taken(log.session_times, sessions),
        contexts={
            name: _used_values(Context(context.values, context.codes[sessions]))
            for name, context in log.contexts.items()
        },
        click_weights=_taken(log.click_weights, clicks),
    )


def split_by_time(
    log: "ClickLog", *, at: Time | None = None, share: float | None = None
) -> tuple["ClickLog", "ClickLog"]:
    """Split a log by time; see `ClickLog.split_by_time`."""
    if (at is None) == (share is None):
        raise InputError("split by time takes either a time or a share")
    if log.session_times is None or not log.sessions:
        raise InputError("the log has no timestamps to split by")
    if share is not None:
        cut = time_cut(log.session_times, share)
    else:
        assert at is not None  # noqa: S101
        cut = _microseconds(at)
    mask = log.session_times < cut
    if mask.all() or not mask.any():
        raise _empty_part(cut)
    return select(log, mask), select(log, ~mask)


def time_cut(times: Longs, share: float) -> int:
    """Return the time before which about a share of some sessions lies: that at index share n."""
    if not 0 < share < 1:
        raise InputError(f"the share must be between 0 and 1, not {share}")
    index = min(round(share * len(times)), len(times) - 1)
    cut = int(np.partition(times, index)[index])
    if cut == times.min():
        raise _empty_part(cut)
    return cut


def _empty_part(cut: int) -> InputError:
    return InputError(f"a split at {np.datetime64(cut, 'us')} leaves one part without sessions")


def merge(logs: "Sequence[ClickLog]") -> "ClickLog":
    """Put the sessions of several logs together; queries and docs meet by their ids.

    They are behind one another where no log has session ids, else sorted by them; where only
    some have, the others' sessions are 0, 1, 2, ... What only some of the logs have (propensities,
    times, a context) is left out. Integer ids become strings if any log has string ids.

    Raises:
        InputError: if two logs hold the same session of the same query.

    >>> from prsrank.logs.click_log import ClickLog
    >>> day = ClickLog.from_frame({"query_id": np.array([1, 1]), "session_id": np.zeros(2, int),
    ...     "doc_id": np.array([3, 4]), "position": np.array([1, 2]), "click": np.array([0, 1])})
    >>> both = merge([day, day])
    >>> both.sessions, both.rankings
    (2, 1)
    """
    if not logs:
        raise InputError("nothing to merge")

    def joined(name: str, *, counted: str = "") -> npt.NDArray:
        """Concatenate arrays; what numbers entries of another array goes on where the last ends."""
        sizes = [len(getattr(log, counted)) if counted else 0 for log in logs]
        starts = np.cumsum([0, *sizes[:-1]])
        arrays = [getattr(log, name) for log in logs]
        return np.concatenate([a + n for a, n in zip(arrays, starts, strict=True)])

    weighted = any(log.click_weights is not None for log in logs)
    has_ids = any(log.session_ids is not None for log in logs)
    # queries, designs and values of several logs meet in `canonical`: till there each has its own
    merged = canonical(
        replace(
            logs[0],
            query_ids=joined_ids([log.query_ids for log in logs]),
            doc_offsets=offsets_of(np.concatenate([np.diff(log.doc_offsets) for log in logs])),
            doc_ids=joined_ids([log.doc_ids for log in logs]),
            ranking_query=joined("ranking_query", counted="query_ids"),
            ranking_offsets=offsets_of(
                np.concatenate([np.diff(log.ranking_offsets) for log in logs])
            ),
            ranking_docs=joined("ranking_docs", counted="doc_ids"),
            ranking_positions=joined("ranking_positions"),
            session_ranking=joined("session_ranking", counted="ranking_query"),
            session_clicks=joined("session_clicks"),
            clicks=joined("clicks"),
            ranking_design=joined("ranking_design", counted="designs"),
            designs=tuple(design for log in logs for design in log.designs),
            ranking_propensities=joined_arrays([log.ranking_propensities for log in logs]),
            session_ids=joined_ids([_session_ids(log) for log in logs]) if has_ids else None,
            session_times=joined_arrays([log.session_times for log in logs]),
            contexts={
                name: _joined_context([log.contexts[name] for log in logs])
                for name in logs[0].contexts
                if all(name in log.contexts for log in logs)
            },
            click_weights=np.concatenate([_weights(log) for log in logs]) if weighted else None,
        )
    )
    check_session_ids(merged, "in more than one log")
    return merged


def _weights(log: "ClickLog") -> npt.NDArray:
    return np.ones(len(log.clicks)) if log.click_weights is None else log.click_weights


def _session_ids(log: "ClickLog") -> IdArray:
    return np.arange(log.sessions) if log.session_ids is None else log.session_ids


def _joined_context(contexts: Sequence[Context]) -> Context:
    starts = np.cumsum([0, *(len(context.values) for context in contexts)])
    codes = [context.codes + start for context, start in zip(contexts, starts, strict=False)]
    return Context(tuple(v for c in contexts for v in c.values), np.concatenate(codes))


def canonical(log: "ClickLog") -> "ClickLog":
    """Return the same log in the one order that readers give.

    Sessions are sorted by id, then query; queries by id, each query's docs by id, designs by
    name, and contexts' values too; equal rankings are stored once, in the order in which sessions
    first show them. Queries and docs that no session shows are left out.
    """
    (query_ids, query), (doc_ids, doc) = _sorted_ids(log.query_ids), _sorted_ids(log.doc_ids)
    designs, design = _sorted_designs(log)
    log = replace(log, designs=designs, ranking_design=design)
    order, queries = _session_order(log), query[log.ranking_query]
    docs = doc[log.ranking_docs], IdKeys(doc_ids)
    log = _renumbered(log, order, (queries, IdKeys(query_ids)), docs)
    return replace(
        log,
        session_ids=None if _is_numbering(log.session_ids) else log.session_ids,
        contexts={name: _sorted_values(context) for name, context in log.contexts.items()},
    )


def ranking_fields(
    offsets: Longs,
    query: Keyed,
    design: Ints,
    docs: Keyed,
    positions: Ints,
    propensities: Floats | None,
) -> dict[str, Any]:
    """Return the fields of a log that hold queries, docs and distinct rankings, in their one order.

    Args:
        offsets: where the slots of each list that was shown begin, and the end.
        query: of each list.
        design: index of each list's design.
        docs: of each slot.
        positions: of each slot, rising within a list.
        propensities: of each slot, if known.

    Returns:
        The fields by name; `session_ranking` is the ranking of each list.
    """
    (query_key, query_keys), (doc_key, doc_keys) = query, docs
    codes, firsts = code_rankings(offsets, query_key, design, doc_key, positions, propensities)
    slots, ranking_offsets = ragged_rows(offsets, firsts)
    queries, ranking_query = np.unique(query_keys.ranks(query_key[firsts]), return_inverse=True)
    slot_query = np.repeat(ranking_query, np.diff(ranking_offsets))
    table_docs = doc_keys.ranks(doc_key[slots])
    doc_offsets, table, ranking_docs = doc_table(slot_query, table_docs, len(queries))
    return {
        "query_ids": query_keys.named(queries),
        "doc_offsets": doc_offsets,
        "doc_ids": doc_keys.named(table),
        "ranking_query": ranking_query,
        "ranking_offsets": ranking_offsets,
        "ranking_docs": ranking_docs,
        "ranking_positions": positions[slots],
        "ranking_propensities": _taken(propensities, slots),
        "ranking_design": design[firsts],
        "session_ranking": codes,
    }


def _session_order(log: "ClickLog") -> Longs:
    if log.session_ids is None:
        return np.arange(log.sessions)
    query = _sorted_ids(log.query_ids)[1][log.ranking_query][log.session_ranking]
    return np.lexsort((query, _sorted_ids(log.session_ids)[1]))


def same(log: "ClickLog", other: "ClickLog") -> bool:
    """Tell whether two logs say the same; see `ClickLog.equals`."""
    log, other = canonical(log), canonical(other)
    values, others = (
        {f.name: getattr(part, f.name) for f in fields(part)} for part in (log, other)
    )
    for parts in (values, others):  # contexts beside the other fields, as two values each
        for name, context in parts.pop("contexts").items():
            parts |= {("values", name): context.values, ("codes", name): context.codes}
    if values.keys() != others.keys():
        return False
    pairs = ((value, others[name]) for name, value in values.items())
    return all((a is None) == (b is None) and (a is None or np.array_equal(a, b)) for a, b in pairs)


def check_session_ids(log: "ClickLog", where: str) -> None:
    """Raise an InputError if a query has the same session id twice."""
    if log.session_ids is None:
        return
    query = log.ranking_query[log.session_ranking].astype(np.int64)
    pairs = np.unique(log.session_ids, return_inverse=True)[1] * log.queries + query
    firsts = np.unique(pairs, return_index=True)[1]
    if len(firsts) < log.sessions:
        session = int(np.setdiff1d(np.arange(log.sessions), firsts)[0])
        raise InputError(
            f"session {log.session_ids[session]} of query {log.query_ids[query[session]]} "
            f"is {where}"
        )


def _session_indices(log: "ClickLog", sessions: npt.ArrayLike) -> Longs:
    chosen = np.asarray(sessions)
    if chosen.size == 0 and chosen.dtype != bool:
        chosen = chosen.astype(np.int64)
    if chosen.ndim != 1 or chosen.dtype.kind not in "biu":
        raise InputError("sessions are selected by a list of indices or a boolean mask")
    try:
        return np.asarray(np.arange(log.sessions)[chosen])
    except IndexError:
        raise InputError(
            f"the log has {log.sessions} sessions; {len(chosen)} were selected, "
            f"up to index {chosen.max()}"
        ) from None


def _microseconds(time: Time) -> int:
    if isinstance(time, int):
        return time
    try:
        return int(np.asarray(time, "datetime64[us]").astype(np.int64))
    except ValueError:
        raise InputError(f"{time!r} is not a time such as 2026-01-31T12:00") from None


def _sorted_ids(ids: IdArray) -> tuple[IdArray, Ints]:
    distinct, index = np.unique(ids, return_inverse=True)
    return id_array(distinct), index.astype(np.int32)


def _taken(values: npt.NDArray | None, rows: npt.NDArray) -> npt.NDArray | None:
    return None if values is None else values[rows]


def _used_values(context: Context) -> Context:
    used, codes = np.unique(context.codes, return_inverse=True)
    return Context(tuple(context.values[i] for i in used), codes.astype(np.int32))


def _sorted_values(context: Context) -> Context:
    values = sorted(set(context.values))
    index = {value: n for n, value in enumerate(values)}
    of_old = np.array([index[value] for value in context.values], np.int32)
    return _used_values(Context(tuple(values), of_old[context.codes]))


def _sorted_designs(log: "ClickLog") -> tuple[tuple[str, ...], npt.NDArray]:
    used = {log.designs[i] for i in np.unique(log.ranking_design[log.session_ranking])}
    designs = ["", *sorted(used - {""})]
    of_old = np.array([designs.index(d) if d in designs else 0 for d in log.designs])
    return tuple(designs), of_old[log.ranking_design]


def _is_numbering(ids: IdArray | None) -> bool:
    return ids is None or (ids.dtype.kind == "i" and np.array_equal(ids, np.arange(len(ids))))
