"""Position bias as the clicks show it, relevance told by the features."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from prsrank.audit.event_tables import EventTables
from prsrank.audit.feature_table import open_feature_table
from prsrank.audit.findings import Audit, Finding, worst_first
from prsrank.data.dataset import RankingDataset
from prsrank.files import FileName
from prsrank.logs.event_source import EventSource
from prsrank.logs.mapping import LogMapping
from prsrank.propensity.cells import Cells
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.tempering import Tempering, temper_counts
from prsrank.ragged import offsets_of

# An audit is quick: fewer docs than a fit judges by.
_DOCS, _VALUES = 10_000, 4_000_000
_HASHES = 16**4


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
    found = _findings(temper_counts(counted, lists), logged)
    return replace(audit, findings=worst_first([*audit.findings, *found]))


def _findings(judged: Tempering, logged: bool) -> Iterator[Finding]:
    if not judged.decides:
        return
    if logged:
        code = "propensity-contradicted" if judged.contradicts else "position-bias"
        what = f"the clicks look like the power {judged.interval} of the log's propensities"
        yield Finding(code, what)
    else:
        what = "docs with equal features are clicked as with propensities (1/k)^eta"
        yield Finding("position-bias", f"{what}, eta {judged.interval}")


def _counted(
    log: EventTables, features: EventTables, docs: int, logged: bool
) -> tuple[RankingDataset, CountedClicks]:
    """Return some of the lists, by a hash that DuckDB and Spark share, with their clicks."""
    most = min(_DOCS, _VALUES // len(features.features))
    below = format(min(_HASHES - 1, int(_HASHES * most / max(docs, 1))), "04x")
    sampled = f"substr(md5(q::VARCHAR), 1, 4) <= '{below}' AND d IS NOT NULL"
    p = f"min({log.raw('propensity')}::DOUBLE)" if logged else "NULL"
    cells = log.rows(
        f"SELECT q::VARCHAR, d::VARCHAR, k, count(*), count(*) FILTER (c), {p} FROM {{events}} "
        f"WHERE {sampled} AND k IS NOT NULL GROUP BY q, d, k"
    )
    known = _known(features, sampled)
    there = (cell for cell in cells if cell[:2] in known and (not logged or cell[5]))
    return _on_lists(sorted(there), known, logged)


def _known(features: EventTables, sampled: str) -> dict[Any, list[float]]:
    """Return the features of each (query, doc)."""
    known: dict[Any, list[float]] = {}
    for block in features.blocks(features.features):
        values = ", ".join(f"min({block.number(name)})" for name in block.features)
        rows = block.rows(
            f"SELECT q::VARCHAR, d::VARCHAR, {values} FROM {{events}} WHERE {sampled} GROUP BY q, d"
        )
        for q, d, *row in rows:
            known.setdefault((q, d), []).extend(row)
    return known


def _on_lists(
    cells: list[tuple[Any, ...]], known: dict[Any, list[Any]], logged: bool
) -> tuple[RankingDataset, CountedClicks]:
    """Return lists and counts of sorted rows (query, doc, position, shown, clicked, propensity)."""
    docs = {doc: i for i, doc in enumerate(dict.fromkeys(cell[:2] for cell in cells))}
    lengths = np.array(list(Counter(query for query, _ in docs).values()), np.int64)
    with np.errstate(over="ignore"):  # the audit names what is infinite
        values = np.array([known[doc] for doc in docs] or np.empty((0, 1)), np.float32)
    lists = RankingDataset(
        values,
        offsets_of(lengths),
        query_ids=np.arange(len(lengths)),
    )
    k, shown, clicked = np.array([cell[2:5] for cell in cells], np.float64).reshape(-1, 3).T
    positions = k.astype(np.int64)
    owner = np.array([docs[cell[:2]] for cell in cells], np.int64)
    offsets = offsets_of(np.bincount(owner, minlength=len(docs)))
    keys = np.arange(len(docs))
    depth = int(positions.max(initial=1))
    counts = Cells(offsets, positions, shown, clicked, keys, keys, depth)
    p = np.array([cell[5] for cell in cells], np.float64) if logged else PowerLaw(1.0).at(positions)
    return lists, CountedClicks(counts, positions, p)
