"""A verdict on a click log before any training."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from prsrank.audit import chance_checks, feature_checks, log_checks, position_checks
from prsrank.audit.event_tables import EventTables, check_present, counts_of, open_tables
from prsrank.audit.findings import Audit, Finding, worst_first
from prsrank.files import FileName
from prsrank.logs.event_source import EventSource
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sources import open_events
from prsrank.propensity.estimators import ESTIMATORS
from prsrank.propensity.identification import Identified
from prsrank.propensity.verdict import Status
from prsrank.types import LogTables

__all__ = ["CHECKS", "Audit", "Finding", "audit"]

Check = Callable[[EventTables], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    log_checks.check_rows,
    log_checks.check_source,
    log_checks.check_sessions,
    log_checks.check_lists,
    log_checks.check_ids,
    log_checks.check_clients,
    position_checks.check_base,
    position_checks.check_gaps,
    position_checks.check_clicks,
    position_checks.check_weights,
    chance_checks.check_click_rates,
    chance_checks.check_drift,
    chance_checks.check_designs,
    chance_checks.check_randomised,
    feature_checks.check_features,
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
    contexts = log.contexts if contexts is None else contexts
    features = log.features if features is None else features
    check_present(log, (*contexts, *features))
    with open_tables(log, contexts=contexts, features=features) as tables:
        estimators = identify(tables)
        findings = [finding for check in CHECKS for finding in check(tables)]
        findings += _none_identified(tables, estimators)
        if table is not None:
            findings += feature_checks.check_table(tables, table, mapping or LogMapping())
        return Audit(
            counts=counts_of(tables),
            findings=worst_first(findings),
            positions=position_checks.positions_of(tables),
            periods=chance_checks.periods_of(tables),
            estimators=estimators,
        )


def identify(tables: LogTables) -> list[Identified]:
    """Return what the log can tell each propensity estimator, the best estimator first."""
    rows = cache(tables.rows)  # estimators ask for the same counts, some of them large
    asked: Any = SimpleNamespace(features=tables.features, rows=rows, row=lambda sql: rows(sql)[0])
    estimates = (estimator.identify(asked) for estimator in ESTIMATORS.values())
    return [estimate for estimate in estimates if estimate is not None]


def _none_identified(tables: LogTables, estimators: Sequence[Identified]) -> Iterator[Finding]:
    """Warn of a log that identifies no estimator."""
    if all(estimator.status == Status.UNKNOWN for estimator in estimators):
        docs, several = tables.row("SELECT count(*), count(*) FILTER (cells > 1) FROM {docs}")
        words = "the log identifies no propensity estimator; docs shown at one position only"
        yield Finding("no-propensities", words, "", docs - several, docs, "docs")
