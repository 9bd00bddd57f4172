"""The command `prsrank evaluate`."""

import typer

from prsrank.cli.arguments import Fold, Json, Model, NamedData, Split, print_json, working


def evaluate(
    model: Model, data: NamedData, split: Split = "test", json: Json = False, fold: Fold = 1
) -> None:
    r"""Measure a ranker on labelled lists, by binarised relevance.

    NDCG with discount 1 / log2(1 + rank); ARP as in the PRS paper (0-based ranks of relevant
    docs, divided by the list's length; lower is better). Ties count by their expectation.
    Lists without a relevant doc are skipped and counted.

    \b
    Example:
      prsrank evaluate model --data synthetic:web10k:500
    """
    from prsrank.data.collections import load_dataset
    from prsrank.metrics.ranking import average, metric
    from prsrank.rankers.base import load_ranker

    ranker = load_ranker(model)
    with working(f"reading {data}"):
        lists = load_dataset(data, split, fold=fold)
    scores = ranker.score(lists.features)
    names = ("ndcg@5", "ndcg@10", "map", "arp", "mrr")
    values = {n: average(metric(n)(lists.relevance, scores, lists.offsets)) for n in names}
    result: dict[str, float] = {name: value.mean for name, value in values.items()}
    result |= {"lists": values["ndcg@10"].lists, "skipped": values["ndcg@10"].skipped}
    if json:
        print_json(result)
        return
    for name in names:
        typer.echo(f"{name:<8} {result[name]:8.4f}")
    typer.echo(
        f"over {result['lists']:,} lists; {result['skipped']:,} without a relevant doc skipped"
    )
