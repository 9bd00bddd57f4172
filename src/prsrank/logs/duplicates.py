"""Docs that a session shows more than once: left alone, or all but the first left out."""

import warnings
from dataclasses import replace
from typing import Any, TypeVar

from prsrank.errors import DataWarning
from prsrank.logs.event_source import EventSource
from prsrank.logs.sql_text import quoted_name

LEFT_OUT = "repeated_docs"
"""The finding that counts the rows that `first_shown` left out."""

_COPY = "prsrank_copy"
_Source = TypeVar("_Source", bound=EventSource)


def first_shown(events: _Source, *, name: str) -> _Source:
    """Return events with one row per (query, session, doc): the first position it was shown at.

    Of several rows at that position a clicked one counts. A click further down goes with its row:
    at the first position the doc was seen, or not, without a click. How many rows are left out
    stands in `findings`, and in a DataWarning.

    Args:
        events: one row per shown doc, unchecked.
        name: what messages call them.
    """
    kept = ", ".join(map(quoted_name, events.types))
    order = ", ".join(
        f"{column} NULLS LAST"
        for column in ('"position"', '"click" DESC', '"weight" DESC')
        if column.split('"')[1] in events.types
    )
    copy = f"row_number() OVER (PARTITION BY query_id, session_id, doc_id ORDER BY {order})"
    counted = events.select(f"{kept}, {copy} AS {_COPY}")
    rows, left_out = counted.total(f"count(*), count_if({_COPY} > 1)")
    if not left_out:
        return events
    message = f"{left_out:,} of {rows:,} rows show a doc again in its session: they are left out"
    warnings.warn(DataWarning(f"{name}: {message}"), stacklevel=2)
    made: Any = counted.where(f"{_COPY} = 1").select(kept)
    found = {**events.findings, LEFT_OUT: left_out}
    return replace(made, findings=found)  # type: ignore[no-any-return]
