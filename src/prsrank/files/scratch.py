"""Temporary folders of a command: all lie in one, which goes with the process, however it ends.

`tempfile` removes its folders when Python ends, which a process that is ended at once never
does. What a killed process left is known by its lock being free, and is removed by the next command.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prsrank.files.drafts import lock_folder

_PREFIX = "prsrank-run-"

last_steps: list[Callable[[], object]] = []
"""What ends helpers of this process, such as Spark's Java, where it cannot wait for them."""

_roots: list[Path] = []


@contextmanager
def scratch_of_process() -> Iterator[Path]:
    """Let `tempfile` make its files and folders in one of this process, which is removed."""
    before = tempfile.gettempdir()
    _clear(Path(before))
    try:
        root = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError:  # whoever needs room says that there is none
        yield Path(before)
        return
    lock = lock_folder(root)
    _roots.append(root)
    tempfile.tempdir = str(root)
    try:
        yield root
    finally:
        tempfile.tempdir = before
        _roots.remove(root)
        shutil.rmtree(root, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def discard_scratch() -> None:
    """Remove the temporary files of this process, which is about to end."""
    for step in last_steps:
        with suppress(Exception):
            step()
    for root in _roots:
        shutil.rmtree(root, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Remove what killed processes left; what others' processes use, or own, stays."""
    for left in folder.glob(f"{_PREFIX}*"):
        lock = lock_folder(left)
        if lock is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(lock)
