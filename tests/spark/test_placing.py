"""Pieces from rows of a log: as they are packed, and as the local engine reads the same files."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

import duckdb
import numpy as np
import pytest
from spark_checks import contents_of

from prsrank.errors import InputError
from prsrank.fit.engine import LocalEngine
from prsrank.logs.mapping import LogMapping, read_mapping
from prsrank.spark.engine import checked
from prsrank.spark.placing import BUCKET, DOC, EVENT, FEATURES, SEEN, Size, packed, unpacked
from prsrank.spark.placing import pieces_of_log as placed

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

NAMES = ("a", "b")
VALUES = [[0.5, 1.0], [1.5, 0.0], [0.0, 0.0]]


def docs(*queries, features=VALUES, times=1):
    """Docs 0, 1 and 2 of each query, in so many rows each; odd queries are in bucket 1."""
    rows = [(query, doc) for query in queries for doc in range(3) for _ in range(times)]
    return pa.table(
        {
            "query_id": [query for query, _ in rows],
            "doc_id": [doc for _, doc in rows],
            FEATURES: pa.array([features[doc] for _, doc in rows], pa.list_(pa.float32())),
            SEEN: [hash((query, doc, tuple(features[doc]))) for query, doc in rows],
            BUCKET: pa.array([query % 2 for query, _ in rows], pa.int32()),
        }
    )


def events(*queries, clicked, sessions=2):
    """Sessions that show docs 0, 1 and 2 of each query."""
    rows = [(q, s, doc) for q in queries for s in range(sessions) for doc in range(3)]
    return pa.table(
        {
            "query_id": [q for q, _, _ in rows],
            "session_id": [s for _, s, _ in rows],
            "doc_id": [doc for _, _, doc in rows],
            "position": pa.array([doc + 1 for _, _, doc in rows], pa.int32()),
            "click": pa.array([int(doc == clicked) for _, _, doc in rows], pa.int32()),
            BUCKET: pa.array([q % 2 for q, _, _ in rows], pa.int32()),
        }
    )


def blobs(table, size=4):
    return list(packed(iter(table.to_batches(size))))


def piece(*tables):
    """The piece that all rows make, whatever their bucket."""
    return unpacked(iter([blob for table in tables for blob in blobs(table)]), NAMES, ())


def rows_in(blob):
    return pa.ipc.open_stream(blob.as_buffer()).read_all().to_pylist()


@pytest.mark.parametrize("most", [10**6, 4])
def test_rows_are_packed_by_bucket_and_docs_once(monkeypatch, most):
    """A doc comes once, however many chunks it is in, but where it was forgotten."""
    monkeypatch.setattr("prsrank.spark.placing._CHUNK", 100)
    monkeypatch.setattr("prsrank.spark.placing._REMEMBERED", most)
    queries = list(range(3, 9))
    batches = blobs(docs(*queries, times=4), size=5)
    assert len(batches) > 2
    sent = []
    for batch in batches:
        for leader, kind, blob in zip(*batch.columns, strict=True):
            assert kind.as_py() == DOC
            rows = rows_in(blob)
            assert {row["query_id"] % 2 for row in rows} == {leader.as_py() % 2}
            sent += [(row["query_id"], row["doc_id"]) for row in rows]
    expected = [(query, doc) for query in queries for doc in range(3)]
    assert sorted(sent if most > 4 else set(sent)) == expected


def test_a_log_with_features_is_packed_in_one_pass():
    shown, listed = events(7, 8, clicked=1), docs(*[7] * 2, *[8] * 2)
    both = shown.append_column(FEATURES, listed[FEATURES]).append_column(SEEN, listed[SEEN])
    [of_events, of_docs] = blobs(both, size=100)
    assert set(of_events["kind"].to_pylist()) == {EVENT}
    assert sum(len(rows_in(blob)) for blob in of_events["rows"]) == 12
    assert sum(len(rows_in(blob)) for blob in of_docs["rows"]) == 6


def test_a_piece_has_the_sessions_and_their_lists():
    both = piece(events(8, 7, clicked=1), docs(9, 8, 7, times=2))
    assert both.lists.query_ids.tolist() == [7, 8]  # query 9 has no session
    assert both.lists.features.tolist() == VALUES * 2
    assert (both.log.sessions, len(both.log.clicks)) == (4, 4)
    size = Size.of(both) + Size.of(piece(events(1, clicked=0, sessions=9), docs(2)))
    assert (size.docs, size.busiest, size.missing) == (6, (27, "1"), 9)
    # a clicked doc in each of two lists of three docs; six docs at one position each, three at theirs
    assert (size.weights, size.cells) == (6, 9)
    assert size.extent.sessions == 13
    assert unpacked(iter(blobs(docs(7))), NAMES, ()) is None


def test_two_values_of_a_feature():
    other = docs(8, features=[*VALUES[:2], [0.0, 0.25]])
    with pytest.raises(InputError, match="doc 2 of query 8 has two values of a feature"):
        piece(events(8, clicked=1), docs(7, 8), other)


def same_as_here(engine, path, mapping, monkeypatch, **features):
    """Check that one piece on Spark holds what the local engine reads; return it."""
    monkeypatch.setattr("prsrank.spark.placing._LEAST", 1)
    held = []
    for runner in (LocalEngine(), engine):
        with runner.open_log(path, mapping=mapping) as source:
            log = runner.load(source, mapping=mapping, **features)
            held.append(contents_of(log))
    assert held[0].keys() == held[1].keys()
    for name, values in held[0].items():
        np.testing.assert_array_equal(held[1][name], values, err_msg=name)
    return held[1]


COLUMNS = """query_id::INTEGER AS query_id, session_id, doc_id, position::SMALLINT AS position,
    click, randomised, 0.5::FLOAT / position AS propensity, (doc_id % 3 + 1)::FLOAT AS weight,
    timestamp, session_id % 3 AS device, CASE WHEN session_id % 2 = 0 THEN 'ä' END AS place,
    CASE WHEN doc_id % 3 = 0 THEN NULL ELSE f0 END AS f0,
    CASE WHEN session_id % 2 = 0 THEN -0.0 ELSE 0.0 END::FLOAT AS f1, doc_id AS f2,
    CASE WHEN doc_id % 2 = 0 THEN 1e300 ELSE 'NaN'::DOUBLE END AS f3, doc_id % 5 = 1 AS f4,
    CASE WHEN doc_id % 7 > 0 THEN 9007199254740993 + doc_id END AS f5, f1 AS unused"""


@pytest.mark.spark
def test_numbers_of_every_width_in_several_files(spark, log_with_features, tmp_path, monkeypatch):
    """Two contexts, times, propensities, weights; features that are null, NaN, -0 or too large."""
    for n in range(3):
        duckdb.sql(
            f"COPY (SELECT {COLUMNS} FROM '{log_with_features}' WHERE session_id % 3 = {n}) "
            f"TO '{tmp_path}/day {n}.parquet' (ROW_GROUP_SIZE 2048)"
        )
    mapping = LogMapping(features=("f*",), contexts=("device", "place"))
    held = same_as_here(spark, tmp_path, mapping, monkeypatch)
    assert {"", "ä"} == set(held["context place"])


@pytest.mark.spark
def test_texts_and_a_mapping_with_expressions(spark, log_with_features, tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    duckdb.sql(
        "COPY (SELECT 'q' || query_id AS \"the query\", session_id::VARCHAR AS s, "
        "'döc ' || doc_id AS doc_id, position - 1 AS slot, click AS clicked, "
        "(click AND session_id % 3 = 0)::INT AS bought, timestamp::TIMESTAMPTZ AS timestamp, "
        "(session_id % 2)::INT AS chance, CASE WHEN doc_id % 4 = 0 THEN -1 ELSE f0 END AS f0, "
        f"f1 AS position FROM '{log_with_features}') TO '{path}'"
    )
    (tmp_path / "map.toml").write_text(
        'positions_from = 0\nnulls = ["-1"]\nrandom = "chance"\n'
        '[columns]\nquery_id = "the query"\nposition = "slot"\n'
        '[actions]\nclicked = 1\nbought = 2.5\n[features]\ncolumns = ["f*"]\n'
    )
    mapping = read_mapping(tmp_path / "map.toml").with_columns(["session_id=s"])
    held = same_as_here(spark, path, mapping, monkeypatch)
    assert "uniform" in held["designs"]


@pytest.mark.spark
def test_a_table_of_features_beside_the_log(spark, log_file, feature_table, monkeypatch, tmp_path):
    csv = tmp_path / "table.csv"
    duckdb.sql(f"COPY (FROM '{feature_table}') TO '{csv}'")
    for table in (feature_table, csv):
        same_as_here(spark, log_file, LogMapping(), monkeypatch, table=table)


@pytest.mark.spark
def test_rows_that_are_placed_are_checked_again(spark, log_file, tmp_path):
    """As many rows came after the checks, and none of them can be used."""
    path = tmp_path / "log.parquet"
    duckdb.sql(f"COPY (FROM '{log_file}') TO '{path}'")
    with spark.open_log(path, mapping=LogMapping()) as source:
        usable = checked(source)
        bad = "* REPLACE (2000000::INTEGER AS position)"
        duckdb.sql(f"COPY (SELECT {bad} FROM '{log_file}') TO '{path}'")
        with pytest.raises(InputError, match="position 2000000 is above") as refused:
            placed(usable, (), None, []).total(lambda _: 1)
    assert "\n" not in str(refused.value)


@pytest.mark.spark
def test_a_file_that_lost_rows_after_the_checks_is_refused(spark, log_file, tmp_path):
    path = tmp_path / "log.parquet"
    duckdb.sql(f"COPY (FROM '{log_file}') TO '{path}'")
    with spark.open_log(path, mapping=LogMapping()) as source:
        usable = checked(source)
        kept = f"session_id <> (SELECT max(session_id) FROM '{log_file}')"
        duckdb.sql(f"COPY (FROM '{log_file}' WHERE {kept}) TO '{path}'")
        with pytest.raises(InputError, match="has changed since it was checked") as refused:
            spark.sessions(usable)
    assert "\n" not in str(refused.value)
