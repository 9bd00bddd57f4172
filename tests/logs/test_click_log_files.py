import dataclasses
import errno
import os
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from prsrank.errors import DataWarning, InputError
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.click_log_files import write_compact, write_events
from prsrank.logs.click_log_parts import canonical
from prsrank.logs.reading import read_click_log

WRITERS = {"log.parquet": write_events, "log": write_compact}


@pytest.fixture(params=["ints", "strings", "bare"])
def log(request):
    """Rankings in no order, a doc never shown, sessions without clicks."""
    strings = request.param == "strings"
    names = np.array(["b<i>", "a 'x'", "", "é🙂"]) if strings else np.array([40, -3, 7, 2**62])
    full = ClickLog(
        query_ids=np.array(["z", "y"]) if strings else np.array([9, 4]),
        doc_offsets=np.array([0, 4, 8]),
        doc_ids=np.concatenate([names, names]),
        ranking_query=np.array([1, 0, 0]),
        ranking_offsets=np.array([0, 2, 5, 8]),
        ranking_docs=np.array([5, 4, 0, 1, 2, 2, 1, 0]),
        ranking_positions=np.array([1, 2, 1, 3, 4, 1, 3, 4]),
        session_ranking=np.array([2, 0, 1, 2, 0]),
        session_clicks=np.array([0, 1, 0, 2, 0]),
        clicks=np.array([1, 0, 2]),
        ranking_design=np.array([0, 2, 1]),
        designs=("", "uniform", "swap:1:3"),
        ranking_propensities=np.array([1, 0.1, 1, 1 / 3, 0.5, 0.25, 0.7, 0.0])[[0, 1, 2, 3, 4, 5, 6, 5]],
        session_ids=np.array(["5", "4", "s", "2", "1"]) if strings else np.array([5, 4, 3, 2, 1]),
        session_times=np.array([-1, 2, 10**15 + 1, 4, 5]),
        contexts={"device": Context(("tv", "<b>", ""), np.array([0, 2, 1, 1, 0], np.int32))},
        click_weights=np.array([1 / 3, 10, 2]),
    )  # fmt: skip
    if request.param != "bare":
        return full
    return dataclasses.replace(
        full,
        ranking_design=np.zeros(3, np.int32),
        designs=("",),
        ranking_propensities=None,
        session_ids=None,
        session_times=None,
        contexts={},
        click_weights=None,
    )


def assert_identical(one, other):
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "contexts":
            assert a.keys() == b.keys()
            for name in a:
                assert a[name].values == b[name].values
                np.testing.assert_array_equal(a[name].codes, b[name].codes)
        elif isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b)
        else:
            assert a == b


@pytest.mark.parametrize("name", WRITERS)
def test_round_trip_is_lossless(log, name, tmp_path):
    WRITERS[name](log, tmp_path / name)
    found = read_click_log(tmp_path / name)
    assert_identical(found, canonical(log))
    assert os.listdir(tmp_path) == [name]  # nothing else is left
    WRITERS[name](found, tmp_path / name)  # replaces the old one
    assert_identical(read_click_log(tmp_path / name), found)


@pytest.mark.parametrize("name", WRITERS)
def test_paths_with_quotes_and_wildcards(log, name, tmp_path):
    folder = tmp_path / "it's [a] *"
    WRITERS[name](log, folder / name)
    assert read_click_log(folder / name).equals(log)


def test_many_blocks_keep_the_order(tmp_path, monkeypatch):
    from prsrank.logs import click_log_files, events

    rng = np.random.default_rng(0)
    sessions = 400
    frame = pd.DataFrame(
        {
            "query_id": np.repeat(rng.integers(7, size=sessions), 3),
            "session_id": np.repeat(np.arange(sessions) + 7, 3),
            "doc_id": np.tile(["a", "b", "c"], sessions),
            "position": np.tile([1, 2, 3], sessions),
            "click": rng.random(3 * sessions) < 0.3,
        }
    )
    log = ClickLog.from_frame(frame)
    monkeypatch.setattr(
        click_log_files, "event_blocks", lambda log: events.event_blocks(log, rows=50)
    )
    write_events(log, tmp_path / "log.parquet")
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "log.parquet"), frame, check_dtype=False
    )


def test_events_file_is_plain_parquet_that_others_read(log, tmp_path):
    write_events(log, tmp_path / "log.parquet")
    frame = pd.read_parquet(tmp_path / "log.parquet")
    assert list(frame)[:5] == ["query_id", "session_id", "doc_id", "position", "click"]
    assert len(frame) == np.diff(log.ranking_offsets)[log.session_ranking].sum()
    assert frame["click"].sum() == len(log.clicks)
    if log.contexts:
        assert list(frame)[5:] == ["propensity", "randomised", "timestamp", "weight", "device"]


def test_compact_form_is_three_flat_tables(log, tmp_path):
    write_compact(log, tmp_path / "log")
    slots = pd.read_parquet(tmp_path / "log" / "rankings.parquet")
    sessions = pd.read_parquet(tmp_path / "log" / "sessions.parquet")
    clicks = pd.read_parquet(tmp_path / "log" / "clicks.parquet")
    assert len(slots) == len(log.ranking_docs)
    assert sessions["clicks"].tolist() == log.session_clicks.tolist()
    assert clicks["index"].tolist() == log.clicks.tolist()


def test_contexts_can_be_chosen(tmp_path):
    frame = pd.DataFrame(
        {
            "query_id": 1,
            "session_id": [0, 0, 1, 1],
            "doc_id": [3, 4, 3, 4],
            "position": [1, 2, 1, 2],
            "click": [0, 1, 0, 0],
            "device": ["tv", "tv", "pc", "pc"],
            "feature": 0.5,
        }
    )
    frame.to_parquet(tmp_path / "log.parquet")
    assert read_click_log(tmp_path / "log.parquet").contexts == {}
    log = read_click_log(tmp_path / "log.parquet", contexts=["device"])
    assert log.contexts["device"].values == ("pc", "tv")
    write_compact(log, tmp_path / "log")
    assert read_click_log(tmp_path / "log").contexts.keys() == {"device"}
    assert read_click_log(tmp_path / "log", contexts=[]).contexts == {}
    with pytest.raises(InputError, match="no column 'colour'"):
        read_click_log(tmp_path / "log", contexts=["colour"])


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.tsv"])
def test_csv(log, name, tmp_path):
    write_events(log, tmp_path / "log.parquet")
    frame = pd.read_parquet(tmp_path / "log.parquet")
    frame["click"] = frame["click"].astype(int)
    frame.to_csv(tmp_path / name, index=False, sep="\t" if "tsv" in name else ",")
    if "" in log.doc_ids.tolist():  # which CSV cannot tell from null
        with pytest.raises(InputError, match="doc_id is missing"):
            read_click_log(tmp_path / name)
    else:
        assert read_click_log(tmp_path / name, contexts=list(log.contexts)).equals(log)


def test_folder_of_events_files(tmp_path):
    for day in range(3):
        frame = pd.DataFrame(
            {
                "query_id": 1,
                "session_id": [2 * day] * 2 + [2 * day + 1] * 2,
                "doc_id": [3, 4, 3, 4],
                "position": [1, 2, 1, 2],
                "click": [0, 1, 0, day % 2],
            }
        )
        (tmp_path / "days").mkdir(exist_ok=True)
        frame.to_parquet(tmp_path / "days" / f"{day}.parquet")
    log = read_click_log(tmp_path / "days")
    assert log.sessions == 6
    assert log.session_clicks.tolist() == [1, 0, 1, 1, 1, 0]


def bad_files(folder, log):
    """Yield names of broken logs under a folder, and what is said of each."""
    write_events(log, folder / "good.parquet")
    write_compact(log, folder / "good")
    data = (folder / "good.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(data[: len(data) // 2])
    (folder / "text.parquet").write_text("query_id,session_id\n")
    (folder / "empty.parquet").write_bytes(b"")
    (folder / "log.xlsx").write_text("x")
    (folder / "none").mkdir()
    (folder / "empty.csv").write_text("query_id,session_id,doc_id,position,click\n")
    (folder / "short.csv").write_text("query_id,doc\n1,2\n")
    for name in ("rankings", "sessions", "clicks"):
        shutil.copytree(folder / "good", folder / f"without {name}")
        (folder / f"without {name}" / f"{name}.parquet").unlink()
    shutil.copytree(folder / "good", folder / "cut")
    data = (folder / "cut" / "clicks.parquet").read_bytes()
    (folder / "cut" / "clicks.parquet").write_bytes(data[:-20])
    yield from [
        ("absent.parquet", "no such file"),
        ("absent", "no such file"),
        ("cut.parquet", "is cut short"),
        ("text.parquet", "is no Parquet file"),
        ("empty.parquet", "the file is empty"),
        ("log.xlsx", "not a log"),
        ("none", "holds no Parquet, CSV or JSONL files"),
        ("empty.csv", "the log is empty"),
        ("short.csv", "no column 'query_id'|no column 'session_id'"),
        ("without rankings", "rankings.parquet: no such file"),
        ("without sessions", "sessions.parquet: no such file"),
        ("without clicks", "clicks.parquet: no such file"),
        ("cut", "cannot be read"),
    ]


def test_bad_files(tmp_path, log):
    for name, message in bad_files(tmp_path, log):
        with pytest.raises(InputError, match=message) as raised:
            read_click_log(tmp_path / name)
        assert "\n" not in str(raised.value)
        assert str(raised.value).startswith(str(tmp_path / name))


TABLES = {
    "click not shown": ("clicks", 'SELECT 7 AS "index" FROM t', "clicks a doc not shown: index 7"),
    "clicks lost": ("clicks", "SELECT * FROM t LIMIT 1", "clicks has 1 entries where 3 belong"),
    "no such ranking": ("sessions", "SELECT ranking + 5 AS ranking, clicks FROM t", "names ranking"),
    "no clicks column": ("sessions", "SELECT ranking FROM t", "has no column 'clicks'"),
    "null ranking": ("sessions", "SELECT NULL::INT AS ranking, clicks FROM t", "ranking is missing .null. in 5 rows"),
    "rankings renumbered": ("rankings", "SELECT * REPLACE (2 - ranking AS ranking) FROM t", "not numbered 0, 1, 2"),
    "position 0": ("rankings", "SELECT * REPLACE (position - 1 AS position) FROM t", "positions start at 1"),
    "positions fall": ("rankings", "SELECT * REPLACE (10 - position AS position) FROM t", "do not rise"),
    "two queries": ("rankings", "SELECT * REPLACE (position AS query_id) FROM t", "names two queries"),
    "doc twice": ("rankings", "SELECT * REPLACE (1 AS doc_id) FROM t", "twice"),
    "wrong type": ("rankings", "SELECT * REPLACE ('x' AS position) FROM t", "cannot be read"),
    "bad id type": ("rankings", "SELECT * REPLACE (0.5::DOUBLE AS doc_id) FROM t", "integers or strings"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_bad_compact_tables(name, log, tmp_path):
    table, sql, message = TABLES[name]
    write_compact(log, tmp_path / "log")
    file = tmp_path / "log" / f"{table}.parquet"
    with duckdb.connect() as connection:
        connection.read_parquet(str(file)).create("t")
        connection.execute(f"COPY ({sql}) TO '{file}' (FORMAT parquet)")
    with pytest.raises(InputError, match=message) as raised:
        read_click_log(tmp_path / "log")
    assert str(raised.value).startswith(str(tmp_path / "log"))


@pytest.mark.parametrize("name", WRITERS)
def test_both_forms_are_checked_alike(name, log, tmp_path):
    log = dataclasses.replace(log, click_weights=None)
    silent = dataclasses.replace(
        log, session_clicks=np.zeros(5, np.int32), clicks=np.zeros(0, np.int32)
    )
    WRITERS[name](silent, tmp_path / name)
    with pytest.warns(DataWarning, match="no clicks in 5 sessions"):
        read_click_log(tmp_path / name)
    slots = np.diff(log.ranking_offsets)[log.session_ranking]
    busy = dataclasses.replace(
        log, session_clicks=slots, clicks=np.concatenate([np.arange(n) for n in slots])
    )
    WRITERS[name](busy, tmp_path / name)
    with pytest.raises(InputError, match=r"every one of the .* rows is a click"):
        read_click_log(tmp_path / name)


@pytest.mark.parametrize("name", WRITERS)
def test_writers_refuse_what_they_could_not_give_back(name, log, tmp_path):
    write = WRITERS[name]
    with pytest.raises(InputError, match="no sessions to write"):
        write(log.select([]), tmp_path / name)
    reserved = {"timestamp": Context(("",), np.zeros(5, np.int32))}
    with pytest.raises(InputError, match="cannot be named 'timestamp'"):
        write(dataclasses.replace(log, contexts=reserved), tmp_path / name)
    twice = dataclasses.replace(log, session_ids=np.zeros(5, int))
    with pytest.raises(InputError, match=r"session 0 of query . is in the log more than once"):
        write(twice, tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", WRITERS)
def test_a_failed_write_leaves_the_old_log(name, log, tmp_path, monkeypatch):
    from prsrank.logs import click_log_files

    write = WRITERS[name]
    write(log, tmp_path / name)

    def full(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(click_log_files, "_write", full)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        write(log, tmp_path / name)
    assert os.listdir(tmp_path) == [name]
    assert read_click_log(tmp_path / name).equals(log)


def test_the_documented_conversion(tmp_path, monkeypatch):
    guide = Path(__file__).parents[2] / "docs" / "click-logs.md"
    sql = guide.read_text(encoding="utf-8").split("```sql\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    sessions = pd.DataFrame(
        {
            "split": ["train", "train", "test"],
            "query": ["7_1", "8_1", "7_1"],
            "docs": [[5, 3, 9], [1, 2, 3], [3, 5, 9]],
            "clicked": [[True, False, False], [False, False, False], [False, True, True]],
        }
    )
    sessions.to_parquet("yandex_wscd_sample.parquet")
    with duckdb.connect() as connection:
        connection.execute(sql)
    log = read_click_log("yandex_events.parquet", contexts=["split"])
    assert log.query_ids.tolist() == ["7_1", "8_1"]
    assert log.session_clicks.tolist() == [1, 0, 2]
    assert log.clicks.tolist() == [0, 1, 2]
    shown = [log.doc_ids[log.ranking_docs[3 * r : 3 * r + 3]].tolist() for r in log.session_ranking]
    assert shown == sessions["docs"].tolist()
    assert log.contexts["split"].codes.tolist() == [1, 1, 0]


@pytest.mark.parametrize("name", ["log.csv", "log.CSV.gz", "log.jsonl"])
def test_events_are_not_written_under_the_name_of_another_format(tmp_path, log, name):
    with pytest.raises(InputError, match="name the file"):
        write_events(log, tmp_path / name)
    assert not list(tmp_path.iterdir())
