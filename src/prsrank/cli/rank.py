"""The command `prsrank rank`."""

from pathlib import Path
from typing import Annotated

import typer

from prsrank.cli.arguments import Fold, Model, NamedData, Split, working


def rank(
    model: Model,
    data: NamedData,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write: .parquet or .csv.")],
    split: Split = "test",
    fold: Fold = 1,
) -> None:
    r"""Rank the docs of each list with a model.

    The columns are query_id, doc_id, rank (from 1) and score; best doc first. Docs without
    ids are named by their 0-based row in the list.

    \b
    Example:
      prsrank rank model --data synthetic:web10k:500 --out ranking.parquet
    """
    from prsrank.data.collections import load_dataset
    from prsrank.data.rankings import write_ranking
    from prsrank.rankers.base import load_ranker

    ranker = load_ranker(model)
    with working(f"reading {data}"):
        lists = load_dataset(data, split, fold=fold)
    write_ranking(lists, ranker.score(lists.features), out)
    typer.echo(f"{out}: {lists.docs:,} docs of {lists.lists:,} lists")
