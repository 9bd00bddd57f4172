"""The command `prsrank evaluate`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prsrank.cli.arguments import Fold, Json, Model, NamedData, print_json, working
from prsrank.errors import InputError

if TYPE_CHECKING:
    from prsrank.data.dataset import RankingDataset
    from prsrank.rankers.base import Ranker


def evaluate(
    model: Model,
    data: NamedData,
    split: Annotated[
        str | None,
        typer.Option(
            help="train, validation or test. Default: test; with --log, all lists of the log."
        ),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(metavar="LOG", help="Estimate from the clicks of this held-out log instead."),
    ] = None,
    propensity: Annotated[
        str | None,
        typer.Option(metavar="FILE|power:ETA", help="The propensities; default: those in the log."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL", help="Compare with this model too, not only with the logged ranking."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="dcg@K, dcg, wmrr, arp or arp_mean_rank; default: dcg@10, wmrr, arp."),
    ] = None,
    tau: Annotated[
        float | None,
        typer.Option(min=0, help="Least propensity of the clipped estimates; 0 for none. [0.05]"),
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Estimate by the values of a context too.")
    ] = None,
    samples: Annotated[int, typer.Option(min=100, help="Bootstrap samples.")] = 1000,
    json: Json = False,
    fold: Fold = 1,
) -> None:
    r"""Measure a ranker on labelled lists, or on the clicks of a held-out log.

    Labels: by binarised relevance; NDCG with discount 1 / log2(1 + rank); ARP as in the PRS
    paper (0-based ranks of relevant docs, divided by the list's length; lower is better). Ties
    count by their expectation. Lists without a relevant doc are skipped and counted.

    Clicks (--log): what the ranker's DCG, WMRR and ARP would have been on the logged sessions,
    against the logged ranking and other models: inverse propensity scoring (ips), self-normalised
    (snips) and clipped, with intervals over queries, and a warning where the clicks cannot bear
    the estimate.

    \b
    Examples:
      prsrank evaluate model --data synthetic:web10k:500
      prsrank evaluate model --data MQ2008 --log held_out.parquet --propensity p.json --against naive
    """
    from prsrank.rankers.base import load_ranker

    ranker = load_ranker(model)
    if log is None:
        _refuse_click_options(propensity, against, metric, tau, context)
        _by_labels(ranker, data, split or "test", fold, json)
        return
    from prsrank.evaluation.log_evaluation import DEFAULT_METRICS, DEFAULT_TAU
    from prsrank.report.evaluation_section import report_lines

    named = _named([model, *(against or [])])
    rankers = {name: load_ranker(place) for name, place in named.items()}
    result = _by_clicks(
        log,
        rankers,
        (data, split, fold),
        propensity,
        metrics=metric or DEFAULT_METRICS,
        tau=DEFAULT_TAU if tau is None else tau,
        context=context,
        samples=samples,
    )
    if json:
        print_json(result.to_json_dict())
        return
    for line in report_lines(result):
        typer.echo(line)


def _by_labels(ranker: "Ranker", data: str, split: str, fold: int, json: bool) -> None:
    from prsrank.data.collections import load_dataset
    from prsrank.metrics.ranking import average, metric

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


def _by_clicks(
    log: str,
    rankers: "dict[str, Ranker]",
    source: tuple[str, str | None, int],
    propensity: str | None,
    *,
    metrics: Sequence[str],
    tau: float,
    context: str | None,
    samples: int,
) -> Any:
    from prsrank.evaluation.log_evaluation import evaluate_on_log
    from prsrank.evaluation.results import LOGGED
    from prsrank.logs.click_log_files import read_click_log
    from prsrank.logs.coverage import known_lists
    from prsrank.propensity.curve import parse_propensity

    curve = None if propensity is None else parse_propensity(propensity)
    with working(f"reading {source[0]} and {log}"):
        clicks = read_click_log(log, contexts=None if context is None else [context])
        whole = _all_lists(*source)
        lists = known_lists(clicks, whole)
    if curve is None and clicks.ranking_propensities is None:
        raise InputError("the log has no propensities: give --propensity FILE or power:ETA")
    if not lists.lists:
        clicks.doc_rows(whole)  # names a query that is missing
    with working("estimating"):
        return evaluate_on_log(
            clicks,
            lists,
            curve,
            {name: ranker.score(lists.features) for name, ranker in rankers.items()},
            against=[LOGGED, *list(rankers)[1:]],
            metrics=metrics,
            tau=tau,
            context=context,
            trained_on=trained_on(rankers, log),
            samples=samples,
        )


def _all_lists(data: str, split: str | None, fold: int) -> "RankingDataset":
    from prsrank.data.collections import load_dataset, open_collection

    return (
        open_collection(data).everything()
        if split is None
        else load_dataset(data, split, fold=fold)
    )


def trained_on(rankers: "dict[str, Ranker]", log: str) -> str | None:
    """Return the name of a ranker whose card names this log as the one it was trained on."""
    here = Path(log).resolve()
    for name, ranker in rankers.items():
        own = getattr(ranker, "about_", {}).get("log")
        if isinstance(own, str) and Path(own).resolve() == here:
            return name
    return None


def _named(models: Sequence[str]) -> dict[str, str]:
    """Name models by their folder, or by the whole path where that would not tell them apart."""
    if len(set(models)) < len(models):
        raise InputError("a model cannot be compared with itself")
    names = [Path(model).name or model for model in models]
    clear = len(set(names)) == len(names) and "logged" not in names
    return dict(zip(names if clear else [f"model {m}" for m in models], models, strict=True))


def _refuse_click_options(*given: Any) -> None:
    names = ("--propensity", "--against", "--metric", "--tau", "--context")
    for name, value in zip(names, given, strict=True):
        if value:
            raise InputError(f"{name} is for estimates from clicks: give a held-out --log too")
