"""Published collections, and how a text shows which of them it is."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from prsrank.data.letor_lines import LineError, parse_lines
from prsrank.data.line_blocks import blocks_of_lines
from prsrank.errors import InputError

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


def recognised(file: Path, folder: Path | None = None) -> Published | None:
    """Return the published collection that a text is of, by its content; None if none is.

    A collection whose number of features it has, and whose labels and query ids allow those of the
    first lines. Rows that leave out features of value 0 may show fewer features: then the folder's
    name decides, if it spells a collection that nothing in these lines speaks against.

    Args:
        file: the text, or one of several.
        folder: its collection's folder, if it is in one.
    """
    text = next(blocks_of_lines(file), b"")
    try:
        rows = parse_lines(b"\n".join(text.split(b"\n")[:_LINES_LOOKED_AT]))
    except (LineError, UnicodeDecodeError, InputError):  # its reader says what is wrong
        return None
    features, labels = rows.features.shape[1], set(rows.labels.tolist())
    numbers = [int(query) if query.isdecimal() else -1 for query in rows.query_ids]
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
