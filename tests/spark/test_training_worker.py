import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.metrics.ranking import average, ndcg
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.spark.shard import Shard, cut, join
from prsrank.spark.training_worker import Place, plain_text, train_rank
from prsrank.spark.worker_sums import RankSums, free_port

# What a rank does in a process of its own: everything that Spark's task does, without Spark.
RANK = """
import json, socket, sys
from pathlib import Path
from prsrank.spark.worker_sums import RankSums
from prsrank.spark.shard import Shard
from prsrank.spark.training_worker import Place, train_rank

rank, machines, port, folder, parameters = sys.argv[1:]
rank, machines, address = int(rank), tuple(machines.split(",")), ("127.0.0.1", int(port))
server = socket.create_server(address) if rank == 0 else None
if rank:
    import time
    time.sleep(1)
shard = Shard.unpack(Path(folder, f"{rank}.npz").read_bytes(), normalise="ndcg")
with RankSums(rank, len(machines), server=server, address=address) as sums:
    model = train_rank(json.loads(parameters), shard, Place(rank, machines, sums))
Path(folder, f"{rank}.txt").write_text(model.text)
Path(folder, f"{rank}.json").write_text(json.dumps(model.history))
"""


@pytest.fixture(scope="module")
def data():
    return quantised(synthetic_dataset("mq2007", 120, seed=1))


@pytest.fixture(scope="module")
def judged():
    return quantised(synthetic_dataset("mq2007", 40, seed=2))


def quantised(data):
    return replace(data, features=np.round(data.features * 4) / 4)


def pairs_of(data):
    return PairSet.from_labels(data, normalise="ndcg", dtype=np.float32)


def grown(shards, folder, parameters):
    import json

    ports = [free_port("127.0.0.1") for _ in range(len(shards) + 1)]
    machines = ",".join(f"127.0.0.1:{port}" for port in ports[1:])
    for rank, shard in enumerate(shards):
        (folder / f"{rank}.npz").write_bytes(shard.pack())
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                RANK,
                str(rank),
                machines,
                str(ports[0]),
                folder,
                json.dumps(parameters),
            ]
        )
        for rank in range(len(shards))
    ]
    assert [process.wait(timeout=120) for process in processes] == [0] * len(shards)
    texts = [(folder / f"{rank}.txt").read_text() for rank in range(len(shards))]
    histories = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(len(shards))]
    return texts, histories


def test_two_plain_processes_grow_the_trees_of_one(data, judged, tmp_path):
    parameters = {"trees": 12, "leaves": 7, "threads": 1, "patience": 5}
    alone = LambdaMART(**parameters).fit(data, pairs_of(data), validation=judged)
    shards = [join(pieces) for pieces in cut(data, pairs_of(data), 2, judged)]
    texts, histories = grown(shards, tmp_path, parameters)
    assert texts[0] == texts[1]
    assert histories[0] == histories[1]
    np.testing.assert_allclose(histories[0], alone.history_, rtol=1e-12)
    assert trees_of(texts[0]) == trees_of(alone.booster_.model_to_string())


def trees_of(text):
    """Splits and values. Ranks estimate the counts of docs from hessians; nothing uses them."""
    trees = text[text.index("Tree=0") : text.index("end of trees")]
    return [
        line
        for line in trees.splitlines()
        if not line.startswith(("leaf_count", "internal_count", "tree_sizes"))
    ]


def test_one_rank_is_the_ranker_itself(data):
    shard = Shard(data, pairs_of(data))
    with RankSums(0, 1) as sums:
        model = train_rank({"trees": 5, "threads": 1}, shard, Place(0, ("-",), sums))
    alone = LambdaMART(trees=5, threads=1).fit(data, pairs_of(data))
    assert trees_of(model.text) == trees_of(alone.booster_.model_to_string())


def test_a_judge_of_its_own(data, judged):
    def best_first(scores):
        return average(ndcg(judged.relevance, scores, judged.offsets, k=1)).mean

    shard = Shard(data, pairs_of(data))
    with RankSums(0, 1) as sums:
        model = train_rank(
            {"trees": 6, "threads": 1}, shard, Place(0, ("-",), sums), judge=(judged, best_first)
        )
    alone = LambdaMART(trees=6, threads=1)
    alone.fit(data, pairs_of(data), validation=(judged, best_first))
    assert model.history == alone.history_


def test_no_list_is_one_clear_line(data):
    none = data.select(np.zeros(data.lists, bool))
    shard = Shard(none, pairs_of(none))
    with RankSums(0, 1) as sums, pytest.raises(InputError, match="fewer ranks"):
        train_rank({}, shard, Place(0, ("-",), sums))


def test_the_network_leaves_no_trace_in_the_model():
    text = "tree\n[machines: 127.0.0.1:1]\n[num_machines: 2]\n[num_leaves: 7]\n"
    assert plain_text(text) == "tree\n[num_leaves: 7]\n"


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_shards_are_the_lists_and_pairs_in_order(data, judged, shards):
    pairs = pairs_of(data)
    pieces = [join(pieces) for pieces in cut(data, pairs, shards, judged)]
    packed = [Shard.unpack(piece.pack(), normalise="ndcg") for piece in pieces]
    assert len(packed) == shards
    whole = join(packed)
    for name in ("features", "offsets", "query_ids"):
        np.testing.assert_array_equal(getattr(whole.dataset, name), getattr(data, name))
    for name in ("offsets", "query_ids", "winner_offsets", "winner_row", "weights", "totals"):
        np.testing.assert_array_equal(getattr(whole.pairs, name), getattr(pairs, name))
    labels = np.concatenate([piece.judged.labels for piece in packed])
    np.testing.assert_array_equal(labels, judged.relevance)


def test_a_large_shard_travels_in_pieces(data, monkeypatch):
    monkeypatch.setattr("prsrank.spark.shard._PIECE", data.features.nbytes // 5)
    [pieces] = cut(data, pairs_of(data), 1, data)
    assert len(pieces) >= 5
    whole = join(pieces)
    np.testing.assert_array_equal(whole.dataset.features, data.features)
    np.testing.assert_array_equal(whole.pairs.weights, pairs_of(data).weights)
    assert whole.judged.lists == data.lists


def test_more_shards_than_lists(data):
    few = data.select([0, 1, 2])
    assert len(cut(few, pairs_of(few), 8)) <= 3


def test_string_ids_travel():
    lists = RankingDataset(np.eye(3), np.array([0, 2, 3]), np.array(["a", "bb"]), labels=[0, 1, 1])
    shard = Shard.unpack(Shard(lists, PairSet.from_labels(lists)).pack())
    assert shard.dataset.query_ids.tolist() == ["a", "bb"]
