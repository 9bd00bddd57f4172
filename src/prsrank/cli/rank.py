"""The command `prsrank rank`."""

from dataclasses import replace
from pathlib import Path

import typer

from prsrank.cli.inputs import NO_FEATURES, ModelInputs
from prsrank.cli.options import Model, working
from prsrank.data.rankings import write_ranking
from prsrank.errors import InputError
from prsrank.logs.features import read_table
from prsrank.rankers.base import load_ranker
from prsrank.rankers.feature_order import features_for


def rank(
    model: Model,
    inputs: ModelInputs,
    out: Path,
) -> None:
    r"""Rank the docs of each list with a model.

    The lists are those of a table of features, of the test part of a data set, or of what a log
    shows. A folder that fit wrote stands for its inputs: a new table needs no mapping, and without
    one the docs of its log are ranked. The columns are query_id, doc_id, rank (from 1) and score;
    best doc first. Docs without ids are named by their 0-based row in the list.

    Args:
        out (FILE): Where to write: .parquet or .csv.

    \b
    Examples:
      prsrank rank model --features features.parquet --out ranking.parquet
      prsrank rank fitted --features new.csv --out ranking.csv
      prsrank rank model --data synthetic:web10k:500 --out ranking.parquet
    """
    ranker, inputs = load_ranker(model), inputs.beside(model)
    lists = inputs.dataset("test")
    if lists is None and inputs.log is not None:
        lists = inputs.read()[1]
    if lists is None:
        mapping, table = inputs.meaning(), inputs.table
        if table is None:
            raise InputError(NO_FEATURES)
        names = tuple(getattr(ranker, "feature_names_", mapping.features))
        with working(f"reading {table}"):
            lists = read_table(table, mapping=replace(mapping, features=names))
    lists = features_for(ranker, lists)
    write_ranking(lists, ranker.score(lists.features), out)
    typer.echo(f"{out}: {lists.docs:,} docs of {lists.lists:,} lists")
