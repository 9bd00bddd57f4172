"""The command `prsrank sensitivity`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from prsrank.cli.arguments import (
    Given,
    Json,
    Setting,
    parse_values,
    print_json,
    refuse_other_files,
    working,
)
from prsrank.cli.log_inputs import ListInputs, features_for
from prsrank.errors import InputError
from prsrank.evaluation.assumptions import DEFAULT_VALUES
from prsrank.evaluation.log_study import study_log
from prsrank.files import atomic_output, write_json
from prsrank.fit.manifest import judged_model
from prsrank.fit.plan import Plan
from prsrank.logs.split import Split, parse_hold_out
from prsrank.propensity.curve_of import parse_propensity
from prsrank.rankers.base import Ranker, load_ranker, ranker_class
from prsrank.report.sensitivity_section import report_lines, write_chart, write_page

_RESULT = "sensitivity.json"
_TREES = 100  # one ranker is trained for each value: fewer trees than train's


@dataclass(frozen=True)
class _Trained:
    """The model to judge, or how to train one."""

    model: str | None = typer.Option(
        None,
        metavar="MODEL",
        help="A model that did not learn from the held-out part, to judge and to retrain. "
        "Default: that of the fit, if LOG is its folder, else one is trained.",
    )
    ranker: str = typer.Option("lambdamart", help="The ranker to train: {rankers}.")
    set_: Setting = None


@dataclass(frozen=True)
class _Judged:
    """By what it is judged."""

    holdout: str | None = typer.Option(
        None,
        metavar="query:SHARE|time:SHARE",
        help="What to judge by. Default: what the fit held out, if LOG is its folder, else "
        "query:0.2.",
    )
    metric: str = typer.Option("dcg@10", help="dcg@K, dcg or arp.")
    try_: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="NAME=VALUE",
            help="A value to assume of {assumptions}; may be repeated. Default: several of each.",
        ),
    ] = None


def sensitivity(
    inputs: ListInputs,
    trained: _Trained,
    judged: _Judged,
    out: Path = typer.Option(..., metavar="DIR", help="Folder for the chart and the numbers."),
    propensity: Given = None,
    json: Json = False,
    seed: int | None = typer.Option(
        None,
        min=0,
        max=2**31 - 1,
        help="The same seed gives the same result. Default: the fit's, if LOG is its folder, else 0.",
    ),
) -> None:
    r"""Show how a model's ranking and estimated gain move under other assumptions.

    The model is trained by prs with the propensities as given, no noise, no trust and gamma 1,
    and judged on held-out queries. Then one thing is assumed otherwise: the position bias (eta:
    the propensities to this power), click noise, trust in the top, or the clip gamma. The model
    is judged under each, and a new one trained and judged under each, and it is said where the gain
    turns into a loss. Writes report.html, sensitivity.svg, sensitivity.png and sensitivity.json.

    A folder that fit wrote stands for its inputs: then its model is judged on what it held out,
    with its propensities.

    \b
    Examples:
      prsrank sensitivity fitted --out study
      prsrank sensitivity log.parquet --data synthetic:web10k:500 --propensity power:1 --out study
    """
    refuse_other_files(out, _RESULT)
    run, values = inputs.run, _values(judged.try_)
    split = _split(judged.holdout, seed, run)
    known = propensity if propensity is not None else inputs.curve
    curve = None if known is None else parse_propensity(known)
    model = trained.model if trained.model is not None or run is None else judged_model(inputs.log)
    loaded = None if model is None else load_ranker(model)
    name, settings = _training(loaded, trained, split.seed)
    clicks, lists = inputs.read()
    lists = lists if loaded is None else features_for(loaded, lists)
    learned = loaded is not None and loaded.learned_from(inputs.path)
    # what a fit held out its model has not seen; lists by session are held out by other names
    seen = learned and (run is None or split != run.split or inputs.how_listed == "session")
    with working("training and judging"):
        study = study_log(
            clicks,
            lists,
            curve,
            model=loaded,
            ranker=name,
            settings=settings,
            hold_out_by=(split.way, split.share),
            values=values,
            metric=judged.metric,
            seed=split.seed,
            trained_on=str(model) if seen else None,
        )
    _write(study, out, inputs.path)
    if json:
        print_json(study.to_json_dict())
        return
    for line in report_lines(study):
        typer.echo(line)
    typer.echo(f"{out}: report.html, sensitivity.svg, sensitivity.png, {_RESULT}")


def _split(holdout: str | None, seed: int | None, run: Plan | None) -> Split:
    """Return what to judge by: as asked, else as the fit did."""
    base = Split("query", 0.2) if run is None else run.split
    way, share = (base.way, base.share) if holdout is None else parse_hold_out(holdout)
    return Split(way, share, base.seed if seed is None else seed)


def _values(given: list[str] | None) -> dict[str, Any]:
    """Return the values to try: those given, else the usual ones."""
    values: dict[str, list[float]] = {}
    for kind, value in parse_values(given, "--try"):
        if kind not in DEFAULT_VALUES or not isinstance(value, int | float):
            known = ", ".join(DEFAULT_VALUES)
            raise InputError(f"--try takes NAME=NUMBER, not '{kind}={value}'; names are: {known}")
        values.setdefault(kind, []).append(float(value))
    return {**DEFAULT_VALUES, **values}


def _training(loaded: "Ranker | None", trained: _Trained, seed: int) -> tuple[str, dict[str, Any]]:
    """Return the ranker to train and its parameters: those of the loaded model, if any."""
    values = dict(parse_values(trained.set_, "--set"))
    if loaded is not None:
        return loaded.name, loaded.get_params() | values
    ours = ranker_class(trained.ranker).accepted(trees=_TREES, seed=seed)
    return trained.ranker, ours | values


def _write(study: Any, out: Path, log: str) -> None:
    with atomic_output(out, folder=True) as draft:
        write_page(study, draft / "report.html", log=log)
        for kind in ("svg", "png"):
            write_chart(study, draft / f"sensitivity.{kind}")
        write_json(draft / _RESULT, study.to_json_dict())
