"""A disk that is full at any byte of any output: one line, exit code 2, the old output whole."""

import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

DATA = "synthetic:mq2007:30"


@contextmanager
def file_limit(size: int):
    """Let no file grow past a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    from prsrank.cli import run

    folder = tmp_path_factory.mktemp("inputs")
    log, model = str(folder / "log.parquet"), str(folder / "model")
    assert (
        run(["simulate", DATA, "--clicks", "3000", "--production", "linear:2", "--out", log]) == 0
    )
    train = ["train", log, "--data", DATA, "--propensity", "power:1", "--set", "trees=5"]
    assert run([*train, "--out", model]) == 0
    return {"log": log, "model": model}


COMMANDS = {
    "simulate": ("log.parquet", "simulate {data} --clicks 3000"),
    "compact": ("log", "simulate {data} --clicks 3000"),
    "convert": ("data", "convert {data}"),
    "train": ("model", "train {log} --data {data} --propensity power:1 --set trees=5"),
    "linear": ("model", "train {log} --data {data} --propensity power:1 --ranker linear"),
    "rank": ("r.parquet", "rank {model} --data {data}"),
    "rank csv": ("r.csv", "rank {model} --data {data}"),
    "propensity": ("curve.json", "propensity {log} --method harvest"),
    "export": ("model.xml", "export {model} --to ranklib"),
    "split": ("parts", "split {log}"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_one_line_and_nothing_lost_or_left(name, inputs, prsrank, tmp_path):
    file, command = COMMANDS[name]
    arguments = [part.format(data=DATA, **inputs) for part in command.split()]
    target = tmp_path / file
    assert prsrank(*arguments, "--out", target)[0] == 0
    before = _contents(target)
    for size in (0, 10, 300, 1000):
        with file_limit(size):
            code, _, errors = prsrank(*arguments, "--out", target)
        assert (code, errors.count("\n")) == (2, 1), errors
        assert str(target) in errors
        assert "File too large" in errors or "requested and" in errors  # NumPy's words
        assert _contents(target) == before
        assert os.listdir(tmp_path) == [file]


def _contents(path: Path) -> dict[str, bytes]:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {str(file): file.read_bytes() for file in files if file.is_file()}


def test_a_report_that_cannot_be_written_leaves_the_old_model(
    inputs, prsrank, tmp_path, monkeypatch
):
    shutil.copytree(inputs["model"], tmp_path / "model")
    before = _contents(tmp_path / "model")

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("prsrank.cli.train.write_report", fails)
    train = ["train", inputs["log"], "--data", DATA, "--propensity", "power:1", "--set", "trees=3"]
    code, _, errors = prsrank(*train, "--out", tmp_path / "model")
    assert code == 2
    assert "No space left" in errors
    assert _contents(tmp_path / "model") == before


def test_full_standard_output_is_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from prsrank.cli import main; main()", "describe", DATA], stdout=full, stderr=-1, text=True
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "prsrank: error: No space left on device\n"


def test_outputs_are_no_devices_and_no_links(inputs, prsrank, tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "other")
    for target, message in (("/dev/null", "is a device"), (tmp_path / "link.json", "is a link")):
        code, _, errors = prsrank("export", inputs["model"], "--to", "ranklib", "--out", target)
        assert code == 2
        assert message in errors
    assert not (tmp_path / "other").exists()


def test_escape_characters_are_shown_not_obeyed(prsrank):
    code, _, errors = prsrank("audit", "no\x1b[31msuch\x07.parquet")
    assert code == 2
    assert "no\\x1b[31msuch\\x07.parquet: no " in errors
