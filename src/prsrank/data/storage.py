"""Converted collections: one file in the open safetensors layout, opened by mapping it.

The layout: the header's length (8 bytes, little endian), a JSON header that names each
array's type, shape and position, then the arrays. How ids lie in them: `prsrank.data.ids`.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import packed_ids, unpacked_ids
from prsrank.errors import InputError
from prsrank.files import atomic_output, existing_file

_TYPES = {
    "F32": np.float32,
    "F64": np.float64,
    "I64": np.int64,
    "I8": np.int8,
    "U8": np.uint8,
    "U32": np.uint32,
}
_NAMES = {np.dtype(dtype): name for name, dtype in _TYPES.items()}
_ALIGNMENT = 64
NO_SPLIT, EVERY_SPLIT = -1, 3


@dataclass(frozen=True)
class StoredCollection:
    """What a converted file holds.

    Attributes:
        name: the collection's name.
        dataset: all its lists, once.
        splits: (folds x lists) 0 for training, 1 for validation, 2 for test; NO_SPLIT for
            none, EVERY_SPLIT for a file without published splits.
    """

    name: str
    dataset: RankingDataset
    splits: npt.NDArray[np.int8]


def write_stored(collection: StoredCollection, path: str | os.PathLike[str]) -> None:
    """Write a converted collection, whole or not at all."""
    data = collection.dataset
    arrays: dict[str, npt.NDArray] = {"features": data.features, "offsets": data.offsets}
    arrays["splits"] = np.ascontiguousarray(collection.splits, np.int8)
    if data.labels is not None:
        arrays["labels"] = data.labels
    for name, ids in (("query_ids", data.query_ids), ("doc_ids", data.doc_ids)):
        if ids is not None:
            arrays |= packed_ids(name, ids)
    about = {
        "format": "prsrank collection 1",
        "name": collection.name,
        "feature_names": json.dumps(data.feature_names),
        "relevant_from": json.dumps(data.relevant_from),
    }
    with atomic_output(path) as draft, draft.open("wb") as file:
        write_arrays(file, arrays, about)


def is_stored(path: Path) -> bool:
    """Whether a file begins as the safetensors layout does; LETOR text never does."""
    with path.open("rb") as file:
        start = file.read(9)
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") < path.stat().st_size


def read_stored(path: str | os.PathLike[str]) -> StoredCollection:
    """Open a converted collection; its arrays are mapped, not read."""
    file = existing_file(path)
    arrays, about = map_arrays(file)
    if about.get("format") != "prsrank collection 1":
        raise InputError(f"{file}: is not a collection written by 'prsrank convert'")
    try:
        dataset = RankingDataset(
            features=arrays["features"],
            offsets=arrays["offsets"],
            query_ids=unpacked_ids("query_ids", arrays),  # type: ignore[arg-type]
            labels=arrays.get("labels"),
            doc_ids=unpacked_ids("doc_ids", arrays),
            feature_names=tuple(json.loads(about["feature_names"])),
            relevant_from=json.loads(about["relevant_from"]),
        )
        return StoredCollection(about["name"], dataset, arrays["splits"])
    except (KeyError, ValueError) as error:
        raise InputError(f"{file}: is not a whole converted collection: {error}") from error


def write_arrays(file: IO[bytes], arrays: Mapping[str, npt.NDArray], about: dict[str, str]) -> None:
    """Write named arrays and a table of strings about them in the safetensors layout."""
    header: dict[str, Any] = {"__metadata__": about}
    at = 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        np.ascontiguousarray(array).tofile(file)


def map_arrays(path: Path) -> tuple[dict[str, npt.NDArray], dict[str, str]]:
    """Map the arrays of a safetensors file and return its table of strings."""
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, size)))
        about = header.pop("__metadata__", {})
        data = np.memmap(path, np.uint8, mode="r", offset=8 + length) if size > 8 + length else b""
        return {name: _array(data, entry) for name, entry in header.items()}, about
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: is not a whole safetensors file: {error}") from error


def _array(data: Any, entry: dict[str, Any]) -> npt.NDArray:
    start, end = entry["data_offsets"]
    if end > len(data):
        raise ValueError("the file is cut short")
    return np.frombuffer(data[start:end], _TYPES[entry["dtype"]]).reshape(entry["shape"])
