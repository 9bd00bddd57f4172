"""Checks of single rows: ids, positions, clicks, propensities and times that cannot be used."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator
from typing import NamedTuple

from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding
from prsrank.logs.event_source import MAX_POSITION

_IDS = {"query_id": "q", "session_id": "s", "doc_id": "d"}
_YEAR_1990, _YEAR_2100 = 631_152_000_000_000, 4_102_444_800_000_000


class _RowCheck(NamedTuple):
    code: str
    condition: str
    what: str


def check_rows(tables: EventTables) -> Iterator[Finding]:
    """Find rows of which a column cannot be used, in one pass over the log."""
    checks = [*_type_checks(tables), *_row_checks(tables)]
    counts = ", ".join(f"count(*) FILTER ({check.condition})" for check in checks)
    total, *found = tables.row(f"SELECT count(*), {counts} FROM {{events}}")
    if not total:
        yield Finding("empty-log", "the log has no rows")
        return
    for check, count in zip(checks, found, strict=True):
        if count:
            where = tables.example(check.condition)
            yield Finding(check.code, check.what, where, count, total)


def _type_checks(tables: EventTables) -> Iterator[_RowCheck]:
    source = tables.source
    for name in _IDS:
        if not (source.is_integer(name) or source.is_text(name)):
            yield _RowCheck("id-type", "true", f"{name} holds {source.types[name]}")
    if not source.is_number("position"):
        kind = source.types["position"]
        yield _RowCheck("position-type", "true", f"position holds {kind}, not numbers")
    if not (source.is_number("click") or source.types["click"] == "BOOLEAN"):
        yield _RowCheck(
            "click-type", "true", f"click holds {source.types['click']}, not numbers or booleans"
        )
    kind = source.types.get("randomised", "BOOLEAN")
    if kind != "BOOLEAN" and not source.is_text("randomised"):
        yield _RowCheck("randomised-type", "true", f"randomised holds {kind}")
    kind = source.types.get("timestamp", "DATE")
    if not (kind == "DATE" or kind.startswith("TIMESTAMP") or source.is_integer("timestamp")):
        yield _RowCheck("timestamp-invalid", "true", f"timestamp holds {kind}, not times")


def _row_checks(tables: EventTables) -> Iterator[_RowCheck]:
    for name, column in _IDS.items():
        yield _RowCheck("id-missing", _missing(tables, name), f"{name} is missing")
        if tables.source.is_text(name):
            names = "'', 'null', 'none', 'nan', 'undefined', 'n/a', '-'"
            yield _RowCheck(
                "id-placeholder",
                f"lower(trim({column})) IN ({names})",
                f"{name} is empty, or a word for nothing",
            )
    yield from _position_checks(tables)
    yield from _click_checks(tables)
    yield from _propensity_checks(tables)
    yield from _time_checks(tables)


def _position_checks(tables: EventTables) -> Iterator[_RowCheck]:
    raw = tables.raw("position")
    missing = f"({raw} IS NULL OR isnan(place))"
    yield _RowCheck(
        "click-without-impression", f"{missing} AND c", "a click has no position: it was not shown"
    )
    yield _RowCheck("position-missing", f"{missing} AND c IS NOT true", "position is missing")
    yield _RowCheck("position-not-whole", "place != trunc(place)", "position is not a whole number")
    yield _RowCheck(
        "position-too-large",
        f"place > {MAX_POSITION} AND NOT isnan(place)",
        "position is above a million",
    )
    yield _RowCheck("position-below-one", "place < 0", "position is negative")
    if tables.base == 0:
        yield _RowCheck("positions-from-zero", "place = 0", "positions count from 0")


def _click_checks(tables: EventTables) -> Iterator[_RowCheck]:
    yield _RowCheck("click-missing", _missing(tables, "click"), "click is missing")
    if tables.source.is_number("click"):
        raw = tables.raw("click")
        yield _RowCheck(
            "click-not-binary",
            f"{raw} NOT IN (0, 1) AND NOT isnan({raw}::DOUBLE)",
            "click is neither 0 nor 1",
        )


def _propensity_checks(tables: EventTables) -> Iterator[_RowCheck]:
    if "propensity" not in tables.source.types:
        return
    if not tables.source.is_number("propensity"):
        kind = tables.source.types["propensity"]
        yield _RowCheck("propensity-invalid", "true", f"propensity holds {kind}, not numbers")
        return
    p = f"{tables.raw('propensity')}::DOUBLE"
    yield _RowCheck(
        "propensity-invalid",
        f"{p} IS NULL OR isnan({p}) OR isinf({p}) OR {p} < 0",
        "propensity is missing, negative or no number",
    )
    yield _RowCheck(
        "propensity-invalid", f"{p} = 0 AND c", "propensity is 0, but the doc was clicked"
    )
    yield _RowCheck("propensity-above-one", f"{p} > 1 AND isfinite({p})", "propensity is above 1")


def _time_checks(tables: EventTables) -> Iterator[_RowCheck]:
    if "timestamp" not in tables.source.types:
        return
    yield _RowCheck("timestamp-invalid", "t IS NULL", "timestamp is missing")
    yield _RowCheck(
        "timestamp-suspect",
        f"t NOT BETWEEN {_YEAR_1990} AND {_YEAR_2100}",
        "timestamp is before 1990 or after 2100",
    )


def _missing(tables: EventTables, name: str) -> str:
    raw = tables.raw(name)
    if tables.source.types[name] in ("FLOAT", "DOUBLE"):
        return f"({raw} IS NULL OR isnan({raw}))"
    return f"{raw} IS NULL"
