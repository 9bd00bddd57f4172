"""A verdict on a click log before any training, with what its clicks say of position bias."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from prsrank.audit import chance_checks, feature_checks, log_checks, position_checks
from prsrank.audit.event_tables import EventTables, check_present, counts_of, open_tables
from prsrank.audit.findings import Audit, Finding, worst_first
from prsrank.data.dataset import RankingDataset
from prsrank.files import FileName
from prsrank.hashing import chosen_sql
from prsrank.logs.event_source import EventSource
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import is_in_memory, open_events, write_frame
from prsrank.propensity.cells import Cells
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.estimators import ESTIMATORS
from prsrank.propensity.identification import Identified
from prsrank.propensity.tempering import temper_counts
from prsrank.propensity.verdict import Status
from prsrank.ragged import offsets_of
from prsrank.types import Floats, LogTables

# An audit is quick: fewer docs than a fit judges by.
_DOCS, _VALUES = 10_000, 4_000_000

__all__ = ["CHECKS", "Audit", "Finding", "audit", "audit_log", "identify", "with_curve"]

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
        log: a frame, a file or whatever else `prsrank.logs.reading.open_events` takes; or events
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


def audit_log(
    log: object,
    *,
    mapping: LogMapping | None = None,
    features: Any = None,
    memory: str | None = None,
) -> Audit:
    """Look a click log over before any training: what it holds, what is wrong, what to do.

    Args:
        log: a frame (pandas, Polars, Arrow, DuckDB, a mapping of arrays), files, or a `ClickLog`;
            see `prsrank.logs.reading.open_events`.
        mapping: which column means what; default: the columns have prsrank's names.
        features: a table of features keyed by query and doc: a frame or files; default: the
            mapping's.
        memory: how much to hold while reading, such as "4GB".

    Returns:
        Counts, and findings with the worst first; `to_frame()` and `plot()` show them.

    Raises:
        InputError: one line that names a column that is not there, or what cannot be read.

    >>> import prsrank
    >>> found = prsrank.audit_log(
    ...     {"query_id": [1, 1], "session_id": [1, 1], "doc_id": [5, 6], "position": [0, 1],
    ...      "click": [0, 1]})
    >>> found.verdict, found.findings[0].code
    ('not usable', 'positions-from-zero')
    """
    mapping = mapping or LogMapping()
    with tempfile.TemporaryDirectory(prefix="prsrank-") as folder:
        if is_in_memory(features):
            features = write_frame(features, Path(folder, "features.parquet"))
        table = features if features is not None else mapping.feature_table
        with open_events(log, mapping=mapping, memory=memory) as source:
            findings = audit(source, table=table, mapping=mapping)
            return with_curve(findings, source, table=table, mapping=mapping)


def with_curve(
    audit: Audit, source: EventSource, *, table: FileName | None = None, mapping: LogMapping
) -> Audit:
    """Return an audit with what the clicks say of position bias, where there are features.

    It is no part of `audit`, since a fit judges the curve that it uses by more docs.

    Args:
        audit: of the log; with errors it is returned as it is.
        source: the log, still open.
        table: a table of features keyed by (query, doc); default: the log's own columns.
        mapping: names the table's columns.
    """
    log = EventTables(source, features=source.features)
    features = log if table is None else feature_checks.open_feature_table(source, table, mapping)
    if audit.errors or not features.features:
        return audit
    logged = "propensity" in source.types
    lists, counted = _counted(log, features, audit.counts["docs"], logged)
    judged = temper_counts(counted, lists)
    if not judged.decides:
        return audit
    if logged:
        words = f"the clicks look like the power {judged.interval} of the log's propensities"
    else:
        words = "docs with equal features are clicked as with propensities (1/k)^eta"
        words += f", eta {judged.interval}"
    contradicted = logged and judged.contradicts
    finding = Finding("propensity-contradicted" if contradicted else "position-bias", words)
    return replace(audit, findings=worst_first([*audit.findings, finding]))


def _counted(
    log: EventTables, features: EventTables, docs: int, logged: bool
) -> tuple[RankingDataset, CountedClicks]:
    """Return some of the lists, by a hash that DuckDB and Spark share, with their clicks."""
    most = min(_DOCS, _VALUES // len(features.features))
    sampled = chosen_sql("q", most / max(docs, 1))
    p = f"min({log.raw('propensity')}::DOUBLE)" if logged else "NULL"
    cells = log.rows(
        f"SELECT q::VARCHAR, d::VARCHAR, k, count(*), count(*) FILTER (c), {p} FROM {{events}} "
        f"WHERE {sampled} AND d IS NOT NULL AND k IS NOT NULL GROUP BY q, d, k"
    )
    features_of = features.values_of_docs(features.features, "min({})".format, where=sampled)
    usable = (cell for cell in cells if cell[:2] in features_of and (not logged or cell[5]))
    return _on_lists(sorted(usable), features_of, logged)


def _on_lists(
    cells: list[tuple[Any, ...]], features_of: dict[tuple[str, str], list[Floats]], logged: bool
) -> tuple[RankingDataset, CountedClicks]:
    """Return lists and counts of sorted rows (query, doc, position, shown, clicked, propensity)."""
    docs = {doc: i for i, doc in enumerate(dict.fromkeys(cell[:2] for cell in cells))}
    lengths = np.array(list(Counter(query for query, _ in docs).values()), np.int64)
    with np.errstate(over="ignore"):  # the audit names what is infinite
        rows = [np.concatenate(features_of[doc]) for doc in docs] or np.empty((0, 1))
        values = np.array(rows, np.float32)
    lists = RankingDataset(values, offsets_of(lengths), query_ids=np.arange(len(lengths)))
    k, shown, clicked = np.array([cell[2:5] for cell in cells], np.float64).reshape(-1, 3).T
    positions = k.astype(np.int64)
    owner = np.array([docs[cell[:2]] for cell in cells], np.int64)
    offsets = offsets_of(np.bincount(owner, minlength=len(docs)))
    keys = np.arange(len(docs))
    depth = int(positions.max(initial=1))
    counts = Cells(offsets, shown, clicked, positions, keys, keys, depth)
    p = np.array([cell[5] for cell in cells], np.float64) if logged else PowerLaw(1.0).at(positions)
    return lists, CountedClicks(counts, p)
