"""Columns of a table of features or of a log that are shown beside docs, as text."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prsrank.data.ids import texts_of
from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.features import original_queries
from prsrank.logs.mapping import LogMapping
from prsrank.logs.row_rules import nearest_column
from prsrank.logs.sql_text import quoted_name, quoted_text
from prsrank.logs.tables import connected, errors_in_one_line, open_table
from prsrank.types import IdArray

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

LONGEST = 200
"""Letters of a text that are shown."""


def text_columns(
    names: Sequence[str],
    files: Sequence[FileName],
    query_ids: IdArray,
    doc_ids: IdArray,
    *,
    mapping: LogMapping | None = None,
    memory: str | None = None,
) -> dict[str, list[str]]:
    """Return the text of each doc in each of the columns; "" where there is none.

    Args:
        names: the columns.
        files: tables keyed by query and doc, the first that has a column is asked for it.
        query_ids: the query of each doc.
        doc_ids: the docs.
        mapping: which columns of the tables are query and doc.
        memory: how much to hold.

    Raises:
        InputError: naming a column that none of the tables has.
    """
    queries = texts_of(original_queries(query_ids)).tolist()
    keys = list(zip(queries, texts_of(doc_ids).tolist(), strict=True))
    texts: dict[str, list[str]] = {}
    columns: dict[str, str] = {}
    for file in files:
        with connected(memory=memory) as connection, errors_in_one_line(str(file)):
            table = open_table(connection, file)
            columns |= dict.fromkeys(table.columns, "")
            here = [name for name in names if name in table.columns and name not in texts]
            values = _texts(table, here, set(queries), mapping or LogMapping())
        if values is not None:
            none = (None,) * len(here)
            rows = [values.get(key, none) for key in keys]
            texts |= {name: [row[i] or "" for row in rows] for i, name in enumerate(here)}
    for name in names:
        if name not in texts:
            raise InputError(f"--show: there is no column {name!r}{nearest_column(name, columns)}")
    return {name: texts[name] for name in names}


def _texts(
    table: "DuckDBPyRelation", names: Sequence[str], queries: set[str], mapping: LogMapping
) -> dict[tuple[str, str], tuple[str | None, ...]] | None:
    """Return the texts of docs by query and doc; None for a table that is not keyed by them."""
    keys = [(mapping.column(name), name) for name in ("query_id", "doc_id")]
    columns = [next((name for name in key if name in table.columns), None) for key in keys]
    if not names or None in columns:
        return None
    query, doc = (f"{quoted_name(str(column))}::VARCHAR" for column in columns)
    kept = table.filter(f"{query} IN ({', '.join(map(quoted_text, sorted(queries)))})")
    # a doc may have another text in another session: the first in order stands for all
    texts = ", ".join(f"left(min({quoted_name(name)}::VARCHAR), {LONGEST})" for name in names)
    rows = kept.aggregate(f"{query} AS q, {doc} AS d, {texts}", f"{query}, {doc}")
    return {row[:2]: row[2:] for row in rows.fetchall()}


def split_columns(
    columns: dict[str, list[str]], offsets: Sequence[int]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Tell columns of queries, in which all docs of a query have one text, from those of docs.

    Returns:
        The text of each query by column, and that of each doc by column.

    >>> split_columns({"q": ["a", "a", "b"], "d": ["1", "2", "3"]}, [0, 2, 3])
    ({'q': ['a', 'b']}, {'d': ['1', '2', '3']})
    """
    bounds = list(itertools.pairwise(offsets))
    of_queries, of_docs = {}, {}
    for name, texts in columns.items():
        if all(len(set(texts[start:stop])) == 1 for start, stop in bounds):
            of_queries[name] = [texts[start] for start, _ in bounds]
        else:
            of_docs[name] = texts
    return of_queries, of_docs
