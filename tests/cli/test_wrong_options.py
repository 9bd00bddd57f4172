"""Every option of every command with values that it cannot take: one line and exit code 2."""

import pytest
import typer
from typer.core import TyperOption

from prsrank.cli import COMMANDS, app, run

DATA = "synthetic:mq2007:20"
VALUES = (
    *("", " ", "-1", "0", "nan", "inf", "-inf", "1e999", "9" * 400, "abc", "1.5", "0x10", "１"),
    *("../x", "/dev/null", "\x1b[31m\x07", "é\u202e", "x" * 5000, "[" * 3000, "{}", "=", "a=b=c"),
    *("null", "--", "%s%n", "'; DROP TABLE x; --", "<script>", "a\nb", "*", "power:nan", "query:2"),
)

# what a command is given beside the option; nothing of it is there
MISSING = {
    "evaluate": "no-model --data no-data",
    "rank": "no-model --data no-data --out r.csv",
    "export": "no-model --to ranklib --out m.xml",
    "demo": "--clicks 1",
    "simulate": "no-data --clicks 100 --out log.parquet",
    "describe": "no-data",
    "convert": "no-data --out data",
    "reproduce": "no-spec --out results",
    "propensity": "no-log --method known",
    "plan experiment": "no-log --position 2 --precision 0.1",
    "plan test": "no-log --gain 0.1",
    "interleave": "no-log",
}


def options(command):
    """Return the names of a command's options that take a value; Spark would be started."""
    made = typer.main.get_command(app)
    for word in command.split():
        made = made.get_command(None, word)
    return [
        option.opts[0]
        for option in made.params
        if isinstance(option, TyperOption) and not option.is_flag
    ]


def attack(command, given, capsys, values=VALUES):
    """Try values of every option; return how often the command ran all the same, and how many."""
    taken = cases = 0
    for option in options(command):
        for value in values:
            code = run([*command.split(), *given, option, value])
            errors = capsys.readouterr().err
            told = [line for line in errors.splitlines() if "warning" not in line]
            assert code in (0, 1, 2), (option, value, errors)
            assert len(told) == (code == 2), (option, value, errors)
            assert "\x1b" not in errors
            taken, cases = taken + (code != 2), cases + 1
    return taken, cases


def refuse(command, values, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = MISSING.get(command, "no-log --out out").split()
    taken, cases = attack(command, given, capsys, values)
    assert cases >= len(values) or not options(command)
    assert taken == 0
    assert not any(tmp_path.rglob("*"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_value_that_means_nothing_is_one_line(command, capsys, tmp_path, monkeypatch):
    refuse(command, ("", "9" * 400), capsys, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_no_value_is_more_than_one_line(command, capsys, tmp_path, monkeypatch):
    refuse(command, VALUES, capsys, tmp_path, monkeypatch)


QUICK = {
    "audit": "{log}",
    "propensity": "{log} --method known",
    "split": "{log} --out parts",
    "plan experiment": "{log} --position 2 --precision 0.1 --propensity power:1",
    "plan test": "{log} --gain 0.01 --propensity power:1",
    "judge": "{log} --propensity power:1 --out j.parquet",
    "evaluate": "{model} --data {data}",
    "rank": "{model} --data {data} --out r.csv",
    "export": "{model} --to ranklib --out m.xml",
    "describe": "{data}",
    "convert": "{data} --out data",
    "simulate": "{data} --clicks 200 --out log.parquet",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    log, model = str(folder / "log.parquet"), str(folder / "model")
    assert run(["simulate", DATA, "--clicks", "500", "--out", log]) == 0
    train = ["train", log, "--data", DATA, "--propensity", "power:1", "--set", "trees=3"]
    assert run([*train, "--out", model]) == 0
    return {"log": log, "model": model, "data": DATA}


@pytest.mark.parametrize("command", ["rank", "evaluate"])
@pytest.mark.parametrize("option", ["--column a=b", "--mapping log.toml"])
def test_options_of_a_log_are_refused_beside_a_data_set(command, option, inputs, capsys, tmp_path):
    given = QUICK[command].replace("r.csv", str(tmp_path / "r.csv")).format(**inputs).split()
    assert run([*command.split(), *given, *option.split()]) == 2
    assert f"error: {option.split()[0]}" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("command", QUICK)
def test_with_inputs_that_are_there_few_values_are_taken(
    command, inputs, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    given = [part.format(**inputs) for part in QUICK[command].split()]
    assert run([*command.split(), *given]) in (0, 1)
    taken, cases = attack(command, given, capsys)
    # texts, paths and words for nothing may be anything
    assert taken < 0.5 * cases
