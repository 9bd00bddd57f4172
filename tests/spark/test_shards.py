"""Pieces and shards from Arrow rows, without Spark."""

import numpy as np
import pytest

from prsrank.data.ids import id_array
from prsrank.errors import InputError
from prsrank.propensity.curve import PowerLaw
from prsrank.relevance.workers import ALONE
from prsrank.spark.placing import DOC, EVENT, Size, packed, unpacked
from prsrank.spark.shards import JUDGED, TRAIN, Placing, Recipe, shard_of_pieces, sharded
from prsrank.spark.training_worker import train_worker
from prsrank.weighting import find_weighting

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
            "doc_key": [query * 3 + doc for query, doc in rows],
            "seen": [hash(tuple(features[doc])) for _, doc in rows],
            "bucket": pa.array([query % 2 for query, _ in rows], pa.int32()),
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
            "bucket": pa.array([q % 2 for q, _, _ in rows], pa.int32()),
        }
    )


def blobs(table, kind, size=4):
    return list(packed(iter(table.to_batches(size)), kind, [10, 20]))


def piece(*tables):
    """The piece that all rows make, whatever their bucket."""
    batches = [blob for kind, table in tables for blob in blobs(table, kind)]
    return unpacked(iter(batches), NAMES, ())


def recipe(**options):
    normalise = {"normalise": "ndcg", "dtype": np.float32}
    return Recipe(NAMES, PowerLaw(1), find_weighting("ips"), normalise, **options)


def rows_of(kind, *pieces):
    return [
        row
        for number, one in enumerate(pieces)
        for row in sharded(number, one, kind, Placing(1), [0])
    ]


def test_rows_are_packed_by_bucket_and_docs_once(monkeypatch):
    """Buckets have the keys 10 and 20; a doc comes once, however many chunks it is in."""
    monkeypatch.setattr("prsrank.spark.placing._CHUNK", 500)
    found = blobs(docs(3, 4, 5, times=4), DOC, size=5)
    assert len(found) > 2
    sent = []
    for batch in found:
        for key, rows in zip(batch.column("key").to_pylist(), batch.column("rows"), strict=True):
            table = pa.ipc.open_stream(rows.as_buffer()).read_all()
            sent += [(key, row["query_id"], row["doc_id"]) for row in table.to_pylist()]
    assert sorted(sent) == [
        (key, query, doc) for key, query in ((10, 4), (20, 3), (20, 5)) for doc in range(3)
    ]


def test_many_docs_are_told_apart(monkeypatch):
    """More docs than the table has places at first, one of them of hash 0."""
    monkeypatch.setattr("prsrank.spark.placing._CHUNK", 1 << 20)
    keys = np.random.default_rng(0).integers(-(2**62), 2**62, 100_000)
    keys[7] = 0
    rows = np.concatenate([keys, keys[::-1]])
    table = pa.table({"doc_key": rows, "seen": rows % 5, "bucket": np.zeros(len(rows), np.int32)})
    found = [
        pa.ipc.open_stream(rows.as_buffer()).read_all()
        for batch in blobs(table, DOC, size=10_000)
        for rows in batch.column("rows")
    ]
    assert len(found) > 1
    assert sorted(pa.concat_tables(found).column("doc_key").to_pylist()) == sorted(keys.tolist())


def test_a_piece_has_the_sessions_and_their_lists():
    one = piece((EVENT, events(8, 7, clicked=1)), (DOC, docs(9, 8, 7, times=2)))
    assert one.lists.query_ids.tolist() == [7, 8]  # query 9 has no session
    assert one.lists.features.tolist() == VALUES * 2
    assert (one.log.sessions, len(one.log.clicks)) == (4, 4)
    size = Size.of(one) + Size.of(piece((EVENT, events(1, clicked=0, sessions=9)), (DOC, docs(2))))
    assert (size.docs, size.longest, size.busiest, size.bare) == (6, 3, (27, "1"), 9)
    assert size.extent.sessions == 13
    assert unpacked(iter(blobs(docs(7), DOC)), NAMES, ()) is None


def test_two_values_of_a_feature():
    other = docs(8, features=[*VALUES[:2], [0.0, 0.25]])
    with pytest.raises(InputError, match="doc 2 of query 8 has two values of a feature"):
        piece((EVENT, events(8, clicked=1)), (DOC, docs(7, 8)), (DOC, other))


def test_lists_pairs_and_what_clicks_say():
    learned = piece((EVENT, events(7, clicked=1)), (DOC, docs(7)))
    judged = piece((EVENT, events(8, clicked=2)), (DOC, docs(8)))
    rows = rows_of(TRAIN, learned) + rows_of(JUDGED, judged)
    shard = shard_of_pieces(rows, recipe(judges=True, tau=0.4))
    assert shard.dataset.query_ids.tolist() == [7]
    assert shard.pairs.winner_row.tolist() == [1]
    # two sessions, doc 1 clicked at propensity 1 / 2, IDCG 1; no weight against itself
    assert shard.pairs.weights.tolist() == [4, 0, 4]
    assert shard.judged.query_ids.tolist() == [8]
    # the clicked doc of both sessions at ranks 1 and 3; its propensity 1 / 3 is raised to 0.4
    assert shard.clicks(np.array([0, 0, 1.0])) == pytest.approx((2 / 0.4, 2))
    assert shard.clicks(np.array([2.0, 1, 0])) == pytest.approx((2 / 0.4 / 2, 2))


def test_pieces_of_a_worker_meet_in_the_order_of_their_ids():
    pieces = [
        piece((EVENT, events(*queries, clicked=1)), (DOC, docs(*queries)))
        for queries in ((5, 8), (2, 9), (3,))
    ]
    shard = shard_of_pieces(rows_of(TRAIN, *pieces), recipe())
    assert shard.dataset.query_ids.tolist() == [2, 3, 5, 8, 9]
    assert shard.pairs.query_ids.tolist() == [2, 3, 5, 8, 9]
    assert shard.pairs.weights.tolist() == [4, 0, 4] * 5


@pytest.mark.parametrize("judged", [False, True])
def test_a_worker_without_clicks_to_judge_by(judged):
    rows = rows_of(TRAIN, piece((EVENT, events(7, clicked=1)), (DOC, docs(7))))
    if judged:
        rows += rows_of(JUDGED, piece((EVENT, events(8, clicked=None)), (DOC, docs(8))))
    shard = shard_of_pieces(rows, recipe(judges=True))
    if judged:
        assert tuple(shard.clicks(np.zeros(3))) == (0, 2)
    settings = {"trees": 2, "threads": 1, "min_docs_in_leaf": 1}
    model = train_worker(settings, shard, ALONE)
    assert model.history == ([0.0, 0.0] if judged else [])


@pytest.mark.parametrize("kind", [int, str, object])
def test_a_long_list_leaves_its_worker_room(kind):
    """Half of all docs are in one list: the other lists go to the other worker."""
    queries = id_array(np.arange(100, 160).astype(str if kind is object else kind))
    if kind is object:  # one long id, of another list
        queries = id_array([*queries[:-1].tolist(), "q" * 9_000])
    placing = Placing.of([(queries.tolist()[7], 590)], 1180, 2)
    workers = placing.worker(queries)
    filled = [590 * (workers[7] == n) + 10 * (np.delete(workers, 7) == n).sum() for n in (0, 1)]
    assert sum(filled) == 1180
    assert abs(filled[0] - filled[1]) < 100
    even = Placing(3).worker(queries)
    assert sorted(np.unique(even)) == [0, 1, 2]
