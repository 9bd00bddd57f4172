"""Files that are read and written, and errors about them in one line."""

import json
import math
import os
from pathlib import Path
from typing import Any

from prsrank.errors import InputError
from prsrank.files.drafts import atomic_output

FileName = str | os.PathLike[str]


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
