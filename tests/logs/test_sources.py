"""Opening logs: kinds of files, mappings, actions, features, and what is wrong with them."""

import os
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_files import write_compact, write_events
from prsrank.logs.mapping import LogMapping, read_mapping
from prsrank.logs.reading import open_events, read_click_log, read_log
from prsrank.logs.tables import connected

HEADER = "query_id,session_id,doc_id,position,click\n"
ROWS = "q,1,a,1,0\nq,1,b,2,1\nq,2,a,1,1\nq,2,b,2,0\n"


@pytest.fixture
def csv(tmp_path) -> Path:
    file = tmp_path / "log.csv"
    file.write_text(HEADER + ROWS)
    return file


def copy(csv: Path, target: Path, options: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    duckdb.sql(f"COPY (FROM '{csv}') TO '{target}' ({options})")
    return target


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.parquet", "FORMAT parquet"),
        ("a.csv", "FORMAT csv"),
        ("a.csv.gz", "FORMAT csv, COMPRESSION gzip"),
        ("a.tsv", "FORMAT csv, DELIMITER '\t'"),
        ("a.jsonl", "FORMAT json"),
        ("a.ndjson.gz", "FORMAT json, COMPRESSION gzip"),
        ("a[1] 'x'.parquet", "FORMAT parquet"),
    ],
)
def test_every_kind_of_file_folder_and_glob(csv, tmp_path, name, options):
    expected, _ = read_log(csv)
    file = tmp_path / "in" / "day=1" / name
    file.parent.mkdir(parents=True)
    draft = copy(csv, tmp_path / "draft", options)
    draft.rename(file)
    (tmp_path / "in" / "_SUCCESS").touch()
    paths = [file, tmp_path / "in", tmp_path / "in" / "**" / ("a*" + file.suffix), [file]]
    for path in paths:
        log, lists = read_log(path)
        assert log.equals(expected)
        assert lists is None


def test_several_files_are_one_log(csv, tmp_path):
    expected, _ = read_log(csv)
    for session in (1, 2):
        rows = (
            f"COPY (FROM '{csv}' WHERE session_id = {session}) TO '{tmp_path}/in{session}.parquet'"
        )
        duckdb.sql(rows)
    log, _ = read_log([tmp_path / "in1.parquet", tmp_path / "in2.parquet"])
    assert log.equals(expected)
    assert read_log(tmp_path / "in?.parquet")[0].equals(expected)


def test_a_compact_log_and_stored_contexts(csv, tmp_path):
    frame = {**_columns(), "device": np.array(["x", "x", "y", "y"])}
    log = ClickLog.from_frame(frame, contexts=["device"])
    write_compact(log, tmp_path / "compact")
    write_events(log, tmp_path / "events.parquet")
    for path in (tmp_path / "compact", tmp_path / "events.parquet"):
        with open_events(path) as source:
            assert source.contexts == ("device",)
        assert read_log(path)[0].equals(log)
    with pytest.raises(InputError, match="no columns to map"):
        read_log(tmp_path / "compact", mapping=LogMapping(positions_from=0))


def _frames(columns, folder):
    """Yield the same events in every form that has columns."""
    import pandas
    import polars
    import pyarrow

    yield columns
    yield pandas.DataFrame(columns)
    yield polars.DataFrame(columns)
    yield polars.LazyFrame(columns)
    yield pyarrow.table(columns)
    with duckdb.connect() as connection:
        connection.register("mine", pandas.DataFrame(columns))
        yield connection.table("mine")
    pandas.DataFrame(columns).to_parquet(folder / "frame.parquet")
    yield folder / "frame.parquet"


def test_every_form_with_columns_takes_the_same_mapping(tmp_path):
    frame = _columns()
    own = {"q": frame.pop("query_id"), "rank": frame.pop("position") - 1, **frame}
    own |= {"device": np.array(["x", "x", "y", "y"]), "f": np.array([0.5, 2.0, 0.5, 2.0])}
    mapping = LogMapping(
        columns={"query_id": "q", "position": "rank"},
        contexts=("device",),
        features=("f",),
        positions_from=0,
    )
    expected = ClickLog.from_frame({**_columns(), "device": own["device"]}, contexts=["device"])
    for form in _frames(own, tmp_path):
        log, lists = read_log(form, mapping=mapping)
        assert log.equals(expected), type(form)
        assert lists.features[:, 0].tolist() == [0.5, 2.0]
        assert read_click_log(form, mapping=mapping).equals(expected)
        with open_events(form, mapping=mapping) as source:
            assert source.total("count(*), max(position)") == (4, 2)
    with pytest.raises(InputError, match="the log has no column 'nothing'"):
        read_click_log(own, mapping=LogMapping(columns={"query_id": "nothing"}))
    with pytest.raises(InputError, match="must be a pandas, Polars, Arrow or DuckDB frame"):
        read_click_log(7)


def test_a_click_log_in_memory_and_a_compact_one_are_logs_like_others(tmp_path, monkeypatch):
    log = ClickLog.from_frame(_columns())
    write_compact(log, tmp_path / "compact")
    table = tmp_path / "features.csv"
    table.write_text("query_id,doc_id,f\n1,5,0.5\n1,6,2\n9,1,3\n")
    with open_events(log) as source:
        assert sorted(source.rows("doc_id, position", where="click", limit=9)) == [(5, 1), (6, 2)]
    monkeypatch.setattr("prsrank.logs.reading.open_events", None)  # no detour over events
    for form in (log, tmp_path / "compact"):
        assert read_click_log(form).equals(log)
        found, lists = read_log(form, features=table)
        assert found.equals(log)
        assert lists.query_ids.tolist() == [1]
        assert lists.features[:, 0].tolist() == [0.5, 2.0]
        with pytest.raises(InputError, match="no columns to map"):
            read_click_log(form, mapping=LogMapping(positions_from=0))


def _columns() -> dict[str, np.ndarray]:
    return {
        "query_id": np.array([1, 1, 1, 1]),
        "session_id": np.array([1, 1, 2, 2]),
        "doc_id": np.array([5, 6, 5, 6]),
        "position": np.array([1, 2, 1, 2]),
        "click": np.array([0, 1, 1, 0]),
    }


def test_columns_are_mapped_and_others_dropped(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(
        'srch,"do""c",rank,clicked,booked,random_bool,when,device,price\n'
        "1,a,0,1,0,1,2026-01-01 00:00:00,x,2.5\n1,b,1,0,0,1,2026-01-01 00:00:01,x,\n"
        "2,a,0,1,1,0,2026-01-02,y,2.5\n2,b,1,0,,0,2026-01-02,y,\n"
    )
    toml = tmp_path / "mapping.toml"
    toml.write_text(
        'positions_from = 0\ncontext = ["device"]\nrandom = "random_bool"\n[columns]\n'
        'query_id = "srch"\ndoc_id = "do\\"c"\nposition = "rank"\ntimestamp = "when"\n'
        '[actions]\nclicked = 1\nbooked = 5\n[features]\ncolumns = ["pri*"]\n'
    )
    mapping = read_mapping(toml).with_columns(["session_id=srch"])
    with open_events(file, mapping=mapping, memory="200MB", threads=1) as source:
        assert set(source.types) == {
            *("query_id", "session_id", "doc_id", "position", "click", "weight"),
            *("randomised", "timestamp", "device", "price"),
        }
        rows = sorted(source.rows("query_id, doc_id, position, click, weight, randomised", limit=9))
    assert rows == [
        (1, "a", 1, 1, 1.0, True),
        (1, "b", 2, 0, 0.0, True),
        (2, "a", 1, 1, 5.0, False),
        (2, "b", 2, 0, 0.0, False),
    ]
    log, lists = read_log(file, mapping=mapping)
    assert log.designs == ("", "uniform")
    assert log.contexts["device"].values == ("x", "y")
    assert lists.feature_names == ("price",)
    np.testing.assert_array_equal(lists.features[:, 0], [2.5, np.nan, 2.5, np.nan])
    assert lists.labels is None


def test_single_actions_are_gathered(tmp_path):
    file = tmp_path / "log.jsonl"
    rows = [
        ("view", "a", 1),
        ("view", "b", 4),
        ("click", "b", 4),
        ("buy", "b", 4),
        ("it's", "a", 1),
        ("click", "c", 9),
    ]
    file.write_text(
        "".join(
            f'{{"q":"x","s":"1","d":"{d}","action":"{a}","position":{p}}}\n' for a, d, p in rows
        )
    )
    mapping = LogMapping(
        columns={"query_id": "q", "session_id": "s", "doc_id": "d"},
        actions={"click": 1, "buy": 10, "it's": 0},
    )
    with open_events(file, mapping=mapping) as source:
        found = sorted(source.rows("doc_id, position, click, weight, impression", limit=9))
    assert found == [("a", 1, 0, 0.0, True), ("b", 4, 1, 10.0, True), ("c", 9, 1, 1.0, False)]
    assert read_log(file, mapping=mapping)[0].ranking_positions.tolist() == [1, 4, 9]


def test_a_table_of_features(csv, tmp_path):
    table = tmp_path / "features.csv"
    table.write_text(
        "query_id,doc_id,f1,name,f2\nq,b,2,x,0.5\nq,a,1,y,\nq,a,1,y,\nq,never,7,z,1\nother,a,9,z,1\n"
    )
    log, lists = read_log(csv, features=table)
    assert lists.query_ids.tolist() == ["q"]
    assert lists.doc_ids.tolist() == ["a", "b", "never"]
    assert lists.feature_names == ("f1", "f2")
    np.testing.assert_array_equal(lists.features, np.float32([[1, np.nan], [2, 0.5], [7, 1]]))
    assert log.doc_rows(lists).tolist() == [0, 1]
    second = tmp_path / "more.csv"
    second.write_text("query_id,doc_id,f1,name,f2\nq,b,3,x,0.5\n")
    with pytest.raises(
        InputError, match=r"feature 'f1' has two values for doc b of query q \(1 such"
    ):
        read_log(csv, features=[table, second])
    second.write_text("doc,f1\nb,3\n")
    with pytest.raises(InputError, match="no column 'query_id'"):
        read_log(csv, features=second)


def test_features_that_change_between_sessions(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(
        HEADER.strip()
        + ",f\nq,1,a,1,0,1\nq,1,b,2,1,2\nq,2,a,1,0,1\nq,2,b,2,1,3\nq,3,b,1,0,2\nq,3,a,2,1,1\nr,1,a,1,1,\nr,1,b,2,0,1\n"
    )
    mapping = LogMapping(features=("f",))
    with pytest.raises(
        InputError, match=r"feature 'f' has two values for doc b of query q.*lists = 'session'"
    ):
        read_log(file, mapping=mapping)
    log, lists = read_log(file, mapping=replace(mapping, lists="session"))
    assert lists.query_ids.tolist() == ["q#1", "q#2", "r"]
    assert log.session_ranking.tolist() == [0, 1, 2, 3]
    assert log.query_ids[log.ranking_query].tolist() == ["q#1", "r", "q#2", "q#1"]
    np.testing.assert_array_equal(lists.features[:, 0], [1, 2, 1, 3, np.nan, 1])
    with pytest.raises(InputError, match="lists must be"):
        LogMapping(lists="page")


def test_rows_are_not_checked_on_opening(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(HEADER + "q,1,a,1000000000,0\nq,1,a,0,7\nq,1,,,1\n")
    with open_events(file) as source:
        assert source.total("count(*), max(position), max(click), count(doc_id)") == (
            3,
            10**9,
            7,
            2,
        )
    with pytest.raises(InputError, match=r"log\.csv: .*missing \(null\) in 1 of 3 rows"):
        read_log(file)


def test_the_folder_for_spilling_is_removed(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with connected(memory="100MB") as connection:
        folder = connection.execute("SELECT current_setting('temp_directory')").fetchall()[0][0]
        assert Path(folder).parent == tmp_path
    assert not list(tmp_path.iterdir())


BROKEN = {
    "empty": (b"", "the file is empty"),
    "truncated.parquet": (b"PAR1 and then nothing", "is cut short"),
    "text.parquet": (b"query_id,session_id\n1,1\n", "is no Parquet file"),
    "forged.parquet": (b"PAR1" + b"x" * 50 + b"PAR1", "cannot be read"),
    "notes.docx": (b"hello", "not a log"),
    "broken.jsonl": (b'{"query_id": 1}\n{"query', "cannot be read|no column"),
    "header.csv": (HEADER.encode(), "it has no rows|cannot"),
    "other.csv": (
        b"query_id,session_id,doc_id,positon,click\n1,1,1,1,1\n",
        "did you mean 'positon'",
    ),
    "late.csv": (
        (HEADER + "q,1,a,1,0\n" * 30_000 + "q,1,b,two,0\n").encode(),
        "not text such as 'two'",
    ),
    "type.csv": ((HEADER + "q,1,a,one,0\nq,1,b,two,1\n").encode(), "'position' must hold whole"),
    "huge.csv": ((HEADER + "q,1,a,1000000000,0\n").encode(), "position 1000000000 is above"),
    "zero.csv": ((HEADER + "q,1,a,0,0\nq,1,b,1,1\n").encode(), "positions start at 1"),
    "clicks.csv": ((HEADER + "q,1,a,1,2\n").encode(), "click 2"),
    "twice.csv": ((HEADER + "q,1,a,1,0\nq,1,a,2,1\n").encode(), "doc a twice"),
    "place.csv": ((HEADER + "q,1,a,1,0\nq,1,b,1,1\n").encode(), "position 1 twice"),
    "latin.csv": (HEADER.encode() + "q,1,\xe9,1,0\n".encode("latin-1"), "cannot be read|utf-8"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_named_in_one_line(tmp_path, name):
    content, problem = BROKEN[name]
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(InputError, match=problem) as caught:
        read_log(file)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)
    assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


def test_emoji_and_markup_are_ids_like_others(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(HEADER + '🍕 <b>,1,é\'""x,1,0\n🍕 <b>,1,--,2,1\n', encoding="utf-8")
    log, _ = read_log(file)
    assert log.query_ids.tolist() == ["🍕 <b>"]


def test_broken_folders(tmp_path, csv, monkeypatch):
    with pytest.raises(InputError, match="no such file"):
        read_log(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no file matches"):
        read_log(str(tmp_path / "*.pq"))
    with pytest.raises(InputError, match="no file to read"):
        read_log([])
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(InputError, match="holds no Parquet, CSV or JSONL"):
        read_log(folder)
    copy(csv, folder / "a.parquet", "FORMAT parquet")
    (folder / "b.csv").write_text(HEADER + ROWS)
    with pytest.raises(InputError, match=r"both Parquet \(a.parquet\) and CSV \(b.csv\)"):
        read_log(folder)
    (folder / "b.csv").unlink()
    (folder / "c.parquet").write_bytes((folder / "a.parquet").read_bytes()[:-10])
    with pytest.raises(InputError, match=r"c\.parquet: is cut short"):
        read_log(folder)
    duckdb.sql(f"COPY (SELECT * EXCLUDE click FROM '{csv}') TO '{folder}/c.parquet'")  # noqa: S608
    with pytest.raises(InputError, match=r"c\.parquet: has no column 'click'"):
        read_log(folder)
    (folder / "c.parquet").unlink()

    def refuse(path, onerror):
        onerror(PermissionError(13, "Permission denied", str(path)))
        return iter(())

    monkeypatch.setattr(os, "walk", lambda path, onerror: refuse(path, onerror))
    with pytest.raises(InputError, match="in: cannot be read: Permission denied"):
        read_log(folder)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[column]\n", "there is no key 'column': did you mean 'columns'"),
        ('[columns]\nqueryid = "q"\n', "no meaning 'queryid': did you mean 'query_id'"),
        ("[columns]\nquery_id = 3\n", "columns.query_id must be a text, not 3"),
        ('[actions]\nclick = "much"\n', "actions.click must be a finite number, not 'much'"),
        ("[actions]\nclick = -1\n", "weight of action 'click'"),
        ("[actions]\nclick = 0\n", "no action counts"),
        ("positions_from = 2\n", "positions_from must be 0 or 1"),
        ("context = 5\n", "context must be a text or a list, not 5"),
        ('[features]\ncolumn = ["a"]\n', "no key 'features.column': did you mean 'columns'"),
        ("random = 1\n", "random must be a text, not 1"),
        ('random = "r"\n[columns]\nrandomised = "s"\n', "randomised is mapped twice"),
        ('lists = "page"\n', "lists must be 'query' or 'session', not 'page'"),
        ("a = \n", "is not valid TOML"),
        ('context = ["click"]\n', "has a meaning of its own"),
    ],
)
def test_broken_mappings(tmp_path, text, problem):
    file = tmp_path / "mapping.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=problem) as caught:
        read_mapping(file)
    assert str(caught.value).startswith(str(file))


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        (LogMapping(columns={"query_id": "srch"}), r"no column 'srch' \(for query_id\)"),
        (LogMapping(features=("price",)), r"no column 'price' \(feature\)"),
        (LogMapping(features=("doc_id",)), "must hold numbers, not text such as 'a'"),
        (LogMapping(features=("position",)), "says what happened"),
        (LogMapping(features=("x*",)), "no column of numbers matches"),
        (LogMapping(contexts=("device",)), r"no column 'device' \(context\)"),
        (LogMapping(actions={"buy": 1}), r"no column 'buy' \(action\)"),
        (LogMapping(actions={"doc_id": 1}), r"'doc_id' \(action\) must hold numbers"),
    ],
)
def test_mappings_that_do_not_fit(csv, mapping, problem):
    with pytest.raises(InputError, match=problem) as caught, open_events(csv, mapping=mapping):
        pass
    assert str(caught.value).startswith(str(csv))


def test_options_are_checked(csv):
    with (
        pytest.raises(InputError, match="memory must be an amount such as 4GB"),
        open_events(csv, memory="much"),
    ):
        pass
    with pytest.raises(InputError, match="MEANING=COLUMN"):
        LogMapping().with_columns(["query_id"])
    assert read_click_log(csv).equals(read_log(csv)[0])


def test_a_log_larger_than_the_memory_named_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "log.csv"
    file.write_text("query_id,session_id,doc_id,position,click\n1,1,1,1,0\n1,1,2,2,1\n")
    assert read_click_log(file, memory="100MB").sessions == 1
    monkeypatch.setattr("prsrank.logs.reading.BYTES_PER_EVENT", 60_000_000)
    assert read_click_log(file).sessions == 1
    message = "2 events take about 0.1 GB in one piece, more than the memory allowed"
    with pytest.raises(InputError, match=message):
        read_click_log(file, memory="100MB")
    with pytest.raises(InputError, match=message):
        read_log(file, memory="100MB")
