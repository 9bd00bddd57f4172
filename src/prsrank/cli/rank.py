"""The command `prsrank rank`."""

from pathlib import Path

import typer

from prsrank.cli.inputs import ModelInputs
from prsrank.cli.options import Model
from prsrank.data.rankings import write_ranking
from prsrank.rankers.base import load_ranker


def rank(
    model: Model,
    inputs: ModelInputs,
    out: Path = typer.Option(..., metavar="FILE", help="Where to write: .parquet or .csv."),
) -> None:
    r"""Rank the docs of each list with a model.

    The lists are those of a table of features, of the test part of a data set, or of what a log
    shows. A folder that fit wrote stands for its inputs: a new table needs no mapping, and without
    one the docs of its log are ranked. The columns are query_id, doc_id, rank (from 1) and score;
    best doc first. Docs without ids are named by their 0-based row in the list.

    \b
    Examples:
      prsrank rank model --features features.parquet --out ranking.parquet
      prsrank rank fitted --features new.csv --out ranking.csv
      prsrank rank model --data synthetic:web10k:500 --out ranking.parquet
    """
    ranker = load_ranker(model)
    lists = inputs.beside(model).scored(ranker)
    write_ranking(lists, ranker.score(lists.features), out)
    typer.echo(f"{out}: {lists.docs:,} docs of {lists.lists:,} lists")
