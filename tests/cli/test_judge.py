"""`prsrank judge` on the command line."""

import json

import duckdb
import numpy as np
import pytest

from prsrank.cli import judge as prsrank_judge
from prsrank.cli import run

DATA = "synthetic:mq2007:60"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "log.parquet"
    assert (
        run(["simulate", DATA, "--clicks", "1500", "--randomised", "0.3", "--out", str(log)]) == 0
    )
    return log


@pytest.mark.parametrize("features", [(), ("--data", DATA)])
def test_judgements_are_written_and_counted(prsrank, log, tmp_path, features):
    out = tmp_path / "ratings.csv"
    code, told, err = prsrank("judge", log, *features, "--to", "quepid", "--out", out, "--json")
    assert code == 0, err
    found = json.loads(told)
    assert len(out.read_text().splitlines()) == found["judgements"] + 1
    assert sum(found["docs_by_rating"]) == found["judgements"]
    assert found["curve"].startswith("randomised")
    assert found["click_model"].startswith("click model: ")


def test_features_have_a_say_where_they_are_given(prsrank, log, tmp_path):
    given = ("judge", log, "--propensity", "power:1", "--out")
    for name, more in (("plain", ()), ("featured", ("--data", DATA))):
        assert prsrank(*given, tmp_path / f"{name}.parquet", *more)[0] == 0
    plain, featured = (
        np.sort(duckdb.read_parquet(str(tmp_path / f"{name}.parquet")).fetchnumpy()["theta"])
        for name in ("plain", "featured")
    )
    assert not np.allclose(plain, featured, rtol=0.01)


def test_docs_that_were_hardly_seen_are_left_out(prsrank, log, tmp_path, monkeypatch):
    counts = []
    for least in (0, 1, 5):
        monkeypatch.setattr(prsrank_judge, "_EVIDENCE", least)
        given = ("judge", log, "--out", tmp_path / "j.parquet", "--json")
        told = json.loads(prsrank(*given)[1])
        counts.append((told["judgements"], told["judgements"] + told["left_out"]))
    assert counts[0][0] > counts[1][0] > counts[2][0]
    assert len({total for _, total in counts}) == 1


def test_a_curve_without_evidence_is_said_to_be_a_guess(prsrank, log, tmp_path):
    thin, out = tmp_path / "thin.parquet", tmp_path / "j.parquet"
    run(["simulate", DATA, "--clicks", "60", "--randomised", "0.3", "--out", str(thin)])
    code, told, _ = prsrank("judge", thin, "--out", out)
    assert code == 0
    assert [line for line in told.splitlines() if line.startswith("notice: the log tells next to")]
    assert json.loads(prsrank("judge", thin, "--out", out, "--json")[1])["notice"]
    for known in ((log,), (thin, "--propensity", "power:1")):
        code, told, _ = prsrank("judge", *known, "--out", out)
        assert (code, "notice" in told) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "quepit"), "did you mean 'quepid'"),
        (("--grades", "a,b"), "--grades takes numbers"),
        (("--grades", "0.5,0.2"), "must rise"),
    ],
)
def test_bad_input_is_one_line_and_code_2(prsrank, log, tmp_path, arguments, said):
    code, out, err = prsrank("judge", log, *arguments, "--out", tmp_path / "out.parquet")
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
