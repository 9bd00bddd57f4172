"""How far long work is, said on stderr."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from prsrank.experiment.runner import Progress

_SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show how far the work is: a bar on a terminal, else a line now and then."""
    if not sys.stderr.isatty():
        yield ProgressLines()
        return
    from rich import progress
    from rich.console import Console

    columns = (
        *progress.Progress.get_default_columns(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, int] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)  # type: ignore[arg-type]

        yield tell


class ProgressLines:
    """Tells the progress in plain lines, with the time left."""

    def __init__(self) -> None:
        self.what, self.first, self.started, self.told = "", 0, 0.0, 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say it, if it is time to."""
        now = time.monotonic()
        if what != self.what:
            self.what, self.first, self.started, self.told = what, done, now, now
            return
        if done < total and now - self.told < _SECONDS_BETWEEN_LINES:
            return
        self.told = now
        left = (now - self.started) / max(done - self.first, 1) * (total - done)
        typer.echo(f"{what}: {done:,} of {total:,}, about {left:,.0f} s left", err=True)
