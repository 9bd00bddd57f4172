"""Numbers in columns of text: words for nothing among them, and decimal commas."""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from prsrank.errors import DataWarning
from prsrank.logs.event_source import EventSource
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sql_text import quoted_name, quoted_text

NULLS = ("", "null", "none", "nan", "na", "n/a", "#n/a", "undefined", "-", "?", "\\n")
"""Words that stand for nothing, in small letters; \\N is a database's."""

_Source = TypeVar("_Source", bound=EventSource)


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


def read_numbers(
    table: _Source, names: Sequence[str], mapping: LogMapping, *, name: str
) -> _Source:
    """Return a table in which columns of text that hold numbers throughout are numbers.

    A DataWarning says what was guessed; `findings` count the values.

    Args:
        table: whatever its form.
        names: the columns that are wanted as numbers; those that are no text stay as they are.
        mapping: its `nulls` and `decimal`; what they do not say is guessed.
        name: what messages call the table.
    """
    table = _without_numbers_for_nothing(table, names, mapping)
    texts = [n for n in names if n in table.types and table.is_text(n)]
    if not texts:
        return table
    counts = ", ".join(sql for text in texts for sql in _counts(quoted_name(text), mapping))
    totals = iter(table.total(counts))
    columns = {text: _Texts(*(next(totals) for _ in _Texts._fields)) for text in texts}
    columns = {n: c for n, c in columns.items() if c.filled}
    chosen = {n: c for n, c in columns.items() if c.hold_numbers(mapping.decimal)}
    if not chosen:
        return table
    for notice in _notices(chosen, mapping):
        warnings.warn(DataWarning(f"{name}: {notice}"), stacklevel=2)
    values = {
        n: _number(quoted_name(n), mapping, commas=c.has_commas(mapping.decimal))
        for n, c in chosen.items()
    }
    made: Any = table.replaced(values)
    noticed = {"words_for_nothing": sum(column.nothing for column in chosen.values())}
    return replace(made, findings={**table.findings, **noticed})  # type: ignore[no-any-return]


def _without_numbers_for_nothing(
    table: _Source, names: Sequence[str], mapping: LogMapping
) -> _Source:
    """Return a table in which numbers that stand for nothing, such as -999, are null."""
    nothing = ", ".join(f"{float(word)!r}" for word in mapping.nulls if _is_number(word))
    numbers = {n: quoted_name(n) for n in names if n in table.types and table.is_number(n)}
    if not (nothing and numbers):
        return table
    return table.replaced(
        {
            name: f"CASE WHEN {column}::DOUBLE IN ({nothing}) THEN NULL ELSE {column} END"
            for name, column in numbers.items()
        }
    )


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


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
