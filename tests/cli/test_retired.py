"""Old spellings: one line that names the new one, and exit code 2, before any work."""

import pytest
import typer

from prsrank.cli import COMMANDS, app, run


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("plan-experiment log --position 3", "'plan-experiment' is now 'plan experiment'"),
        ("plan-test log --gain 0.1", "'plan-test' is now 'plan test'"),
        (
            "audit log --null NA",
            '--null is no more: write nulls = ["WORD"] in the file of --ma',
        ),
        (
            "audit log --null=NA",
            '--null is no more: write nulls = ["WORD"] in the file of --ma',
        ),
        ("fit log --lists session", '--lists is no more: write lists = "session" in the file'),
        ("audit log --spark local[2]", "--spark takes no value: write --spark --master URL"),
        ("audit log --spark=yarn", "--spark takes no value: write --spark --master URL"),
        ("train log --fold 2", "--fold is no more: write DATA@N for fold N of DATA"),
        (
            "propensity log --method known --eta 2",
            "--eta is no more: with simulate, write --set eta=VALUE; with propensity, write --method",
        ),
        ("simulate data --eta 2", "--eta is no more: with simulate, write --set eta=VALUE"),
    ],
)
def test_an_old_spelling_names_the_new_one(words, line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(words.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"prsrank: error: {line}")
    assert captured.err.count("\n") == 1
    assert not any(tmp_path.iterdir())


def commands():
    """Yield each command."""
    root = typer.main.get_command(app)
    for name in COMMANDS:
        command = root
        for word in name.split():
            command = command.get_command(None, word)
        yield command


def test_there_are_at_most_150_options():
    count = 0
    for command in commands():
        options = [option for option in command.params if option.param_type_name == "option"]
        count += sum("--help" not in option.opts for option in options)
    assert count <= 150
