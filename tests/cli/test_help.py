"""Help texts: every command has an example that stands on lines of its own."""

import re
import subprocess
import sys
from inspect import getdoc

import pytest
import typer
from typer.testing import CliRunner

from prsrank.cli import COMMANDS as FIRST_LINES
from prsrank.cli import app

COMMANDS = list(FIRST_LINES)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_on_its_own_line(command):
    shown = CliRunner().invoke(app, [*command.split(), "--help"])
    assert shown.exit_code == 0
    lines = [line.strip() for line in shown.output.splitlines()]
    assert any(line.startswith("Example") and line.endswith(":") for line in lines)
    assert any(line.startswith(f"prsrank {command}") for line in lines)
    assert "\\b" not in shown.output


def test_help_of_all_names_the_commands_in_order_and_cuts_nothing():
    shown = CliRunner().invoke(app, ["--help"]).output.partition("Commands:")[2]
    listed = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", shown, re.MULTILINE)
    assert listed == COMMANDS
    assert COMMANDS[:4] == ["audit", "fit", "explore", "evaluate"]
    words = " ".join(shown.split())
    for name, line in FIRST_LINES.items():
        assert line in words
        made = typer.main.get_command(app)
        for word in name.split():
            made = made.get_command(None, word)
        assert getdoc(made.callback).partition("\n")[0] == line


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from prsrank.cli import run; run(['--help']); "
        "heavy = ('numpy', 'numba', 'lightgbm', 'duckdb', 'scipy', 'altair', 'torch'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_option_of_a_command_has_a_brace_left():
    for command in COMMANDS:
        assert (
            "{"
            not in CliRunner()
            .invoke(app, [*command.split(), "--help"])
            .output.partition("Options:")[2]
        )
