"""Data sets by name: a file, a collection's folder, or `synthetic:SHAPE:LISTS[:SEED]`."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.storage import (
    EVERY_SPLIT,
    NO_SPLIT,
    StoredCollection,
    is_stored,
    read_stored,
)
from prsrank.errors import InputError
from prsrank.files import existing_file
from prsrank.types import Longs

SPLITS = ("train", "validation", "test")
_FOLDS = 5
_PACKED = ("", ".gz", ".xz", ".zst")
_LETOR = (
    "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
)
_MSLR = "https://www.microsoft.com/en-us/research/project/mslr/"
_YAHOO = "https://webscope.sandbox.yahoo.com/catalog.php?datatype=c"


@dataclass(frozen=True)
class Collection:
    """A collection of lists with published splits.

    Attributes:
        name: what it is called.
        folds: number of folds; 1 where only one split is published.
        parts: reads the lists of (fold, split); folds count from 1.
        everything: reads all lists, each once.
        has_splits: false for a mere file, of which each split is the whole.
    """

    name: str
    folds: int
    parts: Callable[[int, str], RankingDataset]
    everything: Callable[[], RankingDataset]
    has_splits: bool = True

    def load(self, split: str, *, fold: int = 1) -> RankingDataset:
        """Read the lists of a split ("train", "validation" or "test") of a fold."""
        if split not in SPLITS:
            raise InputError(f"unknown split '{split}': one of {', '.join(SPLITS)}")
        if not 1 <= fold <= self.folds:
            raise InputError(f"{self.name} has folds 1 to {self.folds}, not {fold}")
        return self.parts(fold, split)

    def stored(self) -> StoredCollection:
        """Read all lists once, and which split of which fold each belongs to."""
        data = self.everything()
        place = {query: i for i, query in enumerate(data.query_ids.tolist())}
        if not self.has_splits:
            return StoredCollection(self.name, data, np.full((1, data.lists), EVERY_SPLIT, np.int8))
        splits = np.full((self.folds, data.lists), NO_SPLIT, np.int8)
        for fold in range(self.folds):
            for code, split in enumerate(SPLITS):
                lists = [place[query] for query in self.parts(fold + 1, split).query_ids.tolist()]
                splits[fold, lists] = code
        return StoredCollection(self.name, data, splits)


@dataclass(frozen=True)
class _Published:
    """What is known of a published collection.

    Attributes:
        features: its number of features.
        relevant_from: the least label that counts as relevant (METHOD: binarisation).
        where: where it is published.
    """

    features: int
    relevant_from: float
    where: str


PUBLISHED = {
    "Yahoo set1": _Published(700, 3, _YAHOO),
    "MSLR-WEB10K": _Published(136, 3, _MSLR),
    "MSLR-WEB30K": _Published(136, 3, _MSLR),
    "MQ2007": _Published(46, 1, _LETOR),
    "MQ2008": _Published(46, 1, _LETOR),
    "MQ2007-agg": _Published(21, 1, _LETOR),
    "MQ2008-agg": _Published(25, 1, _LETOR),
    "OHSUMED": _Published(45, 1, _LETOR),
}


def load_dataset(
    name: str, split: str = "train", *, fold: int = 1, relevant_from: float | None = None
) -> RankingDataset:
    """Read one split of a data set by its name; see `open_collection`.

    >>> load_dataset("synthetic:mq2007:10", "test").lists
    2
    """
    data = open_collection(name).load(split, fold=fold)
    return data if relevant_from is None else replace(data, relevant_from=relevant_from)


def open_collection(name: str) -> Collection:
    """Find a data set by its name.

    Args:
        name: `synthetic:SHAPE:LISTS[:SEED]`; the folder of a published collection, as
            unpacked; or a file, in LETOR format or converted. A LETOR file has no published
            split: each of its splits is the whole file.
    """
    if name.startswith("synthetic:"):
        return _synthetic(name)
    path = Path(name)
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise InputError(
            f"{name}: no such file or folder (a data set is a file, a collection's folder, "
            "or synthetic:SHAPE:LISTS[:SEED])"
        )
    if is_stored(existing_file(path)):
        return _converted(path)
    whole = partial(_read, (path,), None)
    return Collection(path.name, 1, lambda fold, split: whole(), whole, has_splits=False)


def rotation(fold: int, split: str) -> tuple[int, ...]:
    """The parts (0 to 4) of five that make up a split of a fold, as LETOR rotates them.

    >>> rotation(1, "train"), rotation(1, "validation"), rotation(2, "test")
    ((0, 1, 2), (3,), (0,))
    """
    first, count = {"train": (0, 3), "validation": (3, 1), "test": (4, 1)}[split]
    return tuple((fold - 1 + first + i) % _FOLDS for i in range(count))


def _read(files: Sequence[Path], published: _Published | None) -> RankingDataset:
    from prsrank.data.letor import read_letor

    if published is None:
        return read_letor(files)
    data = read_letor(files, features=published.features)
    return replace(data, relevant_from=published.relevant_from)


def _converted(path: Path) -> Collection:
    stored = read_stored(path)

    whole = bool((stored.splits == EVERY_SPLIT).all())

    def part(fold: int, split: str) -> RankingDataset:
        if whole:
            return stored.dataset
        return stored.dataset.select(stored.splits[fold - 1] == SPLITS.index(split))

    return Collection(
        stored.name, len(stored.splits), part, lambda: stored.dataset, has_splits=not whole
    )


def _synthetic(name: str) -> Collection:
    from prsrank.data.synthetic import synthetic_dataset

    match = re.fullmatch(r"synthetic:([^:]+):(\d+)(?::(\d+))?", name)
    if match is None:
        raise InputError(f"{name}: is not of the form synthetic:SHAPE:LISTS[:SEED]")
    shape, lists, seed = match.group(1), int(match.group(2)), int(match.group(3) or 0)
    data = synthetic_dataset(shape, lists, seed=seed)
    part_of_list = np.arange(data.lists) * _FOLDS // data.lists

    def part(fold: int, split: str) -> RankingDataset:
        return data.select(np.isin(part_of_list, rotation(fold, split)))

    return Collection(name, _FOLDS, part, lambda: data)


def _folder(path: Path) -> Collection:
    for find in (_yahoo, _five_parts, _fold_folders):
        found = find(path)
        if found is not None:
            return found
    raise InputError(
        f"{path}: no collection found in this folder: looked for set1.train.txt (Yahoo), "
        "S1.txt to S5.txt (MQ2007, MQ2008), A1.txt to A5.txt (MQ2007-agg), "
        "Fold1/train.txt (MSLR-WEB10K/30K, MQ2007, MQ2008, OHSUMED)"
    )


def _yahoo(path: Path) -> Collection | None:
    if not _exists(path / "set1.train.txt"):
        return None
    published = PUBLISHED["Yahoo set1"]
    names = {"train": "set1.train.txt", "validation": "set1.valid.txt", "test": "set1.test.txt"}
    files = {split: _file(path / name, published) for split, name in names.items()}
    return Collection(
        "Yahoo set1",
        1,
        lambda fold, split: _read((files[split],), published),
        lambda: _read(tuple(files.values()), published),
    )


def _five_parts(path: Path) -> Collection | None:
    for letter, guess in (("S", "MQ2008"), ("A", "MQ2007-agg")):
        if any(_exists(path / f"{letter}{i + 1}.txt") for i in range(_FOLDS)):
            return _rotating(path, letter, _name_of(path, guess, aggregated=letter == "A"))
    return None


def _rotating(path: Path, letter: str, name: str) -> Collection:
    published = PUBLISHED[name]
    files = [_file(path / f"{letter}{i + 1}.txt", published) for i in range(_FOLDS)]
    return Collection(
        name,
        _FOLDS,
        lambda fold, split: _read([files[i] for i in rotation(fold, split)], published),
        lambda: _read(files, published),
    )


def _fold_folders(path: Path) -> Collection | None:
    if not (path / "Fold1").is_dir():
        return None
    name = _name_of(path, None)
    published = PUBLISHED.get(name)
    folds = [i + 1 for i in range(_FOLDS) if (path / f"Fold{i + 1}").is_dir()]
    if folds != list(range(1, len(folds) + 1)):
        raise InputError(f"{path}: has Fold{folds[-1]} but not all folds before it")

    def files(fold: int, split: str) -> Path:
        folder = path / f"Fold{fold}"
        names = [f"{stem}.txt" for stem in _FOLD_FILES[split]] + [f"{split}ingset.txt"]
        for candidate in names:
            if _exists(folder / candidate):
                return _file(folder / candidate, published)
        return _file(folder / names[0], published)

    def everything() -> RankingDataset:
        if len(folds) == _FOLDS:  # each list is in the test part of just one fold
            return _read([files(fold, "test") for fold in folds], published)
        return _read([files(1, split) for split in SPLITS], published)

    return Collection(
        name, len(folds), lambda fold, split: _read((files(fold, split),), published), everything
    )


_FOLD_FILES: Mapping[str, tuple[str, ...]] = {
    "train": ("train", "trainingset"),
    "validation": ("vali", "valid", "validation", "validationset"),
    "test": ("test", "testset"),
}


def _name_of(path: Path, guess: str | None, *, aggregated: bool = False) -> str:
    """The published name that the folder's own name spells, or `guess`."""
    spelled = re.sub(r"[^a-z0-9]", "", path.resolve().name.lower())
    candidates = [n for n in PUBLISHED if not aggregated or n.endswith("-agg")]
    for name in sorted(candidates, key=len, reverse=True):
        key = re.sub(r"[^a-z0-9]", "", name.lower())
        if key in spelled or key.removeprefix("mslr") in spelled:
            return name
    return guess or path.name


def _exists(path: Path) -> bool:
    return any(path.with_name(path.name + packed).is_file() for packed in _PACKED)


def _file(path: Path, published: _Published | None) -> Path:
    for packed in _PACKED:
        candidate = path.with_name(path.name + packed)
        if candidate.is_file():
            return candidate
    where = "" if published is None else f" (the collection is published at {published.where})"
    raise InputError(f"{path}: no such file{where}")


def describe(data: RankingDataset) -> dict[str, Any]:
    """Count what a data set holds: lists, docs, features, labels, list lengths."""
    lengths: Longs = data.list_lengths
    values, counts = np.unique(
        data.labels if data.labels is not None else np.zeros(0), return_counts=True
    )
    return {
        "lists": data.lists,
        "docs": data.docs,
        "features": len(data.feature_names),
        "labels": {f"{value:g}": int(n) for value, n in zip(values, counts, strict=True)},
        "list_length": {
            "min": int(lengths.min()),
            "median": float(np.median(lengths)),
            "max": int(lengths.max()),
        },
    }
