"""The command `prsrank monitor`."""

import json as json_text
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from prsrank.cli.inputs import LogInputs, as_file, run_of
from prsrank.cli.options import Run
from prsrank.cli.output import working
from prsrank.errors import InputError
from prsrank.files import check_writable
from prsrank.files.drafts import check_target
from prsrank.monitor.monitoring import Monitoring, monitor_log, state_of, window_line
from prsrank.monitor.verdict import FINE, Window
from prsrank.monitor.windows import check_every
from prsrank.report.html import write_report
from prsrank.report.monitor_report import monitor_report
from prsrank.report.numbers import fixed_text, range_text


@dataclass(frozen=True)
class _NewLog(LogInputs):
    """A new log, and the features of its docs: what is not given is as in the fit."""

    WITHOUT = ("column", "data", "memory")

    log: Annotated[
        str,
        typer.Argument(
            metavar="NEW_LOG", help="Sessions since the fit, in any form that audit reads."
        ),
    ]

    def beside(self, run: str) -> "_NewLog":
        """Return the inputs with what is not given taken from a fit."""
        plan = run_of(run)
        if plan is None:
            raise InputError(f"{run}: is not a folder that fit wrote")
        if run_of(self.log) is not None:
            raise InputError(f"{self.log}: is the folder of a fit, not a new log")
        made = replace(self)
        # columns of a new log mean what they meant to the fit
        vars(made)["run"] = replace(plan, log=as_file(self.log))
        return made


def monitor(
    run: Run,
    inputs: _NewLog,
    every: str | None = typer.Option(
        None,
        metavar="day|week|N",
        help="Windows by day or by week (from Monday, UTC), or of N sessions. Default: one window.",
    ),
    state: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="Where reference and windows are kept. Default: RUN.monitor.json, beside RUN.",
    ),
    html: Path | None = typer.Option(
        None, metavar="FILE", help="Write a page with all windows seen so far."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON lines: one a new window."),
) -> None:
    r"""Watch a model after its launch: do new sessions still look like those it was trained on?

    Window by window: click rates, the curve, features, the gain of the model, missing impressions,
    randomised sessions, robots; and a verdict: fine, look (something is off with the data) or
    retrain (what the model was trained on is no longer so). The first call measures the log of the
    fit; from then on the state file stands for it, and a window costs one reading of its own rows.

    Exit code 0: all new windows are fine; 1: look, or retrain; 2: bad input.

    \b
    Examples:
      prsrank monitor fitted today.parquet --html monitor.html
      prsrank monitor fitted month.parquet --every day --json
      prsrank monitor fitted new.parquet --features new_features.parquet --state watch/state.json
    """
    check_every(every)
    source = inputs.beside(run)
    check_writable(state or state_of(run))
    if html is not None:
        check_target(html, folder=False)
    with working(f"measuring {inputs.log}"):
        monitoring = monitor_log(
            run,
            source.path,
            every=every,
            state=state,
            features=None if inputs.features is None else as_file(inputs.features),
            mapping=source.meaning(),
        )
    if html is not None:
        write_report(monitor_report(monitoring), html)
    for line in _json_lines(monitoring) if json else _lines(monitoring):
        typer.echo(line)
    if monitoring.verdict != FINE:
        raise typer.Exit(1)


def _json_lines(monitoring: Monitoring) -> Iterator[str]:
    return (json_text.dumps(window_line(window)) for window in monitoring.new)


def _lines(monitoring: Monitoring) -> Iterator[str]:
    yield f"verdict: {monitoring.verdict}"
    for window in monitoring.new:
        yield from _window_lines(window)
    yield ""
    yield f"compared with {monitoring.state.reference.source}"
    yield f"state: {monitoring.path} (windows: {len(monitoring.state.windows)})"


def _window_lines(window: Window) -> Iterator[str]:
    now = window.summary
    yield ""
    yield f"{now.name}: {window.verdict}"
    yield f"  {now.sessions:,} sessions of {now.queries:,} queries, {now.clicks:,} clicks"
    if now.gain is not None:
        gain = now.gain
        ends = range_text(gain.low, gain.high, "+.4f")
        yield f"  gain of the model: {fixed_text(gain.difference, '+.4f')} ({ends})"
    for reason in window.reasons:
        yield f"  {reason.verdict}: {reason.what}"
        yield f"    do: {reason.do}"
    for note in window.notes:
        yield f"  note: {note}"
