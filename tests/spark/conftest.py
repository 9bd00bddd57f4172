"""Logs that the engines are tried on, and one small session for all files of tests."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.logs.click_log_files import write_events

sys.path.insert(0, str(Path(__file__).parent))
from spark_checks import SMALL, require_spark


@pytest.fixture(scope="session")
def spark():
    """An engine with a session of its own, two tasks at once; nothing is left when it closes.

    The files that use it are run by one process, without those that start their own
    (tests/conftest.py).
    """
    require_spark()
    from prsrank.spark import SparkEngine

    with SparkEngine(master="local[2]", options=SMALL) as engine:
        folder = Path(engine.session.conf.get("spark.local.dir"))
        assert folder.is_dir()
        yield engine
    assert not folder.exists()


@pytest.fixture(scope="session")
def lists():
    """Lists with features of few distinct values, which are on every worker."""
    data = synthetic_dataset("mq2007", 60, seed=1)
    return replace(data, features=np.round(data.features * 4) / 4)


@pytest.fixture(scope="session")
def log(lists):
    """Short sessions of three rankings, a part of them in random order; most docs are not shown."""
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=lists.docs) + lists.labels for _ in range(3)]
    model = PositionBasedModel(cutoff=6)
    return simulate_clicks(lists, scores, model, clicks=1000, seed=1, randomised=0.3)


@pytest.fixture(scope="session")
def log_file(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write_events(log, path)
    return path


@pytest.fixture(scope="session")
def feature_table(lists, tmp_path_factory):
    """Features f0, f1, ... of every doc of every list, whether it was shown or not."""
    path = tmp_path_factory.mktemp("log") / "table.parquet"
    docs = {
        "query_id": np.repeat(lists.query_ids, lists.list_lengths),
        "doc_id": lists.doc_names,
    } | {f"f{i}": lists.features[:, i].copy() for i in range(5)}
    with duckdb.connect() as connection:
        connection.register("docs", docs)
        connection.execute(f"COPY (SELECT * FROM docs) TO '{path}' (FORMAT parquet)")
    return path


@pytest.fixture(scope="session")
def log_with_features(log_file, feature_table, tmp_path_factory):
    """The same log with the features of each shown doc in its rows, and a time of each session."""
    path = tmp_path_factory.mktemp("log") / "features.parquet"
    duckdb.sql(
        "COPY (SELECT log.*, docs.* EXCLUDE (query_id, doc_id), TIMESTAMP '2026-01-01' + "
        f"INTERVAL (session_id % 400) MINUTE AS timestamp FROM '{log_file}' log "
        f"JOIN '{feature_table}' docs USING (query_id, doc_id)) TO '{path}'"
    )
    return path


@pytest.fixture(scope="session")
def half_randomised(log_with_features, tmp_path_factory):
    """The log with features; only sessions of even queries are marked as randomised.

    Clicks on some docs count for more.
    """
    path = tmp_path_factory.mktemp("log") / "half.parquet"
    marked = "CASE WHEN query_id % 2 = 0 THEN randomised ELSE '' END AS randomised"
    weight = "CASE WHEN doc_id % 3 = 0 THEN 2.5 ELSE 1 END::DOUBLE AS weight"
    duckdb.sql(
        f"COPY (SELECT * REPLACE ({marked}), {weight} FROM '{log_with_features}') TO '{path}'"
    )
    return path
