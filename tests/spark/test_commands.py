"""The commands with --spark: what they print and write without it."""

import json

import numpy as np
import pytest
from spark_checks import JAVA, require_spark, same_curve

from prsrank.cli import run
from prsrank.data.collections import open_collection
from prsrank.propensity.curve import Propensities
from prsrank.rankers.base import load_ranker

pytestmark = pytest.mark.spark

ON = ["--spark", "--master", "local[2]"]


@pytest.fixture(autouse=True)
def _spark_can_run(monkeypatch):
    require_spark()
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", JAVA)


@pytest.mark.slow  # tests/spark/test_events.py compares audits
def test_audit(log_file, capsys):
    told = []
    for on in ([], ON):
        assert run(["audit", str(log_file), "--json", *on]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]


def test_propensity(log_file, tmp_path):
    files = [tmp_path / "here.json", tmp_path / "there.json"]
    for file, on in zip(files, ([], ON), strict=True):
        assert (
            run(["propensity", str(log_file), "--out", str(file), "--method", "harvest", *on]) == 0
        )
    same_curve(*(Propensities.load(file) for file in files))


@pytest.mark.slow  # tests/spark/test_log.py trains the linear ranker, test_propensity has --spark
def test_train(tmp_path):
    data, log = "synthetic:personal:60", tmp_path / "log.parquet"
    assert run(["simulate", data, "--clicks", "500", "--out", str(log)]) == 0
    train = ["train", str(log), "--data", data, "--propensity", "power:1"]
    for name, on in (("here", []), ("there", ON)):
        assert run([*train, "--ranker", "linear", "--out", str(tmp_path / name), *on]) == 0
    x = open_collection(data).everything().features
    scores = [load_ranker(tmp_path / name).score(x) for name in ("here", "there")]
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-5)


@pytest.mark.slow  # tests/spark/test_fit.py fits on Spark
def test_fit(log_with_features, tmp_path, capsys):
    mapping, out = tmp_path / "log.toml", tmp_path / "out"
    mapping.write_text('[features]\ncolumns = ["f0", "f1"]\n')
    fit = ["fit", str(log_with_features), "--mapping", str(mapping), "--out", str(out)]
    quick = ["--trees", "3", "--trials", "1", "--propensity", "power:1", "--json"]
    quick += ["--weighting", "prs", "--force"]
    assert run([*fit, *quick, *ON]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rankers"].keys() == {"prs", "ips", "naive"}
    assert told["parts"]["held out"]["clicks"] > 0
    assert told["verdict"] in ("test-online", "no-difference", "too-thin")
    assert told["conclusions"][1].startswith("PRS against the logged ranking: dcg@10")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["engine"]["name"] == "spark"
    assert load_ranker(out).trees_ <= 3
    mapping.write_text('lists = "session"\n[features]\ncolumns = ["f0", "f1"]\n')
    assert run([*fit, *ON]) == 2
    assert "lists = 'session' is for one machine" in capsys.readouterr().err
