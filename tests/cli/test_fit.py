"""`prsrank fit` on the command line."""

import json

import pytest
import typer

from prsrank.cli import app, run
from prsrank.rankers.base import load_ranker

DATA = "synthetic:mq2007:60"
QUICK = ("--trials", "1", "--trees", "10")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "log.parquet"
    base = ["simulate", DATA, "--clicks", "1500", "--randomised", "0.3"]
    assert run([*base, "--out", str(log)]) == 0
    return log


def test_fit_repeat_and_export(prsrank, log, tmp_path):
    code, out, err = prsrank("fit", log, "--data", DATA, *QUICK, "--out", tmp_path / "fitted")
    assert code == 0, err
    for words in ("audit: ", "held out: ", "propensities: randomised", "PRS against", "written: "):
        assert words in out
    manifest = tmp_path / "fitted" / "manifest.json"
    code, out, _ = prsrank("fit", "--from", manifest, "--out", tmp_path / "again", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["differs"] == []
    assert {one["ranker"] for one in found["evaluation"]["estimates"]} == {
        *("logged", "prs", "ips", "naive"),
    }
    model = tmp_path / "model.txt"
    assert prsrank("export", tmp_path / "fitted", "--to", "lightgbm", "--out", model)[0] == 0
    assert load_ranker(tmp_path / "again" / "model").about_["weighting"] == "prs"


def test_propensities_by_the_chain_form_of_harvesting(prsrank, log, tmp_path):
    fit = ("fit", log, "--data", DATA, *QUICK, "--propensity", "harvest-chain")
    code, out, err = prsrank(*fit, "--out", tmp_path / "fitted")
    assert code == 0, err
    assert "propensities: harvest-chain" in out


def test_the_held_out_part_can_be_evaluated_again(prsrank, log, tmp_path):
    fitted = tmp_path / "fitted"
    assert prsrank("fit", log, "--data", DATA, *QUICK, "--out", fitted)[0] == 0
    code, out, _ = prsrank(
        *("evaluate", fitted / "model", "--data", fitted / "held_out" / "lists", "--json"),
        *("--log", fitted / "held_out" / "log.parquet", "--propensity", fitted / "propensity.json"),
    )
    assert code == 0
    values = {
        tuple(e[k] for k in ("part", "metric", "estimator", "ranker")): e["value"]
        for e in json.loads((fitted / "evaluation.json").read_text())["estimates"]
    }
    for one in json.loads(out)["estimates"]:
        name = "prs" if one["ranker"] == "model" else "logged"
        key = (one["part"], one["metric"], one["estimator"], name)
        assert one["value"] == pytest.approx(values[key])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--data", DATA), "give a LOG to fit"),
        (("LOG",), "no features"),
        (("LOG", "--data", DATA, "--holdout", "none"), "does not say what to hold out"),
        (("LOG", "--data", DATA, "--ranker", "dla"), "weighted pairs, which dla is not"),
        (("nowhere.parquet", "--data", DATA), "nowhere.parquet"),
        (("--from", "nowhere.json"), "nowhere.json: no such file"),
        (("LOG", "--data", "synthetic:mq2007:60", "--propensity", "p.json"), "p.json"),
        (("--from", "LOG", "--seed", "3"), "--seed: with --from"),
        (("--from", "LOG"), "is not valid JSON"),
        (("LOG", "--data", DATA, "--weighting", "labels"), "labels needs labels"),
        (("LOG", "--data", DATA, "--relevant-from", "nan"), "must be a label"),
        (("--from", "LOG", "--relevant-from", "2"), "--relevant-from: with --from"),
    ],
)
def test_bad_input_is_one_line_and_code_2(prsrank, log, tmp_path, arguments, said):
    given = [log if one == "LOG" else one for one in arguments]
    code, out, err = prsrank("fit", *given, "--out", tmp_path / "out")
    assert code == 2
    assert said in err
    assert len(err.splitlines()) == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_the_help_has_an_example():
    command = typer.main.get_command(app).commands["fit"]
    assert "prsrank fit log.parquet" in command.help
