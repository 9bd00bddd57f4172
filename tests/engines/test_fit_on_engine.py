"""fit, train, propensity and audit with --engine spark on the command line."""

import json

import numpy as np
import pytest

from prsrank.cli import run
from prsrank.data.collections import load_dataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.engines import find_engine
from prsrank.engines.spark_session import find_java
from prsrank.errors import InputError
from prsrank.fit.on_engine import fit_on_engine
from prsrank.ingest.mapping import LogMapping
from prsrank.propensity.curve import Propensities
from prsrank.rankers.base import load_ranker

FEATURES = ("f1", "f2", "f3")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log with features as columns, a fifth of it in random order."""
    import pandas as pd

    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.data.click_log_files import write_events

    folder = tmp_path_factory.mktemp("log")
    data = synthetic_dataset("personal", 120)
    rng = np.random.default_rng(0)
    shown = data.relevance * 0.5 + rng.normal(size=data.docs)
    clicks = simulate_clicks(
        data, shown, PositionBasedModel(eta=1, mu=0.1), clicks=4000, randomised=0.2
    )
    write_events(clicks, folder / "plain.parquet")
    events = pd.read_parquet(folder / "plain.parquet")
    values = np.round(data.relevance[:, None] + rng.normal(size=(data.docs, 3)), 1)
    lists = np.repeat(np.arange(data.lists), data.list_lengths)
    rows = np.arange(data.docs) - data.offsets[lists]
    table = pd.DataFrame(values, columns=list(FEATURES))
    table["query_id"], table["doc_id"] = data.query_ids[lists], rows
    events.merge(table, on=["query_id", "doc_id"]).to_parquet(folder / "log.parquet")
    return folder / "log.parquet"


def test_on_the_local_engine(log, tmp_path):
    with find_engine("local") as engine:
        result = fit_on_engine(
            engine, log, out=tmp_path / "run", mapping=LogMapping(features=FEATURES), trees=10
        )
    assert 4000 <= result.counts["clicks"] < 4020  # the last session may have several
    assert set(result.values) == {"prs", "ips", "naive"}
    assert all(0 < value < 10 for value in result.values.values())
    assert result.curve.method == "randomised"
    model = load_ranker(tmp_path / "run")
    assert model.feature_names_ == FEATURES
    assert load_ranker(tmp_path / "run" / "others" / "naive").about_["weighting"] == "naive"
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


def test_what_is_refused(log, tmp_path):
    with find_engine("local") as engine:
        with pytest.raises(InputError, match="columns of the log"):
            fit_on_engine(engine, log, out=tmp_path / "a", mapping=LogMapping())
        with pytest.raises(InputError, match="not 'svm'"):
            fit_on_engine(
                engine, log, out=tmp_path / "a", mapping=LogMapping(features=FEATURES), ranker="svm"
            )
        with pytest.raises(InputError, match="no fit on an engine"):
            fit_on_engine(engine, log, out=tmp_path, mapping=LogMapping(features=FEATURES))
    assert not list(tmp_path.iterdir())
    arguments = ["--trials", "3", "--engine", "spark", "--out", str(tmp_path / "a")]
    assert run(["fit", str(log), *arguments]) == 2
    assert run(["audit", str(log), "--engine", "flink"]) == 2
    assert run(["audit", str(log), "--master", "local[2]"]) == 2


@pytest.mark.spark
def test_the_commands_on_spark(log, tmp_path, capsys):
    pytest.importorskip("pyspark")
    try:
        find_java()
    except InputError as error:
        pytest.skip(str(error))
    on = ["--engine", "spark", "--master", "local[2]"]
    assert run(["audit", str(log), "--json", *on]) == 0
    counted = json.loads(capsys.readouterr().out)["counts"]
    assert run(["audit", str(log), "--json"]) == 0
    assert counted.items() <= json.loads(capsys.readouterr().out)["counts"].items()

    here, there = tmp_path / "here.json", tmp_path / "there.json"
    method = ["--method", "randomised"]
    assert run(["propensity", str(log), *method, "--out", str(here)]) == 0
    assert run(["propensity", str(log), *method, "--out", str(there), *on]) == 0
    assert np.array_equal(
        Propensities.load(here).propensity, Propensities.load(there).propensity, equal_nan=True
    )

    plain = ["--data", "synthetic:personal:120", "--propensity", "power:1", "--ranker", "linear"]
    clicks = tmp_path / "clicks.parquet"
    simulated = ["simulate", "synthetic:personal:120", "--clicks", "1000", "--out", str(clicks)]
    assert run(simulated) == 0
    assert run(["train", str(clicks), *plain, "--no-report", "--out", str(tmp_path / "a")]) == 0
    assert (
        run(["train", str(clicks), *plain, "--no-report", "--out", str(tmp_path / "b"), *on]) == 0
    )
    x = load_dataset("synthetic:personal:120", "test").features
    scores = [load_ranker(tmp_path / name).score(x) for name in "ab"]
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=1e-6)

    toml = tmp_path / "log.toml"
    toml.write_text(f"[features]\ncolumns = {json.dumps(FEATURES)}\n")
    fit = ["fit", str(log), "--mapping", str(toml), "--trees", "5", *on]
    assert run([*fit, "--out", str(tmp_path / "run")]) == 0
    assert load_ranker(tmp_path / "run").booster_.num_trees() <= 5
