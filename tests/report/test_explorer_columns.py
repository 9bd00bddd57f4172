"""Texts beside docs."""

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.logs.mapping import LogMapping
from prsrank.report.explorer_data import LONGEST, split_columns, text_columns

QUERIES, DOCS = np.array([7, 7, 8]), np.array(["a", "b", "a"])


@pytest.fixture
def files(tmp_path):
    table, log = tmp_path / "table.csv", tmp_path / "log.csv"
    table.write_text(f'query_id,doc_id,title\n7,a,"It\'s ""A"""\n7,b,{"x" * 300}\n9,a,other\n')
    log.write_text("srch,doc_id,url,title\n8,a,u8,no\n7,a,u7,no\n7,a,u7,no\n7,b,,no\n")
    return [table, log]


def test_each_column_comes_from_the_first_table_that_has_it(files):
    mapping = LogMapping(columns={"query_id": "srch"})
    found = text_columns(["url", "title"], files, QUERIES, DOCS, mapping=mapping)
    assert list(found) == ["url", "title"]
    assert found["title"] == ['It\'s "A"', "x" * LONGEST, ""]
    assert found["url"] == ["u7", "", "u8"]


def test_lists_by_session_have_the_texts_of_their_query(files):
    found = text_columns(
        ["title"], files[:1], np.array(["7#1", "7#2", "8"]), DOCS, mapping=LogMapping()
    )
    assert found["title"] == ['It\'s "A"', "x" * LONGEST, ""]


def test_a_column_that_is_not_there_is_named(files):
    with pytest.raises(InputError, match="no column 'titel'; did you mean 'title'"):
        text_columns(["titel"], files, QUERIES, DOCS, mapping=LogMapping())


def test_a_text_that_all_docs_of_a_query_have_is_the_querys():
    columns = {"text": ["shoes", "shoes", "hats"], "title": ["1", "2", "3"]}
    assert split_columns(columns, [0, 2, 3]) == (
        {"text": ["shoes", "hats"]},
        {"title": ["1", "2", "3"]},
    )
