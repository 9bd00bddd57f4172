"""The command `prsrank train`."""

import time
from pathlib import Path
from typing import Any

import typer

from prsrank.cli.inputs import NO_FEATURES, LogInputs
from prsrank.cli.options import Where, parse_values, working
from prsrank.errors import InputError
from prsrank.files import atomic_output
from prsrank.files.schema import check
from prsrank.fit.judging import Weighed
from prsrank.logs.split import QUERY, Split
from prsrank.pairs.weighted_pairs import PairDiagnostics
from prsrank.propensity.curve import Propensities
from prsrank.propensity.curve_of import parse_propensity
from prsrank.rankers.base import Ranker, make_ranker
from prsrank.rankers.cards import check_free, check_ranges
from prsrank.report.fit_report import training_report
from prsrank.report.html import write_report
from prsrank.report.parts import about_rows

_STOPS = ("labels", "clicks", "none")
_HELD_OUT = 0.1


def train(
    inputs: LogInputs,
    where: Where,
    out: Path,
    stop_on: str | None = None,
    ranker: str = "lambdamart",
    weighting: str | None = None,
    propensity: str | None = None,
    set_: list[str] | None = None,
) -> None:
    r"""Train a ranker on the clicks of a log.

    MODEL/report.html is a page on the training.

    Args:
        out (MODEL): Folder to write the model to.
        stop_on: Rankers that can stop early do so on the labels of the validation part (labels), on
            the clicks of a held-out tenth of the queries (clicks), or not at all (none). Default:
            labels with --data, else clicks.
        ranker: {rankers}.
        weighting: {weightings}. Default: what the ranker is known for, mostly prs.
        set_ (NAME=VALUE): A parameter of the ranker or of the weighting, such as trees=300 or
            tau=0.05; may be repeated.
        propensity (FILE|power:ETA): The propensities: a file that 'prsrank propensity --out' wrote,
            or (1/k)^ETA. Default: those in the log.

    \b
    Examples:
      prsrank train log.parquet --data synthetic:web10k:500 --propensity power:1 --out model
      prsrank train log.parquet --features features.parquet --propensity power:1 --out model
      prsrank train log --data MQ2008 --ranker linear --weighting ips --set tau=0.05 \
          --propensity propensity.json --set l2=0.01 --out model
    """
    started = time.perf_counter()
    check_free(out)
    values = dict(parse_values(set_, "--set"))
    seed = values.pop("seed", 0)
    check({"seed": seed}, dict[str, int], "--set")
    check_ranges({"seed": seed}, "--set")
    model, weighting, parameters = make_ranker(ranker, weighting, values, seed=seed)
    curve = None if propensity is None else parse_propensity(propensity)
    if curve is not None and not model.takes_propensities:
        raise InputError(f"{model.name} learns its propensities: give it none")
    if stop_on is not None and stop_on not in _STOPS:
        raise InputError(f"--stop-on must be one of {', '.join(_STOPS)}, not '{stop_on}'")
    if stop_on == "labels" and inputs.data is None:
        raise InputError("--stop-on labels takes a data set with labels (--data)")
    usual = "clicks" if inputs.data is None else "labels"
    stop_on = stop_on or usual if model.stops_early else "none"
    pairs = Weighed(curve, weighting, parameters)
    weights, clicks = _trained(model, pairs, stop_on, inputs, where, seed)
    settings: dict[str, Any] = {
        "data": inputs.source,
        "log": inputs.path,
        "weighting": weighting,
        "weighting_parameters": parameters,
        "seed": seed,
        "stop_on": stop_on,
        "spark": where.spark,
        "propensity": propensity,
    }
    command = f"prsrank train {inputs.path} --ranker {model.name} ..."
    with atomic_output(out, folder=True) as draft, working("writing the report"):
        whole = curve.to_json_dict() if isinstance(curve, Propensities) else propensity
        model.save(draft, about=settings | {"propensity": whole})
        about = about_rows(seed=seed, started=started, command=command)
        settings["clicks"] = clicks
        page = training_report(model, weights, curve, settings=settings, about=about)
        write_report(page, draft / "report.html")
    typer.echo(f"{out}: {model.name}, weighting {weighting}, {clicks:,} clicks")


def _trained(
    model: Ranker,
    pairs: Weighed,
    stop_on: str,
    inputs: LogInputs,
    where: Where,
    seed: int,
) -> tuple[PairDiagnostics | None, int]:
    """Train on all sessions of a log, or on those that are not held out to stop by."""
    with where.engine() as engine, inputs.opened(engine) as source:
        if inputs.collection is None and inputs.table is None and not source.features:
            raise InputError(NO_FEATURES)
        sessions = inputs.loaded(engine, source, "train")
        if sessions.left_out:
            raise InputError(
                f"{inputs.path}: {sessions.left_out} sessions show docs that are in the log but not "
                f"in the {'table' if inputs.collection is None else 'data set'} {inputs.source}"
            )
        clicks = sessions.extent().clicks
        if stop_on == "clicks":
            parts = sessions.split(Split(QUERY, _HELD_OUT, seed))
            with working("training"):
                trained = parts.learning.train([model], pairs, validation=parts.held_out)
            return trained.diagnostics, clicks
        labelled = inputs.dataset("validation") if stop_on == "labels" else None
        with working("training") as tell:

            def progress(step: int, value: float | None) -> None:
                tell(f"training: {step}" + ("" if value is None else f", {value:.4f} by labels"))

            trained = sessions.train([model], pairs, validation=labelled, progress=progress)
        return trained.diagnostics, clicks
