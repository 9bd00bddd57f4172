"""Commands that are killed: the old output or the new one is whole, and nothing else is left."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def killed(folder: Path, kills: int, seed: int) -> dict:
    script = Path(__file__).with_name("killed_commands.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder), str(kills), str(seed)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        # on one core nothing starts threads, which forks would lack
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_600_kills_lose_nothing_and_leave_nothing(tmp_path):
    found = killed(tmp_path, 600, 1)
    assert not found["wrong"], "\n".join(found["wrong"])
    assert sum(found["counts"].values()) == 600
    # most of them hit a command at work, not one that was done
    assert sum(n for how, n in found["counts"].items() if not how.endswith((" 0", " 1"))) > 300
