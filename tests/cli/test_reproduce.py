"""The command `prsrank reproduce`."""

import json

import pytest

from prsrank.cli.options import shown_progress

SMALL = ("--set", "folds=1", "--set", "runs=2", "--set", "points=4000,8000", "--smoke")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduce") / "fig3"


def test_reproduce_writes_a_report_and_says_its_verdict(prsrank, out):
    code, text, _ = prsrank(
        "reproduce", "fig3", "--data", "synthetic:mq2007:40", "--out", out, *SMALL
    )
    assert code == 0
    warning, verdict, *_ = text.splitlines()
    assert "mean nothing" in warning
    assert verdict.startswith("fig3: ")
    assert (out / "report.html").exists()
    assert (out / "results.parquet").exists()
    assert (out / "figures" / "fig3-ndcg-10.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_with_results_needs_resume(prsrank, out):
    command = ("reproduce", "fig3", "--data", "synthetic:mq2007:40", "--out", out, *SMALL)
    code, _, error = prsrank(*command)
    assert code == 2
    assert "--resume" in error
    code, text, _ = prsrank(*command, "--resume", "--json")
    assert code == 0
    result = json.loads(text)
    assert result["verdicts"][0]["section"] == "fig3"
    assert result["report"].endswith("report.html")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fig9", "--data", "synthetic:mq2007:40"), "did you mean 'fig"),
        (("fig3", "--data", "synthetic:mq2070:40"), "did you mean 'mq2007'"),
        (("fig3", "--data", "nowhere"), "no such file or folder"),
        (("none.toml", "--data", "synthetic:mq2007:40"), "no such file"),
        (("fig3", "--data", "synthetic:mq2007:40", "--set", "points=x"), "points must be numbers"),
        (
            ("fig3", "--data", "synthetic:mq2007:40", "--set", "relevant_from=NaN"),
            "must be a finite number",
        ),
        (("fig3", "--data", "synthetic:mq2007:40", "--set", "tune_on=test"), "tune_on must be"),
        (("fig3", "--data", "synthetic:mq2007:40", "--set", "runs=0"), "runs must be from 1 to"),
        (("fig3", "--data", "synthetic:mq2007:40", "--set", "run=3"), "did you mean 'runs'"),
    ],
)
def test_bad_input_is_one_clear_line(prsrank, tmp_path, arguments, message):
    code, _, error = prsrank("reproduce", *arguments, "--out", tmp_path / "out")
    assert code == 2
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_progress_in_lines_ends_with_nothing_left(capsys):
    with shown_progress() as tell:
        for done in range(4):
            tell("measuring", done, 3)
    assert "measuring: 3 of 3, about 0 s left" in capsys.readouterr().err
