"""Data sets by name: a file, a collection's folder, or `synthetic:SHAPE:LISTS[:SEED]`."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.letor import LineError, blocks_of_lines, parse_lines, read_letor
from prsrank.data.storage import (
    EVERY_SPLIT,
    NO_SPLIT,
    StoredCollection,
    is_stored,
    read_stored,
)
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.files import existing_file
from prsrank.types import Longs

SPLITS = ("train", "validation", "test")
_TABLES = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson")
_FOLDS = 5
_PACKED = ("", ".gz", ".xz", ".zst")


_LETOR = (
    "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
)
_MSLR = "https://www.microsoft.com/en-us/research/project/mslr/"
_YAHOO = "https://webscope.sandbox.yahoo.com/catalog.php?datatype=c"
_LINES_LOOKED_AT = 400


@dataclass(frozen=True)
class Published:
    """What is known of a published collection.

    Attributes:
        name: what it is called.
        features: its number of features.
        relevant_from: the least label that counts as relevant (METHOD: binarisation).
        top_label: its largest label.
        queries: its query ids are between these two.
        where: where it is published.
    """

    name: str
    features: int
    relevant_from: float
    top_label: int
    queries: tuple[int, int]
    where: str


_MILLION = {"2007": (1, 10_000), "2008": (10_001, 20_000)}
"""Query ids of the Million Query tracks of TREC."""

PUBLISHED = {
    collection.name: collection
    for collection in (
        Published("Yahoo set1", 700, 3, 4, (1, 19_944 + 2_994 + 6_983), _YAHOO),
        Published("MSLR-WEB10K", 136, 3, 4, (1, 40_000), _MSLR),
        Published("MSLR-WEB30K", 136, 3, 4, (1, 40_000), _MSLR),
        Published("MQ2007", 46, 1, 2, _MILLION["2007"], _LETOR),
        Published("MQ2008", 46, 1, 2, _MILLION["2008"], _LETOR),
        Published("MQ2007-agg", 21, 1, 2, _MILLION["2007"], _LETOR),
        Published("MQ2008-agg", 25, 1, 2, _MILLION["2008"], _LETOR),
        Published("OHSUMED", 45, 1, 2, (1, 106), _LETOR),
    )
}


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
        index = {query: i for i, query in enumerate(data.query_ids.tolist())}
        if not self.has_splits:
            return StoredCollection(self.name, data, np.full((1, data.lists), EVERY_SPLIT, np.int8))
        splits = np.full((self.folds, data.lists), NO_SPLIT, np.int8)
        for fold in range(self.folds):
            for code, split in enumerate(SPLITS):
                lists = [index[query] for query in self.parts(fold + 1, split).query_ids.tolist()]
                splits[fold, lists] = code
        return StoredCollection(self.name, data, splits)


def load_dataset(
    name: str, split: str = "train", *, fold: int = 1, relevant_from: float | None = None
) -> RankingDataset:
    """Read one split of a data set by its name; see `open_collection`.

    >>> load_dataset("synthetic:mq2007:10", "test").lists
    2
    """
    return open_collection(name, relevant_from=relevant_from).load(split, fold=fold)


def open_collection(name: str, *, relevant_from: float | None = None) -> Collection:
    """Find a data set by its name.

    Which docs are relevant follows from the collection, which is known by its content: the
    number of features, labels and query ids (see `PUBLISHED`). Labels of 0 and 1
    speak for themselves. Of other data only the caller can say it: without `relevant_from`
    their labels can be read, but not their relevance.

    Args:
        name: `synthetic:SHAPE:LISTS[:SEED]`; the folder of a published collection, as
            unpacked; or a file, in LETOR format or converted. A LETOR file has no published
            split: each of its splits is the whole file.
        relevant_from: the least label that counts as relevant; default the collection's.
    """
    collection = _opened(name)
    if relevant_from is None:
        return collection
    if not np.isfinite(relevant_from):
        raise InputError(f"relevant-from must be a label, not {relevant_from}")

    def judged(data: RankingDataset) -> RankingDataset:
        return replace(data, relevant_from=relevant_from)

    return replace(
        collection,
        parts=lambda fold, split: judged(collection.parts(fold, split)),
        everything=lambda: judged(collection.everything()),
    )


def _opened(name: str) -> Collection:
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
    if path.suffix.lower() in _TABLES:
        raise InputError(
            f"{name}: is a table, not a data set in LETOR format: give it as a table of features"
        )
    whole = partial(_read, (path,), recognised(path))
    return Collection(path.name, 1, lambda fold, split: whole(), whole, has_splits=False)


def rotation(fold: int, split: str) -> tuple[int, ...]:
    """The parts (0 to 4) of five that make up a split of a fold, as LETOR rotates them.

    >>> rotation(1, "train"), rotation(1, "validation"), rotation(2, "test")
    ((0, 1, 2), (3,), (0,))
    """
    first, count = {"train": (0, 3), "validation": (3, 1), "test": (4, 1)}[split]
    return tuple((fold - 1 + first + i) % _FOLDS for i in range(count))


def _read(files: Sequence[Path], published: Published | None) -> RankingDataset:
    data = read_letor(files, features=None if published is None else published.features)
    top = 0.0 if data.labels is None else float(data.labels.max(initial=0))
    # labels of 0 and 1 say themselves what is relevant, whatever the collection they look like
    from_one = 1.0 if top <= 1 else None
    if published is None or not published.relevant_from <= top <= published.top_label:
        return replace(data, relevant_from=from_one)
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
    match = re.fullmatch(r"synthetic:([^:]+):(\d+)(?::(\d+))?", name)
    if match is None:
        raise InputError(f"{name}: is not of the form synthetic:SHAPE:LISTS[:SEED]")
    shape, lists, seed = match.groups(default="0")
    return rotated(name, synthetic_dataset(shape, int(lists), seed=int(seed)))


def rotated(name: str, data: RankingDataset, *, has_splits: bool = True) -> Collection:
    """Cut lists in five parts, in their order, which take turns as LETOR's do."""
    part_of_list = np.arange(data.lists) * _FOLDS // max(data.lists, 1)

    def part(fold: int, split: str) -> RankingDataset:
        return data.select(np.isin(part_of_list, rotation(fold, split)))

    return Collection(name, _FOLDS, part, lambda: data, has_splits)


def _folder(path: Path) -> Collection:
    folds = [fold for fold in range(1, _FOLDS + 1) if (path / f"Fold{fold}").is_dir()]
    if folds != list(range(1, len(folds) + 1)):
        raise InputError(f"{path}: has Fold{folds[-1]} but not all folds before it")
    layouts = {
        "Yahoo set1": {(1, split): [f"set1.{_STEMS[split][1]}"] for split in SPLITS},
        **{
            letter: {
                (fold, split): [f"{letter}{part + 1}" for part in rotation(fold, split)]
                for fold in range(1, _FOLDS + 1)
                for split in SPLITS
            }
            for letter in ("S", "A")
        },
        "Fold": {
            (fold, split): ["|".join(f"Fold{fold}/{stem}" for stem in _STEMS[split])]
            for fold in folds
            for split in SPLITS
        },
    }
    for layout, names in layouts.items():
        published = PUBLISHED.get(layout)
        there = (_present(path, name) for part in names.values() for name in part)
        present = next(filter(None, there), None)
        if present:
            break
    if not present and not folds:
        raise InputError(
            f"{path}: no collection found in this folder: looked for set1.train.txt (Yahoo), "
            "S1.txt to S5.txt (MQ2007, MQ2008), A1.txt to A5.txt (MQ2007-agg), "
            "Fold1/train.txt (MSLR-WEB10K/30K, MQ2007, MQ2008, OHSUMED)"
        )
    folder = path.resolve()
    if published is None:
        published = recognised(present, folder) if present else spelled(folder)
    count = len(names) // len(SPLITS)

    def files(*parts: tuple[int, str]) -> list[Path]:
        return [_file(path, name, published) for part in parts for name in names[part]]

    def everything() -> RankingDataset:
        if count < _FOLDS:
            return _read(files(*[(1, split) for split in SPLITS]), published)
        # each list is in the test part of just one fold
        return _read(sorted(files(*[(i + 1, "test") for i in range(_FOLDS)])), published)

    files((1, "train"))  # an absent file is named at once
    return Collection(
        path.name if published is None else published.name,
        count,
        lambda fold, split: _read(files((fold, split)), published),
        everything,
    )


_STEMS = {
    "train": ("train", "train", "trainingset"),
    "validation": ("vali", "valid", "validation", "validationset"),
    "test": ("test", "test", "testset"),
}
"""Names of the file of a split; the second is Yahoo's."""


def _present(path: Path, name: str) -> Path | None:
    """Return the first file of some names ("a|b"), packed or not; None if none is there."""
    files = (path / f"{stem}.txt{packed}" for stem in name.split("|") for packed in _PACKED)
    return next(filter(Path.is_file, files), None)


def _file(path: Path, name: str, published: Published | None) -> Path:
    where = "" if published is None else f" (the collection is published at {published.where})"
    present = _present(path, name)
    if present is None:
        raise InputError(f"{path / name.split('|')[0]}.txt: no such file{where}")
    return present


def recognised(file: Path, folder: Path | None = None) -> Published | None:
    """Return the published collection that a text is of, by its content; None if none is.

    A collection whose number of features it has, and whose labels and query ids allow those of the
    first lines. Rows that leave out features of value 0 may show fewer features: then the folder's
    name decides, if it spells a collection that nothing in these lines speaks against.

    Args:
        file: the text, or one of several.
        folder: its collection's folder, if it is in one.
    """
    try:
        line, text = next(blocks_of_lines(file), (1, b""))
        rows = parse_lines(line, b"\n".join(text.split(b"\n")[:_LINES_LOOKED_AT]))
    except (LineError, UnicodeDecodeError, InputError):  # its reader says what is wrong
        return None
    features, labels = rows.features.shape[1], set(rows.labels.tolist())
    numbers = [int(query) if query.isdecimal() else -1 for query in rows.queries]
    possible = [
        collection
        for collection in PUBLISHED.values()
        if numbers
        and features <= collection.features
        and labels <= set(range(collection.top_label + 1))
        and collection.queries[0] <= min(numbers) <= max(numbers) <= collection.queries[1]
    ]
    exact = [c for c in possible if c.features == features]
    by_name = None if folder is None else spelled(folder, exact or possible)
    # several only where all but the number of queries is the same, as of MSLR-WEB10K and 30K
    several = " or ".join(collection.name for collection in exact)
    return by_name or (replace(exact[0], name=several) if exact else None)


def spelled(folder: Path, among: Iterable[Published] = PUBLISHED.values()) -> Published | None:
    """Return the collection that a folder's name spells, the longest name of several."""
    text = _letters(folder.name)
    named = [c for c in among if _letters(c.name).removeprefix("mslr") in text]
    return max(named, key=lambda collection: len(collection.name), default=None)


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def describe(data: RankingDataset) -> dict[str, Any]:
    """Count what a data set holds: lists, docs, features, labels, relevant docs, list lengths."""
    lengths: Longs = data.list_lengths
    values, counts = np.unique(
        data.labels if data.labels is not None else np.zeros(0), return_counts=True
    )
    judged = data.labels is not None and data.relevant_from is not None
    return {
        "lists": data.lists,
        "docs": data.docs,
        "features": len(data.feature_names),
        "labels": {f"{value:g}": int(n) for value, n in zip(values, counts, strict=True)},
        "relevant_from": data.relevant_from,
        "relevant_share": float(data.relevance.mean()) if judged else None,
        "list_length": {
            "min": int(lengths.min()),
            "median": float(np.median(lengths)),
            "max": int(lengths.max()),
        },
    }
