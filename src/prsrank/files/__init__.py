"""Files: outputs that appear whole or not at all, JSON and TOML, and errors about files in one line."""

import json
import math
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prsrank.errors import InputError
from prsrank.files.drafts import atomic_output as atomic_output
from prsrank.files.drafts import check_writable as check_writable
from prsrank.files.schema import check

FileName = str | os.PathLike[str]

MOST_BYTES = 1 << 28
"""No JSON or TOML file that we read is larger: a card, a curve, a manifest, a mapping."""


def existing_file(path: FileName) -> Path:
    """Return `path` as a Path if it is a readable file, else raise an InputError."""
    file = Path(path)
    try:
        mode = os.stat(file).st_mode
    except (OSError, ValueError):  # a name with a NUL, or too long
        raise InputError(f"{file}: no such file") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{file}: is a folder, not a file")
    if not stat.S_ISREG(mode):  # a device has no end, and a pipe may never begin
        raise InputError(f"{file}: is a device, pipe or socket, not a file")
    if not os.access(file, os.R_OK):
        raise InputError(f"{file}: cannot be read (permission)")
    return file


def read_json(path: FileName, wanted: Any = dict[str, Any]) -> dict[str, Any]:
    """Read a JSON object from a file; InputError where it is cut short, or not as wanted.

    Args:
        path: the file.
        wanted: the type that it must have; see `prsrank.files.schema.check`.
    """
    value = _parsed(path, "JSON", json.loads)
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds no JSON object")
    check(value, wanted, str(path))
    return value


def read_toml(path: FileName, wanted: Any = dict[str, Any]) -> dict[str, Any]:
    """Read a TOML file; InputError where it is none, or not as wanted."""
    value: dict[str, Any] = _parsed(path, "TOML", tomllib.loads)
    check(value, wanted, str(path))
    return value


def write_json(path: FileName, value: dict[str, Any]) -> None:
    """Write a JSON object to a file, whole or not at all; what is not finite becomes null."""
    with atomic_output(path) as draft:
        text = json.dumps(plain_json(value), indent=2, allow_nan=False)
        draft.write_text(text + "\n", encoding="utf-8")


def plain_json(value: Any) -> Any:
    """Return plain lists and dicts; a number that is not finite becomes None."""
    if isinstance(value, dict):
        return {name: plain_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parsed(path: FileName, kind: str, parse: Callable[[str], Any]) -> Any:
    file = existing_file(path)
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise InputError(f"{file}: has {size:,} bytes, more than the {MOST_BYTES:,} that it may")
    try:
        return parse(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not valid UTF-8: {error}") from error
    except RecursionError:
        raise InputError(f"{path}: is nested too deep") from None
    except ValueError as error:  # also a number of too many digits
        raise InputError(f"{path}: is not valid {kind}: {error}") from error
