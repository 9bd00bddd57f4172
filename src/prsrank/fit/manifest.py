"""The manifest of a fit: inputs by hash, versions and settings, from which it can be repeated."""

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from prsrank.errors import InputError
from prsrank.files import FileName, existing_file, read_json
from prsrank.files.schema import check
from prsrank.fit.plan import Plan, with_lists_in_mapping
from prsrank.logs.tables import find_files
from prsrank.rankers.cards import library_versions

MANIFEST = "manifest.json"
FORMAT = "prsrank fit 1"
_FURTHER_LIBRARIES = ("duckdb", "scipy", "pyspark")


class _Hashed(TypedDict):
    """A file that was read."""

    file: str
    bytes: int
    sha256: str


class _Manifest(TypedDict):
    """The manifest: what must be there to repeat a fit, and what is told beside it."""

    format: str
    settings: Plan
    inputs: dict[str, list[_Hashed]]
    versions: dict[str, str]
    outputs: dict[str, str]
    engine: NotRequired[dict[str, Any]]
    chosen: NotRequired[dict[str, Any]]


def hashed_inputs(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """Return name, size and SHA-256 of every file that a plan reads, by what it is.

    What a cluster reads by a URL has no hash: that it is still the same is for others to know.
    """
    return {
        role: [] if "://" in path else hashed_files(path) for role, path in plan.inputs().items()
    }


def hashed_files(path: FileName) -> list[dict[str, Any]]:
    """Return name, size and SHA-256 of a file, or of all files of a folder or glob."""
    whole = Path(path)
    start = whole if whole.is_dir() else whole.parent
    return [
        {
            "file": os.path.relpath(file, start),
            "bytes": file.stat().st_size,
            "sha256": _sha256(file),
        }
        for file in _files(path)
    ]


def versions() -> dict[str, str]:
    """Return versions of whatever can change a result."""
    numbers = library_versions()
    for library in _FURTHER_LIBRARIES:
        try:
            numbers[library] = version(library)
        except PackageNotFoundError:
            continue
    return numbers | {"platform": f"{platform.system()} {platform.machine()}"}


def make_manifest(
    plan: Plan,
    inputs: Mapping[str, Any],
    chosen: Mapping[str, Any],
    engine: Mapping[str, Any],
    outputs: Path,
) -> dict[str, Any]:
    """Return the manifest of a fit.

    Args:
        plan: the settings given.
        inputs: as `hashed_inputs` returned them before they were read.
        chosen: the settings found.
        engine: where it ran: name, and workers that trained together (trees may depend on it).
        outputs: the folder with what was made.
    """
    results = [output for output in hashed_files(outputs) if _is_result(output["file"])]
    return {
        "format": FORMAT,
        "settings": plan.to_json_dict(),
        "inputs": dict(inputs),
        "versions": versions(),
        "engine": dict(engine),
        "chosen": dict(chosen),
        "outputs": {output["file"]: output["sha256"] for output in results},
    }


def read_manifest(path: FileName) -> dict[str, Any]:
    """Read a manifest, or that of a folder that fit wrote."""
    file = Path(path, MANIFEST) if Path(path).is_dir() else Path(path)
    manifest = read_json(file)
    if manifest.get("format") != FORMAT:
        raise InputError(f"{file}: is not the manifest of a fit (format '{FORMAT}')")
    manifest["settings"] = with_lists_in_mapping(manifest.get("settings"))
    check(manifest, _Manifest, str(file))
    return manifest


def check_inputs(recorded: Mapping[str, Any], now: Mapping[str, Any], plan: Plan) -> None:
    """Raise an InputError that names an input which is not what the manifest recorded."""
    for role, path in plan.inputs().items():
        before = {file["file"]: file["sha256"] for file in recorded.get(role, [])}
        after = {file["file"]: file["sha256"] for file in now[role]}
        if len(before) == len(after) == 1:  # a single file may have another name
            before, after = ({path: next(iter(hashes.values()))} for hashes in (before, after))
        for name in _changed(before, after):
            change = "has changed" if name in after else "a file is gone"
            change = change if name in before else "a file was added"
            which = f" ({name})" if name != path else ""
            raise InputError(
                f"{path}: {change} since the fit{which}: it cannot be repeated exactly"
            )


def version_differences(recorded: Mapping[str, str]) -> list[str]:
    """Return the differences between recorded versions and those of today, in words."""
    now = versions()
    return [
        f"{name} {recorded.get(name, 'was not there')} then, {now.get(name, 'not there')} now"
        for name in _changed(recorded, now)
    ]


def output_differences(first: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names of outputs that differ between two manifests."""
    return _changed(first["outputs"], other["outputs"])


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names whose values differ, or that one of the two lacks."""
    names = sorted(before.keys() | after.keys())
    return [name for name in names if before.get(name) != after.get(name)]


def is_fit(folder: FileName) -> bool:
    """Tell whether a folder is what a fit wrote."""
    try:
        read_manifest(folder)
    except InputError:
        return False
    return True


def judged_model(folder: FileName) -> Path:
    """Return where the chosen ranker of a fit is as it was judged, before all sessions taught it."""
    chosen = read_manifest(folder).get("chosen", {}).get("model", {}).get("name")
    if not isinstance(chosen, str) or Path(chosen).name != chosen:
        raise InputError(f"{folder}: its manifest does not say which ranker was chosen")
    return Path(folder) / "judged" / chosen


def _is_result(name: str) -> bool:
    """Tell whether a file holds results only, no paths or versions."""
    in_model = name.startswith("model/") and not name.endswith("ranker.json")
    return in_model or name in ("propensity.json", "evaluation.json")


def _files(path: FileName) -> Iterator[Path]:
    whole = Path(path)
    if whole.is_dir():
        yield from sorted(file for file in whole.rglob("*") if file.is_file())
    elif whole.exists():
        yield existing_file(whole)
    else:
        yield from find_files(path).files


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
