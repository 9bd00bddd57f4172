"""The command `prsrank simulate`."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from prsrank.cli.inputs import DataSet
from prsrank.cli.options import Seed, parse_counted, parse_values
from prsrank.cli.output import working
from prsrank.clicks.models import CLICK_MODELS
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.errors import InputError
from prsrank.files.schema import check
from prsrank.logs.click_log_files import write_compact, write_events
from prsrank.types import ClickModel

# a session of one click, as a log in memory holds it
_BYTES_PER_CLICK = 16
_MOST_RANKERS = 1000


@dataclass(frozen=True)
class _Users:
    """How users click."""

    click_model: str = typer.Option("position-based", help="{click_models}.")
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the click model: eta, the severity of position bias, p_k = "
            "(1/k)^eta (default 1); mu, the click noise in [0, 0.5) (0.1); cutoff, how many docs are "
            "shown (all); may be repeated.",
        ),
    ] = None

    def model(self) -> ClickModel:
        """Return the click model with these parameters."""
        kind: Any = CLICK_MODELS.find(self.click_model)
        values = dict(parse_values(self.set_, "--set"))
        check(values, kind, self.click_model)
        model: ClickModel = kind(**values)
        return model


@dataclass(frozen=True)
class _Shown:
    """What users are shown: by which rankers, and which share of it randomised."""

    production: str = typer.Option(
        "linear",
        metavar="KIND[:N]",
        help="Kind of production ranker: {production}; and how many of them, for harvesting.",
    )
    randomised: float = typer.Option(
        0.0, min=0, max=1, help="Share of sessions that are randomised."
    )
    design: str = typer.Option(
        "uniform",
        metavar="DESIGN[:K]",
        help="How they are randomised: {designs}; K is the last position that top-k and swaps "
        "reach.",
    )


def simulate(
    data: DataSet,
    users: _Users,
    shown: _Shown,
    out: Path = typer.Option(
        ...,
        metavar="LOG",
        help="Where to write the log: a file, .parquet, of events; else a folder, the compact form.",
    ),
    clicks: int | None = typer.Option(None, min=1, help="Go on until there are so many clicks."),
    sessions: int | None = typer.Option(None, min=1, help="Draw so many sessions instead."),
    seed: Seed = 0,
) -> None:
    r"""Simulate a click log on the training part of a data set.

    A production ranker is trained on 1 % of the training lists; sessions draw their query
    from the rest, rank it with the production ranker, and are clicked by the click model.

    \b
    Examples:
      prsrank simulate synthetic:web10k:500 --clicks 100000 --out log.parquet
      prsrank simulate MQ2008 --clicks 1000000 --set eta=1.5 --randomised 0.1 --out log
    """
    if (clicks is None) == (sessions is None):
        raise InputError("give either --clicks or --sessions")
    check_room(clicks or sessions or 0, "clicks" if clicks else "sessions")
    model = users.model()
    design, last = parse_counted(shown.design, "--design")
    lists, scores = _production(data, shown, seed)
    with working("drawing sessions"):
        log = simulate_clicks(
            lists,
            scores,
            model,
            clicks=clicks,
            sessions=sessions,
            seed=seed,
            randomised=shown.randomised,
            design=design,
            design_k=last,
        )
    with working(f"writing {out}"):
        (write_events if out.suffix else write_compact)(log, out)
    typer.echo(
        f"{out}: {log.sessions:,} sessions of {log.queries:,} queries, "
        f"{len(log.clicks):,} clicks, {log.rankings:,} rankings"
    )


def check_room(count: int, unit: str) -> None:
    """Raise an InputError if so many sessions or clicks would not fit the machine's memory."""
    need = count * _BYTES_PER_CLICK
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > there:
        raise InputError(
            f"{count:,} {unit} take about {need // 10**9:,} GB of memory; "
            f"this machine has {there / 1e9:,.0f}"
        )


def _production(data: DataSet, shown: _Shown, seed: int) -> tuple[Any, Any]:
    """Return the lists that the production rankers did not learn from, and their scores."""
    kind, count = parse_counted(shown.production, "--production")
    if count is not None and not 1 <= count <= _MOST_RANKERS:
        raise InputError(f"--production takes 1 to {_MOST_RANKERS} rankers, not {count}")
    lists = data.lists("train")
    with working("training the production ranker"):
        makers = [
            production_scores(lists, ranker=kind, seed=seed + number)
            for number in range(count or 1)
        ]
        return logging_part(lists, makers)
