"""`prsrank monitor` on the command line."""

import json

import pytest

from prsrank.cli import run

DATA = "synthetic:personal:200"


def simulated(folder, name, *more):
    log = folder / f"{name}.parquet"
    given = ["simulate", DATA, "--sessions", "1500", "--randomised", "0.2", "--out", str(log)]
    assert run([*given, *map(str, more)]) == 0
    return log


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("monitor")
    log = simulated(folder, "log", "--seed", 1)
    options = ["--data", DATA, "--trials", "1", "--trees", "30", "--weighting", "prs", "--force"]
    assert run(["fit", str(log), *options, "--out", str(folder / "run")]) == 0
    # the same production ranker: other sessions have another seed of the same draw
    simulated(folder, "steep", "--seed", 1, "--set", "eta=2")
    return folder


def test_the_same_sessions_are_fine_and_code_0(prsrank, folder, tmp_path):
    state = tmp_path / "state.json"
    given = ("monitor", folder / "run", folder / "log.parquet", "--state", state)
    code, out, err = prsrank(*given)
    assert (code, err) == (0, "")
    assert out.startswith("verdict: fine\n")
    assert f"state: {state} (windows: 1)" in out


def test_a_change_is_code_1_and_a_page(prsrank, folder, tmp_path):
    page = tmp_path / "page.html"
    given = ("--state", tmp_path / "state.json", "--html", page)
    code, out, _ = prsrank("monitor", folder / "run", folder / "steep.parquet", *given)
    assert code == 1
    assert out.startswith("verdict: retrain\n")
    assert "do: " in out
    assert "<title>Monitor</title>" in page.read_text()


def test_json_is_one_line_a_window(prsrank, folder, tmp_path):
    given = ("--state", tmp_path / "state.json", "--every", "500", "--json")
    code, out, _ = prsrank("monitor", folder / "run", folder / "log.parquet", *given)
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [one["window"] for one in lines] == ["log 1", "log 2", "log 3"]
    assert [one["sessions"] for one in lines] == [500, 500, 500]
    assert {"verdict", "reasons", "gain", "power", "shown", "clicked", "features"} <= set(lines[0])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("RUN", "none.parquet"), "none.parquet"),
        (("LOG", "LOG"), "is not a folder that fit wrote"),
        (("RUN", "RUN"), "is the folder of a fit, not a new log"),
        (("RUN", "LOG", "--every", "month"), "not 'month'"),
        (("RUN", "LOG", "--every", "day"), "no timestamps"),
        (("RUN", "LOG", "--state", "BAD"), "is not valid JSON"),
        (("RUN", "LOG", "--html", "RUN"), "is a folder"),
    ],
)
def test_bad_input_is_one_line_and_code_2(prsrank, folder, tmp_path, arguments, said):
    bad = tmp_path / "bad.json"
    bad.write_text('{"format": "prsrank moni')
    names = {"RUN": folder / "run", "LOG": folder / "log.parquet", "BAD": bad}
    given = [names.get(word, word) for word in arguments]
    if "--state" not in given:
        given += ["--state", tmp_path / "state.json"]
    code, out, err = prsrank("monitor", *given)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad.json"]
