"""The journal: one line of JSON for each finished job, appended and flushed to disk at once.

A run that is killed leaves at worst a torn last line, which the next one drops. Nothing is ever
rewritten, so results of earlier specs stay for specs that want them again.
"""

import base64
import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from prsrank.errors import InputError
from prsrank.types import Floats

JOURNAL = "jobs.jsonl"


@dataclass(frozen=True, eq=False)
class Finished:
    """A finished job.

    Attributes:
        id: the job's id.
        kind: of the job.
        values: by metric, one per test query, or one.
        details: plain JSON.
        seconds: wall time that it took.
        cpu_seconds: processor time.
    """

    id: str
    kind: str
    values: Mapping[str, Floats]
    details: Any
    seconds: float
    cpu_seconds: float


class Journal:
    """The finished jobs of a folder; see `open_journal`.

    Args:
        file: the journal, open for reading and writing.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.finished: dict[str, Finished] = {}
        self._file = file
        length = 0
        for line in file:
            if line.endswith(b"\n"):  # else torn by the end of a run
                entry = _read(line)
                self.finished[entry.id] = entry
                length += len(line)
        file.truncate(length)
        file.seek(length)

    def add(self, entry: Finished, identity: Mapping[str, Any]) -> None:
        """Append a finished job; it is on disk when this returns."""
        values = {name: encoded(values) for name, values in entry.values.items()}
        times = {name: round(getattr(entry, name), 4) for name in ("seconds", "cpu_seconds")}
        fields = {**vars(entry), "values": values, **times, "identity": identity}
        self._file.write(json.dumps(fields, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.finished[entry.id] = entry


@contextmanager
def open_journal(folder: Path) -> Iterator[Journal]:
    """Open the journal of a folder, which nobody else may then do.

    The lock ends with the process, however it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # a link is not followed: it may lead to anybody's file
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(folder / JOURNAL, flags, 0o644), "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder}: another run is writing to this folder") from None
        yield Journal(file)


def encoded(values: Floats) -> str:
    """Return float64 values as text: little-endian, deflated, base64.

    >>> decoded(encoded(np.array([0.5, np.nan]))).tolist()
    [0.5, nan]
    """
    return base64.b64encode(zlib.compress(values.astype("<f8").tobytes(), 6)).decode()


def decoded(text: str) -> Floats:
    """Return the values that `encoded` wrote."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<f8").astype(np.float64)


def _read(line: bytes) -> Finished:
    try:
        fields = json.loads(line)
        del fields["identity"]
        values = {name: decoded(text) for name, text in fields["values"].items()}
        return Finished(**{**fields, "values": values})
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise InputError(f"{JOURNAL}: a line is damaged: {error!r}") from error
