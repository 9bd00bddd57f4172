"""Types of the columns of text files that hold for every row, not only for the first ones.

DuckDB guesses types from the first 20,480 rows and fails on the first row that is otherwise: an id
that is a number so far and text from then on, a word for nothing in a column of numbers. Asking it
for types that hold throughout takes a pass that reads every value as text and casts it, twice as long
as reading the file. CSV files as programs mostly write them need no such pass: Arrow can tell.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsrank.data.line_blocks import blocks_of_lines
from prsrank.logs.sql_text import quoted_name
from prsrank.threads import map_in_order

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
    counted = iter(text.aggregate(counts).fetchall()[0])
    for name in doubtful:
        filled, whole, number, truth = (next(counted) for _ in range(4))
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


def is_plain(
    files: Sequence[Path], guessed: Mapping[str, str], ids: Sequence[str], threads: int
) -> bool:
    """Tell whether all rows of CSV files can be read with the guessed types.

    False means that this cannot tell: something is quoted, or a line is short, or a number odd.
    Of what is called plain, `types_throughout` would find the guessed types.

    Args:
        files: they must have the same columns in the same order.
        guessed: DuckDB's types of all columns, by name, in their order.
        ids: columns that hold integers, or else text as it is written.
        threads: how many.
    """
    if any(guessed.get(name) not in (None, "BIGINT", "VARCHAR") for name in ids):
        return False
    return all(_is_plain_file(file, guessed, threads) for file in files)


def _is_plain_file(file: Path, guessed: Mapping[str, str], threads: int) -> bool:
    blocks = blocks_of_lines(file)
    header, _, first = next(blocks, b"").partition(b"\n")
    columns = [name.encode() for name in guessed]
    delimiters = [mark for mark in ",\t;|" if header.strip(b"\r") == mark.encode().join(columns)]
    if not delimiters:
        return False
    holds = partial(_fits, guessed=guessed, delimiter=delimiters[0])
    return all(map_in_order(holds, chain([first], blocks), threads=threads))


def _fits(text: bytes, guessed: Mapping[str, str], delimiter: str) -> bool:
    """Tell whether Arrow reads whole lines with the guessed types, and integers as written."""
    import pyarrow as pa
    from pyarrow import csv

    kinds = {"DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(), "BIGINT": pa.string()}
    types = {name: kinds[kind] for name, kind in guessed.items() if kind in kinds}
    if not text or not types:
        return True
    try:
        table = csv.read_csv(
            pa.BufferReader(text),
            csv.ReadOptions(
                use_threads=False, block_size=len(text) + 1, column_names=list(guessed)
            ),
            csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[""],
                strings_can_be_null=True,
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
            ),
        )
        return all(_holds_throughout(table[name], guessed[name]) for name in types)
    except pa.ArrowInvalid:
        return False


def _holds_throughout(column: Any, kind: str) -> bool:
    """Tell whether a column holds integers as they are written, finite numbers, or truth values."""
    import pyarrow.compute as pc

    if kind == "BOOLEAN":
        return True
    if kind == "DOUBLE":
        good = pc.is_finite(column)
    else:
        column.cast("int64")  # or it is invalid
        padded = pc.and_not(pc.starts_with(column, "0"), pc.equal(column, "0"))
        good = pc.invert(pc.or_(padded, pc.starts_with(column, "-0")))
    return bool(pc.all(good, min_count=0).as_py())
