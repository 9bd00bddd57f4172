"""The rules that the rows of a log must keep, as SQL: the same where it is read and audited.

The SQL is DuckDB's, in words that Spark's has too (see `prsrank.spark.events`).
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from prsrank.data.ids import MOST_LETTERS
from prsrank.errors import InputError, shortened
from prsrank.logs.event_source import OPTIONAL, REQUIRED, EventSource
from prsrank.logs.tables import quoted_name

MAX_POSITION = 1_000_000
DENIED = "which the file's own statistics deny: it is damaged"
INFINITY = "'Infinity'::DOUBLE"

_IDS = ("query_id", "session_id", "doc_id")
_NOTHING = "'', 'null', 'none', 'nan', 'undefined', 'n/a', '-'"
_YEAR_1990, _YEAR_2100 = 631_152_000_000_000, 4_102_444_800_000_000
_FROM_ONE = "position {position}, but positions start at 1 (add 1 if the log counts from 0),"
_EMPTY = "the log is empty: it has no rows"
_NO_PROPENSITY = "propensity {propensity} is not a number from 0 to 1"


class TypeRule(NamedTuple):
    """A column of a type that cannot be used: the code of the finding, and what is wanted."""

    code: str
    column: str
    wanted: str


class RowRule(NamedTuple):
    """What must not hold of a row.

    code: of the finding, a key of `prsrank.audit.catalogue.KINDS`; broken: SQL that is true
    where the rule is broken; what: one sentence; refusal: what a reader says of the row, with
    its values by column, "" where it lets the row pass.
    """

    code: str
    broken: str
    what: str
    refusal: str = ""


def type_rules(source: EventSource) -> Iterator[TypeRule]:
    """Yield the columns whose type cannot be used."""
    for name in _IDS:
        if not (source.is_integer(name) or source.is_text(name)):
            yield TypeRule("id-type", name, "integers or strings")
    if not source.is_number("position"):
        yield TypeRule("position-type", "position", "whole numbers")
    if not (source.is_number("click") or source.types["click"] == "BOOLEAN"):
        yield TypeRule("click-type", "click", "0 and 1, or booleans")
    for name in ("propensity", "weight"):
        if name in source.types and not source.is_number(name):
            yield TypeRule(f"{name}-invalid", name, "numbers")
    kind = source.types.get("randomised", "BOOLEAN")
    if kind != "BOOLEAN" and not source.is_text("randomised"):
        yield TypeRule("randomised-type", "randomised", "booleans or names of designs")
    kind = source.types.get("timestamp", "DATE")
    if not (kind == "DATE" or kind.startswith("TIMESTAMP") or source.is_integer("timestamp")):
        wanted = "times, or whole microseconds since 1970"
        yield TypeRule("timestamp-invalid", "timestamp", wanted)


def row_rules(source: EventSource) -> Iterator[RowRule]:
    """Yield the rules for single rows that the columns of a log call for."""
    for name in _IDS:
        yield _given("id-missing", source, name)
        if source.is_text(name):
            empty = f"lower(trim({quoted_name(name)})) IN ({_NOTHING})"
            yield RowRule("id-placeholder", empty, f"{name} is empty, or a word for nothing")
            long = f"length({quoted_name(name)}) > {MOST_LETTERS}"
            what = f"{name} has more than {MOST_LETTERS:,} characters"
            yield RowRule("id-too-long", long, what, what)
    yield from _position_rules(source)
    yield from _click_rules(source)
    if "propensity" in source.types and source.is_number("propensity"):
        yield from _propensity_rules(source)
    if "timestamp" in source.types:
        time = time_sql(source)
        what = "timestamp is missing"
        yield RowRule("timestamp-invalid", f"{time} IS NULL", what, f"{what} (null)")
        far = f"{time} NOT BETWEEN {_YEAR_1990} AND {_YEAR_2100}"
        yield RowRule("timestamp-suspect", far, "timestamp is before 1990 or after 2100")


def _given(code: str, source: EventSource, name: str) -> RowRule:
    return RowRule(
        code, missing_sql(source, name), f"{name} is missing", f"{name} is missing (null)"
    )


def _position_rules(source: EventSource) -> Iterator[RowRule]:
    whole, clicked = source.is_integer("position"), click_sql(source)
    # a cast of every row would cost more than the comparisons
    position = '"position"' if whole else number_sql(source, "position")
    missing, refusal = missing_sql(source, "position"), "position is missing (null)"
    what = "a click has no position: it was not shown"
    yield RowRule("click-without-impression", f"{missing} AND {clicked}", what, refusal)
    unclicked = f"{missing} AND NOT coalesce({clicked}, false)"
    yield RowRule("position-missing", unclicked, "position is missing", refusal)
    if not whole:  # Spark's floor of what is infinite is a whole number
        yield RowRule(
            "position-not-whole",
            f"{finite_sql(position)} AND {position} != floor({position})",
            "position is not a whole number",
            "position {position} is not a whole number",
        )
    yield RowRule(
        "position-too-large",
        f"{position} > {MAX_POSITION}" + ("" if whole else f" AND NOT isnan({position})"),
        "position is above a million",
        f"position {{position}} is above {MAX_POSITION:,}",
    )
    yield RowRule("position-below-one", f"{position} < 0", "position is negative", _FROM_ONE)
    yield RowRule("positions-from-zero", f"{position} = 0", "positions count from 0", _FROM_ONE)


def _click_rules(source: EventSource) -> Iterator[RowRule]:
    yield _given("click-missing", source, "click")
    if source.is_number("click"):
        number = "" if source.is_integer("click") else ' AND NOT isnan("click"::DOUBLE)'
        yield RowRule(
            "click-not-binary",
            f"click NOT IN (0, 1){number}",
            "click is neither 0 nor 1",
            "click {click}, but a click is 0 or 1,",
        )
    if "weight" in source.types and source.is_number("weight"):
        what = "the weight of a click is not a number above 0"
        broken = f"{click_sql(source)} AND NOT {weight_sql(source)}"
        yield RowRule("weight-invalid", broken, what, what)


def _propensity_rules(source: EventSource) -> Iterator[RowRule]:
    value = number_sql(source, "propensity")
    yield _given("propensity-invalid", source, "propensity")
    bad = f"{value} < 0 OR {value} = {INFINITY}"
    yield RowRule("propensity-invalid", bad, "propensity is negative or infinite", _NO_PROPENSITY)
    what = "propensity is 0, but the doc was clicked"
    yield RowRule("propensity-invalid", f"{value} = 0 AND {click_sql(source)}", what, what)
    above = f"{value} > 1 AND {finite_sql(value)}"
    yield RowRule("propensity-above-one", above, "propensity is above 1")


def missing_sql(source: EventSource, name: str) -> str:
    """Return SQL that is true where a column has no value."""
    column = quoted_name(name)
    if source.types[name] in ("FLOAT", "DOUBLE"):
        return f"({column} IS NULL OR isnan({column}))"
    return f"{column} IS NULL"


def finite_sql(number: str) -> str:
    """Return SQL that is true where a number is finite; NaN is above infinity in both SQLs."""
    return f"abs({number}) < {INFINITY}"


def number_sql(source: EventSource, name: str) -> str:
    """Return the SQL of a column as a number, NULL where it is none."""
    column = quoted_name(name)
    if source.types[name] == "BOOLEAN":
        # a cast would move into DuckDB's CSV reader, which takes no "true" for a number
        return f"(CASE WHEN {column} THEN 1.0 WHEN NOT {column} THEN 0.0 END::DOUBLE)"
    if source.is_number(name):
        return f"({column}::DOUBLE)"
    return f"TRY_CAST({column}::VARCHAR AS DOUBLE)"


def weight_sql(source: EventSource) -> str:
    """Return SQL that is true where the weight of a click can be used."""
    weight = number_sql(source, "weight")
    return f"coalesce({weight} > 0 AND {finite_sql(weight)}, false)"


def click_sql(source: EventSource, *, counts: bool = False) -> str:
    """Return the SQL of whether a doc was clicked, NULL where the log does not say.

    Args:
        source: the events.
        counts: whether a number above 1 is a click; readers refuse it, so that rows with one break
            that rule alone.
    """
    if source.types["click"] == "BOOLEAN":
        return '"click"'
    if source.is_number("click"):
        clicked = '"click" > 0' if counts else '"click" = 1'
        if counts and not source.is_integer("click"):
            clicked += f" AND {finite_sql(quoted_name('click'))}"
        return f'(CASE WHEN {clicked} THEN true WHEN "click" = 0 THEN false END)'
    return 'TRY_CAST("click"::VARCHAR AS BOOLEAN)'


def time_sql(source: EventSource) -> str:
    """Return the SQL of microseconds since 1970, NULL without a time."""
    kind = source.types.get("timestamp")
    if kind is None:
        return "NULL::BIGINT"
    if source.is_integer("timestamp"):
        return 'TRY_CAST("timestamp" AS BIGINT)'
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return 'epoch_us("timestamp"::TIMESTAMP)'
    return 'epoch_us(TRY_CAST("timestamp"::VARCHAR AS TIMESTAMP))'


def design_sql(source: EventSource) -> str:
    """Return the SQL of the design of a session, '' where it is not randomised."""
    kind = source.types.get("randomised")
    if kind is None:
        return "''"
    if kind == "BOOLEAN":
        return "CASE WHEN randomised THEN 'uniform' ELSE '' END"
    if source.is_number("randomised"):
        return "CASE WHEN randomised = 1 THEN 'uniform' ELSE '' END"
    return "coalesce(randomised::VARCHAR, '')"


def check_columns(source: EventSource, contexts: Sequence[str]) -> None:
    """Raise an InputError for a missing column, or one of the wrong type."""
    for name in (*REQUIRED, *contexts):
        if name not in source.types:
            raise InputError(f"the log has no column {name!r}{nearest_column(name, source.types)}")
    for name in contexts:
        if name in REQUIRED + OPTIONAL:
            raise InputError(f"column {name!r} has a meaning of its own and is no context")
    for rule in type_rules(source):
        if not source.rows("1"):  # types say nothing then
            raise InputError(_EMPTY)
        kind = source.types[rule.column]
        held = instead_of_numbers(source, rule.column) if "number" in rule.wanted else f"not {kind}"
        raise InputError(f"column {rule.column!r} must hold {rule.wanted}, {held}")


def check_rows(source: EventSource) -> int:
    """Raise an InputError that names a row that cannot be used, if there is one, or for no rows.

    Returns:
        The number of rows.
    """
    rules = [rule for rule in row_rules(source) if rule.refusal]
    counts = ", ".join(f"count_if({rule.broken})" for rule in rules)
    # from the rows alone, not from what a file says of them
    with source.setting("disabled_optimizers", "'statistics_propagation'"):
        total, *broken = source.total(f"count(*), {counts}")
    if not total:
        raise InputError(_EMPTY)
    shown = [name for name in (*REQUIRED, "propensity") if name in source.types]
    for rule, count in zip(rules, broken, strict=True):
        if count:
            rows = source.rows(", ".join(f'"{name}"' for name in shown), where=rule.broken)
            if not rows:  # a filter by statistics has hidden them
                raise InputError(f"{rule.what} in {count} of {total} rows, {DENIED}")
            named = {name: shortened(value) for name, value in zip(shown, rows[0], strict=True)}
            raise InputError(
                f"{rule.refusal.format(**named)} in {count} of {total} rows, first for doc "
                f"{named['doc_id']} of session {named['session_id']} of query {named['query_id']}"
            )
    return int(total)


def instead_of_numbers(source: EventSource, name: str) -> str:
    """Return words that say what a column holds instead of numbers: its type, or a text."""
    column = quoted_name(name)
    if source.is_text(name):
        # a decimal comma is the likelier trouble, but a word the clearer
        for text in (f"replace({column}, ',', '.')", column):
            no_number = f"{column} IS NOT NULL AND TRY_CAST({text} AS DOUBLE) IS NULL"
            rows = source.rows(column, where=no_number)
            if rows:
                return f"not text such as {rows[0][0]!r}"
    return f"not {source.types[name]}"


_OTHER_NAMES = {
    "query_id": "query qid q srch_id search_id query_text user_query keyword",
    "session_id": "session sid visit_id request_id search_id srch_id",
    "doc_id": "doc docid document_id item_id item product_id prop_id url",
    "position": "rank pos ordinal slot",
    "click": "clicked clicks is_click is_clicked click_bool",
}
"""What other programs call the columns that a log must have."""

_MOST_COLUMNS = 20


def nearest_column(name: str, types: Mapping[str, str]) -> str:
    """Return words that name a column that may well be meant by `name`, or else the columns.

    >>> nearest_column("session_id", {"doc_id": "", "sid": ""})
    "; did you mean 'sid'?"
    >>> nearest_column("session_id", {"doc_id": "", "x": ""})
    '; it has doc_id, x'
    """
    lower = {column.lower(): column for column in types}
    # the column itself in other letters, then what other programs call it
    close = [other for other in (name, *_OTHER_NAMES.get(name, "").split()) if other in lower]
    # what has a meaning of its own is not meant, nor is a name that shares only the ending
    free = {_stem(column): column for column in lower if column not in REQUIRED}
    close += [free[stem] for stem in difflib.get_close_matches(_stem(name), free, 1, cutoff=0.75)]
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    columns = list(types)[:_MOST_COLUMNS]
    more = len(types) - len(columns)
    return f"; it has {', '.join(columns)}{f' and {more} more' if more else ''}"


def _stem(name: str) -> str:
    return name.lower().removesuffix("id").rstrip("_")
