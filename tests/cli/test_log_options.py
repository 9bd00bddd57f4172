"""The options that describe a log on the command line, and where it is read."""

import json

import pytest
import typer
from typer.testing import CliRunner

from prsrank.cli import run
from prsrank.cli.inputs import LogInputs
from prsrank.cli.options import with_groups
from prsrank.errors import InputError
from prsrank.fit.engine import LocalEngine
from prsrank.logs.reading import read_log

app = typer.Typer()


@app.command()
@with_groups
def count(inputs: LogInputs) -> None:
    with inputs.opened(LocalEngine()) as source:
        rows = source.total("count(*)")[0]
    options = {"features": inputs.table, "memory": inputs.memory}
    clicks, data = read_log(inputs.path, mapping=inputs.meaning(), **options)
    docs = None if data is None else data.docs
    typer.echo(json.dumps({"rows": rows, "sessions": clicks.sessions, "docs": docs}))


@pytest.fixture
def files(tmp_path):
    log, table, toml = (tmp_path / name for name in ("log.csv", "table.csv", "map.toml"))
    log.write_text("q,s,doc_id,position,click\n1,1,5,0,1\n1,1,6,1,0\n")
    table.write_text("query_id,doc_id,x\n1,5,0.5\n1,6,1\n1,7,2\n")
    toml.write_text('positions_from = 0\n[columns]\nquery_id = "wrong"\nsession_id = "s"\n')
    return log, table, toml


def test_options_reach_the_log(files):
    log, table, toml = map(str, files)
    options = [log, "--mapping", toml, "--column", "query_id=q", "--memory", "300MB"]
    result = CliRunner().invoke(app, options)
    assert json.loads(result.stdout) == {"rows": 2, "sessions": 1, "docs": None}
    result = CliRunner().invoke(app, [*options, "--features", table])
    assert json.loads(result.stdout)["docs"] == 3


@pytest.mark.parametrize(
    "wrong", [["--column", "q"], ["--memory", "lots"], ["--mapping", "gone.toml"]]
)
def test_wrong_options_are_input_errors(files, wrong):
    log, _, toml = map(str, files)
    result = CliRunner().invoke(app, [log, "--mapping", toml, "--column", "query_id=q", *wrong])
    assert isinstance(result.exception, InputError)


ROWS = "1,1,5,1,0\n1,1,6,2,1\n1,2,5,1,1\n1,2,6,2,0\n"


@pytest.mark.parametrize(
    ("words", "master"),
    [
        (["LOG", "--spark"], None),
        (["--spark", "LOG"], None),
        (["LOG", "--spark", "--json"], None),
        (["LOG", "--spark", "--master", "local[2]"], "local[2]"),
        (["--master", "spark://host:7077", "--spark", "LOG"], "spark://host:7077"),
    ],
)
def test_spark_with_and_without_a_master(tmp_path, monkeypatch, capsys, words, master):
    log = tmp_path / "log.csv"
    log.write_text("query_id,session_id,doc_id,position,click\n" + ROWS)
    asked = []

    def spark_engine(*, master):
        asked.append(master)
        return LocalEngine()

    monkeypatch.setattr("prsrank.spark.SparkEngine", spark_engine)
    assert run(["audit", *(str(log) if word == "LOG" else word for word in words)]) == 0
    assert asked == [master]
    assert "few-clicks" in capsys.readouterr().out


def test_a_master_without_spark_is_refused(capsys):
    assert run(["audit", "log.csv", "--master", "yarn"]) == 2
    assert "--master is of --spark: give both" in capsys.readouterr().err
