"""The command `prsrank sensitivity`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from prsrank.cli.arguments import (
    Given,
    Json,
    Seed,
    Setting,
    parse_values,
    print_json,
    refuse_other_files,
    working,
)
from prsrank.cli.option_groups import AllLists, LogOptions
from prsrank.errors import InputError
from prsrank.evaluation.assumptions import DEFAULT_VALUES
from prsrank.evaluation.log_study import study_log
from prsrank.files import atomic_output, write_json
from prsrank.logs.split import parse_hold_out
from prsrank.propensity.curve import parse_propensity
from prsrank.rankers.base import Ranker, load_ranker, ranker_class
from prsrank.report.sensitivity_section import report_lines, write_chart

_RESULT = "sensitivity.json"
_TREES = 100  # one ranker is trained for each value: fewer trees than train's


@dataclass(frozen=True)
class _Trained:
    """The model to judge, or how to train one."""

    model: str | None = typer.Option(
        None,
        metavar="MODEL",
        help="A model that did not learn from the held-out part, to judge and to retrain. "
        "Default: one is trained.",
    )
    ranker: str = typer.Option("lambdamart", help="The ranker to train: {rankers}.")
    set_: Setting = None


@dataclass(frozen=True)
class _Judged:
    """By what it is judged."""

    holdout: str = typer.Option(
        "query:0.2", metavar="query:SHARE|time:SHARE", help="What to judge by."
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
    log: LogOptions,
    data: AllLists,
    trained: _Trained,
    judged: _Judged,
    out: Path = typer.Option(..., metavar="DIR", help="Folder for the chart and the numbers."),
    propensity: Given = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    r"""Show how a model's ranking and estimated gain move under other assumptions.

    The model is trained by prs with the propensities as given, no noise, no trust and gamma 1,
    and judged on held-out queries. Then one thing is assumed otherwise: the position bias (eta:
    the propensities to this power), click noise, trust in the top, or the clip gamma. The model
    is judged under each, and a new one trained and judged under each. Writes sensitivity.svg,
    sensitivity.png and sensitivity.json.

    \b
    Example:
      prsrank sensitivity log.parquet --data synthetic:web10k:500 --propensity power:1 --out study
    """
    refuse_other_files(out, _RESULT)
    hold_out, values = parse_hold_out(judged.holdout), _values(judged.try_)
    curve = None if propensity is None else parse_propensity(propensity)
    loaded = None if trained.model is None else load_ranker(trained.model)
    name, settings = _training(loaded, trained, seed)
    clicks, lists = log.clicks(), data.everything()
    source = None if loaded is None or not loaded.learned_from(log.log) else trained.model
    with working("training and judging"):
        study = study_log(
            clicks,
            lists,
            curve,
            model=loaded,
            ranker=name,
            settings=settings,
            hold_out_by=hold_out,
            values=values,
            metric=judged.metric,
            seed=seed,
            trained_on=source,
        )
    _write(study, out)
    if json:
        print_json(study.to_json_dict())
        return
    for line in report_lines(study):
        typer.echo(line)
    typer.echo(f"{out}: sensitivity.svg, sensitivity.png, {_RESULT}")


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


def _write(study: Any, out: Path) -> None:
    with atomic_output(out, folder=True) as draft:
        for kind in ("svg", "png"):
            write_chart(study, draft / f"sensitivity.{kind}")
        write_json(draft / _RESULT, study.to_json_dict())
