"""The command `prsrank split`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from prsrank.cli.arguments import Json, Seed, print_json, working
from prsrank.cli.log_inputs import LogOptions
from prsrank.errors import InputError
from prsrank.files import atomic_output
from prsrank.logs.click_log_files import write_events
from prsrank.logs.held_out import hold_out
from prsrank.logs.split import parse_hold_out

_PARTS = ("training.parquet", "held_out.parquet")


def split(
    log: LogOptions,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write the two parts to.")],
    holdout: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="What to hold out: query:SHARE of the queries, or time:SHARE of the latest "
            "sessions.",
        ),
    ] = "query:0.2",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    r"""Split a click log into a part to train on and a part to judge by; no query is in both.

    With time:SHARE, queries with sessions before and after the cut lose the earlier ones. The
    parts have prsrank's own columns, contexts and weights included, and no columns of
    features: for a log that holds its features, 'prsrank fit' splits by itself.

    \b
    Example:
      prsrank split log.parquet --holdout time:0.2 --out parts
      prsrank train parts/training.parquet --data DATA --propensity p.json --out model
      prsrank evaluate model --data DATA --log parts/held_out.parquet --propensity p.json
    """
    by, share = parse_hold_out(holdout)
    _check_free(out)
    parts = hold_out(log.clicks(), by=by, share=share, seed=seed)
    with working(f"writing {out}"), atomic_output(out, folder=True) as draft:
        for name, part in zip(_PARTS, (parts.training, parts.held_out), strict=True):
            write_events(part, draft / name)
    found: dict[str, Any] = {
        name: {"sessions": part.sessions, "queries": part.queries, "clicks": len(part.clicks)}
        for name, part in (("training", parts.training), ("held_out", parts.held_out))
    }
    if json:
        print_json(found | {"dropped_sessions": parts.dropped_sessions, "folder": str(out)})
        return
    for name, (words, count) in zip(_PARTS, found.items(), strict=True):
        typer.echo(
            f"{out / name}: {words.replace('_', ' ')}, {count['sessions']:,} sessions of "
            f"{count['queries']:,} queries, {count['clicks']:,} clicks"
        )
    if parts.dropped_sessions:
        typer.echo(
            f"left out: {parts.dropped_sessions:,} sessions of {parts.shared_queries:,} queries "
            "on both sides of the cut"
        )


def _check_free(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: exists and is not a folder")
    if out.is_dir() and {path.name for path in out.iterdir()} - set(_PARTS):
        raise InputError(f"{out}: is a folder with other things in it")
