"""A verdict on a click log before any training."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from prsrank.audit.checks_clicks import (
    check_click_rates,
    check_clicks,
    check_weights,
    positions_of,
)
from prsrank.audit.checks_clients import check_clients
from prsrank.audit.checks_duplicates import check_constant, check_duplicates
from prsrank.audit.checks_features import check_features
from prsrank.audit.checks_leaks import check_leaks
from prsrank.audit.checks_lists import check_ids, check_lists, check_session_ids
from prsrank.audit.checks_positions import check_base, check_gaps, check_starts, position_base
from prsrank.audit.checks_randomised import check_designs, check_randomised
from prsrank.audit.checks_rows import check_rows, check_source
from prsrank.audit.checks_time import check_drift, periods_of
from prsrank.audit.event_tables import EventTables, check_present, counts_of, open_tables
from prsrank.audit.feature_table import check_table
from prsrank.audit.findings import Audit, Finding, worst_first
from prsrank.audit.identification import identify, none_identified
from prsrank.files import FileName
from prsrank.logs.event_source import EventSource
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sources import open_events

__all__ = ["CHECKS", "Audit", "Finding", "audit"]

Check = Callable[[EventTables], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    check_rows,
    check_source,
    check_base,
    check_gaps,
    check_starts,
    check_duplicates,
    check_constant,
    check_designs,
    check_clicks,
    check_weights,
    check_click_rates,
    check_lists,
    check_session_ids,
    check_clients,
    check_features,
    check_leaks,
    check_drift,
    check_ids,
    check_randomised,
)
"""Every check; each yields what it finds."""


def audit(
    log: object,
    *,
    mapping: LogMapping | None = None,
    contexts: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    table: FileName | None = None,
) -> Audit:
    """Look a click log over: what it holds, what is wrong with it, what it identifies.

    All counting happens where the events lie, in DuckDB within its memory limit or on Spark;
    the rows themselves are never fetched.

    Args:
        log: a frame, a file or whatever else `prsrank.logs.sources.open_events` takes; or events
            that are open already (`prsrank.logs.event_source`).
        mapping: which column of the log, and of the table, means what; events that are open are
            past that.
        contexts: columns with one value per session; default: those that the source names.
        features: columns with features of the docs; default: those that the source names.
        table: files of a table of features beside the log, keyed by (query, doc).

    Returns:
        Counts, and findings with the worst first.

    Raises:
        InputError: if a column is not there, or the events cannot be read at all.

    >>> import numpy as np
    >>> events = {"query_id": np.array([1, 1]), "session_id": np.array([1, 1]),
    ...           "doc_id": np.array([5, 6]), "position": np.array([0, 1]),
    ...           "click": np.array([0, 1])}
    >>> found = audit(events)
    >>> found.verdict, found.findings[0].code
    ('not usable', 'positions-from-zero')
    """
    if not isinstance(log, EventSource):
        with open_events(log, mapping=mapping) as events:
            return audit(events, mapping=mapping, contexts=contexts, features=features, table=table)
    source = log
    contexts = source.contexts if contexts is None else contexts
    features = source.features if features is None else features
    check_present(source, (*contexts, *features))
    plain = EventTables(source)
    plain = replace(plain, counted=plain.totals())
    base = position_base(plain)
    with open_tables(
        source, contexts=contexts, features=features, base=base, counted=plain.counted
    ) as tables:
        counts = counts_of(tables)
        estimators = identify(tables)
        found = [finding for check in CHECKS for finding in check(tables)]
        found += none_identified(tables, estimators)
        if table is not None:
            found += check_table(tables, table, mapping or LogMapping())
        return Audit(
            counts=counts,
            findings=worst_first(found),
            positions=positions_of(tables),
            periods=periods_of(tables),
            estimators=estimators,
        )
