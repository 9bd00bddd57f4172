"""The folder of a saved ranker: its card, checksums, and files that may not leave it."""

import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from prsrank.errors import InputError
from prsrank.files import FileName, existing_file, plain_json
from prsrank.files.drafts import check_target

CARD = "ranker.json"
_LIBRARIES = ("prsrank", "numpy", "lightgbm", "numba", "torch", "safetensors")


def check_free(path: FileName) -> None:
    """Raise an InputError if a ranker cannot be saved here: something else is there."""
    folder = Path(path)
    check_target(folder, folder=True)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / CARD).exists():
        raise InputError(f"{path}: is a folder with other things in it")


class Card(TypedDict):
    """What `ranker.json` holds."""

    ranker: str
    parameters: dict[str, Any]
    learned: dict[str, Any]
    files: dict[str, str]
    about: dict[str, Any]
    versions: NotRequired[dict[str, str]]
    checksum: NotRequired[str]  # cards of earlier versions have none


def checksum(card: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what the scores depend on: weights in the card, and its files' own."""
    kept = {name: card[name] for name in ("ranker", "parameters", "learned", "files")}
    return hashlib.sha256(json.dumps(plain_json(kept), sort_keys=True).encode()).hexdigest()


def check_card(card: Mapping[str, Any]) -> None:
    """Raise an InputError for a card that was changed, or names files elsewhere."""
    if card.get("checksum", expected := checksum(card)) != expected:
        raise InputError("is damaged (its checksum differs)")
    for name in card["files"]:
        if Path(name).name != name or name in ("", ".", "..") or "\0" in name:
            raise InputError(f"file '{name}' is not in the folder of the ranker")


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that shape a model."""
    versions = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            continue
    return versions


def checked_file(folder: Path, name: str, sha256: str) -> bytes:
    """Return the content of a file of the folder, if it is the one that was saved."""
    path = existing_file(folder / name)
    if path.resolve().parent != folder.resolve():
        raise InputError(f"file '{name}' is a link that leaves the folder of the ranker")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{path}: is damaged or cut short (its checksum differs)")
    return content
