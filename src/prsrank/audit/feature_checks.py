"""Checks of features, in the log or in a table beside it: what they hold, and what they give away."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding
from prsrank.audit.leaks import first_sign, sample_docs
from prsrank.files import FileName
from prsrank.logs.event_source import EVENTS, EventSource
from prsrank.logs.features import keyed_table
from prsrank.logs.mapping import LogMapping
from prsrank.logs.row_rules import INFINITY, finite_sql
from prsrank.logs.tables import quoted_name

_MISSING = 0.05
# a perfect relevance feature goes with clicks by up to about 0.7; its absence should not at all
_LEAK, _LEAK_BY_PRESENCE = 0.8, 0.5
_POSITION = 0.95
_NAMED = 5


class _Values:
    """What there is to say about one feature.

    Attributes:
        low: the least finite value; None where there is none.
        constant: whether every row has it.
        infinite: share of rows with an infinite value.
        missing: share of rows without a value.
        leak: how far the value, or that there is one, goes with clicks; 0 if it can be honest.
        position: how far the value goes with the position k, 1 / k or log k, likewise.
    """

    def __init__(
        self, rows: int, finite: int, infinite: int, low: Any, high: Any, *of: Any
    ) -> None:
        self.low, self.constant = low, finite == rows and low == high
        self.infinite, self.missing = infinite / rows, (rows - finite - infinite) / rows
        self.leak = self.position = 0.0
        if of:  # correlations, of which some may be missing (None or NaN)
            value, presence, *places = np.nan_to_num(np.array(of, np.float64)).tolist()
            value, presence, best = abs(value), abs(presence), max(places, key=abs)
            self.leak = max(value * (value > _LEAK), presence * (presence > _LEAK_BY_PRESENCE))
            self.position = best if abs(best) > _POSITION else 0.0


def check_features(tables: EventTables) -> Iterator[Finding]:
    """Find problems of the features that are columns of the log."""
    numeric = _numeric(tables)
    yield from _check_values(tables, numeric, beside_clicks=True)
    yield from _check_leaks(tables, tables, numeric)
    docs, differing = _changed_docs(tables, numeric)
    changed = {name: f"{count:,} docs" for name, count in differing.items() if count}
    words = f"change between sessions for the same (query, doc), of {docs:,} shown again"
    yield from _listed(tables, "feature-changes", words, changed)


def check_table(log: EventTables, table: FileName, mapping: LogMapping) -> Iterator[Finding]:
    """Find problems of a table of features keyed by (query, doc).

    Args:
        log: the log that it comes with.
        table: files as `prsrank.logs.tables.open_table` takes them.
        mapping: names the table's columns.

    Raises:
        InputError: if the table cannot be read.
    """
    tables = open_feature_table(log.source, table, mapping)
    numeric = _numeric(tables)
    yield from _check_values(tables, numeric, beside_clicks=False)
    yield from _check_leaks(log, tables, numeric)
    if tables.features:
        docs, differing = _changed_docs(tables, tables.features)
        worst = max(differing, key=lambda name: differing[name])
        if differing[worst]:
            words = f"rows of the table for the same doc disagree, most in feature {worst}"
            unit = "docs with two rows"
            yield Finding("feature-table-disagrees", words, "", differing[worst], docs, unit)
    yield from _missing_docs(log, tables.source)


def open_feature_table(source: EventSource, table: FileName, mapping: LogMapping) -> EventTables:
    """Open a table of features beside a log as events that nobody saw."""
    rows, features = keyed_table(source, table, mapping)
    columns = [f"{key}::VARCHAR AS {key}" for key in ("query_id", "doc_id")]
    columns += ["0 AS session_id", 'NULL::INTEGER AS "position"', "NULL::BOOLEAN AS click"]
    rows = rows.select(", ".join([*columns, *map(quoted_name, features)]))
    return EventTables(rows, features=features)


def _missing_docs(log: EventTables, rows: EventSource) -> Iterator[Finding]:
    table_docs = f"SELECT DISTINCT query_id AS q, doc_id AS d FROM {EVENTS}"
    try:
        rows.keep("prsrank_known", table_docs)
        total, count, first = log.row(
            "SELECT count(*), count(*) FILTER (missing), min((q, d)) FILTER (missing) FROM ("
            "SELECT shown.q, shown.d, known.q IS NULL AS missing "
            "FROM (SELECT q::VARCHAR AS q, d::VARCHAR AS d FROM {docs}) shown "
            "LEFT JOIN prsrank_known known ON shown.q = known.q AND shown.d = known.d)"
        )
    finally:
        log.source.drop("prsrank_known")
    if count:
        words = "docs of the log are not in the table of features"
        where = f"doc {first[1]} of query {first[0]}"
        yield Finding("feature-rows-missing", words, where, count, total, "docs")


def _numeric(tables: EventTables) -> list[str]:
    """Return the features that hold numbers."""
    source = tables.source
    return [n for n in tables.features if source.is_number(n) or source.types[n] == "BOOLEAN"]


def _check_values(
    tables: EventTables, numeric: Sequence[str], *, beside_clicks: bool
) -> Iterator[Finding]:
    """Find problems of the features, row by row.

    Args:
        tables: with the features.
        numeric: those that hold numbers.
        beside_clicks: whether rows have clicks and positions, which a feature may give away.
    """
    other = {n: tables.source.types[n] for n in tables.features if n not in numeric}
    yield from _listed(tables, "feature-not-numeric", "hold no numbers", other)
    values = {
        name: value
        for block in tables.blocks(numeric)
        for name, value in _values_of_block(block, beside_clicks).items()
    }
    infinite = {n: f"{v.infinite:.1%}" for n, v in values.items() if v.infinite}
    yield from _listed(tables, "feature-infinite", "are infinite in some rows", infinite)
    by_share = sorted(values.items(), key=lambda item: -item[1].missing)
    missing = {n: f"{v.missing:.1%}" for n, v in by_share if v.missing > _MISSING}
    words = f"are missing in more than {_MISSING:.0%} of the rows"
    yield from _listed(tables, "feature-missing", words, missing)
    constant = {n: f"{v.low:g}" for n, v in values.items() if v.constant}
    yield from _listed(tables, "feature-constant", "are the same in every row", constant)
    leaks = {n: f"correlation {v.leak:.2f}" for n, v in values.items() if v.leak}
    yield from _listed(tables, "feature-leak", "go with clicks too well to be true", leaks)
    places = {n: f"correlation {v.position:.2f}" for n, v in values.items() if v.position}
    yield from _listed(tables, "feature-is-position", "go with the position", places)


def _check_leaks(
    log: EventTables, features: EventTables, numeric: Sequence[str]
) -> Iterator[Finding]:
    """Find features that know this log's clicks or positions; each is named once."""
    if not numeric or not log.totals.clicks:
        return
    sample = sample_docs(log, features, numeric)
    named: dict[str, dict[str, str]] = {code: {} for code in _KNOWS}
    for name, values in sample.features.items():
        code, about = first_sign(sample, values)
        if code:
            named[code][name] = about
    for code, words in _KNOWS.items():
        yield from _listed(features, code, words, named[code])


_KNOWS = {
    "feature-after-click": "change with the click between rows of the same doc",
    "feature-click-rate": "hold this log's own clicks per (query, doc)",
    "feature-only-clicked": "have a value for clicked docs only",
    "feature-is-doc-position": "are the docs' positions in this log in disguise",
}


def _listed(
    tables: EventTables, code: str, words: str, features: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield one finding that names the first features and what was found about them."""
    if features:
        named = [f"{name} ({about})" for name, about in list(features.items())[:_NAMED]]
        rest = len(features) - len(named)
        where = ", ".join(named) + (f" and {rest} more" if rest else "")
        total = len(tables.features)
        yield Finding(code, f"features {words}", where, len(features), total, "features")


def _values_of_block(tables: EventTables, beside_clicks: bool) -> dict[str, _Values]:
    names = tables.features
    numbers = [tables.number(name) for name in names]
    # told apart once, below, and not in each of nine aggregates: that is what planning costs
    finite = (f"CASE WHEN {finite_sql(x)} THEN {x} END AS finite_{x}" for x in numbers)
    # huge values overflow DuckDB's sums, which is an error; no feature that large is a leak
    bounded = [f"CASE WHEN abs({x}) < 1e100 THEN {x} END AS bounded_{x}" for x in numbers]
    columns = ", ".join([*numbers, *finite, *(bounded if beside_clicks else [])])
    wanted = ", ".join(sql for x in numbers for sql in _aggregates(x, beside_clicks))
    rows, *values = tables.row(
        f"SELECT count(*), {wanted} FROM (SELECT k, 1.0 / k AS inverse, ln(k) AS log_k, "
        f"c::INTEGER AS clicked, {columns} FROM {{events}})"
    )
    if not rows:
        return {}
    size = len(values) // len(names)
    return {name: _Values(rows, *values[size * i : size * (i + 1)]) for i, name in enumerate(names)}


def _aggregates(x: str, beside_clicks: bool) -> Iterator[str]:
    # DuckDB counts by a filter at a fifth of the speed
    infinite = f"coalesce(count_if(abs({x}) = {INFINITY}), 0)"
    yield from (f"count(finite_{x})", infinite, f"min(finite_{x})", f"max(finite_{x})")
    if beside_clicks:
        yield f"corr(bounded_{x}, clicked)"
        yield f"corr((finite_{x} IS NOT NULL)::INTEGER, clicked)"
        yield from (f"corr(bounded_{x}, {of})" for of in ("k", "inverse", "log_k"))


def _changed_docs(tables: EventTables, names: Sequence[str]) -> tuple[int, dict[str, int]]:
    """Return the number of docs with several rows, and for each feature how many of them differ."""
    several = "WHERE q IS NOT NULL AND d IS NOT NULL GROUP BY q, d HAVING count(*) > 1"
    docs, changed = 0, dict.fromkeys(names, 0)
    if not names or not tables.rows(f"SELECT q FROM {{events}} {several} LIMIT 1"):
        return docs, changed
    for block in tables.blocks(names):
        numbers = [block.number(name) for name in block.features]
        differs = ", ".join(
            f"coalesce(min({x}) != max({x}), false) OR count({x}) NOT IN (0, count(*)) AS {x}"
            for x in numbers
        )
        counts = ", ".join(f"coalesce(count_if({x}), 0)" for x in numbers)
        docs, *differing = block.row(
            f"SELECT count(*), {counts} FROM (SELECT q, d, {differs} FROM {{events}} {several})"
        )
        changed |= dict(zip(block.features, differing, strict=True))
    return docs, changed
