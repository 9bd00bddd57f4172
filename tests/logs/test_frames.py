"""Logs as frames: messages speak of frames and columns, not of files and flags."""

import pandas
import pytest

from prsrank.errors import InputError
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import read_log

LOG = pandas.DataFrame(
    {
        "query_id": ["q", "q", "r", "r"],
        "session_id": [1, 1, 2, 2],
        "doc_id": ["a", "b", "a", "b"],
        "position": [1, 2, 1, 2],
        "click": [0, 1, 1, 0],
        "x": ["0,5", "NULL", "1,25", "2"],
    }
)


def test_numbers_in_text_are_read_from_a_frame_too():
    with pytest.warns(match="the log: 'NULL' is read as a missing value"):
        _, lists = read_log(LOG, mapping=LogMapping(features=("x",)))
    assert lists.features[[0, 2, 3], 0].tolist() == [0.5, 1.25, 2]


@pytest.mark.parametrize(
    ("log", "mapping", "said"),
    [
        (
            LOG.drop(columns="session_id"),
            LogMapping(),
            "the log has no column 'session_id'; it has query_id, doc_id, position, click, x; where "
            "every query is one session, map session_id to the query's column",
        ),
        (LOG, LogMapping(features=("y",)), "has no column 'y' (feature)"),
        (
            LOG.assign(x="word"),
            LogMapping(features=("x",)),
            "feature 'x' must hold numbers, not text such as 'word'",
        ),
        (
            LOG.assign(x=[1, 2, 3, 4], query_id="q", doc_id=["a", "b", "a", "b"]),
            LogMapping(features=("x",)),
            "lists by session make a list of its own of every set of features",
        ),
        (LOG.assign(doc_id="a"), LogMapping(), "duplicates = 'first' keeps the first of each"),
        (3, LogMapping(), "or a mapping of arrays, not int"),
    ],
)
def test_messages(log, mapping, said):
    with pytest.raises(InputError) as error:
        read_log(log, mapping=mapping)
    assert said in str(error.value)
    assert "--" not in str(error.value)
    assert "file" not in str(error.value)
