"""What `prsrank propensity` prints, writes and returns."""

import json

import duckdb
import numpy as np
import pytest

from prsrank.clicks.models import CLICK_MODELS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log of two rankings of 30 queries on two devices, and one that shows each doc once."""
    folder = tmp_path_factory.mktemp("propensity")
    # the doc at position k of ranking 0 is k, of ranking 1 it is 4 - k; clicks at rate 1 / 2k
    rows = (
        "SELECT q AS query_id, q * 1000 + s AS session_id, k AS position, "
        "if(s % 2 = 0, k, 4 - k) AS doc_id, hash(q, s, k) % (2 * k) = 0 AS click, "
        "if(s % 3 = 0, 'phone', 'desk') AS device "
        "FROM range(30) a(q), range(90) b(s), range(1, 4) c(k)"
    )
    with duckdb.connect() as connection:
        connection.sql(rows).write_parquet(str(folder / "log.parquet"))
        connection.sql(f"SELECT * FROM ({rows}) WHERE session_id % 2 = 0").write_parquet(  # noqa: S608
            str(folder / "plain.parquet")
        )
    return folder


def test_not_identified_is_one_sentence_and_exit_code_1(prsrank, folder, tmp_path):
    out, plot = tmp_path / "p.json", tmp_path / "p.svg"
    options = ("propensity", folder / "plain.parquet", "--method", "harvest")
    code, text, _ = prsrank(*options, "--out", out, "--plot", plot)
    assert code == 1
    assert text.splitlines() == [
        "harvest: not identified: every doc was only ever shown at one position; "
        "log sessions of a second ranker or randomise a share"
    ]
    assert not out.exists()
    assert not plot.exists()
    code, text, _ = prsrank(*options, "--json")
    assert code == 1
    assert json.loads(text)["propensity"] == [1, None, None]


def test_the_first_method_decides(prsrank, folder):
    methods = ("--method", "known", "--method", "harvest")
    code, text, _ = prsrank("propensity", folder / "plain.parquet", *methods)
    assert code == 0
    assert "nan" not in text
    assert "harvest: not identified" in text
    assert text.startswith("click model: position-based")


def test_the_printed_curve_begins_at_position_1(prsrank, folder):
    _, text, _ = prsrank("propensity", folder / "log.parquet", "--method", "power:1")
    rows = [line.split()[:2] for line in text.splitlines()[3:6]]
    assert [(int(position), float(p)) for position, p in rows] == [
        (1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3, abs=0.001))
    ]  # fmt: skip


@pytest.mark.parametrize("features", [(), ("--data", "synthetic:mq2007:60")])
def test_click_models_are_compared_and_drawn(prsrank, tmp_path, features):
    log, plot = tmp_path / "log.parquet", tmp_path / "p.html"
    told = ("simulate", "synthetic:mq2007:60", "--clicks", 1500, "--click-model", "user-browsing")
    assert prsrank(*told, "--set", "near=0.9", "--out", log)[0] == 0
    given = ("propensity", log, *features, "--method", "power:1", "--plot", plot)
    code, text, _ = prsrank(*given)
    assert code == 0
    assert text.startswith("click model: ")
    found = json.loads(prsrank(*given, "--json")[1])
    rows = {row["click_model"]: row for row in found["click_models"]}
    assert text.startswith(found["click_model"])
    assert set(rows) == set(CLICK_MODELS) - {"trust"}
    best = max(rows.values(), key=lambda row: row["log_likelihood"])
    assert best["click_model"] == "user-browsing"
    assert best["perplexity"] == pytest.approx(np.exp(-best["log_likelihood"]))
    assert text.splitlines()[-5].startswith("user-browsing ")
    assert "user-browsing" in plot.read_text()


def test_every_curve_of_a_context_is_printed_and_drawn(prsrank, folder, tmp_path):
    plot = tmp_path / "p.svg"
    options = ("propensity", folder / "log.parquet", "--method", "harvest", "--context", "device")
    code, text, _ = prsrank(*options, "--plot", plot)
    assert code == 0
    heads = [line for line in text.splitlines()[1:] if not line.startswith(" ") and ":" in line]
    assert [head.split(":")[0] for head in heads] == [
        "harvest", "harvest, device desk", "harvest, device phone",
    ]  # fmt: skip
    curves = json.loads(prsrank(*options, "--json")[1])["contexts"]
    for curve in curves.values():
        assert curve["propensity"][1] is None
        assert f"{curve['propensity'][2]:10.4f}" in text
    assert "nan" not in text
    drawn = plot.read_text()
    assert "device phone" in drawn
    assert "device desk" in drawn
