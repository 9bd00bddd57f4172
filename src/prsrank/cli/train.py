"""The command `prsrank train`."""

import json
import sys
import time
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prsrank.cli.arguments import Fold, NamedData, Seed, working
from prsrank.cli.log_options import (
    AnyLog,
    Column,
    EngineName,
    MappingFile,
    Master,
    Memory,
    load_clicks,
    log_mapping,
)
from prsrank.errors import InputError

if TYPE_CHECKING:
    from prsrank.data.dataset import RankingDataset
    from prsrank.logs.click_log import ClickLog

_STOPS = ("labels", "clicks", "none")


def train(
    log: AnyLog,
    data: NamedData,
    out: Annotated[Path, typer.Option(metavar="MODEL", help="Folder to write the model to.")],
    ranker: Annotated[
        str, typer.Option(help="linear, lambdamart, dnn, svm, unbiased_lambdamart or dla.")
    ] = "lambdamart",
    weighting: Annotated[
        str | None,
        typer.Option(
            help="naive, ips, pns, prs, ips_all, ips_oracle, pns_oracle or labels. Default prs; "
            "ips_all for svm."
        ),
    ] = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|power:ETA",
            help="The propensities: a file that 'prsrank propensity --out' wrote, or "
            "(1/k)^ETA. Default: those in the log.",
        ),
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Clip of prs; default 1.")] = None,
    tau: Annotated[
        float | None, typer.Option(help="Least propensity of a click, for ips and prs.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the ranker, such as trees=300 or l2=0.01; may be repeated.",
        ),
    ] = None,
    stop_on: Annotated[
        str,
        typer.Option(
            help="Rankers that can stop early do so on the labels of the validation part, on "
            "the clicks of a held-out tenth of the queries (clicks), or not at all (none)."
        ),
    ] = "labels",
    report: Annotated[
        bool, typer.Option(help="Write MODEL/report.html, a page on the training.")
    ] = True,
    column: Column = None,
    mapping: MappingFile = None,
    memory: Memory = None,
    engine: EngineName = "local",
    master: Master = None,
    fold: Fold = 1,
    seed: Seed = 0,
) -> None:
    r"""Train a ranker on the clicks of a log.

    \b
    Examples:
      prsrank train log.parquet --data synthetic:web10k:500 --propensity power:1 --out model
      prsrank train log --data MQ2008 --ranker linear --weighting ips --tau 0.05 \
          --propensity propensity.json --set l2=0.01 --out model
    """
    from prsrank.data.collections import load_dataset
    from prsrank.propensity.curve import parse_propensity
    from prsrank.rankers.base import ranker_class
    from prsrank.spark import find_engine

    started = time.perf_counter()
    if stop_on not in _STOPS:
        raise InputError(f"--stop-on must be one of {', '.join(_STOPS)}, not '{stop_on}'")
    model = ranker_class(ranker)()
    model.set_params(**_settings(set_ or [], model, seed))
    weighting = weighting or model.default_weighting
    curve = None if propensity is None else parse_propensity(propensity)
    with working(f"reading {data}"):
        lists = load_dataset(data, "train", fold=fold)
    options: dict[str, Any] = {}
    accepted = signature(model.fit).parameters
    stops = "validation" in accepted and stop_on != "none"
    if stops and stop_on == "labels":
        options["validation"] = load_dataset(data, "validation", fold=fold)
    parameters = {k: v for k, v in (("gamma", gamma), ("tau", tau)) if v is not None}
    if engine == "local" and master is None:
        clicks = load_clicks(log, column=column, mapping=mapping, memory=memory)
        if stops and stop_on == "clicks":
            clicks, options["validation"] = _hold_out(clicks, lists, curve, seed)
        with working("folding the clicks into pairs"):
            pairs = model.pairs(clicks, lists, curve, weighting, parameters=parameters)
        with _training(model.get_params().get("trees"), "progress" in accepted, options):
            model.fit(lists, pairs, **options)
        counted = len(clicks.clicks)
    elif stops and stop_on == "clicks":
        raise InputError("--stop-on clicks is for the local engine: take labels or none")
    else:
        with (
            find_engine(engine, master=master) as runner,
            runner.open_log(log, mapping=log_mapping(column, mapping)) as events,
            working(f"training on {engine}"),
        ):
            pairs = runner.pairs(
                events, lists, curve, weighting, parameters=parameters, **model.pair_options
            )
            runner.train(model, lists, pairs, **options)
            counted = runner.counts(events)["clicks"]
    about = {"data": data, "fold": fold, "log": str(log), "weighting": weighting}
    about |= {"weighting_parameters": parameters, "propensity": _description(curve, propensity)}
    about |= {"seed": seed, "stop_on": stop_on, "engine": engine}
    model.save(out, about=about)
    if report:
        with working("writing the report"):
            about |= {"propensity": propensity, "clicks": counted}
            _write_report(model, pairs, curve, about, out, started)
    typer.echo(f"{out}: {ranker}, weighting {weighting}, {counted:,} clicks")


def _write_report(
    model: Any, pairs: Any, curve: Any, settings: dict[str, Any], out: Path, started: float
) -> None:
    from prsrank.report.html import write_report
    from prsrank.report.parts import about_rows
    from prsrank.report.training_report import training_report

    command = f"prsrank train {settings['log']} --data {settings['data']} --ranker {model.name}"
    about = about_rows(seed=settings["seed"], started=started, command=f"{command} ...")
    page = training_report(model, pairs, curve, settings=settings, about=about)
    write_report(page, out / "report.html")


def _hold_out(
    log: "ClickLog", lists: "RankingDataset", curve: Any, seed: int
) -> tuple["ClickLog", Any]:
    import numpy as np

    from prsrank.evaluation.counterfactual import CounterfactualMetric

    kept, held_out = log.split_by_query(0.9, seed=seed)
    shown = np.isin(lists.query_ids.astype(np.str_), held_out.query_ids.astype(np.str_))
    judged = lists.select(shown)
    return kept, (judged, CounterfactualMetric(held_out, judged, curve, metric="dcg@10"))


def _description(curve: Any, text: str | None) -> Any:
    return curve.to_json_dict() if hasattr(curve, "to_json_dict") else text


def _settings(assignments: list[str], model: Any, seed: int) -> dict[str, Any]:
    """Parse NAME=VALUE; values are JSON where they can be, else text."""
    settings: dict[str, Any] = {"seed": seed} if "seed" in model.get_params() else {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise InputError(f"--set takes NAME=VALUE, not '{assignment}'")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def _training(total: int | None, tells: bool, options: dict[str, Any]) -> Any:
    """Show the trees and the validation value as they come, on a terminal."""
    if not tells or not sys.stderr.isatty():
        return working("training")
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[value]}"))
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task("training", total=total, value="")
    options["progress"] = lambda tree, value: bar.update(
        task, completed=tree, value="" if value is None else f"{value:.4f}"
    )
    return bar
