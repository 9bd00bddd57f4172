"""Logs as OpenSearch's User Behavior Insights (UBI) writes them: queries and events.

A UBI query is one request, with the ids of the docs that it returned, in order: here it is a
session, and its text (`user_query`) is the query. Events are single actions on objects. The
lists are those of `query_response_hit_ids`, so impressions need not be logged; where a query
has none, its impressions make the list. Where every doc of a session has an impression with
an ordinal, positions are those ordinals (they may have gaps), else places in the list.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prsrank.errors import InputError
from prsrank.logs.canonical import action_sql
from prsrank.logs.event_source import LogSource, source_of
from prsrank.logs.mapping import LogMapping
from prsrank.logs.row_rules import nearest_column
from prsrank.logs.tables import errors_in_one_line, open_table, quoted_name, quoted_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_NAMES = ("ubi_queries", "ubi_events")
_IDS = ("query_id", "user_query", "client_id")


def is_ubi(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a folder with UBI's queries and events, as files or folders."""
    place = Path(path)
    return place.is_dir() and len(_files(place)) == len(_NAMES)


def open_ubi(
    connection: "DuckDBPyConnection", path: str | os.PathLike[str], mapping: LogMapping
) -> LogSource:
    """Gather UBI's queries and events into one row per shown doc.

    What is noticed stands in `findings`: "clicks_not_in_list" (actions that count on objects
    that the query did not show: left out), "events_without_query" (likewise, of a query that is
    not there), "queries_without_list" (left out), "repeated_queries" (rows of a query_id after
    its first), "positions_disagree" (actions whose ordinal is not the doc's position) and
    "positions_from" (the base of the ordinals: 0 or 1).

    Args:
        connection: where the rows are kept.
        path: a folder with `ubi_queries` and `ubi_events`: JSON lines, Parquet or CSV files,
            or folders of them.
        mapping: `actions` (default: click), `positions_from` (default: what agrees with the
            lists), `contexts` and the column `randomised`: fields of a query or of its
            `query_attributes`; the column `query_id` (default `user_query`; name `query_id`
            to make every request a query of its own).

    Raises:
        InputError: if a file cannot be read, or a field is missing.
    """
    place = Path(path)
    if mapping.features:
        raise InputError(f"{place}: UBI has no features: give a table of features")
    tables = {name: open_table(connection, file, ids=_IDS) for name, file in _files(place).items()}
    with errors_in_one_line(str(place)):
        _create_queries(connection, tables["ubi_queries"], mapping, place)
        _create_actions(connection, tables["ubi_events"], mapping, place)
        base = _find_base(connection, mapping)
        connection.execute(_ROWS.format(shift=1 - base))
        findings = _findings(connection) | {"positions_from": base}
        kept = [name for name in connection.table("ubi_rows").columns if name not in _INTERNAL]
        rows = source_of(connection.table("ubi_rows").filter("shown"))
        rows = rows.select(", ".join(map(quoted_name, kept)))
        return replace(rows, contexts=mapping.contexts, findings=findings)


_INTERNAL = ("shown", "place", "ordinal", "action_ordinal")

_HITS = """
CREATE TEMP TABLE ubi_hits AS
SELECT session_id, doc_id, min(place) AS place FROM (
    SELECT session_id, unnest(hits) AS doc_id, generate_subscripts(hits, 1) AS place FROM queries
) WHERE doc_id IS NOT NULL GROUP BY ALL
"""

_ROWS = """
CREATE TEMP TABLE ubi_rows AS
WITH joined AS (
    SELECT session_id, doc_id, place,
        impressed_at + {shift} AS ordinal,
        acted_at + {shift} AS action_ordinal,
        coalesce(weight, 0) AS weight,
        place IS NOT NULL OR coalesce(impression, false) AS shown
    FROM ubi_hits FULL JOIN ubi_actions USING (session_id, doc_id)
), placed AS (
    SELECT *,
        count_if(shown) OVER (PARTITION BY session_id) =
        count_if(shown AND ordinal IS NOT NULL) OVER (PARTITION BY session_id) AS all_placed
    FROM joined
)
SELECT queries.query_id, session_id, doc_id,
    CASE WHEN all_placed OR place IS NULL THEN ordinal ELSE place END AS position,
    (weight > 0)::TINYINT AS click, weight, shown AS impression,
    queries.* EXCLUDE (query_id, session_id, hits),
    shown, place, action_ordinal
FROM placed JOIN queries USING (session_id)
"""


def _create_queries(
    connection: "DuckDBPyConnection", table: "DuckDBPyRelation", mapping: LogMapping, place: Path
) -> None:
    source = source_of(table)
    _require(source, place, "ubi_queries", "query_id", "query_response_hit_ids")
    values = _query_columns(source, mapping, place)
    table.create_view("ubi_queries_file")
    columns = ", ".join(f"{sql} AS {quoted_name(name)}" for name, sql in values.items())
    order = "timestamp" if "timestamp" in values else "hits"
    connection.execute(
        f"CREATE TEMP TABLE queries AS SELECT * FROM (SELECT {columns} FROM ubi_queries_file) "  # noqa: S608
        "WHERE session_id IS NOT NULL "
        f"QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY {order}) = 1"
    )
    connection.execute(_HITS)


def _query_columns(source: LogSource, mapping: LogMapping, place: Path) -> dict[str, str]:
    """Return the SQL of each column that is taken from ubi_queries."""
    named = mapping.columns.get("query_id", "user_query")
    own = "query_id::VARCHAR"
    if named in source.types:
        own = f"coalesce({quoted_name(named)}::VARCHAR, query_id::VARCHAR)"
    elif "query_id" in mapping.columns:
        raise InputError(f"{place}: ubi_queries has no field {named!r}")
    values = {
        "query_id": own,
        "session_id": "query_id::VARCHAR",
        "hits": _hit_ids(source),
    }
    if "timestamp" in source.types:
        values["timestamp"] = _time(source)
    if "client_id" in source.types:
        values["client_id"] = "client_id::VARCHAR"
    for name in mapping.contexts:
        values[name] = _field(source, name, place) or "NULL"
    design = mapping.columns.get("randomised")
    value = _field(source, design or "randomised", place, required=design is not None)
    if value is not None:
        values["randomised"] = _DESIGN.format(value=value)
    return values


_DESIGN = """CASE WHEN lower({value}) IN ('true', '1') THEN 'uniform'
    WHEN lower({value}) IN ('false', '0') THEN '' ELSE coalesce({value}, '') END"""


def _create_actions(
    connection: "DuckDBPyConnection", table: "DuckDBPyRelation", mapping: LogMapping, place: Path
) -> None:
    source = source_of(table)
    _require(source, place, "ubi_events", "query_id", "action_name", "event_attributes")
    doc = _attribute(source, "object", "object_id")
    ordinal = _attribute(source, "position", "ordinal")
    table.create_view("ubi_events_file")
    connection.execute(
        f"""CREATE TEMP TABLE ubi_actions AS
        SELECT session_id, doc_id, max(weight) AS weight,
            bool_or(action = 'impression') AS impression,
            min(ordinal) FILTER (WHERE action = 'impression') AS impressed_at,
            min(ordinal) FILTER (WHERE weight > 0) AS acted_at
        FROM (
            SELECT query_id::VARCHAR AS session_id, {doc}::VARCHAR AS doc_id,
                action_name::VARCHAR AS action,
                try_cast({ordinal} AS BIGINT) AS ordinal,
                {action_sql("action_name", mapping)} AS weight
            FROM ubi_events_file
        ) WHERE doc_id IS NOT NULL AND (weight > 0 OR action = 'impression') GROUP BY ALL"""  # noqa: S608
    )


def _find_base(connection: "DuckDBPyConnection", mapping: LogMapping) -> int:
    """Return the first ordinal: that with which ordinals agree with the lists."""
    if mapping.positions_from is not None:
        return mapping.positions_from
    from_one, from_zero, lowest = connection.execute(
        "SELECT count_if(ordinal = place), count_if(ordinal = place - 1), min(ordinal) FROM ("
        "SELECT place, coalesce(impressed_at, acted_at) AS ordinal "
        "FROM ubi_actions LEFT JOIN ubi_hits USING (session_id, doc_id))"
    ).fetchall()[0]
    if from_one != from_zero:
        return int(from_one > from_zero)
    return 0 if lowest == 0 else 1


def _findings(connection: "DuckDBPyConnection") -> dict[str, int]:
    counts = {
        "clicks_not_in_list": "SELECT count(*) FROM ubi_rows WHERE NOT shown AND weight > 0",
        "events_without_query": "SELECT count(*) FROM ubi_actions ANTI JOIN queries "
        "USING (session_id) WHERE weight > 0",
        "queries_without_list": "SELECT count(*) FROM queries ANTI JOIN "
        "(SELECT session_id FROM ubi_rows WHERE shown) USING (session_id)",
        "repeated_queries": "SELECT (SELECT count(*) FROM ubi_queries_file "
        "WHERE query_id IS NOT NULL) - (SELECT count(*) FROM queries)",
        "positions_disagree": "SELECT count(*) FROM ubi_rows "
        "WHERE shown AND weight > 0 AND action_ordinal != position",
    }
    return {name: int(connection.execute(sql).fetchall()[0][0]) for name, sql in counts.items()}


def _hit_ids(source: LogSource) -> str:
    if source.types["query_response_hit_ids"].endswith("[]"):
        return "query_response_hit_ids::VARCHAR[]"
    # a column without a type of its own, or one that holds nothing but nulls
    return "from_json(query_response_hit_ids::JSON, '[\"VARCHAR\"]')"


def _time(source: LogSource) -> str:
    if source.is_integer("timestamp"):
        return "make_timestamp(timestamp::BIGINT * 1000)"
    return "try_cast(timestamp AS TIMESTAMP)" if source.is_text("timestamp") else "timestamp"


def _field(source: LogSource, name: str, place: Path, *, required: bool = True) -> str | None:
    """Return the SQL of a field of a query, or of its attributes."""
    if name in source.types:
        return f"{quoted_name(name)}::VARCHAR"
    if "query_attributes" in source.types:
        path = quoted_text('$."' + name.replace('"', '\\"') + '"')
        value = f"json_extract_string({_as_json(source, 'query_attributes')}, {path})"
        if source.rows("1", where=f"{value} IS NOT NULL"):
            return value
    if required:
        raise InputError(f"{place}: neither ubi_queries nor query_attributes has a field {name!r}")
    return None


def _attribute(source: LogSource, outer: str, inner: str) -> str:
    """Return the SQL of a field of event_attributes, whatever form the file gives it."""
    import duckdb

    direct = f"event_attributes.{outer}.{inner}"
    try:
        if "JSON" not in str(source.relation.project(f"{direct} AS value").types[0]):
            return direct
    except duckdb.Error:
        pass
    return f"json_extract_string({_as_json(source, 'event_attributes')}, '$.{outer}.{inner}')"


def _as_json(source: LogSource, name: str) -> str:
    return f"{name}::JSON" if source.types[name] in ("VARCHAR", "JSON") else f"to_json({name})"


def _require(source: LogSource, place: Path, table: str, *names: str) -> None:
    for name in names:
        if name not in source.types:
            hint = nearest_column(name, source.types)
            raise InputError(f"{place}: {table} has no field {name!r}{hint}")


def _files(place: Path) -> dict[str, Path]:
    """Return the file or folder of each table that is there."""
    named = {path.name.partition(".")[0]: path for path in sorted(place.iterdir(), reverse=True)}
    return {name: named[name] for name in _NAMES if name in named}
