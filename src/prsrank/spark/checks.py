"""Checks of a log on Spark before anything is made of it."""

import warnings
from dataclasses import replace

from prsrank.errors import DataWarning, InputError
from prsrank.logs.event_source import EVENTS, check_columns, check_rows
from prsrank.logs.tables import named_errors
from prsrank.spark.events import SparkEvents

# A query with more than this share of all rows is worth a word.
_SKEWED = 0.05
_MANY_ROWS = 1000


def checked(events: SparkEvents) -> SparkEvents:
    """Return events whose rows and sessions can be used; warn, once, of a query with too many.

    Raises:
        InputError: naming a row that cannot be used, or a session with a doc, or a position,
            in several rows.
    """
    if events.checked:
        return events
    with named_errors(events.name):
        check_columns(events, events.contexts)
        rows = check_rows(events)
    _check_sessions(events)
    _warn_of_skew(events, rows)
    return replace(events, checked=True)


def _check_sessions(events: SparkEvents) -> None:
    found = events.grouped(
        "query_id, session_id",
        "query_id, session_id, count(*) AS n, count(DISTINCT doc_id) AS docs, "
        'count(DISTINCT "position") AS slots',
    ).where("docs < n OR slots < n")
    for query, session, rows, docs in found.rows("query_id, session_id, n, docs"):
        what = "a doc" if docs < rows else "a position"
        (count,) = found.total("count(*)")
        raise InputError(
            f"{events.name}: {what} twice in session {session} of query {query} "
            f"({count} such sessions)"
        )


def _warn_of_skew(events: SparkEvents, rows: int) -> None:
    query, most = events.query(
        f"SELECT query_id, count(*) AS n FROM {EVENTS} GROUP BY query_id "  # noqa: S608
        "ORDER BY n DESC LIMIT 1"
    )[0]
    if rows >= _MANY_ROWS and most > _SKEWED * rows:
        warnings.warn(
            f"query {query} has {most / rows:.0%} of all {rows:,} rows; its pairs are counted in "
            "several tasks, but its list is trained on one worker",
            DataWarning,
            stacklevel=4,
        )
