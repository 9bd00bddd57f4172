"""The command `prsrank reproduce`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from prsrank.cli.arguments import Json, NamedData, RelevantFrom, print_json
from prsrank.cli.progress import shown_progress
from prsrank.experiment import reproduction


@dataclass(frozen=True)
class _Changed:
    """What is to be otherwise than the spec says."""

    runs: int | None = typer.Option(None, min=1, max=100_000, help="Runs; default as in the spec.")
    folds: int | None = typer.Option(None, min=1, max=1000, help="Folds at most.")
    points: str | None = typer.Option(None, help="Points of the axis, separated by commas.")
    smoke: bool = typer.Option(False, "--smoke", help="Tiny sizes, to see that everything works.")
    tune_on: str | None = typer.Option(
        None, help="Tune on labels of the validation part, or on clicks held out there."
    )
    seed: int | None = typer.Option(
        None, min=0, max=2**31 - 1, help="The same seed gives the same result."
    )
    relevant_from: RelevantFrom = None


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
    changed: _Changed,
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
    points = None if changed.points is None else reproduction.parse_points(changed.points)
    changes = reproduction.Changes(**{**vars(changed), "points": points})
    least = "" if changed.relevant_from is None else f" --relevant-from {changed.relevant_from:g}"
    with shown_progress() as progress:
        report = reproduction.reproduce(
            experiment,
            data,
            out,
            changes=changes,
            resume=resume,
            processes=processes,
            progress=progress,
            command=f"prsrank reproduce {experiment} --data {data}{least}"
            + " --smoke" * changed.smoke,
        )
    if json:
        print_json({"verdicts": report["verdicts"], "report": str(out / reproduction.REPORT)})
        return
    if changed.smoke:
        typer.echo(reproduction.TRIAL)
    verdicts = {verdict["section"]: verdict for verdict in report["verdicts"]}
    for name in (section["id"] for section in report["sections"]):
        found = verdicts.get(name)
        said = f"{found['label']}. {found['evidence']}" if found else "no claim at these points."
        typer.echo(f"{name}: {said}")
    typer.echo(f"written: {out / reproduction.REPORT}")
