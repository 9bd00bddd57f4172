"""The command `prsrank simulate`."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import typer

from prsrank.cli.arguments import Fold, Seed, check_room, working
from prsrank.cli.option_groups import WholeData
from prsrank.clicks.models import CLICK_MODELS
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.errors import InputError
from prsrank.logs.click_log_files import write_compact, write_events
from prsrank.types import ClickModel


@dataclass(frozen=True)
class _Data(WholeData):
    fold: Fold = 1


@dataclass(frozen=True)
class _Users:
    """How users click."""

    click_model: str = typer.Option("position-based", help="{click_models}.")
    eta: float = typer.Option(1.0, help="Severity of position bias: p_k = (1/k)^eta.")
    mu: float = typer.Option(0.1, help="Click noise, in [0, 0.5).")
    cutoff: int | None = typer.Option(
        None, min=1, max=1_000_000, help="Show only the first so many docs."
    )

    def model(self) -> "ClickModel":
        """Return the click model with these parameters, as far as it has them."""
        kind: Any = CLICK_MODELS.find(self.click_model)
        known = {field.name for field in fields(kind)}
        made: ClickModel = kind(
            **{name: getattr(self, name) for name in ("eta", "mu", "cutoff") if name in known}
        )
        return made


@dataclass(frozen=True)
class _Shown:
    """What users are shown: by which rankers, and which share of it randomised."""

    rankers: int = typer.Option(
        1, min=1, max=1000, help="Number of production rankers, for harvesting."
    )
    production: str = typer.Option("linear", help="Kind of production ranker: {production}.")
    randomised: float = typer.Option(
        0.0, min=0, max=1, help="Share of sessions that are randomised."
    )
    design: str = typer.Option("uniform", help="How they are randomised: {designs}.")
    design_k: int | None = typer.Option(
        None, min=2, max=1_000_000, help="Last position that top-k and swaps reach."
    )


def simulate(
    data: _Data,
    users: _Users,
    shown: _Shown,
    out: Path = typer.Option(..., metavar="LOG", help="Where to write the log: Parquet of events."),
    clicks: int | None = typer.Option(None, min=1, help="Go on until there are so many clicks."),
    sessions: int | None = typer.Option(None, min=1, help="Draw so many sessions instead."),
    compact: bool = typer.Option(False, "--compact", help="Write the compact form, a folder."),
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
    if (clicks is None) == (sessions is None):
        raise InputError("give either --clicks or --sessions")
    check_room(clicks or sessions or 0, "clicks" if clicks else "sessions")
    model = users.model()
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
            design=shown.design,
            design_k=shown.design_k,
        )
    with working(f"writing {out}"):
        (write_compact if compact else write_events)(log, out)
    typer.echo(
        f"{out}: {log.sessions:,} sessions of {log.queries:,} queries, "
        f"{len(log.clicks):,} clicks, {log.rankings:,} rankings"
    )


def _production(data: _Data, shown: _Shown, seed: int) -> tuple[Any, Any]:
    """Return the lists that the production rankers did not learn from, and their scores."""
    lists = data.lists("train")
    with working("training the production ranker"):
        makers = [
            production_scores(lists, ranker=shown.production, seed=seed + number)
            for number in range(shown.rankers)
        ]
        return logging_part(lists, makers)
