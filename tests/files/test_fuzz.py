"""Logs and data sets altered at random, each read and used in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = {
    "parquet": 1000,
    "compact": 1000,
    "csv": 1000,
    "jsonl": 500,
    "letor": 1500,
    "stored": 1500,
}


def fuzzed(kind: str, cases: int, seed: int = 1) -> dict[str, int]:
    script = Path(__file__).with_name("fuzz_files.py")
    done = subprocess.run(
        [sys.executable, str(script), kind, str(cases), str(seed)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        # on one core nothing starts threads, which forks would lack
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    counts = json.loads(done.stdout.splitlines()[-1])
    assert set(counts) <= {"0", "2"}, (counts, done.stderr[-2000:])
    return counts


@pytest.mark.parametrize("kind", ["compact", "stored"])
def test_a_few_altered_files_are_read_or_refused(kind):
    fuzzed(kind, 20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_altered_files_never_bring_the_process_down(kind):
    counts = fuzzed(kind, CASES[kind])
    assert counts["2"] > 0.3 * CASES[kind]
