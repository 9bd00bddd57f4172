"""Standard input and other pipes as files: a log is gone through more than once."""

import atexit
import gzip
import shutil
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from prsrank.errors import InputError

_STANDARD = ("-", "/dev/stdin")
_PACKED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}


def as_file(path: str) -> str:
    """Return a path; what comes through a pipe is first copied to a file, until the process ends.

    Its kind is told by its content: Parquet, JSON lines, else CSV.

    Raises:
        InputError: if nothing came.
    """
    given = Path(path)
    if path in _STANDARD:
        return _copied(sys.stdin.buffer, "standard input")
    if given.exists() and not given.is_file() and not given.is_dir():
        with given.open("rb") as pipe:
            return _copied(pipe, path)
    return path


def _copied(pipe: BinaryIO, name: str) -> str:
    folder = Path(tempfile.mkdtemp(prefix="prsrank-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / "input"
    with copy.open("wb") as file:
        shutil.copyfileobj(pipe, file)
    if not copy.stat().st_size:
        raise InputError(f"{name}: nothing came")
    return str(copy.rename(copy.with_name(f"input{_ending(copy)}")))


def _ending(file: Path) -> str:
    with file.open("rb") as stream:
        head = stream.read(4)
    if head == b"PAR1":
        return ".parquet"
    packed = next((ending for magic, ending in _PACKED.items() if head.startswith(magic)), "")
    with gzip.open(file) if packed == ".gz" else file.open("rb") as stream:
        text = b"" if packed == ".zst" else stream.read(100).lstrip()
    return (".jsonl" if text.startswith((b"{", b"[")) else ".csv") + packed
