"""Logs that the engines are tried on."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

from dataclasses import replace

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.logs.click_log_files import write_events


@pytest.fixture(scope="session")
def lists():
    """Lists with features of few distinct values, which are in every shard."""
    data = synthetic_dataset("mq2007", 80, seed=1)
    return replace(data, features=np.round(data.features * 4) / 4)


@pytest.fixture(scope="session")
def log(lists):
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=lists.docs) + lists.labels for _ in range(3)]
    return simulate_clicks(lists, scores, PositionBasedModel(), clicks=2500, seed=1, randomised=0.3)


@pytest.fixture(scope="session")
def log_file(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write_events(log, path)
    return path


@pytest.fixture(scope="session")
def log_with_features(log_file, lists, tmp_path_factory):
    """The same log, with the features f0, f1, ... of each shown doc in its rows."""
    import duckdb

    path = tmp_path_factory.mktemp("log") / "features.parquet"
    with duckdb.connect() as connection:
        docs = {
            "query_id": np.repeat(lists.query_ids, lists.list_lengths),
            "doc_id": lists.doc_names,
        } | {f"f{i}": lists.features[:, i].copy() for i in range(12)}
        connection.register("docs", docs)
        connection.execute(
            f"COPY (SELECT log.*, docs.* EXCLUDE (query_id, doc_id) FROM '{log_file}' log "
            f"JOIN docs USING (query_id, doc_id)) TO '{path}'"
        )
    return path


@pytest.fixture(scope="session")
def half_randomised(log_with_features, tmp_path_factory):
    """The log with features; only sessions of even queries are marked as randomised.

    Clicks on some docs count for more.
    """
    import duckdb

    path = tmp_path_factory.mktemp("log") / "half.parquet"
    marked = "CASE WHEN query_id % 2 = 0 THEN randomised ELSE '' END AS randomised"
    weight = "CASE WHEN doc_id % 3 = 0 THEN 2.5 ELSE 1 END::DOUBLE AS weight"
    duckdb.sql(
        f"COPY (SELECT * REPLACE ({marked}), {weight} FROM '{log_with_features}') TO '{path}'"
    )
    return path
