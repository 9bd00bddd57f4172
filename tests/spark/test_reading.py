"""Tasks that read Parquet files by themselves make what they make of rows that Spark hands over."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prsrank.errors import InputError
from prsrank.logs.mapping import LogMapping, read_mapping
from prsrank.spark import reading, rows
from prsrank.spark.engine import checked
from prsrank.spark.placing import EVENT
from prsrank.spark.reading import reading_of
from prsrank.spark.rows import event_columns, pieces_of_log

pytestmark = pytest.mark.spark

FEATURES = LogMapping(features=("f*",))
PLAIN = LogMapping()


@pytest.fixture
def three_pieces(monkeypatch):
    monkeypatch.setattr("prsrank.spark.rows._LEAST", 3)


def loaded(engine, path, mapping, **given):
    """All that the pieces of a log hold, and how many passes over files tasks made for them."""

    def contents(one):  # made here: tasks need not find this file
        arrays = {**vars(one.log), **{f"lists {k}": v for k, v in vars(one.lists).items()}}
        found = {}
        for name, value in arrays.items():
            if name == "contexts":
                value = {key: (c.values, c.codes.tobytes()) for key, c in value.items()}
            elif hasattr(value, "tobytes"):
                value = (
                    str(value.dtype),
                    value.shape,
                    value.tolist() if value.dtype == object else value.tobytes(),
                )
            found[name] = value
        return (repr(sorted(found.items())),)

    passes = []

    def counted(*arguments):
        found = reading_of(*arguments)
        passes.append(found)
        return found

    with pytest.MonkeyPatch.context() as patch, engine.open_log(path, mapping=mapping) as source:
        patch.setattr(rows, "reading_of", counted)
        log = engine.load(source, mapping=mapping, **given)
        return log.sessions.total(contents), sum(one is not None for one in passes)


def same_by_both_ways(engine, path, mapping, passes=1, **given):
    """Check that nothing depends on who reads; return the contents of the pieces."""
    found, made = loaded(engine, path, mapping, **given)
    assert made == passes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "plan_tasks", lambda *_: None)
        expected, made = loaded(engine, path, mapping, **given)
    assert made == 0
    assert found == expected
    assert len(found) == 3
    return found


COLUMNS = """query_id::INTEGER AS query_id, session_id, doc_id, position::SMALLINT AS position,
    click, randomised, 0.5::FLOAT / position AS propensity, (doc_id % 3 + 1)::FLOAT AS weight,
    timestamp, session_id % 3 AS device, CASE WHEN session_id % 2 = 0 THEN 'ä' END AS place,
    CASE WHEN doc_id % 3 = 0 THEN NULL ELSE f0 END AS f0, -0.0::FLOAT AS f1, doc_id AS f2,
    CASE WHEN doc_id % 2 = 0 THEN 1e300 ELSE 'NaN'::DOUBLE END AS f3, doc_id % 5 = 1 AS f4,
    CASE WHEN doc_id % 7 > 0 THEN 9007199254740993 + doc_id END AS f5, f1 AS unused"""


def test_numbers_of_every_width_in_several_files(spark, log_with_features, tmp_path, three_pieces):
    """Two contexts, times, propensities, weights; features that are null, NaN, -0 or too large."""
    for n in range(3):
        duckdb.sql(
            f"COPY (SELECT {COLUMNS} FROM '{log_with_features}' WHERE session_id % 3 = {n}) "
            f"TO '{tmp_path}/day {n}.parquet' (ROW_GROUP_SIZE 2048)"
        )
    mapping = LogMapping(features=("f*",), contexts=("device", "place"))
    found = same_by_both_ways(spark, tmp_path, mapping)
    assert all("'ä'" in piece and "'device'" in piece for piece in found)


def test_texts_and_a_mapping_with_expressions(spark, log_with_features, tmp_path, three_pieces):
    path = tmp_path / "log.parquet"
    duckdb.sql(
        "COPY (SELECT 'q' || query_id AS \"the query\", session_id::VARCHAR AS s, "
        "'döc ' || doc_id AS doc_id, position - 1 AS slot, click AS clicked, "
        "(click AND session_id % 3 = 0)::INT AS bought, timestamp::TIMESTAMPTZ AS timestamp, "
        "(session_id % 2)::INT AS chance, CASE WHEN doc_id % 4 = 0 THEN -1 ELSE f0 END AS f0, f1 "
        f"FROM '{log_with_features}') TO '{path}'"
    )
    (tmp_path / "map.toml").write_text(
        'positions_from = 0\nnulls = ["-1"]\nrandom = "chance"\n'
        '[columns]\nquery_id = "the query"\nposition = "slot"\n'
        '[actions]\nclicked = 1\nbought = 2.5\n[features]\ncolumns = ["f*"]\n'
    )
    mapping = read_mapping(tmp_path / "map.toml").with_columns(["session_id=s"])
    assert all("uniform" in piece for piece in same_by_both_ways(spark, path, mapping))


def test_a_table_of_features_beside_the_log(spark, log_file, feature_table, three_pieces, tmp_path):
    """Both are read by tasks, or either; a query goes to one piece whoever reads it."""
    csv = tmp_path / "table.csv"
    duckdb.sql(f"COPY (FROM '{feature_table}') TO '{csv}'")
    found = same_by_both_ways(spark, log_file, LogMapping(), passes=2, table=feature_table)
    assert found == same_by_both_ways(spark, log_file, LogMapping(), passes=1, table=csv)
    text = tmp_path / "log.csv"
    duckdb.sql(f"COPY (FROM '{log_file}') TO '{text}'")
    mixed, passes = loaded(spark, text, LogMapping(), table=feature_table)
    assert passes == 1
    assert mixed == found


def test_a_log_with_features_beside_those_of_a_table(spark, log_with_features, feature_table):
    """No more of the log is read than is asked of it."""
    mapping = LogMapping(features=("f1",))
    with spark.open_log(log_with_features, mapping=mapping) as source:
        events = checked(source)
        found = reading_of({EVENT: events.select(event_columns(events))}, events.usable)
    assert not {"f0", "f1"} & set(found.columns.names)
    assert "randomised" in found.columns.names


LEFT_TO_SPARK = {
    "decimals": "* REPLACE (position::DECIMAL(9, 2) AS position)",
    "times as text": "*, '2026-01-01 00:00:00' AS timestamp",
    "numbers as text": "* REPLACE (position::VARCHAR AS position)",
    "contexts of fractions": "*, 0.1::DOUBLE AS device",
    "unsigned ids": "* REPLACE (doc_id::UINTEGER AS doc_id)",
}


@pytest.mark.parametrize("columns", LEFT_TO_SPARK.values(), ids=LEFT_TO_SPARK)
def test_what_is_left_to_spark(spark, log_file, tmp_path, columns):
    path = tmp_path / "log.parquet"
    duckdb.sql(f"COPY (SELECT {columns} FROM '{log_file}') TO '{path}'")
    mapping = LogMapping(contexts=("device",) if "device" in columns else ())
    assert planned(spark, path, mapping) is None


def planned(engine, path, mapping=PLAIN):
    with engine.open_log(path, mapping=mapping) as source:
        events = checked(source)
        return reading_of({EVENT: events.select(event_columns(events))}, events.usable)


def test_files_that_are_left_to_spark(spark, log_file, tmp_path):
    assert planned(spark, log_file) is not None
    assert planned(spark, f"file://{log_file}") is not None
    assert planned(spark, spark.session.read.parquet(str(log_file))) is None
    assert planned(spark, duckdb.read_parquet(str(log_file)).df()) is None
    both = tmp_path / "both"
    both.mkdir()
    duckdb.sql(f"COPY (FROM '{log_file}') TO '{both}/1.parquet'")
    duckdb.sql(
        f"COPY (SELECT * REPLACE (doc_id::INT AS doc_id) FROM '{log_file}') TO '{both}/2.parquet'"
    )
    with spark.open_log(both, mapping=LogMapping()) as source:
        assert reading_of({EVENT: source.select("query_id, doc_id")}, 2) is None


def test_single_actions_and_repeated_docs_are_left_to_spark(spark, log_file, tmp_path):
    path = tmp_path / "log.parquet"
    duckdb.sql(f"COPY (SELECT *, 'click' AS action FROM '{log_file}' WHERE click) TO '{path}'")
    assert planned(spark, path, LogMapping(columns={"action": "action"})) is None
    duckdb.sql(f"COPY (FROM '{log_file}' UNION ALL FROM '{log_file}') TO '{path}'")
    with pytest.warns(UserWarning, match="show a doc again"):
        assert planned(spark, path, LogMapping(duplicates="first")) is None


def test_a_file_that_was_counted_twice_is_left_to_spark(spark, log_file):
    with spark.open_log(log_file, mapping=LogMapping()) as source:
        rows_there = pq.read_metadata(log_file).num_rows
        shown = {EVENT: source.select("query_id, session_id")}
        assert reading_of(shown, rows_there) is not None
        assert reading_of(shown, 2 * rows_there) is None


def test_a_file_that_changes_before_it_is_read_is_one_line(spark, log_with_features, tmp_path):
    path = Path(tmp_path, "log.parquet")
    whole = log_with_features.read_bytes()
    path.write_bytes(whole)
    with spark.open_log(path, mapping=FEATURES) as source:
        events = checked(source)
        pieces = pieces_of_log(events, events.features, events, [])
        for left, problem in ((whole[:-100], "cannot be read: "), (None, "has changed since")):
            if left is None:
                duckdb.sql(f"COPY (FROM '{log_with_features}' WHERE doc_id > 9) TO '{path}'")
            else:
                path.write_bytes(left)
            with pytest.raises(InputError, match=f"^{path}: {problem}") as found:
                pieces.total(lambda one: 1)
            assert "\n" not in str(found.value)


def test_what_tasks_read_is_checked_again(spark, log_file, tmp_path):
    """As many rows came after the checks, and none of them can be used."""
    path = tmp_path / "log.parquet"
    duckdb.sql(f"COPY (FROM '{log_file}') TO '{path}'")
    with spark.open_log(path, mapping=LogMapping()) as source:
        events = checked(source)
        table = pq.read_table(path)
        index = table.schema.get_field_index("position")
        bad = pa.array(np.full(table.num_rows, 2_000_000), table.schema.field(index).type)
        pq.write_table(table.set_column(index, "position", bad), path)
        pieces = pieces_of_log(events, (), None, [])
        with pytest.raises(InputError, match="position 2000000 is above") as found:
            pieces.total(lambda one: 1)
    assert "\n" not in str(found.value)
