"""Checks of a log on Spark before anything is made of it."""

import warnings
from dataclasses import replace

from prsrank.errors import DataWarning
from prsrank.logs.row_rules import check_columns, check_rows
from prsrank.logs.tables import named_errors
from prsrank.spark.events import SparkEvents

# A query with more than this share of all rows is worth a word.
_SKEWED = 0.05
_MANY_ROWS = 1000


def checked(events: SparkEvents) -> SparkEvents:
    """Return events whose rows can be used, with their number.

    Raises:
        InputError: naming a row that cannot be used.
    """
    if events.usable:
        return events
    with named_errors(events.name):
        check_columns(events, events.contexts)
        return replace(events, usable=check_rows(events))


def warn_of_skew(busiest: tuple[int, str], rows: int) -> None:
    """Warn of a query with too large a share of all rows.

    Args:
        busiest: rows of the query with the most, and its id.
        rows: of the log.
    """
    most, query = busiest
    if rows >= _MANY_ROWS and most > _SKEWED * rows:
        warnings.warn(
            f"query {query} has {most / rows:.0%} of all {rows:,} rows; one task counts them, and "
            "one worker is trained on its list",
            DataWarning,
            stacklevel=4,
        )
