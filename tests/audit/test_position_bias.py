"""What an audit says of position bias, by the features."""

from pathlib import Path

import duckdb
import numpy as np
import pytest

from prsrank.audit import Audit, audit, with_curve
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log_files import write_events
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import open_events


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of eta 1, its features in a table, and one whose propensities are of eta 2."""
    folder = tmp_path_factory.mktemp("curve")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 3)).astype(np.float32)
    labels = rng.random(2000) < 1 / (1 + np.exp(1 - 2 * x[:, 0]))
    lists = RankingDataset(x, np.arange(0, 2001, 10), labels=labels)
    clicks = PositionBasedModel(eta=1, mu=0.1)
    log = simulate_clicks(lists, x[:, 0] + rng.normal(size=2000), clicks, clicks=4000, seed=1)
    write_events(log, folder / "log.parquet")
    columns = {"query_id": np.repeat(lists.query_ids, 10), "doc_id": lists.doc_names}
    columns |= {f"x{i}": x[:, i] for i in range(3)}
    file = f"'{folder}/{{}}.parquet'".format
    with duckdb.connect() as connection:
        connection.register("docs", columns)
        for name, sql in {
            "features": "SELECT * FROM docs",
            "joined": f"SELECT * FROM {file('log')} JOIN docs USING (query_id, doc_id)",  # noqa: S608
            "logged": f"SELECT *, position ** -2.0 AS propensity FROM {file('log')}",  # noqa: S608
        }.items():
            connection.sql(sql).write_parquet(file(name).strip("'"))
    return folder


def audited(log: Path, table: Path | None = None) -> Audit:
    mapping = LogMapping() if table else LogMapping(features=("x*",))
    with open_events(log, mapping=mapping) as source:
        return with_curve(audit(source), source, table=table, mapping=mapping)


def test_the_exponent_is_named(folder: Path) -> None:
    (found,) = (f for f in audited(folder / "joined.parquet").findings if f.code == "position-bias")
    assert found.severity == "note"
    eta = float(found.what.partition(", eta ")[2].split()[0])
    assert eta == pytest.approx(1.0, abs=0.15)
    beside = audited(folder / "log.parquet", folder / "features.parquet")
    assert found in beside.findings


def test_logged_propensities_are_judged(folder: Path) -> None:
    judged = audited(folder / "logged.parquet", folder / "features.parquet")
    (found,) = (f for f in judged.findings if f.code == "propensity-contradicted")
    assert found.severity == "warning"
    power = float(found.what.partition("the power ")[2].split()[0])
    assert power == pytest.approx(0.5, abs=0.08)


def test_nothing_is_said_without_features_or_of_an_unusable_log(folder: Path) -> None:
    assert "position-bias" not in {f.code for f in _plain(folder / "log.parquet").findings}
    with duckdb.connect() as connection:
        few = connection.sql(f"SELECT * FROM '{folder}/joined.parquet' WHERE query_id < 5")  # noqa: S608
        few.write_parquet(str(folder / "few.parquet"))
    assert "position-bias" not in {f.code for f in audited(folder / "few.parquet").findings}


def _plain(log: Path) -> Audit:
    with open_events(log) as source:
        return with_curve(audit(source), source, mapping=LogMapping())
