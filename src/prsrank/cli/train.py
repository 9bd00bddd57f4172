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
from prsrank.cli.log_inputs import NO_FEATURES, TrainInputs
from prsrank.cli.log_options import Spark, find_runner
from prsrank.errors import InputError
from prsrank.files import atomic_output
from prsrank.fit.engine import Weighed
from prsrank.fit.parts import QUERY, Split
from prsrank.pairs.pair_set import PairDiagnostics
from prsrank.propensity.curve import Propensities
from prsrank.propensity.curve_of import parse_propensity
from prsrank.rankers.base import Ranker, make_ranker
from prsrank.rankers.cards import check_free
from prsrank.report.html import write_report
from prsrank.report.parts import about_rows
from prsrank.report.training_report import training_report

_STOPS = ("labels", "clicks", "none")
_HELD_OUT = 0.1


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
    inputs: TrainInputs,
    chosen: _Ranker,
    out: Path = typer.Option(..., metavar="MODEL", help="Folder to write the model to."),
    stop_on: str | None = typer.Option(
        None,
        help="Rankers that can stop early do so on the labels of the validation part (labels), on "
        "the clicks of a held-out tenth of the queries (clicks), or not at all (none). Default: "
        "labels with --data, else clicks; on Spark clicks.",
    ),
    report: bool = typer.Option(True, help="Write MODEL/report.html, a page on the training."),
    spark: Spark = None,
    seed: Seed = 0,
) -> None:
    r"""Train a ranker on the clicks of a log.

    \b
    Examples:
      prsrank train log.parquet --data synthetic:web10k:500 --propensity power:1 --out model
      prsrank train log.parquet --features features.parquet --propensity power:1 --out model
      prsrank train log --data MQ2008 --ranker linear --weighting ips --set tau=0.05 \
          --propensity propensity.json --set l2=0.01 --out model
    """
    started = time.perf_counter()
    check_free(out)
    given = dict(parse_values(chosen.set_, "--set"))
    model, weighting, parameters = make_ranker(chosen.ranker, chosen.weighting, given, seed=seed)
    curve = None if chosen.propensity is None else parse_propensity(chosen.propensity)
    if curve is not None and not model.takes_propensities:
        raise InputError(f"{model.name} learns its propensities: give it none")
    stop_on = _stop(stop_on, inputs, spark) if model.stops_early else "none"
    how = Weighed(curve, weighting, parameters)
    weights, clicks = _trained(model, how, stop_on, inputs, spark=spark, seed=seed)
    about = {"data": inputs.source, "fold": inputs.fold, "log": inputs.path}
    about |= {"weighting": weighting, "weighting_parameters": parameters, "seed": seed}
    about |= {"stop_on": stop_on, "spark": spark}
    known = curve.to_json_dict() if isinstance(curve, Propensities) else chosen.propensity
    with atomic_output(out, folder=True) as draft:
        model.save(draft, about=about | {"propensity": known})
        if report:
            settings = about | {"propensity": chosen.propensity, "clicks": clicks}
            _write_report(model, weights, curve, settings, draft, started)
    typer.echo(f"{out}: {model.name}, weighting {weighting}, {clicks:,} clicks")


def _stop(given: str | None, inputs: TrainInputs, spark: str | None) -> str:
    """Return what a ranker stops on: what was asked for, else what there is."""
    if given is not None and given not in _STOPS:
        raise InputError(f"--stop-on must be one of {', '.join(_STOPS)}, not '{given}'")
    if given == "labels" and inputs.data is None:
        raise InputError("--stop-on labels takes a data set with labels (--data)")
    if spark is not None and given == "labels":
        return "clicks"
    return given or ("labels" if inputs.data is not None and spark is None else "clicks")


def _trained(
    model: Ranker,
    how: Weighed,
    stop_on: str,
    inputs: TrainInputs,
    *,
    spark: str | None,
    seed: int,
) -> tuple[PairDiagnostics | None, int]:
    """Train on all sessions of a log, or on those that are not held out to stop by."""
    with find_runner(spark) as runner, inputs.opened(runner) as source:
        if inputs.collection is None and inputs.table is None and not source.features:
            raise InputError(NO_FEATURES)
        sessions = inputs.loaded(runner, source, "train")
        if sessions.left_out:
            raise InputError(
                f"{inputs.path}: {sessions.left_out} sessions show docs that are in the log but not "
                f"in the {'table' if inputs.collection is None else 'data set'} {inputs.source}"
            )
        clicks = sessions.extent().clicks
        if stop_on == "clicks":
            parts = sessions.split(Split(QUERY, _HELD_OUT, seed))
            with working("training"):
                found = parts.learning.train([model], how, validation=parts.held_out)
            return found.diagnostics, clicks
        labelled = inputs.dataset("validation") if stop_on == "labels" else None
        with _shown(model.get_params().get("trees")) as progress:
            found = sessions.train([model], how, validation=labelled, progress=progress)
        return found.diagnostics, clicks


def _write_report(
    model: Any, weights: Any, curve: Any, settings: dict[str, Any], out: Path, started: float
) -> None:
    command = f"prsrank train {settings['log']} --ranker {model.name}"
    about = about_rows(seed=settings["seed"], started=started, command=f"{command} ...")
    with working("writing the report"):
        page = training_report(model, weights, curve, settings=settings, about=about)
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
