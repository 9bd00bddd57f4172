import json
import subprocess
import sys

import duckdb
import numpy as np
import pytest

from prsrank import read_click_log
from prsrank.cli import run
from prsrank.data.collections import load_dataset
from prsrank.propensity.tempering import Tempering

DATA = "synthetic:mq2007:60:3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipeline")
    log = folder / "log.parquet"
    base = ["simulate", DATA, "--clicks", "4000", "--randomised", "0.3", "--seed", "1"]
    assert run([*base, "--out", str(log)]) == 0
    assert run([*base, "--out", str(folder / "compact")]) == 0
    assert (
        run(["propensity", str(log), "--method", "randomised", "--out", str(folder / "p.json")])
        == 0
    )
    train = ["train", str(log), "--data", DATA, "--propensity", str(folder / "p.json")]
    assert run([*train, "--set", "trees=20", "--out", str(folder / "model")]) == 0
    return folder


def test_both_forms_hold_the_same_log(folder):
    events, compact = read_click_log(folder / "log.parquet"), read_click_log(folder / "compact")
    assert events.equals(compact)
    assert len(events.clicks) >= 4000
    shown = duckdb.read_parquet(str(folder / "log.parquet"))
    assert shown.columns[:5] == ["query_id", "session_id", "doc_id", "position", "click"]


def test_simulation_leaves_out_the_production_rankers_own_lists(folder):
    train = load_dataset(DATA, "train")
    log = read_click_log(folder / "log.parquet")
    assert set(log.query_ids.tolist()) < set(train.query_ids.tolist())


def test_simulation_is_the_same_for_a_seed(prsrank, tmp_path, folder):
    options = ["simulate", DATA, "--clicks", 4000, "--randomised", 0.3]
    prsrank(*options, "--seed", 1, "--out", tmp_path / "same.parquet")
    prsrank(*options, "--seed", 2, "--out", tmp_path / "other.parquet")
    first = read_click_log(folder / "log.parquet")
    assert first.equals(read_click_log(tmp_path / "same.parquet"))
    assert not first.equals(read_click_log(tmp_path / "other.parquet"))


@pytest.mark.parametrize("model", ["position-based", "cascade", "trust"])
def test_every_click_model_and_several_rankers(prsrank, tmp_path, model):
    out = tmp_path / "log"
    code, text, _ = prsrank(
        "simulate",
        DATA,
        "--sessions",
        200,
        "--click-model",
        model,
        "--production",
        "linear:3",
        "--out",
        out,
    )
    assert code == 0
    assert "200 sessions" in text
    log = read_click_log(out)
    assert np.bincount(log.ranking_query).max() > 1


def test_propensity_json_has_just_the_documented_keys(prsrank, folder):
    code, out, _ = prsrank("propensity", folder / "log.parquet", "--method", "randomised", "--json")
    assert code == 0
    result = json.loads(out)
    models = ["click_model", "click_models"]
    assert list(result) == ["propensity", "low", "high", "clicks", "verdict", *models]
    assert result["propensity"][0] == 1
    assert result["propensity"] == json.loads((folder / "p.json").read_text())["propensity"]


def test_a_curve_is_checked_by_the_clicks_where_there_are_features(prsrank, folder):
    known = ("propensity", folder / "log.parquet", "--method", "power:2")
    code, out, _ = prsrank(*known, "--data", DATA, "--json")
    assert code == 0
    check = json.loads(out)["check"]
    assert {"power", "low", "high", "followed", "sentence"} <= set(check)
    docs = load_dataset(DATA)
    columns = {"query_id": np.repeat(docs.query_ids, docs.list_lengths), "doc_id": docs.doc_names}
    columns |= {f"f{i}": docs.features[:, i] for i in range(docs.features.shape[1])}
    with duckdb.connect() as connection:
        connection.register("docs", columns)
        connection.sql("SELECT * FROM docs").write_parquet(str(folder / "features.parquet"))
    _, out, _ = prsrank(*known, "--features", folder / "features.parquet")
    assert f"power:2: {check['sentence']}" in out.splitlines()


def test_a_weak_estimate_that_the_clicks_are_far_from_is_not_identified(
    prsrank, folder, tmp_path, monkeypatch
):
    far = Tempering(0.06, 0.05, 0.07, True, 0.3, (0, np.inf), 1.0, np.ones(1), np.ones(1))
    monkeypatch.setattr("prsrank.propensity.tempering.temper_sampled", lambda *_: far)
    out = tmp_path / "p.json"
    options = ("--method", "harvest-chain", "--data", DATA, "--out", out)
    code, text, _ = prsrank("propensity", folder / "log.parquet", *options)
    assert code == 1
    assert text.splitlines()[0] == f"harvest-chain: not identified: {far.sentence}"
    assert not out.exists()


@pytest.mark.parametrize("suffix", ["html", "png", "svg"])
def test_propensity_plot_of_several_methods(prsrank, folder, tmp_path, suffix):
    plot = tmp_path / f"curves.{suffix}"
    code, out, _ = prsrank(
        "propensity",
        folder / "log.parquet",
        *("--method", "randomised", "--method", "known", "--plot", plot),
    )
    assert code == 0
    assert "randomised: " in out
    assert "known: " in out
    assert plot.stat().st_size > 1000
    if suffix == "svg":
        assert "known" in plot.read_text()


def test_plan_experiment(prsrank, folder):
    options = ["plan", "experiment", folder / "log.parquet", "--position", 4]
    code, out, _ = prsrank(*options, "--precision", 0.1, "--json")
    assert code == 0
    wide = json.loads(prsrank(*options, "--precision", 0.2, "--json")[1])
    assert json.loads(out)["sessions"] == pytest.approx(4 * wide["sessions"], rel=0.01)
    assert "sessions of the design pivot" in prsrank(*options, "--design", "pivot")[1]


def test_evaluate_json_has_just_the_documented_keys(prsrank, folder):
    code, out, _ = prsrank("evaluate", folder / "model", "--data", DATA, "--json")
    assert code == 0
    result = json.loads(out)
    assert list(result) == ["ndcg@5", "ndcg@10", "map", "arp", "mrr", "lists", "skipped"]
    assert result["lists"] + result["skipped"] == 12
    assert 0.3 < result["ndcg@10"] <= 1
    assert prsrank("evaluate", folder / "model", "--data", DATA, "--split", "validation")[0] == 0
    other = prsrank("evaluate", folder / "model", "--data", f"{DATA}@3", "--json")
    assert other[0] == 0
    assert json.loads(other[1]) != result


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_rank_writes_each_list_best_first(prsrank, folder, tmp_path, suffix):
    out = tmp_path / f"ranking.{suffix}"
    assert prsrank("rank", folder / "model", "--data", DATA, "--out", out)[0] == 0
    rows = (duckdb.read_csv if suffix == "csv" else duckdb.read_parquet)(str(out)).fetchnumpy()
    test = load_dataset(DATA, "test")
    assert list(rows) == ["query_id", "doc_id", "rank", "score"]
    assert len(rows["rank"]) == test.docs
    for query, start, end in zip(test.query_ids, test.offsets, test.offsets[1:], strict=False):
        of_list = rows["query_id"][start:end]
        assert (of_list == query).all()
        assert (np.diff(rows["score"][start:end]) <= 0).all()
        assert rows["rank"][start:end].tolist() == list(range(1, end - start + 1))
        assert sorted(rows["doc_id"][start:end]) == list(range(end - start))


def test_train_records_what_it_was_made_from(folder):
    card = json.loads((folder / "model" / "ranker.json").read_text())
    about = card["about"]
    assert about["weighting"] == "prs"
    assert about["propensity"]["propensity"][0] == 1
    assert about["data"] == DATA
    assert "lightgbm" in card["versions"]


def test_train_writes_a_report_into_the_model(prsrank, folder, tmp_path):
    page = (folder / "model" / "report.html").read_text()
    for part in ("Propensities", "Weights of the pairs", "Most important features", DATA):
        assert part in page
    options = ["train", folder / "compact", "--data", DATA, "--ranker", "linear"]
    options += ["--propensity", "power:1", "--out", tmp_path / "model"]
    assert prsrank(*options)[::2] == (0, "")
    assert "Most important features" in (tmp_path / "model" / "report.html").read_text()


@pytest.mark.parametrize("weighting", ["naive", "ips", "pns", "labels"])
def test_train_linear_with_every_weighting(prsrank, folder, tmp_path, weighting):
    code, _, err = prsrank(
        *("train", folder / "compact", "--data", DATA, "--ranker", "linear"),
        *("--weighting", weighting, "--propensity", "power:1", "--out", tmp_path / "model"),
    )
    assert (code, err) == (0, "")


def test_train_unbiased_lambdamart_learns_its_own_propensities(prsrank, folder, tmp_path):
    options = ["train", folder / "compact", "--data", DATA, "--ranker", "unbiased_lambdamart"]
    options += ["--set", "trees=10", "--out", tmp_path / "model"]
    assert prsrank(*options)[0] == 0
    assert prsrank("evaluate", tmp_path / "model", "--data", DATA)[0] == 0
    code, _, err = prsrank(*options, "--propensity", "power:1")
    assert code == 2
    assert "learns its propensities" in err


@pytest.mark.parametrize(
    ("ranker", "more"),
    [
        ("svm", ()),
        ("dnn", ("--set", "hidden=[8]", "--set", "epochs=3")),
        ("dla", ("--set", "epochs=3")),
    ],
)
def test_train_the_other_rankers(prsrank, folder, tmp_path, ranker, more):
    options = ["train", folder / "compact", "--data", DATA, "--ranker", ranker, *more]
    options += [] if ranker == "dla" else ["--propensity", "power:1"]
    options += ["--stop-on", "clicks" if ranker == "dnn" else "labels", "--out", tmp_path / "model"]
    assert prsrank(*options)[::2] == (0, "")
    assert prsrank("evaluate", tmp_path / "model", "--data", DATA)[0] == 0


def test_without_the_extra_one_line_says_what_to_install(folder, tmp_path):
    arguments = ["train", str(folder / "compact"), "--data", DATA, "--ranker", "dnn"]
    arguments += ["--propensity", "power:1", "--out", str(tmp_path / "model")]
    # not found, as where it is not installed: scipy looks into sys.modules for it
    code = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        "from prsrank.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert (
        done.stderr
        == "prsrank: error: the neural rankers need PyTorch: pip install 'prsrank[dnn]'\n"
    )


@pytest.mark.neural
@pytest.mark.parametrize(
    ("device", "message"), [("cuda", "no CUDA GPU"), ("tpu", "no device 'tpu'")]
)
def test_a_device_that_is_not_there(prsrank, folder, tmp_path, monkeypatch, device, message):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, err = prsrank(
        *(
            "train",
            folder / "compact",
            "--data",
            DATA,
            "--ranker",
            "dnn",
            "--set",
            f"device={device}",
        ),
        *("--propensity", "power:1", "--out", tmp_path / "model"),
    )
    assert code == 2
    assert message in err


def test_train_stops_on_held_out_clicks(prsrank, folder, tmp_path):
    code, _, err = prsrank(
        *("train", folder / "log.parquet", "--data", DATA, "--propensity", "power:1"),
        *("--set", "trees=10", "--stop-on", "clicks", "--out", tmp_path / "model"),
    )
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", DATA, "--out", "OUT"], "either --clicks or --sessions"),
        (["simulate", DATA, "--clicks", "10", "--set", "mu=0.7", "--out", "OUT"], "mu"),
        (
            ["simulate", DATA, "--clicks", "10", "--click-model", "psychic", "--out", "OUT"],
            "psychic",
        ),
        (["simulate", DATA, "--clicks", "10", "--randomised", "2", "--out", "OUT"], "randomised"),
        (["simulate", f"{DATA}@9", "--clicks", "10", "--out", "OUT"], "folds 1 to 5"),
        (["propensity", "LOG", "--method", "guess"], "guess"),
        (["propensity", "LOG", "--method", "known", "--plot", "OUT.gif"], ".html"),
        (["propensity", "nowhere", "--method", "known"], "nowhere"),
        (["plan", "experiment", "LOG", "--position", "5", "--design", "dice"], "dice"),
        (["train", "LOG", "--data", DATA, "--out", "OUT"], "needs propensities"),
        (["train", "LOG", "--data", DATA, "--propensity", "power:x", "--out", "OUT"], "power:x"),
        (["train", "LOG", "--data", DATA, "--ranker", "forest", "--out", "OUT"], "forest"),
        (["train", "LOG", "--data", DATA, "--weighting", "prz", "--out", "OUT"], "prz"),
        (["train", "LOG", "--data", DATA, "--stop-on", "luck", "--out", "OUT"], "luck"),
        (["train", "LOG", "--data", DATA, "--set", "trees", "--out", "OUT"], "NAME=VALUE"),
        (["train", "LOG", "--data", DATA, "--set", "branches=3", "--out", "OUT"], "'branches'"),
        (
            [
                "train",
                "LOG",
                "--data",
                DATA,
                "--weighting",
                "naive",
                "--set",
                "gamma=2",
                "--out",
                "OUT",
            ],
            "gamma",
        ),
        (
            [
                "train",
                "LOG",
                "--data",
                "synthetic:mq2007:15",
                "--weighting",
                "naive",
                "--out",
                "OUT",
            ],
            "in the log but not in the data set",
        ),
        (
            ["train", "LOG", "--data", DATA, "--propensity", "ZERO", "--out", "OUT"],
            "propensity is 0",
        ),
        (["evaluate", "nowhere", "--data", DATA], "not a saved ranker"),
        (["evaluate", "MODEL", "--data", "synthetic:web10k:10"], "46 columns"),
        (["rank", "MODEL", "--data", DATA, "--out", "OUT.doc"], ".parquet or .csv"),
    ],
)
def test_bad_input_is_one_line_code_2_and_leaves_nothing(
    prsrank, folder, tmp_path, arguments, message
):
    zero = tmp_path / "zero.json"
    curve = [1.0] + [0.0] * 199
    zero.write_text(
        json.dumps(
            {
                "propensity": curve,
                "low": curve,
                "high": curve,
                "clicks": [1] * 200,
                "verdict": "identified",
            }
        )
    )
    places = {"LOG": folder / "log.parquet", "MODEL": folder / "model", "ZERO": zero}
    filled = [
        str(tmp_path / a.replace("OUT", "out")) if a.startswith("OUT") else places.get(a, a)
        for a in arguments
    ]
    code, out, err = prsrank(*filled)
    assert code == 2
    assert out == ""
    assert err.startswith("prsrank: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert [p.name for p in tmp_path.iterdir()] == ["zero.json"]
