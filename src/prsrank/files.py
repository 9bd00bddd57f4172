"""Files that appear whole or not at all, and errors about files in one line."""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prsrank.errors import InputError

FileName = str | os.PathLike[str]


@contextmanager
def atomic_output(path: FileName, *, folder: bool = False) -> Iterator[Path]:
    """Give a temporary path beside `path`; it takes the name `path` if the block succeeds.

    Args:
        path: where the output is to appear. An existing file is replaced; an existing
            folder only by a folder.
        folder: make the temporary path a folder.

    Yields:
        The path to write to. After an error nothing is left of it and `path` is unchanged.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        workspace = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from error
    draft = workspace / target.name
    try:
        if folder:
            draft.mkdir()
        yield draft
        _replace(draft, target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _replace(draft: Path, target: Path) -> None:
    if target.is_dir() != draft.is_dir() and target.exists():
        raise InputError(f"{target}: exists and is {'a' if target.is_dir() else 'not a'} folder")
    if target.is_dir():
        aside = draft.with_name(draft.name + ".old")
        os.replace(target, aside)
    os.replace(draft, target)


def existing_file(path: FileName) -> Path:
    """Return `path` as a Path if it is a readable file, else raise an InputError."""
    file = Path(path)
    if not file.exists():
        raise InputError(f"{file}: no such file")
    if file.is_dir():
        raise InputError(f"{file}: is a folder, not a file")
    if not os.access(file, os.R_OK):
        raise InputError(f"{file}: cannot be read (permission)")
    return file


def read_json(path: FileName) -> dict[str, Any]:
    """Read a JSON object from a file; InputError where it is cut short or is none."""
    file = existing_file(path)
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{file}: holds no JSON object")
    return value


def write_json(path: FileName, value: dict[str, Any]) -> None:
    """Write a JSON object to a file, whole or not at all."""
    with atomic_output(path) as draft:
        draft.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def plain_json(value: Any) -> Any:
    """Return plain lists and dicts; a number that is not finite becomes None."""
    if isinstance(value, dict):
        return {name: plain_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
