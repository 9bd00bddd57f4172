"""The command `prsrank rank`."""

from pathlib import Path

import typer

from prsrank.cli.arguments import Model, Split
from prsrank.cli.option_groups import DataOptions
from prsrank.data.rankings import write_ranking
from prsrank.rankers.base import load_ranker


def rank(
    model: Model,
    data: DataOptions,
    out: Path = typer.Option(..., metavar="FILE", help="Where to write: .parquet or .csv."),
    split: Split = "test",
) -> None:
    r"""Rank the docs of each list with a model.

    The columns are query_id, doc_id, rank (from 1) and score; best doc first. Docs without
    ids are named by their 0-based row in the list.

    \b
    Example:
      prsrank rank model --data synthetic:web10k:500 --out ranking.parquet
    """
    ranker = load_ranker(model)
    lists = data.lists(split)
    write_ranking(lists, ranker.score(lists.features), out)
    typer.echo(f"{out}: {lists.docs:,} docs of {lists.lists:,} lists")
