"""What commands show: how far they are, on stderr and mostly to terminals only; and results."""

import json as json_text
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from prsrank.errors import InputError

_SECONDS_BETWEEN_LINES = 30.0


def show(lines: Iterable[str], value: Any, *, json: bool) -> None:
    """Print a result in lines, or its value as JSON."""
    for line in [json_text.dumps(value, indent=2)] if json else lines:
        typer.echo(line)


def refuse_other_files(folder: Path, *ours: str) -> None:
    """Raise an InputError if a folder to write, which is replaced, holds files that are not ours."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: exists and is not a folder")
    if folder.is_dir() and {path.name for path in folder.iterdir()} - set(ours):
        raise InputError(f"{folder}: is a folder with other things in it")


@contextmanager
def working(message: str) -> Iterator[Callable[[str], object]]:
    """Show what is being done while it is done, on a terminal only; it may change meanwhile."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(message) as status:
        yield status.update


@contextmanager
def shown_progress() -> "Iterator[Progress]":
    """Show how far long work is: on a terminal as it goes on, else in a line now and then."""
    with working("starting") as tell:
        if sys.stderr.isatty():
            yield Progress(tell, seconds=0.0)
        else:
            yield Progress(lambda line: typer.echo(line, err=True), seconds=_SECONDS_BETWEEN_LINES)


class Progress:
    """Tells the progress in lines, with the time left, so many seconds apart."""

    def __init__(self, tell: Callable[[str], object], *, seconds: float) -> None:
        self.tell, self.seconds = tell, seconds
        self.work, self.first, self.started, self.last = "", 0, 0.0, 0.0

    def __call__(self, work: str, done: int, total: int) -> None:
        """Say it, if it is time to."""
        now = time.monotonic()
        if work != self.work:
            self.work, self.first, self.started, self.last = work, done, now, now
            return
        if done < total and now - self.last < self.seconds:
            return
        self.last = now
        left = (now - self.started) / max(done - self.first, 1) * (total - done)
        self.tell(f"{work}: {done:,} of {total:,}, about {left:,.0f} s left")
