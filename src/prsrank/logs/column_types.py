"""Types of the columns of text files that hold for every row, not only for the first ones."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from prsrank.logs.sql_text import quoted_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_CHECKED = ("BIGINT", "DOUBLE", "BOOLEAN")
_TEXT = "VARCHAR"


def types_throughout(
    read: Callable[[Mapping[str, str]], "DuckDBPyRelation"],
    guessed: Mapping[str, str],
    ids: Sequence[str],
) -> dict[str, str]:
    """Return types of columns that all rows can be read with.

    DuckDB guesses types from the first 20,480 rows and fails on the first row that is otherwise:
    an id that is a number so far and text from then on, a word for nothing in a column of numbers.
    One pass over the file as text tells.

    Args:
        read: reads the file with columns of these types.
        guessed: the types of all columns, by name.
        ids: columns that hold integers, or else text as it is written: 007 is not 7.
    """
    doubtful = [name for name, kind in guessed.items() if kind in _CHECKED or name in ids]
    types = dict(guessed)
    if not doubtful:
        return types
    text = read(types | dict.fromkeys(doubtful, _TEXT))
    counts = ", ".join(count for name in doubtful for count in _counts(quoted_name(name)))
    found = iter(text.aggregate(counts).fetchall()[0])
    for name in doubtful:
        filled, whole, number, truth = (next(found) for _ in range(4))
        fits = {"BIGINT": whole, "DOUBLE": number, "BOOLEAN": truth}
        if name in ids:
            types[name] = "BIGINT" if filled == whole > 0 else _TEXT
        elif fits[guessed[name]] != filled:
            types[name] = "DOUBLE" if number == filled else _TEXT
    return types


def _counts(column: str) -> tuple[str, str, str, str]:
    """Return SQL that counts values, integers as integers are written, numbers, and truth values."""
    return (
        f"count({column})",
        f"count_if(TRY_CAST({column} AS BIGINT)::VARCHAR = {column})",
        f"count(TRY_CAST({column} AS DOUBLE))",
        f"count_if(lower({column}) IN ('true', 'false'))",
    )
