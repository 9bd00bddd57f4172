"""Workers in plain processes: everything that a task of Spark does, without Spark."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from spark_checks import ending_at, in_threads, trees_of

from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.relevance.workers import ALONE, Workers
from prsrank.spark import training_worker
from prsrank.spark.shard import Shard
from prsrank.spark.training_worker import plain_text, train_worker
from prsrank.spark.tree_network import tree_network
from prsrank.spark.worker_sums import LostWorker, listen

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
import lightgbm
from prsrank.relevance.workers import Workers
from prsrank.spark.training_worker import train_worker
from prsrank.spark.tree_network import tree_network
from prsrank.spark.worker_sums import WorkerSums

number, server, addresses, folder, parameters = sys.argv[1:]
number, addresses = int(number), list(map(tuple, json.loads(addresses)))
shard = shard_of(number, len(addresses))
make = lightgbm.Booster.__init__
def late(booster, *how, **options):
    time.sleep(0.3 * number)  # so that one worker waits for the other where LightGBM begins
    make(booster, *how, **options)
lightgbm.Booster.__init__ = late
with socket.socket(fileno=int(server)) as server:
    sums = WorkerSums(number, addresses, server=server, secret=b"ours")
with sums, tree_network(sums):
    workers = Workers(len(addresses), sums)
    if parameters == "null":
        found = theta_of(number, len(addresses), workers)
    else:
        model = train_worker(json.loads(parameters), shard, workers)
        found = [model.text, model.history]
Path(folder, f"{number}.json").write_text(json.dumps(found))
"""
)


def grown(workers, folder, parameters, watch=lambda processes, addresses: None):
    """Return what each of several processes has in the end: text and history of a model.

    Without parameters it is theta of its docs, by a prior of trees that all grow together.
    """
    with ExitStack() as stack:
        servers = [stack.enter_context(listen("127.0.0.1")) for _ in range(workers)]
        addresses = [server.getsockname()[:2] for server in servers]
        rest = [json.dumps(addresses), str(folder), json.dumps(parameters)]
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", WORKER, str(number), str(server.fileno()), *rest],
                pass_fds=[server.fileno()],
            )
            for number, server in enumerate(servers)
        ]
        watch(processes, addresses)
        assert [process.wait(timeout=300) for process in processes] == [0] * workers
    return [json.loads((folder / f"{number}.json").read_text()) for number in range(workers)]


def alone(name):
    names: dict = {}
    exec(SHARDS, names)  # noqa: S102 - the text above, which the other processes run too
    return names[name](0, 1)


def listening(pid):
    """Return the addresses, as Linux writes them, that a process listens on."""
    found = set()
    with suppress(OSError):  # it ends, or closes what we look at
        opened = {os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()}
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == "0A" and f"socket:[{inode}]" in opened:
                    found.add(local)
    return found


PARAMETERS = {"trees": 8, "leaves": 7, "threads": 1, "patience": 5, "min_docs_in_leaf": 0}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Models of two workers, where they listened meanwhile, and where they were told to.

    A stranger is at the door of each before the other worker comes, and says what LightGBM would.
    """
    heard, told = set(), set()

    def watch(processes, addresses):
        told.update(f"0100007F:{port:04X}" for _, port in addresses)
        with ExitStack() as stack:
            for address in addresses:
                stranger = stack.enter_context(socket.create_connection(address))
                stranger.sendall((1).to_bytes(4, "little") * 100)
            while any(process.poll() is None for process in processes):
                heard.update(*(listening(process.pid) for process in processes))
                time.sleep(0.02)

    return grown(2, tmp_path_factory.mktemp("watched"), PARAMETERS, watch), heard, told


def test_two_plain_processes_grow_the_trees_of_one(watched):
    one, other = watched[0]
    assert one == other
    shard = alone("shard_of")

    def quality(scores):
        total, count = shard.clicks(scores)
        return total / count

    ranker = LambdaMART(**PARAMETERS)
    ranker.fit(shard.dataset, shard.pairs, validation=(shard.judged, quality))
    np.testing.assert_allclose(one[1], ranker.history_, rtol=1e-12)
    assert trees_of(one[0]) == trees_of(ranker)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux tells who listens")
def test_workers_listen_where_they_are_told_and_nowhere_else(watched):
    _, heard, told = watched
    assert heard == told


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
    model = train_worker({"trees": 5, "threads": 1}, shard, ALONE)
    assert trees_of(model.text) == trees_of(LambdaMART(trees=5, threads=1).fit(data, shard.pairs))
    assert not model.history


def test_no_tree_is_grown_when_a_worker_is_gone(data, monkeypatch):
    """Without lists to judge by, and at the sum of a root, too, of which LightGBM makes a stump."""
    begun = []

    class Counted(LambdaMART):
        def _objective(self, pairs):
            objective = super()._objective(pairs)
            return lambda scores: begun.append(1) or objective(scores)

    def work(last, sums):
        ending_at(sums, last)
        try:
            with tree_network(sums):
                train_worker({"trees": 50, "leaves": 3, "threads": 1}, shard, Workers(2, sums))
        except MemoryError as error:
            return error

    monkeypatch.setattr(training_worker, "LambdaMART", Counted)
    shard = Shard(data, pairs_of(data))
    for last in range(1, 20):
        begun.clear()
        assert [type(end) for end in in_threads(2, partial(work, last))] == [
            LostWorker,
            MemoryError,
        ]
        assert len(begun) <= 2 * 4  # what two workers can have begun in so few steps


def test_no_list_is_one_clear_line(data):
    none = data.select(np.zeros(data.lists, bool))
    shard = Shard(none, pairs_of(none))
    with pytest.raises(InputError, match="fewer workers"):
        shard.ready(ALONE)


def test_the_network_leaves_no_trace_in_the_model():
    text = "tree\n[tree_learner: data]\n[num_machines: 2]\n[num_leaves: 7]\n"
    assert plain_text(text) == "tree\n[num_leaves: 7]\n"
