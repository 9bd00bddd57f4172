"""Spark for real, on a standalone cluster: one master and two workers on the loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from spark_checks import SMALL, require_spark, same_pairs, trees_of

from prsrank.errors import DataWarning
from prsrank.logs.log_split import LogSplit
from prsrank.logs.mapping import LogMapping
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.estimators import estimator
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker
from prsrank.spark.local import LocalEngine
from prsrank.spark.session import find_java, is_trimmed, untrimmed
from prsrank.spark.worker_sums import free_port

pytestmark = pytest.mark.spark

LOCAL = LocalEngine(threads=1)
CURVE = PowerLaw(1.0)
HOST = "127.0.0.1"


class Cluster:
    """A master and its workers, each a process of ours in a group of its own."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.folder = folder
        self.program = Path(pyspark.__path__[0], "bin", "spark-class")
        self.processes: list[subprocess.Popen] = []
        port = free_port(HOST)
        self.url = f"spark://{HOST}:{port}"
        home = find_java()
        self.java = untrimmed(home, self.folder) if is_trimmed(home) else home
        self.start("master.Master", "--port", str(port))
        wait_for(lambda: can_connect(port))
        for _ in range(2):
            self.start("worker.Worker", "--cores", "2", "--memory", "1g", self.url)
        wait_for(lambda: self.registered == 2)

    @property
    def registered(self) -> int:
        return (self.folder / "0.log").read_text().count("Registering worker")

    def start(self, kind: str, *arguments: str) -> None:
        number = len(self.processes)
        settings = {
            "JAVA_HOME": self.java,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.folder / f"local-{number}"),
            "SPARK_WORKER_DIR": str(self.folder / f"work-{number}"),
        }
        with (self.folder / f"{number}.log").open("w") as log:
            process = subprocess.Popen(
                [
                    self.program,
                    f"org.apache.spark.deploy.{kind}",
                    *("--host", HOST, "--webui-port", str(free_port(HOST))),
                    *arguments,
                ],
                env=os.environ | settings,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)

    def kill_worker(self) -> None:
        """Kill a worker and the executor that it started: they are one group."""
        os.killpg(self.processes.pop().pid, signal.SIGKILL)

    def stop(self) -> None:
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def can_connect(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex((HOST, port)) == 0


def wait_for(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the cluster does not start"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    require_spark()
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def spark(cluster):
    from prsrank.spark.engine import SparkEngine

    options = SMALL | {"spark.executor.memory": "768m", "spark.executor.cores": "2"}
    with SparkEngine(master=cluster.url, options=options, ranks=2) as engine:
        yield engine


def test_pairs_and_propensities(spark, log_file, lists):
    with LOCAL.open_log(log_file) as here, spark.open_log(log_file) as there:
        same_pairs(
            LOCAL.pairs(here, lists, CURVE, normalise="ndcg"),
            spark.pairs(there, lists, CURVE, normalise="ndcg"),
        )
        one = LOCAL.propensities(here, estimator("harvest"))
        other = spark.propensities(there, estimator("harvest"))
    np.testing.assert_allclose(other.propensity, one.propensity, rtol=1e-9)


def test_trees_and_the_linear_ranker_straight_from_the_log(spark, log_with_features):
    mapping = LogMapping(features=("f*",))
    trees = {"trees": 8, "threads": 1, "min_docs_in_leaf": 0}
    linear = {"tolerance": 1e-9, "threads": 1}
    forests = [[LambdaMART(leaves=n, **trees) for n in (7, 4)] for _ in range(2)]
    lines = [LinearRanker(**linear) for _ in range(2)]
    values = []
    for engine, rankers, line in zip((LOCAL, spark), forests, lines, strict=True):
        with engine.open_log(log_with_features, mapping=mapping) as events:
            parts = engine.split(events, LogSplit())
            found = engine.train_on_log(
                rankers, parts.train, CURVE, validation=parts.validation, tau=0.05
            )
            found += engine.train_on_log([line], parts.train, CURVE, validation=parts.validation)
            judged = {"trees": rankers[0], "line": line}
            found += [
                one.value
                for one in engine.evaluate(
                    parts.held_out, CURVE, judged, against=["logged"]
                ).evaluation.estimates
            ]
        values.append(found)
    for one, other in zip(*forests, strict=True):
        assert trees_of(one) == trees_of(other)
    np.testing.assert_allclose(lines[1].weights_, lines[0].weights_, atol=1e-6)
    np.testing.assert_allclose(values[1], values[0], rtol=1e-9)


def slow_judge(marker: Path):
    """Return a function that tells, after three trees, that training is under way; slowly.

    It is made here, not imported, so that executors need not find this file.
    """
    seen = []

    def judge(scores: np.ndarray) -> float:
        seen.append(1)
        if len(seen) == 3:
            marker.touch()
        time.sleep(0.5)
        return float(len(seen))

    return judge


def test_a_lost_worker_starts_the_stage_again_on_the_other(spark, cluster, lists, tmp_path):
    """Last in the file: it takes a worker from the cluster."""
    import threading

    pairs = PairSet.from_labels(lists, normalise="ndcg", dtype=np.float32)
    marker = tmp_path / "started"

    def kill() -> None:
        wait_for(marker.exists)
        cluster.kill_worker()

    killer = threading.Thread(target=kill)
    killer.start()
    ranker = LambdaMART(trees=12, leaves=7, threads=1)
    with pytest.warns(DataWarning, match="interrupted and starts again"):
        spark.train(ranker, lists, pairs, validation=(lists, slow_judge(marker)))
    killer.join()
    alone = LambdaMART(trees=12, leaves=7, threads=1).fit(lists, pairs)
    assert trees_of(ranker) == trees_of(alone)
