"""Row groups of Parquet files: all of them read, once, as what they were when they were planned."""

import datetime

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.spark.row_groups import plan_tasks, read_tables

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyspark")

ALL = "FROM prsrank_events"


def written(path, rows, group=10, **columns):
    table = pa.table({"n": pa.array(rows, pa.int64()), **columns})
    pq.write_table(table, path, row_group_size=group)
    return str(path)


@pytest.fixture
def files(tmp_path):
    return [written(tmp_path / f"{n}.parquet", range(n, n + 35)) for n in (0, 35, 70)]


NUMBERS = pa.schema({"n": pa.int64()})


@pytest.mark.parametrize("least", [1, 2, 5, 40])
def test_every_row_group_is_one_tasks(files, least, monkeypatch):
    tasks = plan_tasks(files[::-1], NUMBERS, least)
    assert len(tasks) == min(least, 12)
    found = [
        [n for [table] in read_tables(parts, NUMBERS, [ALL]) for n in table["n"].to_pylist()]
        for parts in tasks
    ]
    assert sum(found, []) == list(range(105))  # neighbours stay together
    assert all(len({part.path for part in parts}) == len(parts) for parts in tasks)
    if least in (1, 2):
        assert max(map(len, found)) < 2 * min(map(len, found))
        monkeypatch.setattr("prsrank.spark.row_groups._TASK", 150)
        more = plan_tasks(files, NUMBERS, least)
        assert len(more) > least


def test_large_row_groups_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("prsrank.spark.row_groups._MOST_ROWS", 1024)
    path = written(tmp_path / "one.parquet", range(5000), group=5000)
    [parts] = plan_tasks([path], NUMBERS, 1)
    lengths = [table.num_rows for [table] in read_tables(parts, NUMBERS, [ALL])]
    assert sum(lengths) == 5000
    assert max(lengths) == 1024


def test_several_queries_over_columns_of_the_files(tmp_path):
    path = written(tmp_path / "one.parquet", [1, 2], x=[0.5, None], other=["a", "b"])
    columns = pa.schema({"x": pa.float64(), "n": pa.int64()})
    [parts] = plan_tasks([path], columns, 1)
    queries = [ALL, "FROM (SELECT n + 1 AS m FROM prsrank_events)"]
    [[whole, more]] = read_tables(parts, columns, queries)
    assert whole.to_pydict() == {"x": [0.5, None], "n": [1, 2]}
    assert more.to_pydict() == {"m": [2, 3]}


def test_types_that_hold_the_same_values(tmp_path):
    time = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)
    path = written(
        tmp_path / "one.parquet",
        [1, 2],
        long=pa.array(["a", None], pa.large_string()),
        coded=pa.array(["b", "a"]).dictionary_encode(),
        t=pa.array([time, time], pa.timestamp("ms")),
        z=pa.array([time, time], pa.timestamp("us", "Europe/Berlin")),
    )
    kinds = {"long": pa.string(), "coded": pa.string(), "t": pa.timestamp("us")}
    columns = pa.schema({**kinds, "z": pa.timestamp("us", "UTC")})
    [parts] = plan_tasks([path], columns, 1)
    [[table]] = read_tables(parts, columns, [ALL])
    assert table["long"].to_pylist() == ["a", None]
    assert table["coded"].to_pylist() == ["b", "a"]
    micros = int(time.replace(tzinfo=datetime.UTC).timestamp() * 1000) * 1000
    for name in ("t", "z"):
        assert table[name].cast(pa.int64()).to_pylist() == [micros] * 2


@pytest.mark.parametrize(
    "other", [{"n": pa.array([1], pa.int32())}, {"n": pa.array(["1"])}, {"m": pa.array([1])}]
)
def test_files_with_other_columns_are_not_planned(files, tmp_path, other):
    path = str(tmp_path / "other.parquet")
    pq.write_table(pa.table(other), path)
    assert plan_tasks([files[0], path], NUMBERS, 2) is None
    times = pa.schema({"n": pa.timestamp("us")})
    assert plan_tasks(files, times, 2) is None


def test_what_cannot_be_opened_is_not_planned(files, tmp_path):
    torn = tmp_path / "torn.parquet"
    torn.write_bytes((tmp_path / "0.parquet").read_bytes()[:200])
    assert plan_tasks([str(torn)], NUMBERS, 2) is None
    assert plan_tasks([str(tmp_path / "nowhere.parquet")], NUMBERS, 2) is None
    assert plan_tasks([], NUMBERS, 2) is None


def test_a_file_that_changes_is_one_line(tmp_path):
    def refused(path, problem):
        with pytest.raises(InputError, match=f"{path.name}: {problem}") as found:
            list(read_tables(parts, NUMBERS, [ALL]))
        assert "\n" not in str(found.value)

    path = tmp_path / "one.parquet"
    written(path, range(35))
    [parts] = plan_tasks([str(path)], NUMBERS, 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    refused(path, "cannot be read: ")
    path.unlink()
    refused(path, "cannot be read: ")
    written(path, range(34))
    refused(path, "has changed since")
    written(path, range(35), group=9)
    refused(path, "has changed since")
    size = len(whole)
    table = pa.table({"m": pa.array(range(35), pa.int64())})
    pq.write_table(table, path, row_group_size=10)
    assert path.stat().st_size == size  # a column is gone, and nothing else tells
    refused(path, "has changed since")


def test_a_damaged_page_is_one_line(tmp_path):
    path = tmp_path / "one.parquet"
    rng = np.random.default_rng(0)
    written(path, rng.integers(2**62, size=5000), group=5000)
    [parts] = plan_tasks([str(path)], NUMBERS, 1)
    torn = bytearray(path.read_bytes())
    torn[4:40] = bytes([255]) * 36
    path.write_bytes(torn)
    with pytest.raises(InputError, match=r"one.parquet: cannot be read: ") as found:
        list(read_tables(parts, NUMBERS, [ALL]))
    assert "\n" not in str(found.value)


def test_texts_that_are_none_are_refused(tmp_path):
    """Bytes that are no UTF-8 do not go to DuckDB as text."""
    path = tmp_path / "one.parquet"
    bytes_only = pa.array([b"\xff\xfe"]).view(pa.string())
    pq.write_table(pa.table({"q": bytes_only}), path)
    columns = pa.schema({"q": pa.string()})
    [parts] = plan_tasks([str(path)], columns, 1)
    with pytest.raises(InputError, match=r"one.parquet: cannot be read: .*UTF"):
        list(read_tables(parts, columns, [ALL]))
