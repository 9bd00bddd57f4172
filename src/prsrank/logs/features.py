"""Lists with features, from columns of the log or a table, and the sessions that they cover."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

from prsrank.data.dataset import RankingDataset, new_array
from prsrank.data.ids import id_array, indices_of, is_text
from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.canonical import feature_columns, with_numbers
from prsrank.logs.click_log import ClickLog
from prsrank.logs.event_source import EVENTS, EventSource, LogSource, source_of
from prsrank.logs.mapping import LogMapping
from prsrank.logs.row_rules import nearest_column
from prsrank.logs.tables import (
    connected,
    errors_in_one_line,
    memory_limit,
    named_errors,
    open_table,
    quoted_name,
    quoted_text,
)
from prsrank.types import IdArray, Marks, Reals

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_Source = TypeVar("_Source", bound=EventSource)

_LIST = "query_id, doc_id"
_NUMBERED = "#[0-9]+"
_KEPT = "prsrank_lists_of_docs"
_VALUES_AT_ONCE = 8_000_000
# features that take more than this share of the memory allowed lie in a file
_MATRIX_SHARE = 8
ORIGINAL_QUERY = f"regexp_replace(query_id::VARCHAR, '{_NUMBERED}$', '')"
"""SQL of what `original_queries` returns."""


def lists_of_log(source: LogSource) -> RankingDataset:
    """Make lists of a log whose columns hold the features: per query the docs it showed.

    Raises:
        InputError: if a feature has two values for a doc of a query: the sessions then saw
            different lists (`split_lists` tells them apart).
    """
    if not source.features:
        raise InputError(
            f"{source.name}: no features: name columns of the log in the mapping, or give a table of "
            "features"
        )
    hint = "; lists = 'session' in the mapping makes a list of its own of every set of features"
    return _dataset(source, source.features, "the log", hint)


def lists_of_table(
    source: LogSource, table: FileName | Sequence[FileName], *, mapping: LogMapping | None = None
) -> RankingDataset:
    """Make lists of a table of features: all its docs of the queries that the log shows.

    Args:
        source: the log.
        table: Parquet, CSV or JSON lines, a folder or glob of them, with one row per query and
            doc: query_id, doc_id (or the names that the mapping gives them) and features.
            Rows that repeat another are passed over.
        mapping: `features` may name the columns to take; default: all columns of numbers.

    Raises:
        InputError: if the table cannot be read, or two rows of a doc disagree.
    """
    rows, features = keyed_table(source, table, mapping or LogMapping())
    with errors_in_one_line(rows.name):
        queries = source.relation.project("query_id AS shown").distinct()
        # log and table may hold one id as a number and as text
        same = "query_id::VARCHAR = shown::VARCHAR"
        kept = rows.relation.join(queries, same, how="semi")
    return _dataset(replace(rows, relation=kept), features, rows.name, "")


def keyed_table(
    source: _Source, table: FileName | Sequence[FileName], mapping: LogMapping
) -> tuple[_Source, tuple[str, ...]]:
    """Open a table of features beside a log: query_id, doc_id, features; and those columns."""
    return _keyed(source.open_table(table, ids=mapping.ids), mapping)


def read_table(
    table: FileName | Sequence[FileName],
    *,
    mapping: LogMapping | None = None,
    memory: str | None = None,
) -> RankingDataset:
    """Make lists of a table of features, of all its queries, without a log.

    Args:
        table: as `lists_of_table` takes it.
        mapping: `columns` may name query_id and doc_id, `features` the columns to take.
        memory: how much to hold, such as "4GB".

    Raises:
        InputError: if the table cannot be read, or two rows of a doc disagree.
    """
    with connected(memory=memory) as connection:
        mapping = mapping or LogMapping()
        opened = open_table(connection, table, ids=mapping.ids)
        rows = source_of(opened, str(table), connection)
        return _dataset(*_keyed(rows, mapping), rows.name, "")


def _keyed(rows: _Source, mapping: LogMapping) -> tuple[_Source, tuple[str, ...]]:
    keys = {meaning: _key(rows, mapping, meaning) for meaning in ("query_id", "doc_id")}
    chosen = LogMapping(columns=keys, features=mapping.features or ("*",))
    chosen = replace(chosen, nulls=mapping.nulls, decimal=mapping.decimal)
    with named_errors(rows.name):
        rows = with_numbers(rows, chosen)
        features = feature_columns(rows, chosen)
    columns = [f"{quoted_name(column)} AS {key}" for key, column in keys.items()]
    return rows.select(", ".join([*columns, *map(quoted_name, features)])), features


def split_lists(source: LogSource) -> LogSource:
    """Give sessions of a query that saw different docs or feature values queries of their own.

    The query "a" becomes "a#1", "a#2", ... in the order of their first session ids; a query
    whose sessions all saw the same keeps its name, unless that ends in such a number.
    `original_queries` takes the numbers off again.
    """
    values = ", ".join(map(quoted_name, ("doc_id", *source.features)))
    source.relation.create_view("events_to_split", replace=True)
    seen = (
        "SELECT query_id, session_id, hash(list(row("  # noqa: S608
        f"{values}) ORDER BY doc_id)) AS seen FROM events_to_split GROUP BY ALL"
    )
    numbered = f"""
        SELECT query_id, session_id, dense_rank() OVER queries AS number, lists
        FROM (
            SELECT *, min(session_id) OVER (PARTITION BY query_id, seen) AS first,
                count(DISTINCT seen) OVER (PARTITION BY query_id) AS lists
            FROM ({seen})
        ) WINDOW queries AS (PARTITION BY query_id ORDER BY first)"""  # noqa: S608
    # a name that ends in a number would lose it again: it gets one more
    as_it_is = f"lists = 1 AND NOT regexp_matches(query_id::VARCHAR, '{_NUMBERED}$')"
    new = f"CASE WHEN {as_it_is} THEN query_id::VARCHAR ELSE query_id || '#' || number END"
    relation = source.connection.sql(
        f"SELECT {new} AS query_id, events_to_split.* EXCLUDE (query_id) "  # noqa: S608
        f"FROM events_to_split JOIN ({numbered}) USING (query_id, session_id)"
    )
    return replace(source, relation=relation, types=source_of(relation).types)


def original_queries(query_ids: IdArray) -> IdArray:
    """Return the queries that `split_lists` gave these ids to.

    >>> original_queries(np.array(["a#1", "a#2", "b", "c#7#1"])).tolist()
    ['a', 'a', 'b', 'c#7']
    """
    if not is_text(query_ids):
        return query_ids
    number = re.compile(rf"{_NUMBERED}\Z")
    return id_array([number.sub("", query) for query in query_ids.tolist()])


def _key(table: EventSource, mapping: LogMapping, meaning: str) -> str:
    for column in (mapping.column(meaning), meaning):
        if column in table.types:
            return column
    hint = nearest_column(meaning, table.types)
    raise InputError(f"{table.name}: the table has no column {meaning!r}{hint}")


def _dataset(source: LogSource, features: Sequence[str], where: str, hint: str) -> RankingDataset:
    columns = [f"{quoted_name(name)} AS c{index}" for index, name in enumerate(features)]
    with errors_in_one_line(source.name):
        grouped = source.relation.aggregate(f"{_LIST}, count(*) AS rows", _LIST)
        docs, most = grouped.aggregate("count(*), coalesce(max(rows), 0)").fetchall()[0]
        if not docs:
            raise InputError(f"{where}: no doc has features")
        lists = source.relation.project(", ".join([_LIST, *columns]))
        if most > 1:  # a table has each doc once, and is spared this
            lists = lists.distinct()
        kept = replace(source, relation=lists.order(_LIST)).keep(_KEPT, f"FROM {EVENTS}")
        try:
            if len(kept.relation) > docs:
                _refuse_two_values(kept.relation, features, where, hint)
            ids = kept.relation.project(_LIST).fetchnumpy()
            matrix = _matrix(kept, docs, len(features))
        finally:
            kept.drop(_KEPT)
    for name in ("query_id", "doc_id"):
        if np.ma.is_masked(ids[name]):
            raise InputError(f"{where}: {name} is missing (null)")
    queries = np.asarray(ids["query_id"])
    starts = np.flatnonzero(np.concatenate([[True], queries[1:] != queries[:-1]]))
    return RankingDataset(
        features=matrix,
        offsets=np.append(starts, len(queries)),
        query_ids=id_array(queries[starts]),
        doc_ids=id_array(np.asarray(ids["doc_id"])),
        feature_names=tuple(features),
    )


def _refuse_two_values(
    lists: "DuckDBPyRelation", features: Sequence[str], where: str, hint: str
) -> NoReturn:
    """Name a feature that has two values for a doc, one of which may be null."""
    differs = "min(c{0}) <> max(c{0}) OR count(c{0}) NOT IN (0, count(*))"
    which = [
        f"CASE WHEN {differs.format(index)} THEN {quoted_text(name)} END"
        for index, name in enumerate(features)
    ]
    twice = lists.aggregate(f"{_LIST}, coalesce({', '.join(which)}) AS feature", _LIST)
    bad = twice.filter("feature IS NOT NULL")
    query, doc, feature = bad.order(_LIST).limit(1).fetchall()[0]
    raise InputError(
        f"{where}: feature {feature!r} has two values for doc {doc} of query {query} "
        f"({len(bad)} such docs){hint}"
    )


def _matrix(kept: LogSource, docs: int, features: int) -> Reals:
    """Fetch the features of docs block by block: all columns at once would be held twice."""
    limit = memory_limit(kept.connection) if kept.connection else 2**63
    matrix = new_array((docs, features), np.float32, most=limit // _MATRIX_SHARE)
    columns = ", ".join(f"c{index}" for index in range(features))
    rows = max(_VALUES_AT_ONCE // max(features, 1), 1)
    for start in range(0, docs if features else 0, rows):
        block = kept.relation.filter(f"rowid >= {start} AND rowid < {start + rows}")
        for index, column in enumerate(block.project(columns).fetchnumpy().values()):
            part = matrix[start : start + rows, index]
            # beyond float32 a value becomes infinite, which the audit names
            with np.errstate(over="ignore"):
                part[:] = np.ma.getdata(column)
            if np.ma.is_masked(column):
                part[np.ma.getmaskarray(column)] = np.nan
    return matrix


def covered_sessions(log: ClickLog, dataset: RankingDataset) -> Marks:
    """Mark the sessions whose query and docs are all in the data set.

    >>> data = RankingDataset(np.zeros((4, 1)), [0, 2, 4], query_ids=[7, 8])
    >>> log = ClickLog.from_frame({
    ...     "query_id": np.array([7, 7, 8, 9]), "session_id": np.array([1, 1, 2, 3]),
    ...     "doc_id": np.array([0, 1, 5, 0]), "position": np.array([1, 2, 1, 1]),
    ...     "click": np.array([1, 0, 0, 1])})
    >>> covered_sessions(log, data).tolist()
    [True, False, False]
    """
    lists, rows = log.find_docs(dataset)
    missing = np.concatenate([[0], np.cumsum(rows[log.ranking_docs] < 0)])
    covered = missing[log.ranking_offsets[1:]] == missing[log.ranking_offsets[:-1]]
    covered &= lists[log.ranking_query] >= 0
    return np.asarray(covered[log.session_ranking])


def covered_log(log: ClickLog, dataset: RankingDataset) -> ClickLog:
    """Return the sessions whose docs are all in the data set; an InputError if there are none."""
    covered = covered_sessions(log, dataset)
    if not covered.any():
        log.doc_rows(dataset)  # says which query or doc is missing
        raise InputError("the log has no sessions")
    return log if covered.all() else log.select(covered)


def known_lists(log: ClickLog, dataset: RankingDataset) -> RankingDataset:
    """Return the lists of the log's queries only, in the data set's order."""
    return lists_of_queries(log.query_ids, dataset)


def lists_of_queries(query_ids: IdArray, dataset: RankingDataset) -> RankingDataset:
    """Return the lists of some queries only, in the data set's order."""
    chosen = marked_queries(query_ids, dataset)
    return dataset if chosen.all() else dataset.select(chosen)


def bare_lists(dataset: RankingDataset) -> RankingDataset:
    """Return the same lists without features."""
    nothing = np.zeros((dataset.docs, 0), np.float32)
    return replace(dataset, features=nothing, feature_names=())


def marked_queries(query_ids: IdArray, dataset: RankingDataset) -> Marks:
    """Mark the lists of some queries."""
    return indices_of(dataset.query_ids, query_ids) >= 0
