"""Commands on Spark that are ended, or lose their Java: one line, and nothing is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from spark_checks import JAVA, require_spark

pytestmark = pytest.mark.spark

MAIN = "from prsrank.cli import main; main()"


def java_of(pid):
    """Return the process of Java that another one started; None before it has."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (entry / "stat").read_text().rpartition(")")[::2]
        except OSError:
            continue
        if name.endswith("(java") and rest.split()[1] == str(pid):
            return int(entry.name)
    return None


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


# a session that comes up, and one that computes
STARTING, COMPUTING = "**/blockmgr-*", "**/shuffle_*"


@pytest.fixture
def started(log_file, tmp_path, request):
    """A command that has come so far, and its Java."""
    require_spark()
    folder = tmp_path / "tmp"
    folder.mkdir()
    command = [
        "propensity",
        str(log_file),
        "--method",
        "harvest",
        "--spark",
        "--master",
        "local[2]",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *command, "--out", str(tmp_path / "curve.json")],
        env=os.environ | {"TMPDIR": str(folder), "SPARK_SUBMIT_OPTS": JAVA},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: any(folder.glob(request.param)) or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    yield process, java_of(process.pid), folder
    process.kill()
    process.communicate()


def ended(process, folder, java):
    """Return exit code and message of a command, after seeing that nothing is left of it."""
    _, errors = process.communicate(timeout=60)
    wait_for(lambda: not Path(f"/proc/{java}").exists(), 20)
    assert not any(folder.glob("prsrank*"))
    told = [line for line in errors.splitlines() if line.startswith(("prsrank:", "Traceback"))]
    return process.returncode, told


@pytest.mark.parametrize(
    ("started", "number", "said"),
    [
        (STARTING, signal.SIGTERM, "terminated"),
        # both ends go the same way: the one in CI is that of a session that is not yet whole
        pytest.param(COMPUTING, signal.SIGINT, "interrupted", marks=pytest.mark.slow),
    ],
    indirect=["started"],
)
def test_a_command_that_is_ended_leaves_no_java_and_no_folder(started, number, said):
    process, java, folder = started
    process.send_signal(number)
    assert ended(process, folder, java) == (128 + number, [f"prsrank: {said}"])


@pytest.mark.parametrize("started", [COMPUTING], indirect=True)
def test_a_java_that_is_killed_is_named(started):
    process, java, folder = started
    os.kill(java, signal.SIGKILL)
    code, (line,) = ended(process, folder, java)
    assert code == 2
    assert line.startswith("prsrank: error: Spark's Java process was killed by SIGKILL")
