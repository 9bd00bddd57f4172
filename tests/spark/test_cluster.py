"""Spark for real, on a standalone cluster: one master and two workers on the loopback."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from spark_checks import SMALL, close, require_spark, same_curve, same_evaluation, trees_of

from prsrank.fit.engine import LocalEngine
from prsrank.fit.judging import Weighed
from prsrank.logs.mapping import LogMapping
from prsrank.logs.split import QUERY, Split
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.estimators import estimator
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.spark.session import find_java, is_trimmed, untrimmed

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

    def stop(self) -> None:
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
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
    with SparkEngine(master=cluster.url, options=options) as engine:
        yield engine


@pytest.mark.slow  # tests/spark/test_log.py and test_events.py compare the same on two local workers
def test_from_a_log_to_a_judged_ranker(spark, log_with_features):
    """Propensities, trees, and estimates of pieces on two executors: those of one machine."""
    found = []
    for engine in (LocalEngine(threads=1), spark):
        with engine.open_log(log_with_features, mapping=FEATURES) as source:
            parts = engine.load(source, mapping=FEATURES).split(Split(QUERY, 0.2))
            curve = estimator("harvest").estimate_pieces(parts.learning.pieces)
            ranker = LambdaMART(trees=6, leaves=7, threads=1)
            trained = parts.train.train([ranker], PRS, validation=parts.validation)
            judged = parts.held_out.evaluate(CURVE, {"trees": ranker}, against=["logged"])
            found.append((curve, ranker, trained.values, judged))
    here, there = found
    same_curve(here[0], there[0])
    assert trees_of(here[1]) == trees_of(there[1])
    close(here[2], there[2])
    same_evaluation(here[3], there[3])
