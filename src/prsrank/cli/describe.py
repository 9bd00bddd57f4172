"""The command `prsrank describe`."""

from collections.abc import Iterator
from typing import Any

from prsrank.cli.inputs import opened_data
from prsrank.cli.options import Data, Json, show, working
from prsrank.data.collections import describe as count


def describe(data: Data, json: Json = False) -> None:
    r"""Count the lists, docs, features, labels and relevant docs of a data set.

    For a collection, over all its lists once.

    \b
    Examples:
      prsrank describe MQ2008
      prsrank describe synthetic:web10k:100 --json
    """
    collection, _ = opened_data(data)
    with working(f"reading {data}"):
        counts = {"collection": collection.name, **count(collection.everything())}
    show(_lines(counts, collection.folds), counts, json=json)


def _lines(counts: dict[str, Any], folds: int) -> Iterator[str]:
    yield f"{counts['collection']}: {folds} fold{'s' * (folds > 1)}"
    for name in ("lists", "docs", "features"):
        yield f"  {name:<12}{counts[name]:>12,}"
    yield "  docs per list: " + ", ".join(f"{k} {v:g}" for k, v in counts["list_length"].items())
    total = max(sum(counts["labels"].values()), 1)
    for label, number in counts["labels"].items():
        yield f"  label {label:<6}{number:>12,}  {number / total:6.1%}"
    if not counts["labels"]:
        return
    if counts["relevant_from"] is None:
        yield "  relevant: not known for these labels ('prsrank convert --relevant-from N' writes it)"
    else:
        share, least = counts["relevant_share"], counts["relevant_from"]
        yield f"  relevant: label {least:g} or more, {share:.1%} of the docs"
