"""The command line: one thin file a command."""

import sys
import warnings
from collections.abc import Sequence
from inspect import getdoc

import typer
from typer.exceptions import Abort, TyperException

from prsrank.cli.audit import audit
from prsrank.cli.convert import convert
from prsrank.cli.demo import demo
from prsrank.cli.describe import describe
from prsrank.cli.evaluate import evaluate
from prsrank.cli.export import export
from prsrank.cli.fit import fit
from prsrank.cli.log_options import with_spark_value
from prsrank.cli.option_groups import Command, with_groups
from prsrank.cli.plan_experiment import plan_experiment
from prsrank.cli.propensity import propensity
from prsrank.cli.rank import rank
from prsrank.cli.reproduce import reproduce
from prsrank.cli.sensitivity import sensitivity
from prsrank.cli.simulate import simulate
from prsrank.cli.split import split
from prsrank.cli.train import train
from prsrank.errors import InputError

app = typer.Typer(
    name="prsrank",
    help="Unbiased rankers from biased click logs, by Propensity Ratio Scoring.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
# in the order in which a person with a log needs them
for command in (
    audit,
    fit,
    evaluate,
    rank,
    export,
    propensity,
    plan_experiment,
    train,
    sensitivity,
    split,
    demo,
    simulate,
    describe,
    convert,
    reproduce,
):
    # raw docstrings spell the mark that keeps an example's lines as they are with two characters
    text = (getdoc(command) or "").replace("\\b\n", "\b\n")
    # the first line as it is: typer would cut it off
    add = app.command(help=text, short_help=text.partition("\n")[0], cls=Command)
    add(with_groups(command))


def _version(wanted: bool) -> None:
    if wanted:
        from prsrank import __version__

        typer.echo(f"prsrank {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Unbiased rankers from biased click logs, by Propensity Ratio Scoring.

    A data set DATA is a file, a collection's folder, or synthetic:SHAPE:LISTS[:SEED].
    """


def run(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code: 0, or 2 for bad input."""
    warnings.showwarning = _show_warning
    try:
        code = app(args=with_spark_value(arguments), prog_name="prsrank", standalone_mode=False)
    except (InputError, TyperException) as error:
        message = error.format_message() if isinstance(error, TyperException) else str(error)
        return _fail(message)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}")
    except (KeyboardInterrupt, Abort):
        typer.echo("prsrank: interrupted", err=True)
        return 130
    return int(code or 0)


def _fail(message: str) -> int:
    typer.echo(f"prsrank: error: {' '.join(message.split())}", err=True)
    return 2


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"prsrank: warning: {' '.join(str(message).split())}", err=True)


def main() -> None:
    """Entry point of the `prsrank` command."""
    sys.exit(run(sys.argv[1:]))
