"""`prsrank explore` on the command line."""

import re
import shutil
import sys
from pathlib import Path

import duckdb
import pytest

from prsrank.cli import run

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from explorer_pages import unpacked

DATA = "synthetic:mq2007:60"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    plain, log = folder / "plain.parquet", folder / "log.parquet"
    assert run(["simulate", DATA, "--clicks", "1500", "--out", str(plain)]) == 0
    with duckdb.connect() as connection:
        titled = f"SELECT *, 'Doc ' || doc_id AS title, 'q' || query_id AS words FROM '{plain}'"  # noqa: S608
        connection.sql(titled).write_parquet(str(log))
    fit = ["fit", str(log), "--data", DATA, "--propensity", "power:1", "--ranker", "linear"]
    quick = ["--weighting", "prs", "--trials", "1", "--force", "--out", str(folder / "run")]
    assert run([*fit, *quick]) == 0
    return folder


def meta_of(page):
    return unpacked(re.search(r'id="explored">([^<]*)<', page.read_text())[1])[0]


def test_a_run_becomes_one_page(prsrank, fitted, tmp_path):
    page = tmp_path / "explore.html"
    given = ("explore", fitted / "run", "--queries", "12", "--show", "title,words", "--out", page)
    code, told, err = prsrank(*given)
    assert (code, err) == (0, "")
    assert re.search(r"explore.html: 12 of \d\d queries, [\d.]+ MB", told)
    meta = meta_of(page)
    assert [name for name, _ in meta["rankers"]] == ["model", "prs", "ips", "naive"]
    assert meta["rankers"][0][1] == "the model (prs, all sessions)"
    assert (len(meta["queries"]), sum(meta["picked"])) == (12, 12)
    assert meta["docColumns"]["title"] == [f"Doc {doc}" for doc in meta["docs"]]
    assert meta["queryColumns"]["words"] == [f"q{query}" for query in meta["queries"]]
    assert meta["source"] == "log.parquet"
    assert 0 < len(meta["heldOut"]) < 12
    assert meta["curve"] == "those of the fit"


def test_another_log_and_a_fit_without_a_model(prsrank, fitted, tmp_path):
    thin, page = tmp_path / "thin", tmp_path / "explore.html"
    shutil.copytree(fitted / "run", thin)
    shutil.rmtree(thin / "model")
    code, _, err = prsrank("explore", thin, "--log", fitted / "plain.parquet", "--out", page)
    assert (code, err) == (0, "")
    meta = meta_of(page)
    assert [name for name, _ in meta["rankers"]] == ["prs", "ips", "naive"]
    assert meta["picked"] is None
    assert not meta["anyHeldOut"]
    assert "another log" in meta["note"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("log.parquet",), "is not a folder that fit wrote"),
        (("run", "--show", "titel"), "no column 'titel'; did you mean 'title'"),
        (("run", "--log", "gone.parquet"), "gone.parquet"),
    ],
)
def test_bad_input_is_one_line_and_code_2(prsrank, fitted, tmp_path, arguments, said):
    folder, *rest = arguments
    code, out, err = prsrank("explore", fitted / folder, *rest, "--out", tmp_path / "out.html")
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
