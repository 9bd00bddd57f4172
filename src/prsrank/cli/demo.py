"""The command `prsrank demo`."""

from pathlib import Path
from typing import Annotated

import typer

from prsrank.cli.arguments import Seed, working


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results go.")] = Path("demo"),
    data: Annotated[str, typer.Option(help="The data set.")] = "synthetic:mq2007:300",
    seed: Seed = 0,
) -> None:
    r"""Show the pipeline on built-in data.

    \b
    Example:
      prsrank demo --out demo
    """
    import numpy as np

    from prsrank.rankers.lambdarank import train_lambdarank
    from prsrank.data.collections import open_collection
    from prsrank.metrics.ranking import average, metric

    with working(f"reading {data}"):
        collection = open_collection(data)
        train, validation, test = (collection.load(s) for s in ("train", "validation", "test"))
    typer.echo(f"{collection.name}: {train.lists} / {validation.lists} / {test.lists} lists")
    with working("training LightGBM's lambdarank on the labels"):
        booster = train_lambdarank(train, validation, seed=seed)
    rows = {
        "random order": np.zeros(test.docs),
        "LightGBM lambdarank, full information": booster.predict(test.features),
    }
    names = ("ndcg@5", "ndcg@10", "map", "mrr")
    typer.echo(f"{'on the test part':<40}" + "".join(f"{name:>9}" for name in names))
    for name, scores in rows.items():
        values = [average(metric(m)(test.relevance, scores, test.offsets)).mean for m in names]
        typer.echo(f"{name:<40}" + "".join(f"{value:9.4f}" for value in values))
