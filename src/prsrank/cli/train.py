"""The command `prsrank train`."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from prsrank.cli.arguments import Given, Seed, Setting, parse_values, working
from prsrank.cli.log_options import Spark, find_runner
from prsrank.cli.option_groups import DataOptions, LogOptions
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.counterfactual import CounterfactualMetric
from prsrank.logs.click_log import ClickLog
from prsrank.logs.coverage import known_lists
from prsrank.propensity.curve import Propensities, parse_propensity
from prsrank.rankers.base import Ranker, make_ranker
from prsrank.report.html import write_report
from prsrank.report.parts import about_rows
from prsrank.report.training_report import training_report

_STOPS = ("labels", "clicks", "none")


@dataclass(frozen=True)
class _Ranker:
    """What is trained, and with which weights."""

    ranker: str = typer.Option("lambdamart", help="{rankers}.")
    weighting: str | None = typer.Option(
        None, help="{weightings}. Default: what the ranker is known for, mostly prs."
    )
    propensity: Given = None
    set_: Setting = None


def train(
    log: LogOptions,
    data: DataOptions,
    chosen: _Ranker,
    out: Path = typer.Option(..., metavar="MODEL", help="Folder to write the model to."),
    stop_on: str = typer.Option(
        "labels",
        help="Rankers that can stop early do so on the labels of the validation part, on "
        "the clicks of a held-out tenth of the queries (clicks), or not at all (none).",
    ),
    report: bool = typer.Option(True, help="Write MODEL/report.html, a page on the training."),
    spark: Spark = None,
    seed: Seed = 0,
) -> None:
    r"""Train a ranker on the clicks of a log.

    \b
    Examples:
      prsrank train log.parquet --data synthetic:web10k:500 --propensity power:1 --out model
      prsrank train log --data MQ2008 --ranker linear --weighting ips --set tau=0.05 \
          --propensity propensity.json --set l2=0.01 --out model
    """
    started = time.perf_counter()
    if stop_on not in _STOPS:
        raise InputError(f"--stop-on must be one of {', '.join(_STOPS)}, not '{stop_on}'")
    given = dict(parse_values(chosen.set_, "--set"))
    model, weighting, parameters = make_ranker(chosen.ranker, chosen.weighting, given, seed=seed)
    curve = None if chosen.propensity is None else parse_propensity(chosen.propensity)
    stop_on = stop_on if model.stops_early else "none"
    how = _How(model, curve, weighting, parameters, stop_on, seed)
    pairs, clicks = _train(how, log, data) if spark is None else _on_spark(how, log, data, spark)
    about = {"data": data.data, "fold": data.fold, "log": log.log, "weighting": weighting}
    about |= {"weighting_parameters": parameters, "seed": seed, "stop_on": stop_on, "spark": spark}
    known = curve.to_json_dict() if isinstance(curve, Propensities) else chosen.propensity
    model.save(out, about=about | {"propensity": known})
    if report:
        settings = about | {"propensity": chosen.propensity, "clicks": clicks}
        _write_report(model, pairs, curve, settings, out, started)
    typer.echo(f"{out}: {model.name}, weighting {weighting}, {clicks:,} clicks")


@dataclass(frozen=True)
class _How:
    """A ranker, and how it is to be trained."""

    model: "Ranker"
    curve: Any
    weighting: str
    parameters: dict[str, float]
    stop_on: str
    seed: int


def _train(how: _How, log: LogOptions, data: DataOptions) -> tuple[Any, int]:
    lists, clicks, model = data.lists("train"), log.clicks(), how.model
    validation: Any = data.lists("validation") if how.stop_on == "labels" else None
    if how.stop_on == "clicks":
        clicks, validation = _hold_out(clicks, lists, how.curve, how.seed)
    with working("folding the clicks into pairs"):
        pairs = model.pairs(clicks, lists, how.curve, how.weighting, parameters=how.parameters)
    with _shown(model.get_params().get("trees")) as progress:
        model.fit(lists, pairs, validation=validation, progress=progress)
    return pairs, len(clicks.clicks)


def _on_spark(how: _How, log: LogOptions, data: DataOptions, spark: str) -> tuple[Any, int]:
    if how.stop_on == "clicks":
        raise InputError("--stop-on clicks does not run on Spark: take labels or none")
    lists, options = data.lists("train"), how.model.pair_options
    validation = data.lists("validation") if how.stop_on == "labels" else None
    with (
        find_runner(spark) as runner,
        runner.open_log(log.log, mapping=log.meaning()) as events,
        working("training on Spark"),
    ):
        pairs = runner.pairs(
            events, lists, how.curve, how.weighting, parameters=how.parameters, **options
        )
        runner.train(how.model, lists, pairs, validation=validation)
        return pairs, runner.counts(events)["clicks"]


def _hold_out(
    log: "ClickLog", lists: "RankingDataset", curve: Any, seed: int
) -> tuple["ClickLog", Any]:
    kept, held_out = log.split_by_query(0.9, seed=seed)
    judged = known_lists(held_out, lists)
    return kept, (judged, CounterfactualMetric(held_out, judged, curve, metric="dcg@10"))


def _write_report(
    model: Any, pairs: Any, curve: Any, settings: dict[str, Any], out: Path, started: float
) -> None:
    command = f"prsrank train {settings['log']} --data {settings['data']} --ranker {model.name}"
    about = about_rows(seed=settings["seed"], started=started, command=f"{command} ...")
    with working("writing the report"):
        page = training_report(model, pairs, curve, settings=settings, about=about)
        write_report(page, out / "report.html")


@contextmanager
def _shown(total: int | None) -> Iterator[Callable[[int, float | None], object] | None]:
    """Show trees or epochs and the validation value as they come, on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[value]}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=total, value="")

        def told(step: int, value: float | None) -> None:
            bar.update(task, completed=step, value="" if value is None else f"{value:.4f}")

        yield told
