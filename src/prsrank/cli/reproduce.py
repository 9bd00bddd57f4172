"""The command `prsrank reproduce`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from prsrank.cli.options import Json, NamedData, parse_values, show, shown_progress
from prsrank.experiment import reproduction
from prsrank.experiment.spec_files import check_limits
from prsrank.files.schema import check


def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="fig1 to fig6, gamma, table1, table2, bounds; all of these: all. Beyond the paper: "
            "beyond-density, -noise, -bias, -wrong-curve, -model; density, fig2-sparse, "
            "fig6-unclipped. Or a TOML file.",
        ),
    ],
    data: NamedData,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="What is to be otherwise than the spec says: runs; folds, at most; points of the "
            "axis, between commas; tune_on, labels of the validation part or clicks held out there; "
            "seed; relevant_from, the least label that counts as relevant; may be repeated.",
        ),
    ] = None,
    smoke: bool = typer.Option(False, "--smoke", help="Tiny sizes, to see that everything works."),
    out: Path = typer.Option(..., metavar="DIR", help="Where results and report go."),
    resume: bool = typer.Option(
        False, "--resume", help="Go on in a folder that already holds results."
    ),
    processes: int | None = typer.Option(
        None, min=0, max=4096, help="Processes; 0: all in this one. Default: one per core."
    ),
    json: Json = False,
) -> None:
    r"""Run an experiment of the PRS paper, or beyond it, and judge its claim.

    Every finished job is on disk at once: a run that was interrupted, or killed, goes on with
    --resume. Results are in DIR/results.parquet, the report is DIR/report.html.

    \b
    Examples:
      prsrank reproduce fig3 --data MQ2008 --out fig3
      prsrank reproduce all --data synthetic:mq2007:60 --out trial --smoke
    """
    changes = _changes(set_, smoke)
    least = changes.relevant_from
    kept = "" if least is None else f" --set relevant_from={least:g}"
    with shown_progress() as progress:
        report = reproduction.reproduce(
            experiment,
            data,
            out,
            changes=changes,
            resume=resume,
            processes=processes,
            progress=progress,
            command=f"prsrank reproduce {experiment} --data {data}{kept}" + " --smoke" * smoke,
        )
    value = {"verdicts": report["verdicts"], "report": str(out / reproduction.REPORT)}
    lines = _lines(report, out / reproduction.REPORT)
    show([*[reproduction.TRIAL] * smoke, *lines], value, json=json)


def _changes(assignments: list[str] | None, smoke: bool) -> reproduction.Changes:
    """Return what is to be otherwise than the spec says."""
    values = dict(parse_values(assignments, "--set"))
    if "points" in values:
        values["points"] = reproduction.parse_points(str(values["points"]).strip("[]"))
    check(values, reproduction.Changes, "--set")
    check_limits(values)
    return reproduction.Changes(**{**values, "smoke": smoke})


def _lines(report: dict[str, Any], page: Path) -> Iterator[str]:
    verdicts = {verdict["section"]: verdict for verdict in report["verdicts"]}
    for name in (section["id"] for section in report["sections"]):
        verdict = verdicts.get(name)
        claim = f"{verdict['label']}. {verdict['evidence']}" if verdict else None
        yield f"{name}: {claim or 'no claim at these points.'}"
    yield f"written: {page}"
