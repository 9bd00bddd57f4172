"""The command `prsrank simulate`."""

from pathlib import Path
from typing import Annotated

import typer

from prsrank.cli.arguments import Data, Fold, Seed, working
from prsrank.errors import InputError


def simulate(
    data: Data,
    out: Annotated[
        Path, typer.Option(metavar="LOG", help="Where to write the log: Parquet of events.")
    ],
    clicks: Annotated[
        int | None, typer.Option(min=1, help="Go on until there are so many clicks.")
    ] = None,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="Draw so many sessions instead.")
    ] = None,
    eta: Annotated[float, typer.Option(help="Severity of position bias: p_k = (1/k)^eta.")] = 1.0,
    mu: Annotated[float, typer.Option(help="Click noise, in [0, 0.5).")] = 0.1,
    model: Annotated[
        str, typer.Option(help="Click model: position-based, cascade or trust.")
    ] = "position-based",
    cutoff: Annotated[
        int | None, typer.Option(min=1, help="Show only the first so many docs.")
    ] = None,
    randomised: Annotated[
        float, typer.Option(min=0, max=1, help="Share of sessions that are randomised.")
    ] = 0.0,
    design: Annotated[
        str, typer.Option(help="How they are randomised: uniform, top-k, adjacent or pivot.")
    ] = "uniform",
    design_k: Annotated[
        int | None, typer.Option(min=2, help="Last position that top-k and swaps reach.")
    ] = None,
    rankers: Annotated[
        int, typer.Option(min=1, help="Number of production rankers, for harvesting.")
    ] = 1,
    production: Annotated[
        str, typer.Option(help="Kind of production ranker: linear or lightgbm.")
    ] = "linear",
    compact: Annotated[
        bool, typer.Option("--compact", help="Write the compact form, a folder.")
    ] = False,
    fold: Fold = 1,
    seed: Seed = 0,
) -> None:
    r"""Simulate a click log on the training part of a data set.

    A production ranker is trained on 1 % of the training lists; sessions draw their query
    from the rest, rank it with the production ranker, and are clicked by the click model.

    \b
    Examples:
      prsrank simulate synthetic:web10k:500 --clicks 100000 --out log.parquet
      prsrank simulate MQ2008 --clicks 1000000 --randomised 0.1 --compact --out log
    """
    from prsrank.clicks.models import click_model
    from prsrank.clicks.production import logging_part, production_scores
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.data.collections import load_dataset
    from prsrank.logs.click_log_files import write_compact, write_events

    if (clicks is None) == (sessions is None):
        raise InputError("give either --clicks or --sessions")
    eta_given = {} if model == "cascade" else {"eta": eta}
    users = click_model(model, mu=mu, cutoff=cutoff, **eta_given)
    with working(f"reading {data}"):
        lists = load_dataset(data, "train", fold=fold)
    with working("training the production ranker"):
        makers = [
            production_scores(lists, ranker=production, seed=seed + i) for i in range(rankers)
        ]
        lists, scores = logging_part(lists, makers)
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
            design_k=design_k,
        )
    with working(f"writing {out}"):
        (write_compact if compact else write_events)(log, out)
    typer.echo(
        f"{out}: {log.sessions:,} sessions of {log.queries:,} queries, "
        f"{len(log.clicks):,} clicks, {log.rankings:,} rankings"
    )
