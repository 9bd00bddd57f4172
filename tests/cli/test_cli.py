import json

import pytest

from prsrank import __version__
from prsrank.data.collections import load_dataset
from prsrank.fit.verdict import TITLES
from prsrank.metrics.ranking import average, metric
from prsrank.rankers.base import load_ranker


def test_version_and_help(prsrank):
    assert prsrank("--version") == (0, f"prsrank {__version__}\n", "")
    code, out, _ = prsrank("--help")
    assert code == 0
    for command in ("demo", "describe", "convert"):
        assert command in out
        code, out_of_command, _ = prsrank(command, "--help")
        assert code == 0
        assert f"prsrank {command}" in out_of_command.split("Example")[1]


def test_describe(prsrank, tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("2 qid:1 1:1\n0 qid:1 3:1\n")
    code, out, err = prsrank("describe", path, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "collection": "x.txt",
        "lists": 1,
        "docs": 2,
        "features": 3,
        "labels": {"0": 1, "2": 1},
        "relevant_from": None,
        "relevant_share": None,
        "list_length": {"min": 2, "median": 2.0, "max": 2},
    }
    code, out, _ = prsrank("describe", path)
    assert "lists" in out
    assert "50.0%" in out
    assert "relevant: not known for these labels ('prsrank convert --relevant-from N'" in out
    prsrank("convert", path, "--relevant-from", "2", "--out", tmp_path / "judged")
    code, out, _ = prsrank("describe", tmp_path / "judged")
    assert "relevant: label 2 or more, 50.0% of the docs" in out


def test_convert(prsrank, tmp_path):
    code, out, err = prsrank("convert", "synthetic:mq2007:10", "--out", tmp_path / "copy")
    assert (code, err) == (0, "")
    assert "10 lists" in out
    before = prsrank("describe", "synthetic:mq2007:10", "--json")
    assert prsrank("describe", tmp_path / "copy", "--json") == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "nowhere"], "nowhere: no such file or folder"),
        (["describe", "synthetic:web11k:10"], "web10k"),
        (["describe", "--colour", "x"], "No such option"),
        (["describe"], "Missing argument"),
        (["unknown"], "No such command"),
        (["convert", "synthetic:mq2007:10"], "Missing option"),
    ],
)
def test_bad_input_is_one_line_and_code_2(prsrank, arguments, message):
    code, out, err = prsrank(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("prsrank: error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_broken_file_leaves_nothing_behind(prsrank, tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("2 qid:1 1:1\n0 qid:1 1:oops\n")
    code, _, err = prsrank("convert", path, "--out", tmp_path / "copy")
    assert code == 2
    assert f"{path}:2:11" in err
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def test_demo_tells_the_whole_story(prsrank, tmp_path, monkeypatch):
    monkeypatch.setattr("prsrank.cli.demo._TRIALS", 1)
    monkeypatch.setattr("prsrank.cli.demo._TREES", 10)
    monkeypatch.setattr("prsrank.cli.demo._DATA", "synthetic:mq2007:60")
    code, out, err = prsrank("demo", "--clicks", 3000, "--out", tmp_path / "demo")
    assert (code, err) == (0, "")
    table = json.loads((tmp_path / "demo" / "results.json").read_text())
    assert {"production", "naive", "ips", "prs", "posterior", "full information"} < set(table)
    for title, values in table.items():
        assert title in out
        assert 0 < values["ndcg@10"] <= 1
    assert table["production"]["gain"] == 0
    fitted = tmp_path / "demo" / "fitted"
    manifest = json.loads((fitted / "manifest.json").read_text())
    assert TITLES[manifest["chosen"]["verdict"]] in out
    assert "Next: prsrank " in out
    assert out.rstrip().endswith(f"look at: {fitted / 'report.html'}, {fitted / 'explore.html'}")
    assert "Look at the queries" in (fitted / "report.html").read_text()
    # what is shown of a ranker is that ranker's: its scores of lists that nobody clicked
    test = load_dataset("synthetic:mq2007:60", "test")
    scores = load_ranker(fitted / "judged" / "naive").score(test.features)
    values = metric("ndcg@10")(test.relevance, scores, test.offsets)
    assert table["naive"]["ndcg@10"] == pytest.approx(average(values).mean)


def test_a_column_whose_name_is_not_utf_8_is_one_line(prsrank, tmp_path):
    log = tmp_path / "log.parquet"
    assert prsrank("simulate", "synthetic:mq2007:20", "--clicks", 50, "--out", log)[0] == 0
    log.write_bytes(log.read_bytes().replace(b"position", b"\xff\xfe\xfdition"))
    code, _, errors = prsrank("audit", log)
    assert code == 2
    assert errors.count("\n") == 1
