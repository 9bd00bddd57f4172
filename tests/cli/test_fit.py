"""`prsrank fit` on the command line."""

import json

import duckdb
import pytest
import typer

from prsrank import fit_log
from prsrank.cli import app, run
from prsrank.rankers.base import load_ranker

DATA = "synthetic:mq2007:60"
QUICK = ("--trials", "1", "--trees", "10", "--weighting", "prs")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "log.parquet"
    base = ["simulate", DATA, "--clicks", "1500", "--randomised", "0.3"]
    assert run([*base, "--out", str(log)]) == 0
    return log


def test_fit_repeat_and_export(prsrank, log, tmp_path):
    quick = ("--trials", "1", "--trees", "10")
    code, out, err = prsrank("fit", log, "--data", DATA, *quick, "--out", tmp_path / "fitted")
    assert code == 0, err
    for words in ("audit: ", "held out: ", "propensities: randomised", "Next: ", "written: "):
        assert words in out
    manifest = tmp_path / "fitted" / "manifest.json"
    code, out, _ = prsrank("fit", "--from", manifest, "--out", tmp_path / "again", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["differs"] == []
    assert {one["ranker"] for one in found["evaluation"]["estimates"]} == {
        *("logged", "posterior", "prs", "ips", "naive", "lightgbm_position"),
    }
    assert found["verdict"] in ("test-online", "no-difference")
    assert found["model"]["name"] in found["rankers"]
    model = tmp_path / "model.txt"
    assert prsrank("export", tmp_path / "fitted", "--to", "lightgbm", "--out", model)[0] == 0
    about = load_ranker(tmp_path / "again" / "model").about_
    assert about["weighting"] == found["model"]["name"]


def test_a_thin_log_is_refused_and_can_be_forced(prsrank, tmp_path):
    log, out = tmp_path / "thin.parquet", tmp_path / "thin"
    simulate = ("simulate", DATA, "--clicks", "80", "--randomised", "0.5", "--out", log)
    assert prsrank(*simulate)[0] == 0
    fit = ("fit", log, "--data", DATA, *QUICK, "--propensity", "power:1", "--out", out)
    code, told, _ = prsrank(*fit)
    assert code == 1
    assert told.startswith("Too thin: don't ship: ")
    assert "no model is written: --force" in told
    assert not (out / "model").exists()
    assert (out / "report.html").exists()
    assert "wrote no model" in prsrank("export", out, "--to", "lightgbm", "--out", "x")[2]
    code, told, _ = prsrank(*fit, "--force", "--json")
    assert code == 0
    assert json.loads(told)["verdict"] == "too-thin"
    assert json.loads(told)["forced"]
    assert (out / "model" / "ranker.json").exists()


def test_constant_features_are_refused(prsrank, log, tmp_path):
    table = tmp_path / "features.parquet"
    with duckdb.connect() as connection:
        connection.sql(
            f"SELECT DISTINCT query_id, doc_id, query_id % 7 AS x FROM '{log}'"  # noqa: S608
        ).write_parquet(str(table))
    out = tmp_path / "out"
    code, told, err = prsrank("fit", log, "--features", table, *QUICK, "--out", out, "--json")
    assert code == 1, err
    assert json.loads(told)["rule"] == "constant-scores"


def test_a_model_that_reverses_the_order_is_refused(prsrank, tmp_path):
    """Clicks as on a flat curve, taken for those of a steep one."""
    log, data = tmp_path / "log.parquet", "synthetic:mq2007:120"
    assert prsrank("simulate", data, "--clicks", 3000, "--set", "eta=0", "--out", log)[0] == 0
    quick = {"trials": 1, "trees": 10, "weighting": "prs", "temper": False}
    result = fit_log(log, data=data, propensity="power:3", out=tmp_path / "out", **quick)
    assert result.verdict.rule == "reversed-order"
    assert "reverses the order" in result.verdict.reason
    assert not result.verdict.ships


def test_propensities_by_the_chain_form_of_harvesting(prsrank, log, tmp_path):
    fit = ("fit", log, "--data", DATA, *QUICK, "--propensity", "harvest-chain")
    code, out, err = prsrank(*fit, "--out", tmp_path / "fitted")
    assert code == 0, err
    assert "propensities: harvest-chain" in out


def test_the_held_out_part_can_be_evaluated_again(prsrank, log, tmp_path):
    fitted = tmp_path / "fitted"
    assert prsrank("fit", log, "--data", DATA, *QUICK, "--out", fitted)[0] == 0
    code, out, _ = prsrank(
        *("evaluate", fitted / "judged" / "prs", "--data", fitted / "held_out" / "lists", "--json"),
        *("--log", fitted / "held_out" / "log.parquet", "--propensity", fitted / "propensity.json"),
    )
    assert code == 0
    values = {
        tuple(e[k] for k in ("part", "metric", "estimator", "ranker")): e["value"]
        for e in json.loads((fitted / "evaluation.json").read_text())["estimates"]
    }
    for one in json.loads(out)["estimates"]:
        name = one["ranker"]
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
        (("--from", "LOG"), "is not valid UTF-8"),
        (("LOG", "--data", DATA, "--weighting", "labels"), "labels needs labels"),
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
    command = typer.main.get_command(app).get_command(None, "fit")
    assert "prsrank fit log.parquet" in command.help
