"""Columns of a table of features or of a log that are shown beside docs, as text."""

import itertools
from collections.abc import Sequence

from prsrank.data.ids import texts_of
from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.features import original_queries
from prsrank.logs.mapping import LogMapping
from prsrank.logs.row_rules import nearest_column
from prsrank.logs.sql_text import quoted_name, quoted_text
from prsrank.logs.tables import connected, errors_in_one_line, open_table
from prsrank.types import IdArray

LONGEST = 200
"""Letters of a text that are shown."""


def text_columns(
    names: Sequence[str],
    files: Sequence[FileName],
    query_ids: IdArray,
    doc_ids: IdArray,
    mapping: LogMapping,
) -> dict[str, list[str]]:
    """Return the text of each doc in each of the columns; "" where there is none.

    Args:
        names: the columns.
        files: tables, the first that has a column and is keyed by query and doc is asked for it.
        query_ids: the query of each doc.
        doc_ids: the docs.
        mapping: which columns of the tables are query and doc.

    Raises:
        InputError: naming a column that none of the tables has.
    """
    queries = texts_of(original_queries(query_ids)).tolist()
    keys = list(zip(queries, texts_of(doc_ids).tolist(), strict=True))
    asked_for = ", ".join(map(quoted_text, sorted(set(queries))))
    texts: dict[str, list[str]] = {}
    columns: dict[str, str] = {}
    for file in files:
        with connected() as connection, errors_in_one_line(str(file)):
            table = open_table(connection, file)
            columns |= dict.fromkeys(table.columns, "")
            here = [name for name in names if name in table.columns and name not in texts]
            pairs = [(mapping.column(name), name) for name in ("query_id", "doc_id")]
            keyed = [next((name for name in pair if name in table.columns), None) for pair in pairs]
            if not here or None in keyed:
                continue
            query, doc = (f"{quoted_name(str(column))}::VARCHAR" for column in keyed)
            # a doc may have another text in another session: the first in order stands for all
            first = [f"left(min({quoted_name(name)}::VARCHAR), {LONGEST})" for name in here]
            rows = table.filter(f"{query} IN ({asked_for})").aggregate(
                f"{query} AS q, {doc} AS d, {', '.join(first)}", f"{query}, {doc}"
            )
            of_docs = {row[:2]: row[2:] for row in rows.fetchall()}
        for i, name in enumerate(here):
            texts[name] = [of_docs[key][i] or "" if key in of_docs else "" for key in keys]
    for name in names:
        if name not in texts:
            raise InputError(f"--show: there is no column {name!r}{nearest_column(name, columns)}")
    return {name: texts[name] for name in names}


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
