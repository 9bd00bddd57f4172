"""A table with a log's own columns to events with the columns that prsrank knows.

Columns that mean numbers are numbers afterwards, though they be written as text: with words for
nothing among them, or with decimal commas.
"""

import fnmatch
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from prsrank.errors import DataWarning, InputError
from prsrank.logs.event_source import OPTIONAL, REQUIRED, EventSource
from prsrank.logs.mapping import LogMapping
from prsrank.logs.row_rules import instead_of_numbers, nearest_column
from prsrank.logs.tables import quoted_name, quoted_text

_PLAIN = ("query_id", "session_id", "doc_id")
_OUTCOMES = ("position", "click", "weight", "propensity", "action")

LEFT_OUT = "repeated_docs"
"""The finding that counts the rows that `_first_shown` left out."""

NULLS = ("", "null", "none", "nan", "na", "n/a", "#n/a", "undefined", "-", "?", "\\n")
"""Words that stand for nothing, in small letters; \\N is a database's."""

_COPY = "prsrank_copy"
_Source = TypeVar("_Source", bound=EventSource)


def canonical_events(table: _Source, mapping: LogMapping) -> _Source:
    """Return events under the names of `prsrank.logs.mapping.MEANINGS`, unchecked.

    Contexts and features keep their names; other columns are left out. Where rows are single
    actions (a column `action`), they are gathered to one row per shown doc, and `impression`
    tells whether the log has a row that shows it (an action that does not count). Its position
    is that of such a row, else that of the action.

    Raises:
        InputError: if a column is missing or of a type that cannot be read as meant.
    """
    table = with_numbers(table, mapping)
    columns = _Columns(table, mapping)
    values = dict(columns.plain()) | columns.extra()
    if columns.has_actions_in_rows():
        values |= {"counted": columns.action_weight(), "row_position": columns.position()}
        kept = [name for name in values if name not in (*_PLAIN, "counted", "row_position")]
        ids = ", ".join(_PLAIN)
        events = table.select(_listed(values)).grouped(ids, ", ".join((ids, *_gathered(kept))))
    else:
        events = table.select(_listed(values | columns.outcome()))
        if mapping.duplicates == "first":
            events = _first_shown(events)
    made: Any = replace(  # type: ignore[type-var]
        events, contexts=mapping.contexts, features=tuple(columns.features())
    )
    return made  # type: ignore[no-any-return]


def with_numbers(table: _Source, mapping: LogMapping) -> _Source:
    """Return a table in which columns of text that mean numbers, and hold nothing else, are numbers.

    A DataWarning says what was guessed; `findings` count the values. Of columns of numbers those
    that stand for nothing by the mapping's `nulls`, such as -999, become null.
    """
    names = [name for name in _Columns(table, mapping).numbers() if name in table.types]
    words = ", ".join(f"TRY_CAST({quoted_text(word)} AS DOUBLE)" for word in mapping.nulls)
    numbers = {name: quoted_name(name) for name in names if table.is_number(name)}
    if words and numbers:
        nothing = "CASE WHEN {0}::DOUBLE IN ({1}) THEN NULL ELSE {0} END"
        table = table.replaced({n: nothing.format(sql, words) for n, sql in numbers.items()})
    names = [name for name in names if table.is_text(name)]
    if not names:
        return table
    counts = ", ".join(sql for name in names for sql in _counts(quoted_name(name), mapping))
    totals = iter(table.total(counts))
    texts = {name: _Texts(*(next(totals) for _ in _Texts._fields)) for name in names}
    texts = {n: t for n, t in texts.items() if t.filled and t.hold_numbers(mapping.decimal)}
    if not texts:
        return table
    for notice in _notices(texts, mapping):
        warnings.warn(DataWarning(f"{table.name}: {notice}"), stacklevel=2)
    values = {
        name: _number(quoted_name(name), mapping, commas=text.has_commas(mapping.decimal))
        for name, text in texts.items()
    }
    nothing_read = {"words_for_nothing": sum(text.nothing for text in texts.values())}
    made: Any = replace(  # type: ignore[type-var]
        table.replaced(values), findings={**table.findings, **nothing_read}
    )
    return made  # type: ignore[no-any-return]


def feature_columns(table: EventSource, mapping: LogMapping) -> tuple[str, ...]:
    """Return the columns that the mapping's names and patterns of features stand for.

    A pattern takes the columns of numbers that have no other meaning.
    """
    return tuple(_Columns(table, mapping).features())


def _gathered(names: Sequence[str]) -> Iterator[str]:
    # an action may carry a position of its own: that of the impression is the one shown
    shown = "row_position) FILTER (WHERE counted = 0"
    yield f'coalesce(min({shown}), min(row_position)) AS "position"'
    yield "(max(counted) > 0)::TINYINT AS click"
    yield "max(counted) AS weight"
    yield "bool_or(counted = 0) AS impression"
    yield from (f"min({quoted_name(name)}) AS {quoted_name(name)}" for name in names)


def _listed(values: dict[str, str]) -> str:
    return ", ".join(f"{sql} AS {quoted_name(name)}" for name, sql in values.items())


def action_sql(column: str, mapping: LogMapping) -> str:
    """Return the SQL of the weight of the action that a column names; 0 if it does not count."""
    cases = " ".join(
        f"WHEN {quoted_text(name)} THEN {float(weight)!r}::DOUBLE"
        for name, weight in (mapping.actions or {"click": 1.0}).items()
    )
    return f"CASE {column}::VARCHAR {cases} ELSE 0 END"


class _Columns:
    """The SQL of each column of the events, in terms of a log's own columns."""

    def __init__(self, table: EventSource, mapping: LogMapping) -> None:
        self.table = table
        self.mapping = mapping

    def plain(self) -> Iterator[tuple[str, str]]:
        """Yield the columns that are only renamed, or cast from what other programs write."""
        for meaning in _PLAIN:
            yield meaning, self._column(meaning)
        for meaning in ("propensity", "randomised", "timestamp", "client_id"):
            if meaning in self.mapping.columns or meaning in self.table.types:
                yield meaning, self._cast(meaning)

    def _cast(self, meaning: str) -> str:
        sql, name = self._column(meaning), self.mapping.column(meaning)
        if meaning == "randomised" and self.table.is_number(name):
            return f"({sql} <> 0)"
        if meaning == "timestamp" and self.table.is_text(name):
            # what is no time becomes null, which the row rules name with its row
            return f"try_cast({sql} AS TIMESTAMP)"
        return sql

    def extra(self) -> dict[str, str]:
        """Return contexts and features."""
        for name in self.mapping.contexts:
            self._check(name, "context")
        names = (*self.mapping.contexts, *self.features())
        for name in names:
            if name in (*REQUIRED, *OPTIONAL, "impression"):
                raise InputError(f"column {name!r} has a meaning of its own: rename it or leave it")
        return {name: quoted_name(name) for name in names}

    def outcome(self) -> dict[str, str]:
        """Return position, click and weight of a log with one row per shown doc."""
        values = {"position": self.position()}
        if self.mapping.actions:
            weight = self.action_weight()
            return values | {"click": f"({weight} > 0)::TINYINT", "weight": weight}
        click = self._column("click")
        boolean = self.table.types[self.mapping.column("click")] == "BOOLEAN"
        # not a cast: DuckDB would move it into its CSV reader, which then fails on "true"
        as_number = f"CASE WHEN {click} THEN 1 WHEN NOT {click} THEN 0 END"
        values["click"] = as_number if boolean else click
        if "weight" in self.mapping.columns or "weight" in self.table.types:
            self._check_number(self.mapping.column("weight"), "weight")
            values["weight"] = f"{self._column('weight')}::DOUBLE"
        return values

    def position(self) -> str:
        sql = self._column("position")
        if self.mapping.positions_from != 0:
            return sql
        self._check_number(self.mapping.column("position"), "position")
        return f"{sql} + 1"

    def has_actions_in_rows(self) -> bool:
        """Tell whether a row is one action, not one shown doc."""
        named = "action" in self.mapping.columns
        return named or bool(self.mapping.actions and "action" in self.table.types)

    def action_weight(self) -> str:
        """Return the SQL of the weight of a row's heaviest action; 0 if none counts."""
        if self.has_actions_in_rows():
            return action_sql(self._column("action"), self.mapping)
        for name in self.mapping.actions:
            self._check(name, "action")
            if self.table.types[name] != "BOOLEAN":
                self._check_number(name, "action")
        parts = (
            f"CASE WHEN {quoted_name(name)}::DOUBLE > 0 THEN {float(weight)!r}::DOUBLE ELSE 0 END"
            for name, weight in self.mapping.actions.items()
        )
        # Spark's greatest takes two values at least
        return f"greatest(0.0::DOUBLE, {', '.join(parts)})"

    def numbers(self) -> Iterator[str]:
        """Yield the columns that are wanted as numbers, whatever they hold."""
        yield from (self.mapping.column(name) for name in _OUTCOMES if name != "action")
        if not self.has_actions_in_rows():
            yield from self.mapping.actions
        for pattern in self.mapping.features:
            yield from self._matching(pattern)

    def _matching(self, pattern: str) -> list[str]:
        """Return the columns that a name or pattern of features stands for, of any type."""
        # a column may be named like a pattern, such as tf[title]
        if pattern in self.table.types:
            return [pattern]
        taken = {self.mapping.column(meaning) for meaning in (*REQUIRED, *_OUTCOMES)}
        taken |= {*self.mapping.columns.values(), *self.mapping.contexts, *self.mapping.actions}
        return [n for n in self.table.types if n not in taken and fnmatch.fnmatchcase(n, pattern)]

    def features(self) -> Iterator[str]:
        features: dict[str, None] = {}
        for pattern in self.mapping.features:
            if pattern not in self.table.types and any(sign in pattern for sign in "*?["):
                numbers = [n for n in self._matching(pattern) if self._is_feature(n)]
                if not numbers:
                    raise InputError(f"no column of numbers matches the features {pattern!r}")
                features |= dict.fromkeys(numbers)
                continue
            self._check(pattern, "feature")
            outcomes = {self.mapping.column(meaning) for meaning in _OUTCOMES}
            if pattern in outcomes | set(self.mapping.actions):
                raise InputError(f"column {pattern!r} says what happened and can be no feature")
            if not self._is_feature(pattern):
                raise InputError(
                    f"feature {pattern!r} must hold numbers, {instead_of_numbers(self.table, pattern)}"
                )
            features[pattern] = None
        yield from features

    def _is_feature(self, name: str) -> bool:
        return self.table.is_number(name) or self.table.types[name] == "BOOLEAN"

    def _column(self, meaning: str) -> str:
        name = self.mapping.column(meaning)
        if name not in self.table.types:
            near = nearest_column(name, self.table.types)
            hint = f" (for {meaning})" if name != meaning else near
            if meaning == "session_id" and name == meaning:
                hint += "; where every query is one session, map session_id to the query's column"
            raise InputError(f"the log has no column {name!r}{hint}")
        return quoted_name(name)

    def _check(self, name: str, meaning: str) -> None:
        if name not in self.table.types:
            hint = nearest_column(name, self.table.types)
            raise InputError(f"has no column {name!r} ({meaning}){hint}")

    def _check_number(self, name: str, meaning: str) -> None:
        if not self.table.is_number(name):
            raise InputError(
                f"column {name!r} ({meaning}) must hold numbers, {instead_of_numbers(self.table, name)}"
            )


class _Texts(NamedTuple):
    """How many values of a column of text are what.

    filled: not null; nothing: words for nothing; numbers: with a point, or true and false;
    commas: numbers with a decimal comma; thousands: those that may as well be whole numbers with
    a comma after the thousands; word: a word for nothing.
    """

    filled: int
    nothing: int
    numbers: int
    commas: int
    thousands: int
    word: str | None

    def hold_numbers(self, decimal: str | None) -> bool:
        """Tell whether all values are numbers or nothing, and some are numbers."""
        numbers = self.numbers + (self.commas if self.has_commas(decimal) else 0)
        return numbers > 0 and self.nothing + numbers == self.filled

    def has_commas(self, decimal: str | None) -> bool:
        """Tell whether commas are decimal: as was said, else if they can be nothing else."""
        if decimal is not None:
            return decimal == ","
        return self.commas > self.thousands


def _counts(column: str, mapping: LogMapping) -> Iterator[str]:
    nothing = _is_nothing(column, mapping)
    number = f"{_number(column, mapping, commas=False)} IS NOT NULL"
    comma = f"regexp_matches({column}, '^ *[+-]?[0-9]*,[0-9]+ *$')"
    thousand = f"regexp_matches({column}, '^ *[+-]?[0-9]{{1,3}}(,[0-9]{{3}})+ *$')"
    yield f"count({column})"
    yield from (f"count_if({kind})" for kind in (nothing, number, comma, thousand))
    yield f"min(CASE WHEN {nothing} THEN {column} END)"


def _is_nothing(column: str, mapping: LogMapping) -> str:
    if mapping.nulls:
        return f"trim({column}) IN ({', '.join(map(quoted_text, ('', *mapping.nulls)))})"
    return f"lower(trim({column})) IN ({', '.join(map(quoted_text, NULLS))})"


def _number(column: str, mapping: LogMapping, *, commas: bool) -> str:
    """Return the SQL of a text as a number, NULL where it is none or a word for nothing."""
    text = f"replace({column}, ',', '.')" if commas else column
    return (
        f"CASE WHEN {_is_nothing(column, mapping)} THEN NULL "
        f"WHEN lower({column}) = 'true' THEN 1.0::DOUBLE "
        f"WHEN lower({column}) = 'false' THEN 0.0::DOUBLE ELSE TRY_CAST({text} AS DOUBLE) END"
    )


def _notices(columns: dict[str, _Texts], mapping: LogMapping) -> Iterator[str]:
    """Yield what was guessed, in sentences."""
    nothing = {n: c for n, c in columns.items() if c.nothing and not mapping.nulls}
    if nothing:
        word = next(iter(nothing.values())).word
        where = ", ".join(f"{c.nothing:,} in {n!r}" for n, c in nothing.items())
        yield f"{word!r} is read as a missing value ({where}); nulls = [...] names other words"
    commas = [n for n, c in columns.items() if c.has_commas(None) and mapping.decimal is None]
    if commas:
        where = ", ".join(map(repr, commas))
        yield f"commas are read as decimal points in {where}; decimal = '.' would not"


def _first_shown(events: _Source) -> _Source:
    """Return events with one row per (query, session, doc): the first position it was shown at.

    Of several rows at that position a clicked one counts. A click further down goes with its row:
    at the first position the doc was seen, or not, without a click. How many rows are left out
    stands in `findings`, and in a DataWarning.
    """
    kept = ", ".join(map(quoted_name, events.types))
    order = ", ".join(
        f"{column} NULLS LAST"
        for column in ('"position"', '"click" DESC', '"weight" DESC')
        if column.split('"')[1] in events.types
    )
    copy = f"row_number() OVER (PARTITION BY query_id, session_id, doc_id ORDER BY {order})"
    counted = events.select(f"{kept}, {copy} AS {_COPY}")
    rows, left_out = counted.total(f"count(*), count_if({_COPY} > 1)")
    if not left_out:
        return events
    message = f"{left_out:,} of {rows:,} rows show a doc again in its session: they are left out"
    warnings.warn(DataWarning(f"{events.name}: {message}"), stacklevel=2)
    made: Any = counted.where(f"{_COPY} = 1").select(kept)
    return replace(made, findings={**events.findings, LEFT_OUT: left_out})  # type: ignore[no-any-return]
