"""The command `prsrank simulate`."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from prsrank.cli.inputs import lists_of
from prsrank.cli.options import Data, Seed, parse_counted, parse_values, working
from prsrank.clicks.models import CLICK_MODELS
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.errors import InputError
from prsrank.files.schema import check
from prsrank.logs.click_log_files import write_compact, write_events

# a session of one click, as a log in memory holds it
_BYTES_PER_CLICK = 16
_MOST_RANKERS = 1000


def simulate(
    data: Data,
    out: Path,
    clicks: Annotated[int | None, typer.Option(min=1)] = None,
    sessions: Annotated[int | None, typer.Option(min=1)] = None,
    click_model: str = "position-based",
    set_: list[str] | None = None,
    production: str = "linear",
    randomised: Annotated[float, typer.Option(min=0, max=1)] = 0.0,
    design: str = "uniform",
    seed: Seed = 0,
) -> None:
    r"""Simulate a click log on the training part of a data set.

    A production ranker is trained on 1 % of the training lists; sessions draw their query
    from the rest, rank it with the production ranker, and are clicked by the click model.

    Args:
        out (LOG): Where to write the log: a file, .parquet, of events; else a folder, the compact
            form.
        clicks: Go on until there are so many clicks.
        sessions: Draw so many sessions instead.
        click_model: {click_models}.
        set_ (NAME=VALUE): A parameter of the click model: eta, the severity of position bias, p_k =
            (1/k)^eta (default 1); mu, the click noise in [0, 0.5) (0.1); cutoff, how many docs are
            shown (all); may be repeated.
        production (KIND[:N]): Kind of production ranker: {production}; and how many of them, for
            harvesting.
        randomised: Share of sessions that are randomised.
        design (DESIGN[:K]): How they are randomised: {designs}; K is the last position that top-k
            and swaps reach.

    \b
    Examples:
      prsrank simulate synthetic:web10k:500 --clicks 100000 --out log.parquet
      prsrank simulate MQ2008 --clicks 1000000 --set eta=1.5 --randomised 0.1 --out log
    """
    if (clicks is None) == (sessions is None):
        raise InputError("give either --clicks or --sessions")
    check_room(clicks or sessions or 0, "clicks" if clicks else "sessions")
    model: Any = CLICK_MODELS.find(click_model)
    parameters = dict(parse_values(set_, "--set"))
    check(parameters, model, click_model)
    users = model(**parameters)
    design, last = parse_counted(design, "--design")
    kind, count = parse_counted(production, "--production")
    if count is not None and not 1 <= count <= _MOST_RANKERS:
        raise InputError(f"--production takes 1 to {_MOST_RANKERS} rankers, not {count}")
    train, seeds = lists_of(data, "train"), range(seed, seed + (count or 1))
    with working("training the production ranker"):
        rankers = [production_scores(train, ranker=kind, seed=number) for number in seeds]
        lists, scores = logging_part(train, rankers)
    with working("drawing sessions"):
        log = simulate_clicks(
            lists,
            scores,
            users,
            clicks=clicks,
            sessions=sessions,
            seed=seed,
            randomised=randomised,
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
