import gzip

import duckdb
import pytest

from prsrank.logs.column_types import is_plain, types_throughout
from prsrank.logs.sources import open_events

IDS = ("id",)
TYPES = {"id": "BIGINT", "x": "DOUBLE", "n": "BIGINT", "c": "BOOLEAN", "t": "VARCHAR"}
PLAIN = [
    "12,0.5,3,true,some text",
    "-7,-1e-3,0,False,",
    ",,,,",
    "0,12,-1,TRUE,1.5",
    "1234567890123456789,1,1,true,a",
]
ODD = {
    "leading zero": "007,1,1,true,a",
    "minus zero": "-0,1,1,true,a",
    "plus": "+7,1,1,true,a",
    "space": " 7,1,1,true,a",
    "rounded": "1.5,1,1,true,a",
    "power": "1e2,1,1,true,a",
    "underscore": "1_000,1,1,true,a",
    "beyond 64 bits": "99999999999999999999,1,1,true,a",
    "text in an id": "x7,1,1,true,a",
    "fraction in a count": "7,1,1.5,true,a",
    "text in a number": "7,none,1,true,a",
    "yes": "7,1,1,yes,a",
    "one for true": "7,1,1,1,a",
}
UNTOLD = {
    "quoted": '"7",1,1,true,a',
    "a comma in quotes": '7,1,1,true,"a,b"',
    "nan": "7,nan,1,true,a",
    "a lone minus": "-,1,1,true,a",
    "too few fields": "7,1,1,true",
    "too many fields": "7,1,1,true,a,b",
}


def told(folder, line, *, end="\n", delimiter=",", blocks=False):
    """Whether a file with this line among plain ones is plain; and the file."""
    file = folder / "log.csv"
    head = delimiter.join(TYPES)
    rows = (PLAIN * (100_000 if blocks else 3)) + [line] + PLAIN
    file.write_text(end.join([head, *(row.replace(",", delimiter) for row in rows)]) + end)
    return is_plain([file], TYPES, IDS, 2), file


def found_types(file):
    with duckdb.connect() as connection:

        def read(types):
            return connection.read_csv([str(file)], header=True, dtype=types)

        return types_throughout(read, TYPES, IDS)


@pytest.mark.parametrize("line", PLAIN)
def test_what_is_plain_has_the_guessed_types_by_duckdb_too(tmp_path, line):
    plain, file = told(tmp_path, line)
    assert plain
    assert found_types(file) == TYPES


@pytest.mark.parametrize("name", ODD)
def test_what_duckdb_finds_to_be_otherwise_is_not_plain(tmp_path, name):
    plain, file = told(tmp_path, ODD[name])
    assert found_types(file) != TYPES
    assert not plain


@pytest.mark.parametrize("name", UNTOLD)
def test_what_cannot_be_told_is_left_to_duckdb(tmp_path, name):
    assert not told(tmp_path, UNTOLD[name])[0]


@pytest.mark.parametrize(
    "number",
    ["5", "0.25", "-3.5e10", "1E5", "12345678901234567890.5", "0e0", "1.", ".5", "+5", "1 "],
)
def test_duckdb_reads_the_numbers_that_are_plain(tmp_path, number):
    plain, file = told(tmp_path, f"7,{number},1,true,a")
    types = dict.fromkeys(TYPES, "VARCHAR") | {"x": "DOUBLE"}
    read = duckdb.connect().read_csv(str(file), header=True, dtype=types).fetchall()
    assert any(row[1] == float(number) for row in read)
    assert plain
    assert found_types(file) == TYPES


def test_an_empty_line_is_passed_over_by_duckdb_too(tmp_path):
    _, file = told(tmp_path, "")
    assert found_types(file) == TYPES


@pytest.mark.parametrize("number", ["1e", "1e999", "0x10", "inf", "5-"])
def test_numbers_of_another_shape_are_not_plain(tmp_path, number):
    assert not told(tmp_path, f"7,{number},1,true,a")[0]


def test_ends_of_lines_and_delimiters(tmp_path):
    assert told(tmp_path, PLAIN[0], end="\r\n")[0]
    assert told(tmp_path, PLAIN[0], delimiter="\t")[0]
    assert told(tmp_path, PLAIN[0], delimiter=";")[0]
    assert not told(tmp_path, PLAIN[0], delimiter="~")[0]
    file = tmp_path / "no-end.csv"
    file.write_text("id,x,n,c,t\n7,1,1,true,a")
    assert is_plain([file], TYPES, IDS, 1)
    file.write_text("id,x,n,c,t\n7,1,1,true")
    assert not is_plain([file], TYPES, IDS, 1)


def test_every_block_and_every_file_is_looked_at(tmp_path):
    assert told(tmp_path, PLAIN[0], blocks=True)[0]
    plain, odd = told(tmp_path, ODD["leading zero"], blocks=True)
    assert not plain
    good = tmp_path / "good.csv"
    good.write_text("id,x,n,c,t\n7,1,1,true,a\n")
    assert is_plain([good, good], TYPES, IDS, 2)
    assert not is_plain([good, odd], TYPES, IDS, 2)
    other = tmp_path / "other.csv"
    other.write_text("x,id,n,c,t\n1,7,1,true,a\n")
    assert not is_plain([good, other], TYPES, IDS, 2)


def test_a_packed_file_and_a_doubtful_id(tmp_path):
    file = tmp_path / "log.csv.gz"
    file.write_bytes(gzip.compress(b"id,x,n,c,t\n7,1,1,true,a\n"))
    assert is_plain([file], TYPES, IDS, 1)
    assert not is_plain([file], TYPES | {"id": "DOUBLE"}, IDS, 1)
    assert is_plain([file], TYPES | {"id": "VARCHAR"}, IDS, 1)


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
