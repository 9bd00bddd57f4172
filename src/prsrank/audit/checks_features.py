"""Checks of features: constant, missing, infinite, changing, no numbers, or known too late."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding
from prsrank.logs.row_rules import INFINITY, finite_sql

_MISSING = 0.05
# a perfect relevance feature goes with clicks by up to about 0.7; its absence should not at all
_LEAK, _LEAK_BY_PRESENCE = 0.8, 0.5
_POSITION = 0.95
_NAMED = 5


@dataclass(frozen=True)
class _Values:
    """What there is to say about one feature; the correlations may be missing (None or NaN)."""

    rows: int
    finite: int
    infinite: int
    low: float | None
    high: float | None
    with_click: float | None
    presence_with_click: float | None
    with_position: float | None
    with_inverse: float | None
    with_log: float | None

    @property
    def missing(self) -> float:
        """The share of rows without a value."""
        return (self.rows - self.finite - self.infinite) / self.rows

    @property
    def leak(self) -> float:
        """How far the value, or that there is one, goes with clicks; 0 if it can be honest."""
        value, presence = _size(self.with_click), _size(self.presence_with_click)
        return max(value * (value > _LEAK), presence * (presence > _LEAK_BY_PRESENCE))

    @property
    def position(self) -> float:
        """How far the value goes with the position k, 1 / k or log k; 0 if it can be honest."""
        best = max((self.with_position, self.with_inverse, self.with_log), key=_size)
        return float(best) if best is not None and _size(best) > _POSITION else 0.0


def numeric_features(tables: EventTables) -> list[str]:
    """Return the features that hold numbers."""
    source = tables.source
    return [n for n in tables.features if source.is_number(n) or source.types[n] == "BOOLEAN"]


def check_features(tables: EventTables) -> Iterator[Finding]:
    """Find problems of the features that are columns of the log."""
    yield from check_values(tables, beside_clicks=True)
    yield from _changes(tables, numeric_features(tables))


def check_values(tables: EventTables, *, beside_clicks: bool) -> Iterator[Finding]:
    """Find problems of the features, row by row.

    Args:
        tables: with the features.
        beside_clicks: whether rows have clicks and positions, which a feature may give away.
    """
    types = tables.source.types
    numeric = numeric_features(tables)
    other = {n: types[n] for n in tables.features if n not in numeric}
    yield from listed(tables, "feature-not-numeric", "hold no numbers", other)
    values = _values(tables, numeric, beside_clicks)
    if any(value.rows for value in values.values()):
        yield from _value_findings(tables, values)


def _value_findings(tables: EventTables, values: Mapping[str, _Values]) -> Iterator[Finding]:
    infinite = {n: f"{v.infinite / v.rows:.1%}" for n, v in values.items() if v.infinite}
    yield from listed(tables, "feature-infinite", "are infinite in some rows", infinite)
    by_share = sorted(values.items(), key=lambda item: -item[1].missing)
    missing = {n: f"{v.missing:.1%}" for n, v in by_share if v.missing > _MISSING}
    what = f"are missing in more than {_MISSING:.0%} of the rows"
    yield from listed(tables, "feature-missing", what, missing)
    constant = {
        n: f"{v.low:g}" for n, v in values.items() if v.finite == v.rows and v.low == v.high
    }
    yield from listed(tables, "feature-constant", "are the same in every row", constant)
    leaks = {n: f"correlation {v.leak:.2f}" for n, v in values.items() if v.leak}
    yield from listed(tables, "feature-leak", "go with clicks too well to be true", leaks)
    gaps = {n: f"correlation {v.position:.2f}" for n, v in values.items() if v.position}
    yield from listed(tables, "feature-is-position", "go with the position", gaps)


def listed(
    tables: EventTables, code: str, what: str, found: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield one finding that names the first features and what was found about them."""
    if found:
        named = [f"{name} ({about})" for name, about in list(found.items())[:_NAMED]]
        rest = len(found) - len(named)
        text = ", ".join(named) + (f" and {rest} more" if rest else "")
        total = len(tables.features)
        yield Finding(code, f"features {what}", text, len(found), total, "features")


def _values(tables: EventTables, names: Sequence[str], beside_clicks: bool) -> dict[str, _Values]:
    return {
        name: value
        for one in tables.blocks(names)
        for name, value in _of_block(one, beside_clicks).items()
    }


def _of_block(tables: EventTables, beside_clicks: bool) -> dict[str, _Values]:
    names = tables.features
    numbers = [tables.number(name) for name in names]
    # told apart once, below, and not in each of nine aggregates: that is what planning costs
    finite = (f"CASE WHEN {finite_sql(x)} THEN {x} END AS finite_{x}" for x in numbers)
    # huge values overflow DuckDB's sums, which is an error; no feature that large is a leak
    bounded = [f"CASE WHEN abs({x}) < 1e100 THEN {x} END AS bounded_{x}" for x in numbers]
    columns = ", ".join([*numbers, *finite, *(bounded if beside_clicks else [])])
    wanted = ", ".join(sql for x in numbers for sql in _aggregates(x, beside_clicks))
    rows, *found = tables.row(
        f"SELECT count(*), {wanted} FROM (SELECT k, 1.0 / k AS inverse, ln(k) AS log_k, "
        f"c::INTEGER AS clicked, {columns} FROM {{events}})"
    )
    size = len(found) // len(names)
    return {name: _Values(rows, *found[size * i : size * (i + 1)]) for i, name in enumerate(names)}


def _aggregates(x: str, beside_clicks: bool) -> Iterator[str]:
    yield f"count(finite_{x})"
    # DuckDB counts by a filter at a fifth of the speed
    yield f"coalesce(count_if(abs({x}) = {INFINITY}), 0)"
    yield f"min(finite_{x})"
    yield f"max(finite_{x})"
    if not beside_clicks:
        yield from ["NULL"] * 5
        return
    yield f"corr(bounded_{x}, clicked)"
    yield f"corr((finite_{x} IS NOT NULL)::INTEGER, clicked)"
    yield from (f"corr(bounded_{x}, {of})" for of in ("k", "inverse", "log_k"))


def _size(correlation: float | None) -> float:
    if correlation is None or correlation != correlation:
        return 0.0
    return abs(correlation)


def _changes(tables: EventTables, names: Sequence[str]) -> Iterator[Finding]:
    """Find features that differ between rows of the same (query, doc)."""
    docs, found = changed_docs(tables, names)
    changed = {name: f"{count:,} docs" for name, count in found.items() if count}
    what = f"change between sessions for the same (query, doc), of {docs:,} shown again"
    yield from listed(tables, "feature-changes", what, changed)


def changed_docs(tables: EventTables, names: Sequence[str]) -> tuple[int, dict[str, int]]:
    """Return the number of docs with several rows, and for each feature how many of them differ."""
    several = "SELECT q FROM {events} WHERE q IS NOT NULL AND d IS NOT NULL GROUP BY q, d HAVING count(*) > 1"
    docs, found = 0, dict.fromkeys(names, 0)
    if not names or not tables.rows(f"{several} LIMIT 1"):
        return docs, found
    for block in tables.blocks(names):
        docs, changed = _changed_in_block(block)
        found |= changed
    return docs, found


def _changed_in_block(tables: EventTables) -> tuple[int, dict[str, int]]:
    differs, names = [], tables.features
    for i, name in enumerate(names):
        x = tables.number(name)
        some = f"count({x}) NOT IN (0, count(*))"
        differs.append(f"coalesce(min({x}) != max({x}), false) OR {some} AS x{i}")
    counts = ", ".join(f"coalesce(count_if(x{i}), 0)" for i in range(len(names)))
    docs, *found = tables.row(
        f"SELECT count(*), {counts} FROM (SELECT q, d, {', '.join(differs)} FROM {{events}} "
        "WHERE q IS NOT NULL AND d IS NOT NULL GROUP BY q, d HAVING count(*) > 1)"
    )
    return docs, dict(zip(names, found, strict=True))
