"""Pieces from Arrow rows, without Spark."""

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.spark.hashes import buckets_of, id_hashes
from prsrank.spark.placing import DOC, EVENT, Size, _Docs, packed, unpacked

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

NAMES = ("a", "b")
VALUES = [[0.5, 1.0], [1.5, 0.0], [0.0, 0.0]]


def docs(*queries, features=VALUES, times=1):
    """Docs 0, 1 and 2 of each query, in so many rows each."""
    rows = [(query, doc) for query in queries for doc in range(3) for _ in range(times)]
    return pa.table(
        {
            "query_id": [query for query, _ in rows],
            "doc_id": [doc for _, doc in rows],
            "features": pa.array([features[doc] for _, doc in rows], pa.list_(pa.float32())),
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
        }
    )


def blobs(table, kind, size=4):
    return list(packed(iter(table.to_batches(size)), kind, [10, 20]))


def piece(*tables):
    """The piece that all rows make, whatever their bucket."""
    batches = [blob for kind, table in tables for blob in blobs(table, kind)]
    return unpacked(iter(batches), NAMES, ())


def test_rows_are_packed_by_bucket_and_docs_once(monkeypatch):
    """Buckets have the keys 10 and 20; a doc comes once, however many chunks it is in."""
    monkeypatch.setattr("prsrank.spark.placing._CHUNK", 100)
    queries = list(range(3, 9))
    bucket = buckets_of(id_hashes(pa.array(queries)), 2)
    keys = np.take([10, 20], bucket).tolist()
    assert set(keys) == {10, 20}
    found = blobs(docs(*queries, times=4), DOC, size=5)
    assert len(found) > 2
    sent = []
    for batch in found:
        for key, rows in zip(batch.column("key").to_pylist(), batch.column("rows"), strict=True):
            table = pa.ipc.open_stream(rows.as_buffer()).read_all()
            sent += [(key, row["query_id"], row["doc_id"]) for row in table.to_pylist()]
    expected = zip(keys, queries, strict=True)
    assert sorted(sent) == sorted((key, query, doc) for key, query in expected for doc in range(3))


def test_equal_docs_are_told_by_their_values():
    """-0 is 0 and a missing value is one, however its bits are."""
    other = np.array([0x7FC00001], np.uint32).view(np.float32)[0]
    features = [[0.0, np.nan], [-0.0, other], [0.0, 1.0]]
    rows = pa.table(
        {
            "query_id": [7, 7, 7],
            "doc_id": [1, 1, 1],
            "features": pa.array(np.array(features, np.float32).tolist(), pa.list_(pa.float32())),
        }
    )
    [batch] = blobs(rows, DOC, size=1)
    [packed_rows] = batch.column("rows")
    kept = pa.ipc.open_stream(packed_rows.as_buffer()).read_all()
    assert str(kept.column("features").to_pylist()) == "[[0.0, nan], [0.0, 1.0]]"


def test_many_docs_are_told_apart():
    """More docs than the table has places at first, one of them of hash 0."""
    keys = np.random.default_rng(0).integers(-(2**62), 2**62, 100_000)
    keys[7] = 0
    rows, docs_met = np.concatenate([keys, keys[::-1]]), _Docs()
    new = [
        chunk[docs_met.unseen(chunk.copy(), chunk % 5)]
        for chunk in np.split(rows, len(rows) // 10_000)
    ]
    assert sorted(np.concatenate(new).tolist()) == sorted(keys.tolist())
    assert sum(map(len, new[10:])) == 0


def test_a_piece_has_the_sessions_and_their_lists():
    one = piece((EVENT, events(8, 7, clicked=1)), (DOC, docs(9, 8, 7, times=2)))
    assert one.lists.query_ids.tolist() == [7, 8]  # query 9 has no session
    assert one.lists.features.tolist() == VALUES * 2
    assert (one.log.sessions, len(one.log.clicks)) == (4, 4)
    size = Size.of(one) + Size.of(piece((EVENT, events(1, clicked=0, sessions=9)), (DOC, docs(2))))
    assert (size.docs, size.busiest, size.missing) == (6, (27, "1"), 9)
    # a clicked doc in each of two lists of three docs; six docs at one position each, three at theirs
    assert (size.weights, size.cells) == (6, 9)
    assert size.extent.sessions == 13
    assert unpacked(iter(blobs(docs(7), DOC)), NAMES, ()) is None


def test_two_values_of_a_feature():
    other = docs(8, features=[*VALUES[:2], [0.0, 0.25]])
    with pytest.raises(InputError, match="doc 2 of query 8 has two values of a feature"):
        piece((EVENT, events(8, clicked=1)), (DOC, docs(7, 8)), (DOC, other))
