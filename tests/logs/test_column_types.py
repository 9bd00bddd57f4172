import duckdb
import pytest

from prsrank.logs.reading import open_events
from prsrank.logs.tables import types_throughout

IDS = ("id",)
TYPES = {"id": "BIGINT", "x": "DOUBLE", "n": "BIGINT", "c": "BOOLEAN", "t": "VARCHAR"}
GOOD = [
    "12,0.5,3,true,some text",
    "-7,-1e-3,0,False,",
    ",,,,",
    "0,12,-1,TRUE,1.5",
    "1234567890123456789,1,1,true,a",
    '"7",+5,1,true,"a,b"',
    "7,12345678901234567890.5,1,true,a",
    "",
]
ODD = {
    "007,1,1,true,a": {"id": "VARCHAR"},
    "-0,1,1,true,a": {"id": "VARCHAR"},
    "+7,1,1,true,a": {"id": "VARCHAR"},
    " 7,1,1,true,a": {"id": "VARCHAR"},
    "1.5,1,1,true,a": {"id": "VARCHAR"},
    "1e2,1,1,true,a": {"id": "VARCHAR"},
    "1_000,1,1,true,a": {"id": "VARCHAR"},
    "99999999999999999999,1,1,true,a": {"id": "VARCHAR"},
    "x7,1,1,true,a": {"id": "VARCHAR"},
    "7,1,1.5,true,a": {"n": "VARCHAR"},
    "7,none,1,true,a": {"x": "VARCHAR"},
    "7,1,none,yes,a": {"n": "VARCHAR", "c": "VARCHAR"},
    "7,1,1,1,a": {"c": "VARCHAR"},
}


def types_of(folder, line):
    file = folder / "log.csv"
    file.write_text("\n".join([",".join(TYPES), *GOOD, line, *GOOD]) + "\n")
    with duckdb.connect() as connection:

        def read(types):
            return connection.read_csv([str(file)], header=True, dtype=types)

        return types_throughout(read, TYPES, IDS)


@pytest.mark.parametrize("line", GOOD)
def test_guessed_types_that_hold_stay(tmp_path, line):
    assert types_of(tmp_path, line) == TYPES


@pytest.mark.parametrize("line", ODD)
def test_one_odd_value_gives_its_column_another_type(tmp_path, line):
    assert types_of(tmp_path, line) == TYPES | ODD[line]


@pytest.mark.parametrize("odd", ["", "007", "x"])
def test_events_of_a_log_are_the_same_by_either_way(tmp_path, odd):
    rows = [
        (query, query, doc, doc % 10 + 1, doc % 3 == 0)
        for query in range(3000)
        for doc in range(10)
    ]
    rows += [(odd, 5000, 1, 1, True)] if odd else []
    file = tmp_path / "log.csv"
    lines = (",".join(map(str, row)) for row in rows)
    file.write_text("\n".join(["query_id,session_id,doc_id,position,click", *lines]) + "\n")
    with open_events(file) as events:
        found = events.rows("query_id, session_id, doc_id, position, click", limit=10**6)
        assert events.types["query_id"] == ("VARCHAR" if odd else "BIGINT")
    kind = str if odd else int
    assert sorted(found) == sorted((kind(q), s, d, p, int(c)) for q, s, d, p, c in rows)
