"""Spark for real, on a standalone cluster: one master and two workers on the loopback."""

import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from spark_checks import SMALL, close, require_spark, same_curve, same_evaluation, trees_of

from prsrank.errors import DataWarning
from prsrank.fit.engine import Weighed
from prsrank.fit.local import LocalEngine
from prsrank.fit.parts import QUERY, Split
from prsrank.logs.mapping import LogMapping
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.estimators import estimator
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.spark.barrier import train_in_barrier
from prsrank.spark.session import find_java, is_trimmed, untrimmed
from prsrank.spark.shards import shard_of_pieces
from prsrank.spark.worker_sums import listen

pytestmark = pytest.mark.spark

CURVE = PowerLaw(1.0)
PRS = Weighed(CURVE, "prs", {}, tau=0.05)
FEATURES = LogMapping(features=("f*",))
HOST = "127.0.0.1"


class Cluster:
    """A master and its workers, each a process of ours in a group of its own."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.folder = folder
        self.program = Path(pyspark.__path__[0], "bin", "spark-class")
        self.processes: list[subprocess.Popen] = []
        port = free_port()
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
                    *("--host", HOST, "--webui-port", str(free_port())),
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


def free_port() -> int:
    with listen(HOST) as server:
        port: int = server.getsockname()[1]
    return port


def can_connect(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex((HOST, port)) == 0


def wait_for(condition, seconds: float = 120) -> None:
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
    with SparkEngine(master=cluster.url, options=options, workers=2) as engine:
        yield engine


@pytest.mark.slow  # tests/spark/test_log.py and test_events.py compare the same on two local workers
def test_from_a_log_to_a_judged_ranker(spark, log_with_features):
    """Propensities, trees of two workers on two executors, and estimates: those of one machine."""
    found = []
    for engine in (LocalEngine(threads=1), spark):
        with engine.open_log(log_with_features, mapping=FEATURES) as source:
            parts = engine.load(source, mapping=FEATURES).split(Split(QUERY, 0.2))
            curve = estimator("harvest").estimate_pieces(parts.learning.pieces)
            ranker = LambdaMART(trees=6, leaves=7, threads=1, min_docs_in_leaf=0)
            trained = parts.train.train([ranker], PRS, validation=parts.validation)
            judged = parts.held_out.evaluate(CURVE, {"trees": ranker}, against=["logged"])
            found.append((curve, ranker, trained.values, judged))
    here, there = found
    same_curve(here[0], there[0])
    assert trees_of(here[1]) == trees_of(there[1])
    close(here[2], there[2])
    same_evaluation(here[3], there[3])


def slow_load(recipe, marker: Path):
    """Return a loader of shards with a slow judge, who tells that training is under way.

    Its functions are made here, not imported, so that executors need not find this file.
    """
    from dataclasses import replace

    def load(batches):
        shard = shard_of_pieces(batches, recipe)
        seen = []

        def judge(scores):
            seen.append(1)
            if len(seen) == 3:
                marker.touch()
            time.sleep(0.5)
            return [float(len(seen)), 1.0]

        return replace(shard, judged=shard.dataset, clicks=judge)

    return load


@pytest.mark.slow  # tests/spark/test_log.py kills a task
def test_a_lost_worker_starts_the_stage_again_on_the_other(
    spark, cluster, log_with_features, tmp_path
):
    """Last in the file: it takes a worker from the cluster."""
    marker = tmp_path / "started"

    def kill() -> None:
        wait_for(marker.exists)
        cluster.kill_worker()

    parameters = {"trees": 8, "leaves": 4, "threads": 1}
    with spark.open_log(log_with_features, mapping=FEATURES) as source:
        log = spark.load(source, mapping=FEATURES)
        alone = LambdaMART(**parameters)
        log.train([alone], PRS)
        recipe, rows = log._shards(alone, PRS, None)
        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.warns(DataWarning, match="interrupted and starts again"):
            [model] = train_in_barrier(rows, slow_load(recipe, marker), [parameters])
        killer.join()
    assert trees_of(model.text) == trees_of(alone)
