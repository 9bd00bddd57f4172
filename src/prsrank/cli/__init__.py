"""The command line: one thin file a command."""

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import Abort, TyperException

from prsrank import __version__
from prsrank.cli.endings import exit_code, prompt_endings
from prsrank.cli.options import Command, help_text, with_groups
from prsrank.cli.retired import usage_message
from prsrank.errors import InputError, escaped
from prsrank.files.drafts import scratch_of_process

COMMANDS = {
    "audit": "Look a click log over before any training: counts, problems, what to fix, worst first.",
    "fit": "Go the whole way from a click log to a ranker with an estimate of its gain.",
    "explore": "Write a page to look at queries: the logged order beside that of each ranker, and why.",
    "evaluate": "Measure a ranker on labelled lists, or on the clicks of a held-out log.",
    "rank": "Rank the docs of each list with a model.",
    "judge": "Turn clicks into judgements: how relevant each doc is to its query, whatever its position.",
    "export": "Write a model in the format of a search engine or of another library.",
    "monitor": "Watch a model after its launch: do new sessions still look like those it was trained on?",
    "propensity": "Estimate the observation propensity of each position from a click log.",
    "plan experiment": "Say how many randomised sessions a wanted precision takes, and what they cost.",
    "plan test": "Say how many sessions an online test of an expected gain takes: A/B, or interleaving.",
    "interleave": "Say which of two rankers users prefer, from the log of a team-draft interleaving test.",
    "train": "Train a ranker on the clicks of a log.",
    "sensitivity": "Show how a model's ranking and estimated gain move under other assumptions.",
    "split": "Split a click log into a part to train on and a part to judge by; no query is in both.",
    "demo": "Show the whole way from biased clicks to a verdict, on data that is built in.",
    "simulate": "Simulate a click log on the training part of a data set.",
    "describe": "Count the lists, docs, features, labels and relevant docs of a data set.",
    "convert": "Write a copy of a data set that opens at once, whatever its size.",
    "reproduce": "Run an experiment of the PRS paper, or beyond it, and judge its claim.",
}
"""The commands and the first lines of their help, in the order a person with a log needs them.

Each is the function of its name in the module of its first word, imported when it is called: a
command may import what it needs, and help on all of them is there at once.
"""
_GROUPS = {"plan": "Plan an experiment that randomises sessions, or an online test."}

_INTERRUPTED = 130
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Group(TyperGroup):
    """Commands that are listed without importing them, their first lines uncut.

    Each is made when it is asked for.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"no_args_is_help": True, "context_settings": _SETTINGS, **settings})
        self.prefix = f"{self.name} " if self.name in _GROUPS else ""
        self.lines = [
            (name.removeprefix(self.prefix), line)
            for name, line in COMMANDS.items()
            if name.startswith(self.prefix)
        ]
        # only the words are looked at, by what finds the word that a mistyped one is near
        self.commands = dict.fromkeys(name.split()[0] for name, _ in self.lines)  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a word, or None."""
        if cmd_name not in self.commands:
            return None
        name = f"{self.prefix}{cmd_name}"
        return _Group(name=name, help=_GROUPS[name]) if name in _GROUPS else _command(name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each command."""
        with formatter.section("Commands"):
            formatter.write_dl(self.lines)


def _command(name: str) -> Any:
    module, word = name.split()[0], name.split()[-1]
    command = getattr(import_module(f"prsrank.cli.{module}"), name.replace(" ", "_"))
    made = typer.Typer(add_completion=False, rich_markup_mode=None)
    made.command(word, help=help_text(command), cls=Command, context_settings=_SETTINGS)(
        with_groups(command)
    )
    return typer.main.get_command(made)


app = typer.Typer(
    name="prsrank",
    cls=_Group,
    help="Unbiased rankers from biased click logs, by Propensity Ratio Scoring.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=_SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
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
        code = int(app(args=arguments, prog_name="prsrank", standalone_mode=False) or 0)
        sys.stdout.flush()
    except (KeyboardInterrupt, Abort):
        code = _INTERRUPTED  # which is what typer returns for one, too
    except Exception as error:
        # a query that a signal interrupts fails with an error of its own
        if (ended := exit_code()) is not None:
            return ended
        usage = isinstance(error, TyperException)
        message = usage_message(error, arguments) if usage else refusal(error)
        if message is None:
            raise
        typer.echo(f"prsrank: error: {_one_line(message)}", err=True)
        return 2
    if code != _INTERRUPTED:
        return code
    if (ended := exit_code()) is not None:
        return ended
    typer.echo("prsrank: interrupted", err=True)
    return code


def refusal(error: Exception) -> str | None:
    """Return the line for an error that input, disk or memory cause; None for one of our own."""
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    if isinstance(error, RuntimeError) and str(error).startswith("nanobind::str()"):
        return "DuckDB: the name of a column is not UTF-8"
    library = type(error).__module__.partition(".")[0].lstrip("_")
    return f"{_LIBRARIES[library]}: {error}" if library in _LIBRARIES else None


_LIBRARIES = {
    "duckdb": "DuckDB",
    "lightgbm": "LightGBM",
    "safetensors": "safetensors",
    "torch": "PyTorch",
}


def _one_line(message: object) -> str:
    return escaped(" ".join(str(message).split()))


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"prsrank: warning: {_one_line(message)}", err=True)


def main() -> None:
    """Entry point of the `prsrank` command."""
    with scratch_of_process(), prompt_endings():
        code = run(sys.argv[1:])
        try:
            sys.stdout.flush()
        except OSError:  # it has been said; the interpreter would say it again
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(code)
