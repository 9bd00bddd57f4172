"""The command `prsrank export`."""

from pathlib import Path

import typer

from prsrank.cli.options import Model, working
from prsrank.export.formats import export_ranker, read_feature_names
from prsrank.rankers.base import load_ranker


def export(
    model: Model,
    to: str,
    out: Path,
    name: str = "prsrank",
    feature_names: Path | None = None,
) -> None:
    r"""Write a model in the format of a search engine or of another library.

    The scores there are those of `prsrank rank`, missing values included. What a format cannot
    hold is an error, never left out: docs/export.md says what each one holds.

    Args:
        to (FORMAT): {formats}.
        out (FILE): Where to write the model.
        name: Name of the model in the search engine.
        feature_names (FILE): Names of the features as the engine knows them, one a line, in the
            order of training. Default: those of the training data.

    \b
    Example:
      prsrank export model --to solr --name clicks --out model.json
    """
    ranker = load_ranker(model)
    names = None if feature_names is None else read_feature_names(feature_names)
    with working(f"writing {out}"):
        made = export_ranker(ranker, out, to=to, name=name, feature_names=names)
    typer.echo(
        f"{out}: {made.ranker} of {made.scorer.columns:,} features as {to}, "
        f"{out.stat().st_size:,} bytes"
    )
