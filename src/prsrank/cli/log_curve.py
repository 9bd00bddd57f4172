"""The curve that a log gives to a command: given, logged, or estimated as `fit` would."""

from typing import Annotated

import typer

from prsrank.cli.arguments import working
from prsrank.cli.log_inputs import LogOptions
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve_of import LogCurve
from prsrank.propensity.curve_of import curve_of as curve_of_clicks

PlanCurve = Annotated[
    str | None,
    typer.Option(
        "--propensity",
        metavar="FILE|power:ETA",
        help="The propensities as far as known. Default: those in the log, else the best estimate "
        "that it allows.",
    ),
]


def curve_of(log: LogOptions, clicks: ClickLog, given: str | None) -> LogCurve:
    """Return the curve of the sessions of a named log; see `prsrank.propensity.curve_of`."""
    with working("estimating propensities"):
        try:
            return curve_of_clicks(clicks, given)
        except InputError as error:
            raise error if given is not None else InputError(f"{log.path}: {error}") from None
