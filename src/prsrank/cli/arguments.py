"""Arguments that several commands share, and how they print."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from prsrank.errors import InputError

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file (LETOR or converted), a collection's folder, or synthetic:SHAPE:LISTS[:SEED].",
    ),
]
NamedData = Annotated[str, typer.Option("--data", metavar="DATA", help="The data set.")]
RelevantFrom = Annotated[
    float | None,
    typer.Option(metavar="N", help="The least label that counts as relevant."),
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A folder that train or fit wrote.")]
Split = Annotated[str, typer.Option(help="train, validation or test.")]
Fold = Annotated[int, typer.Option(min=1, max=1000, help="The fold of the collection.")]
Seed = Annotated[
    int, typer.Option(min=0, max=2**31 - 1, help="The same seed gives the same result.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Given = Annotated[
    str | None,
    typer.Option(
        "--propensity",
        metavar="FILE|power:ETA",
        help="The propensities: a file that 'prsrank propensity --out' wrote, or (1/k)^ETA. "
        "Default: those in the log.",
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A parameter of the ranker or of the weighting, such as trees=300 or tau=0.05; "
        "may be repeated.",
    ),
]


# a session of one click, as a log in memory holds it
_BYTES_PER_CLICK = 16


def parse_values(assignments: Sequence[str] | None, option: str) -> list[tuple[str, Any]]:
    """Read every NAME=VALUE; values are JSON where they can be, else text.

    >>> parse_values(["trees=300", "missing=impute", "hidden=[8, 8]"], "--set")
    [('trees', 300), ('missing', 'impute'), ('hidden', [8, 8])]
    """
    values: list[tuple[str, Any]] = []
    for assignment in assignments or ():
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"{option} takes NAME=VALUE, not '{assignment}'")
        try:
            values.append((name, json.loads(text)))
        except RecursionError:
            raise InputError(f"{option} {name}: is nested too deep") from None
        except ValueError:  # also a number of too many digits
            values.append((name, text))
    return values


def check_room(count: int, what: str) -> None:
    """Raise an InputError if so many sessions or clicks would not fit the machine's memory."""
    need = count * _BYTES_PER_CLICK
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > there:
        raise InputError(
            f"{count:,} {what} take about {need // 10**9:,} GB of memory; "
            f"this machine has {there / 1e9:,.0f}"
        )


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    typer.echo(json.dumps(value, indent=2))


def refuse_other_files(folder: Any, ours: str) -> None:
    """Raise an InputError for a folder with things in it that are not an earlier result."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / ours).exists():
        raise InputError(f"{folder}: is a folder with other things in it")


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show what is being done while it is done, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
