"""Outputs that cannot be written, found out before the work."""

import tempfile
from pathlib import Path

from prsrank.errors import InputError


def check_writable(path: Path) -> None:
    """Raise an InputError if nothing can be written at a path; folders that lack are not made."""
    parents = (parent for parent in path.absolute().parents if parent.exists())
    try:
        # permission bits do not tell of read-only disks, and do not bind everybody
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=next(parents)):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
