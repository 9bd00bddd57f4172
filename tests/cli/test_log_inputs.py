"""The same inputs for every command: a log, a table of features, a mapping; or a fit's folder."""

import json

import duckdb
import numpy as np
import pytest

from prsrank import read_click_log
from prsrank.cli import run
from prsrank.data.collections import open_collection
from prsrank.rankers.base import load_ranker

DATA = "synthetic:mq2007:60:3"
LINEAR = ("--ranker", "linear")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log with columns of its own, a table of features, a mapping, and a fit of them."""
    folder = tmp_path_factory.mktemp("inputs")
    simulated = folder / "simulated.parquet"
    base = ("simulate", DATA, "--clicks", "4000", "--randomised", "0.3", "--seed", "1")
    assert run([*base, "--out", str(simulated)]) == 0
    docs = open_collection(DATA).everything()
    table = {"search": np.repeat(docs.query_ids, docs.list_lengths), "item": docs.doc_names}
    table |= {f"f{i}": docs.features[:, i] for i in range(5)}
    with duckdb.connect() as connection:
        connection.register("docs", table)
        connection.sql("SELECT * FROM docs").write_parquet(str(folder / "table.parquet"))
        connection.sql("SELECT * EXCLUDE (f0), f0 FROM docs").write_csv(str(folder / "new.csv"))
        connection.read_parquet(str(simulated)).project(
            "query_id AS search, session_id AS visit, doc_id AS item, position AS slot, click, "
            "randomised"
        ).write_parquet(str(folder / "log.parquet"))
    (folder / "log.toml").write_text(
        '[columns]\nquery_id = "search"\nsession_id = "visit"\ndoc_id = "item"\nposition = "slot"\n'
    )
    fit = ["fit", *inputs(folder), *LINEAR, "--trials", "1", "--out", folder / "fitted"]
    assert run([str(word) for word in fit]) == 0
    return folder


def inputs(folder):
    return (
        *(folder / "log.parquet", "--mapping", folder / "log.toml"),
        *("--features", folder / "table.parquet"),
    )


def ranked(file):
    read = duckdb.read_csv if file.suffix == ".csv" else duckdb.read_parquet
    rows = read(str(file)).fetchnumpy()
    assert list(rows) == ["query_id", "doc_id", "rank", "score"]
    return rows


def scores(folder, model):
    """The scores of all docs of the data set, by (query, doc), as the library computes them."""
    docs = open_collection(DATA).everything()
    keys = zip(np.repeat(docs.query_ids, docs.list_lengths), docs.doc_names, strict=True)
    values = load_ranker(model).score(docs.features[:, :5])
    return dict(zip(((int(q), int(d)) for q, d in keys), values.tolist(), strict=True))


def test_train_and_rank_by_a_table(prsrank, folder, tmp_path):
    model = tmp_path / "model"
    train = ("train", *inputs(folder), "--propensity", "power:1")
    assert prsrank(*train, "--set", "trees=5", "--out", model)[::2] == (0, "")
    about = load_ranker(model).about_
    assert (about["stop_on"], about["data"]) == ("clicks", str(folder / "table.parquet"))
    columns = ("--column", "query_id=search", "--column", "doc_id=item")
    for name in ("ranking.csv", "ranking.parquet"):
        # the columns of new.csv are in another order: features are found by name
        rank = ("rank", model, "--features", folder / "new.csv", *columns)
        assert prsrank(*rank, "--out", tmp_path / name)[::2] == (0, "")
        rows, known = ranked(tmp_path / name), scores(folder, model)
        keys = zip(rows["query_id"].tolist(), rows["doc_id"].tolist(), strict=True)
        assert [known[key] for key in keys] == pytest.approx(rows["score"].tolist())
        assert len(rows["rank"]) == len(known)


def test_rank_of_a_fit_needs_no_mapping(prsrank, folder, tmp_path):
    fitted = folder / "fitted"
    rank = ("rank", fitted, "--features", folder / "new.csv", "--out", tmp_path / "new.csv")
    assert prsrank(*rank)[::2] == (0, "")
    known = scores(folder, fitted)
    rows = ranked(tmp_path / "new.csv")
    assert len(rows["score"]) == len(known)
    assert rows["score"].tolist() == pytest.approx(
        [
            known[q, d]
            for q, d in zip(rows["query_id"].tolist(), rows["doc_id"].tolist(), strict=True)
        ]
    )
    assert prsrank("rank", fitted, "--out", tmp_path / "own.parquet")[0] == 0
    shown = duckdb.read_parquet(str(folder / "log.parquet")).aggregate("count(DISTINCT search)")
    assert len(set(ranked(tmp_path / "own.parquet")["query_id"])) == shown.fetchall()[0][0]


def test_a_log_can_be_ranked_by_its_own_table(prsrank, folder, tmp_path):
    log, *rest = inputs(folder)
    rank = ("rank", folder / "fitted" / "model", "--log", log, *rest)
    assert prsrank(*rank, "--out", tmp_path / "of_log.parquet")[0] == 0
    prsrank("rank", folder / "fitted", "--out", tmp_path / "of_fit.parquet")
    one, two = (ranked(tmp_path / f"of_{name}.parquet") for name in ("log", "fit"))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def chosen(folder):
    """The method that the fit ships."""
    manifest = json.loads((folder / "fitted" / "manifest.json").read_text())
    return manifest["chosen"]["model"]["name"]


def test_evaluate_a_fit_is_to_judge_it_by_what_it_held_out(prsrank, folder):
    code, out, _ = prsrank("evaluate", folder / "fitted", "--json")
    assert code == 0
    fitted = json.loads((folder / "fitted" / "evaluation.json").read_text())["estimates"]
    known = {(e["part"], e["metric"], e["estimator"], e["ranker"]): e["value"] for e in fitted}
    for one in json.loads(out)["estimates"]:
        name = "logged" if one["ranker"] == "logged" else chosen(folder)
        key = (one["part"], one["metric"], one["estimator"], name)
        assert one["value"] == pytest.approx(known[key])


def test_evaluate_on_a_log_with_a_table(prsrank, folder):
    log, *rest = inputs(folder)
    given = ("evaluate", folder / "fitted" / "model", "--log", log, *rest, "--propensity")
    code, out, _ = prsrank(*given, folder / "fitted" / "propensity.json", "--json")
    assert code == 0
    # the same log, of which the fit says what its columns mean and where the features are
    again = prsrank("evaluate", folder / "fitted", "--log", log, "--json")
    assert again[0] == 0
    assert json.loads(again[1])["estimates"][0]["value"] == json.loads(out)["estimates"][0]["value"]


def test_sensitivity_of_a_fit_judges_its_model_on_what_it_held_out(prsrank, folder, tmp_path):
    quick = ("--try", "eta=0.5", "--try", "noise=0.1", "--try", "trust=0.2", "--try", "gamma=2")
    study = ("sensitivity", folder / "fitted", *quick, "--json", "--out", tmp_path / "study")
    code, out, err = prsrank(*study)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert not any("trained on" in warning for warning in found["warnings"])
    fitted = json.loads((folder / "fitted" / "evaluation.json").read_text())["estimates"]
    base = next(p for p in found["points"] if p["is_base"])
    (known,) = (
        e["value"]
        for e in fitted
        if (e["part"], e["metric"], e["estimator"], e["ranker"])
        == ("all", "dcg@10", "ips", chosen(folder))
    )
    assert base["value_of_model"]["value"] == pytest.approx(known)
    table = ("sensitivity", *inputs(folder), "--propensity", "power:1", *quick)
    assert prsrank(*table, "--out", tmp_path / "other")[0] == 0


@pytest.mark.parametrize(
    "command",
    [
        ("audit",),
        ("propensity", "--method", "randomised"),
        ("plan experiment", "--position", "3", "--propensity", "power:1"),
        ("split", "--out", "OUT"),
    ],
)
def test_a_fit_stands_for_its_log_and_mapping(prsrank, folder, tmp_path, command):
    name, *options = (tmp_path / "out" if word == "OUT" else word for word in command)
    log, *rest = inputs(folder)
    given = rest if name in ("audit", "propensity") else rest[:2]
    expected = prsrank(*name.split(), log, *given, *options, "--json")
    assert expected[0] in (0, 1)
    assert prsrank(*name.split(), folder / "fitted", *options, "--json") == expected


def test_train_of_a_fit(prsrank, folder, tmp_path):
    train = (
        "train",
        folder / "fitted",
        *LINEAR,
        "--propensity",
        "power:1",
        "--out",
        tmp_path / "m",
    )
    assert prsrank(*train)[::2] == (0, "")
    model = load_ranker(tmp_path / "m")
    assert model.feature_names_ == ("f0", "f1", "f2", "f3", "f4")
    clicks = len(read_click_log(folder / "simulated.parquet").clicks)
    assert f"{clicks:,} clicks" in prsrank(*train)[1]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("rank", "FITTED", "--data", "TABLE", "--out", "OUT.csv"), "table.parquet: is a table"),
        (("rank", "MODEL", "--out", "OUT.csv"), "no features: give --data DATA, --features TABLE"),
        (("rank", "MODEL", "--features", "LOG", "--out", "OUT.csv"), "no column 'query_id'"),
        (
            ("rank", "FITTED", "--features", "LOG", "--out", "OUT.csv"),
            "log.parquet: has no column 'f0' (feature)",
        ),
        (("train", "SIMULATED", "--propensity", "power:1", "--out", "OUT"), "no features: give"),
        (
            ("train", "FITTED", "--propensity", "power:1", "--stop-on", "labels", "--out", "OUT"),
            "takes a data set with labels",
        ),
        (
            ("train", "SIMULATED", "--data", DATA, "--features", "TABLE", "--out", "OUT"),
            "a data set (--data) or a table, not both",
        ),
        (("sensitivity", "SIMULATED", "--propensity", "power:1", "--out", "OUT"), "no features"),
        (("evaluate", "MODEL"), "give a data set with labels (--data), or a held-out log (--log)"),
    ],
)
def test_what_is_missing_is_said(prsrank, folder, tmp_path, command, said):
    paths = {
        "FITTED": folder / "fitted",
        "MODEL": folder / "fitted" / "model",
        "TABLE": folder / "table.parquet",
        "LOG": folder / "log.parquet",
        "SIMULATED": folder / "simulated.parquet",
        "OUT": tmp_path / "out",
        "OUT.csv": tmp_path / "out.csv",
    }
    code, _, err = prsrank(*(paths.get(word, word) for word in command))
    assert code == 2
    assert said in err
