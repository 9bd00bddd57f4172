"""Workers in plain processes: everything that a task of Spark does, without Spark."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from spark_checks import trees_of

from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.relevance.workers import Workers
from prsrank.spark.shard import Shard
from prsrank.spark.training_worker import plain_text, train_worker
from prsrank.spark.worker_sums import WorkerSums, free_port

# The shard of worker n of N holds the n-th of N runs of lists; so do the lists to judge by.
SHARDS = """
from dataclasses import replace
import numpy as np
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.pairs.pair_set import PairSet
from prsrank.pairs.posterior import DocClicks, posterior_of_clicks
from prsrank.propensity.curve import PowerLaw
from prsrank.relevance.tree_prior import TreePrior
from prsrank.relevance.workers import ALONE
from prsrank.spark.shard import Shard

def run_of(data, number, workers):
    data = replace(data, features=np.round(data.features * 4) / 4)
    return data.select(np.array_split(np.arange(data.lists), workers)[number])

def shard_of(number, workers):
    data = run_of(synthetic_dataset("mq2007", 60, seed=1), number, workers)
    judged = run_of(synthetic_dataset("mq2007", 20, seed=2), number, workers)
    pairs = PairSet.from_labels(data, normalise="ndcg", dtype=np.float32)
    def clicks(scores):
        return -np.sum((scores - judged.relevance) ** 2), judged.docs
    return Shard(data, pairs, judged, clicks)

def theta_of(number, workers, all_workers=ALONE):
    whole = run_of(synthetic_dataset("mq2007", 60, seed=1), 0, 1)
    log = simulate_clicks(whole, whole.features[:, 0], PositionBasedModel(eta=1), sessions=4000)
    data = shard_of(number, workers).dataset
    mine = np.isin(log.query_ids, data.query_ids)[log.ranking_query][log.session_ranking]
    clicks = DocClicks.of([log.select(mine)], data, PowerLaw(1.0))
    # few trees: later ones split by features that LightGBM on one machine passes over
    found = posterior_of_clicks(clicks, data, prior=TreePrior(trees=6), workers=all_workers)
    return found.theta.tolist()
"""
WORKER = (
    SHARDS
    + """
import json, socket, sys, time
from pathlib import Path
from prsrank.relevance.workers import Workers
from prsrank.spark.training_worker import train_worker
from prsrank.spark.worker_sums import WorkerSums

number, machines, port, folder, parameters = sys.argv[1:]
number, machines, address = int(number), tuple(machines.split(",")), ("127.0.0.1", int(port))
shard = shard_of(number, len(machines))
server = socket.create_server(address) if number == 0 else None
started = Path(folder, "started")
if server is None:
    while not started.exists():
        time.sleep(0.05)
started.touch()
with WorkerSums(number, len(machines), server=server, address=address, secret=b"ours") as sums:
    workers = Workers(number, machines, sums)
    if parameters == "null":
        found = theta_of(number, len(machines), workers)
    else:
        model = train_worker(json.loads(parameters), shard, workers)
        found = [model.text, model.history]
Path(folder, f"{number}.json").write_text(json.dumps(found))
"""
)


def grown(workers, folder, parameters):
    """Return what each of several processes has in the end: text and history of a model.

    Without parameters it is theta of its docs, by a prior of trees that all grow together.
    """
    ports = [free_port("127.0.0.1") for _ in range(workers + 1)]
    machines = ",".join(f"127.0.0.1:{port}" for port in ports[1:])
    rest = [machines, str(ports[0]), str(folder), json.dumps(parameters)]
    processes = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(number), *rest])
        for number in range(workers)
    ]
    assert [process.wait(timeout=300) for process in processes] == [0] * workers
    return [json.loads((folder / f"{number}.json").read_text()) for number in range(workers)]


def alone(name):
    names: dict = {}
    exec(SHARDS, names)  # noqa: S102 - the text above, which the other processes run too
    return names[name](0, 1)


def test_two_plain_processes_grow_the_trees_of_one(tmp_path):
    parameters = {"trees": 8, "leaves": 7, "threads": 1, "patience": 5, "min_docs_in_leaf": 0}
    one, other = grown(2, tmp_path, parameters)
    assert one == other
    shard = alone("shard_of")

    def quality(scores):
        total, count = shard.clicks(scores)
        return total / count

    ranker = LambdaMART(**parameters)
    ranker.fit(shard.dataset, shard.pairs, validation=(shard.judged, quality))
    np.testing.assert_allclose(one[1], ranker.history_, rtol=1e-12)
    assert trees_of(one[0]) == trees_of(ranker)


def test_two_plain_processes_find_the_theta_of_one(tmp_path):
    parts = grown(2, tmp_path, None)
    np.testing.assert_allclose(np.concatenate(parts), alone("theta_of"), rtol=0, atol=1e-9)


@pytest.fixture(scope="module")
def data():
    lists = synthetic_dataset("mq2007", 60, seed=1)
    return replace(lists, features=np.round(lists.features * 4) / 4)


def pairs_of(data):
    return PairSet.from_labels(data, normalise="ndcg", dtype=np.float32)


def test_one_worker_is_the_ranker_itself(data):
    shard = Shard(data, pairs_of(data))
    with WorkerSums(0, 1) as sums:
        model = train_worker({"trees": 5, "threads": 1}, shard, Workers(0, ("-",), sums))
    assert trees_of(model.text) == trees_of(LambdaMART(trees=5, threads=1).fit(data, shard.pairs))
    assert not model.history


def test_no_list_is_one_clear_line(data):
    none = data.select(np.zeros(data.lists, bool))
    shard = Shard(none, pairs_of(none))
    with WorkerSums(0, 1) as sums, pytest.raises(InputError, match="fewer workers"):
        shard.ready(Workers(0, ("-",), sums))


def test_the_network_leaves_no_trace_in_the_model():
    text = "tree\n[machines: 127.0.0.1:1]\n[num_machines: 2]\n[num_leaves: 7]\n"
    assert plain_text(text) == "tree\n[num_leaves: 7]\n"
