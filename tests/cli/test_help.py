"""Help texts: every command has an example that stands on lines of its own."""

import pytest
from typer.testing import CliRunner

from prsrank.cli import app

COMMANDS = [command.callback.__name__.replace("_", "-") for command in app.registered_commands]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_on_its_own_line(command):
    shown = CliRunner().invoke(app, [command, "--help"])
    assert shown.exit_code == 0
    lines = [line.strip() for line in shown.output.splitlines()]
    assert any(line.startswith("Example") and line.endswith(":") for line in lines)
    assert any(line.startswith(f"prsrank {command}") for line in lines)
    assert "\\b" not in shown.output
