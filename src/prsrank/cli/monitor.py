"""The command `prsrank monitor`."""

import json as json_text
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from prsrank.cli.inputs import LogInputs
from prsrank.cli.options import Run, working
from prsrank.errors import InputError
from prsrank.files import check_writable
from prsrank.files.drafts import check_target
from prsrank.monitor.checks import FINE, Window
from prsrank.monitor.monitoring import Monitoring, monitor_log, state_of, window_line
from prsrank.monitor.windows import check_every
from prsrank.report.html import write_report
from prsrank.report.monitor_report import monitor_report
from prsrank.report.numbers import fixed_text, range_text


@dataclass(frozen=True)
class _NewLog(LogInputs):
    WITHOUT = ("column", "data", "memory")

    log: Annotated[
        str,
        typer.Argument(
            metavar="NEW_LOG", help="Sessions since the fit, in any form that audit reads."
        ),
    ]


def monitor(
    run: Run,
    inputs: _NewLog,
    every: str | None = None,
    state: Path | None = None,
    html: Path | None = None,
    json: bool = False,
) -> None:
    r"""Watch a model after its launch: do new sessions still look like those it was trained on?

    Window by window: clicks, the curve, features, the gain of the model, missing impressions,
    randomised sessions, robots; and a verdict: fine, look (something is off with the data) or
    retrain (what the model was trained on is no longer so). The first call measures the log of the
    fit; from then on the state file stands for it, and a window costs one reading of its own rows.

    Exit code 0: all new windows are fine; 1: look, or retrain; 2: bad input.

    Args:
        every (day|week|N): Windows by day or by week (from Monday, UTC), or of N sessions. Default:
            one window.
        state (FILE): Where reference and windows are kept. Default: RUN.monitor.json, beside RUN.
        html (FILE): Write a page with all windows seen so far.
        json: Print JSON lines: one a new window.

    \b
    Examples:
      prsrank monitor fitted today.parquet --html monitor.html
      prsrank monitor fitted month.parquet --every day --json
      prsrank monitor fitted new.parquet --features new_features.parquet --state watch/state.json
    """
    check_every(every)
    if inputs.run is not None:
        raise InputError(f"{inputs.log}: is the folder of a fit, not a new log")
    check_writable(state or state_of(run))
    if html is not None:
        check_target(html, folder=False)
    with working(f"measuring {inputs.log}"):
        monitoring = monitor_log(
            run,
            inputs.path,
            every=every,
            state=state,
            features=None if inputs.features is None else inputs.table,
            mapping=None if inputs.mapping is None else inputs.meaning(),
        )
    if html is not None:
        write_report(monitor_report(monitoring), html)
    windows = (json_text.dumps(window_line(window)) for window in monitoring.new)
    for line in windows if json else _lines(monitoring):
        typer.echo(line)
    if monitoring.verdict != FINE:
        raise typer.Exit(1)


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
