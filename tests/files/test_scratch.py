"""Temporary folders go with their process, however it ends."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from prsrank.files.drafts import scratch_of_process

_WORKING = """
import os, sys, tempfile
from prsrank.cli import endings
from prsrank.files.drafts import last_steps, scratch_of_process
import numpy as np
from numba import njit

@njit(nogil=True)
def busy(n):
    total = 0.0
    for i in range(n):
        total += np.sin(i) * np.cos(total)
    return total

busy(10)
with scratch_of_process(), endings.prompt_endings():
    last_steps.append(lambda: os.write(2, b"last step\\n"))
    with tempfile.TemporaryDirectory(prefix="prsrank-") as folder:
        open(os.path.join(folder, "large"), "w").close()
        print(folder, flush=True)
        busy(10**12)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_process_that_is_ended_at_once(place, number):
    process = subprocess.Popen(
        [sys.executable, "-c", _WORKING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert os.path.dirname(os.path.dirname(process.stdout.readline().strip())) == str(place)
    time.sleep(1)  # until the kernel runs: in Python the signal would be an exception
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert errors == "last step\nprsrank: terminated\n"
    else:
        # the next one clears away what it could not
        assert len(os.listdir(place)) == 1
        with scratch_of_process() as root:
            assert os.listdir(place) == [root.name]
    assert os.listdir(place) == []


def test_what_another_process_uses_is_left_alone(place):
    with scratch_of_process() as one:
        tempfile.tempdir = str(place)
        with scratch_of_process() as other:
            assert one != other
            assert one.exists()
            assert tempfile.gettempdir() == str(other)
        assert not other.exists()
    assert os.listdir(place) == []
