"""The audit of a log in any form, in one call, with what its clicks say of position bias."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.audit import audit
from prsrank.audit.event_tables import EventTables
from prsrank.audit.feature_checks import open_feature_table
from prsrank.audit.findings import Audit, Finding, worst_first
from prsrank.data.dataset import RankingDataset
from prsrank.files import FileName
from prsrank.hashing import chosen_sql
from prsrank.logs.event_source import EventSource
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sources import is_in_memory, open_events, write_frame
from prsrank.propensity.cells import Cells
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.tempering import temper_counts
from prsrank.ragged import offsets_of

# An audit is quick: fewer docs than a fit judges by.
_DOCS, _VALUES = 10_000, 4_000_000


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
            see `prsrank.logs.sources.open_events`.
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
    features = log if table is None else open_feature_table(source, table, mapping)
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
    sampled = f"{chosen_sql('q', most / max(docs, 1))} AND d IS NOT NULL"
    p = f"min({log.raw('propensity')}::DOUBLE)" if logged else "NULL"
    cells = log.rows(
        f"SELECT q::VARCHAR, d::VARCHAR, k, count(*), count(*) FILTER (c), {p} FROM {{events}} "
        f"WHERE {sampled} AND k IS NOT NULL GROUP BY q, d, k"
    )
    features_of = _features_of_docs(features, sampled)
    usable = (cell for cell in cells if cell[:2] in features_of and (not logged or cell[5]))
    return _on_lists(sorted(usable), features_of, logged)


def _features_of_docs(features: EventTables, sampled: str) -> dict[Any, list[float]]:
    """Return the features of each (query, doc)."""
    features_of: dict[Any, list[float]] = {}
    for block in features.blocks(features.features):
        values = ", ".join(f"min({block.number(name)})" for name in block.features)
        rows = block.rows(
            f"SELECT q::VARCHAR, d::VARCHAR, {values} FROM {{events}} WHERE {sampled} GROUP BY q, d"
        )
        for q, d, *row in rows:
            features_of.setdefault((q, d), []).extend(row)
    return features_of


def _on_lists(
    cells: list[tuple[Any, ...]], features_of: dict[Any, list[Any]], logged: bool
) -> tuple[RankingDataset, CountedClicks]:
    """Return lists and counts of sorted rows (query, doc, position, shown, clicked, propensity)."""
    docs = {doc: i for i, doc in enumerate(dict.fromkeys(cell[:2] for cell in cells))}
    lengths = np.array(list(Counter(query for query, _ in docs).values()), np.int64)
    with np.errstate(over="ignore"):  # the audit names what is infinite
        values = np.array([features_of[doc] for doc in docs] or np.empty((0, 1)), np.float32)
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
