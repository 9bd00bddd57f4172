"""Pieces and shards from Arrow rows, without Spark."""

import numpy as np
import pytest

from prsrank.data.ids import id_array
from prsrank.errors import InputError
from prsrank.propensity.curve import PowerLaw
from prsrank.relevance.workers import ALONE
from prsrank.spark.hashes import buckets_of, id_hashes
from prsrank.spark.placing import DOC, EVENT, Size, _Docs, packed, unpacked
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
