"""Shards from Arrow rows, without Spark."""

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.propensity.curve import PowerLaw
from prsrank.relevance.workers import Workers
from prsrank.spark.shard_rows import (
    DOC,
    EVENT,
    JUDGED,
    PAIRS,
    Recipe,
    judged_of_rows,
    shard_of_rows,
)
from prsrank.spark.training_worker import train_worker
from prsrank.spark.worker_sums import WorkerSums
from prsrank.weighting import find_weighting

pa = pytest.importorskip("pyarrow")

TYPES = {
    "kind": pa.int32(), "query_id": pa.int64(), "doc": pa.int64(), "loser": pa.int64(),
    "features": pa.list_(pa.float32()), "twice": pa.bool_(), "pairs": pa.int64(),
    "winner_key": pa.int32(), "loser_key": pa.int32(), "clicks": pa.int64(),
    "session_id": pa.int64(), "position": pa.int32(), "click": pa.int32(),
}  # fmt: skip


def batch(rows):
    return pa.record_batch(
        {n: pa.array([row.get(n) for row in rows], kind) for n, kind in TYPES.items()}
    )


def docs(kind, query):
    values = [[0.5, 1.0], [1.5, 0.0], [0.0, 0.0]]
    names = {"kind": kind, "query_id": query, "twice": False}
    return [{**names, "doc": doc, "features": values[doc]} for doc in range(3)]


def learned(query):
    """Doc 1, shown at 2, was clicked four times, the others were not."""
    counted = [
        {"doc": 1, "loser": loser, "winner_key": 2, "loser_key": loser + 1, "pairs": 4, "clicks": 1}
        for loser in range(3)
    ]
    return docs(DOC, query) + [{**row, "kind": PAIRS, "query_id": query} for row in counted]


def events(query, clicked):
    return [
        {
            "kind": EVENT,
            "query_id": query,
            "doc": doc,
            "session_id": session,
            "position": doc + 1,
            "click": int(doc == clicked),
        }
        for session in (1, 2)
        for doc in range(3)
    ]


def recipe(**options):
    normalise = {"normalise": "ndcg", "dtype": np.float32}
    return Recipe(
        ("a", "b"), PowerLaw(1), find_weighting("ips"), normalise, judging=PowerLaw(1), **options
    )


def test_lists_pairs_and_what_clicks_say():
    rows = learned(7) + docs(JUDGED, 8) + events(8, clicked=2)
    shard = shard_of_rows([batch(rows[:4]), batch(rows[4:])], recipe(judges=True, tau=0.4))
    assert shard.dataset.query_ids.tolist() == [7]
    assert shard.judged.query_ids.tolist() == [8]
    # the clicked doc of both sessions at ranks 1 and 3; its propensity 1 / 3 is raised to 0.4
    assert shard.clicks(np.array([0, 0, 1.0])) == pytest.approx((2 / 0.4, 2))
    assert shard.clicks(np.array([2.0, 1, 0])) == pytest.approx((2 / 0.4 / 2, 2))
    found = judged_of_rows([batch(rows)], ("a", "b"))
    assert (found.log.sessions, len(found.log.clicks), found.lists.docs) == (2, 2, 3)
    with pytest.raises(InputError, match="docs, but no sessions"):
        judged_of_rows([batch(learned(7))], ("a", "b"))


@pytest.mark.parametrize("rows", [[], docs(JUDGED, 8) + events(8, clicked=None)])
def test_a_worker_without_clicks_to_judge_by(rows):
    shard = shard_of_rows([batch(learned(7) + rows)], recipe(judges=True))
    assert shard.judged.docs == len(rows) // 3
    if rows:
        assert tuple(shard.clicks(np.zeros(3))) == (0, 2)
    settings = {"trees": 2, "threads": 1, "min_docs_in_leaf": 1}
    with WorkerSums(0, 1) as sums:
        model = train_worker(settings, shard, Workers(0, ("-",), sums))
    assert model.history == [0.0, 0.0]


def test_two_values_of_a_feature_to_judge_by():
    rows = learned(7) + docs(JUDGED, 8) + events(8, clicked=1)
    rows[-7]["twice"] = True
    with pytest.raises(InputError, match="doc 2 of query 8 has two values of a feature"):
        shard_of_rows([batch(rows)], recipe(judges=True))
