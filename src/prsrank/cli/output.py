"""What commands show: how far they are, on stderr and mostly to terminals only; and results."""

import json as json_text
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from prsrank.errors import InputError

if TYPE_CHECKING:
    from prsrank.experiment.runner import Progress

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
def shown_steps(total: int | None) -> Iterator[Callable[[int, float | None], object] | None]:
    """Show trees or epochs and the validation value as they come, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import TextColumn

    with _bars(TextColumn("{task.fields[value]}")) as bar:
        task = bar.add_task("training", total=total, value="")

        def tell(step: int, value: float | None) -> None:
            bar.update(task, completed=step, value="" if value is None else f"{value:.4f}")

        yield tell


@contextmanager
def shown_progress() -> "Iterator[Progress]":
    """Show how far the work is: a bar on a terminal, else a line now and then."""
    if not sys.stderr.isatty():
        yield ProgressLines()
        return
    from rich.progress import MofNCompleteColumn, TimeElapsedColumn

    with _bars(MofNCompleteColumn(), TimeElapsedColumn()) as bars:
        tasks: dict[str, Any] = {}

        def tell(work: str, done: int, total: int) -> None:
            if work not in tasks:
                tasks[work] = bars.add_task(work, total=total)
            bars.update(tasks[work], completed=done)

        yield tell


def _bars(*columns: Any) -> Any:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*Progress.get_default_columns(), *columns, console=Console(stderr=True))


class ProgressLines:
    """Tells the progress in plain lines, with the time left."""

    def __init__(self) -> None:
        self.work, self.first, self.started, self.last = "", 0, 0.0, 0.0

    def __call__(self, work: str, done: int, total: int) -> None:
        """Say it, if it is time to."""
        now = time.monotonic()
        if work != self.work:
            self.work, self.first, self.started, self.last = work, done, now, now
            return
        if done < total and now - self.last < _SECONDS_BETWEEN_LINES:
            return
        self.last = now
        left = (now - self.started) / max(done - self.first, 1) * (total - done)
        typer.echo(f"{work}: {done:,} of {total:,}, about {left:,.0f} s left", err=True)
