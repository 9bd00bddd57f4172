"""The command `prsrank describe`."""

import typer

from prsrank.cli.arguments import Json, print_json, working
from prsrank.cli.option_groups import WholeData
from prsrank.data.collections import describe as count


def describe(source: WholeData, json: Json = False) -> None:
    r"""Count the lists, docs, features, labels and relevant docs of a data set.

    For a collection, over all its lists once.

    \b
    Examples:
      prsrank describe MQ2008
      prsrank describe synthetic:web10k:100 --json
      prsrank describe judged.txt --relevant-from 2
    """
    collection = source.collection()
    with working(f"reading {source.data}"):
        counts = {"collection": collection.name, **count(collection.everything())}
    if json:
        print_json(counts)
        return
    lengths = counts["list_length"]
    typer.echo(f"{collection.name}: {collection.folds} fold{'s' * (collection.folds > 1)}")
    for name in ("lists", "docs", "features"):
        typer.echo(f"  {name:<12}{counts[name]:>12,}")
    typer.echo("  docs per list: " + ", ".join(f"{k} {v:g}" for k, v in lengths.items()))
    total = max(sum(counts["labels"].values()), 1)
    for label, number in counts["labels"].items():
        typer.echo(f"  label {label:<6}{number:>12,}  {number / total:6.1%}")
    if not counts["labels"]:
        return
    if counts["relevant_from"] is None:
        typer.echo("  relevant: not known for these labels (--relevant-from N)")
    else:
        share, least = counts["relevant_share"], counts["relevant_from"]
        typer.echo(f"  relevant: label {least:g} or more, {share:.1%} of the docs")
