"""Arguments that several commands share, and how they print."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file (LETOR or converted), a collection's folder, or synthetic:SHAPE:LISTS[:SEED].",
    ),
]
NamedData = Annotated[str, typer.Option("--data", metavar="DATA", help="The data set.")]
Log = Annotated[
    str, typer.Argument(metavar="LOG", help="A click log: Parquet or CSV of events, or compact.")
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A folder that train or fit wrote.")]
Split = Annotated[str, typer.Option(help="train, validation or test.")]
Fold = Annotated[int, typer.Option(min=1, help="The fold of the collection.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    typer.echo(json.dumps(value, indent=2))


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show what is being done while it is done, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
