"""Logs on Spark: every form, one interpreter of mappings, and the same audit as on one machine."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

import sys
from pathlib import Path

import duckdb
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from spark_checks import SMALL, require_spark

from prsrank.audit import audit
from prsrank.audit.event_tables import open_tables
from prsrank.audit.feature_table import with_feature_table
from prsrank.audit.identification import identify
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.errors import InputError
from prsrank.logs.click_log_files import write_compact, write_events
from prsrank.logs.event_source import check_columns, check_rows
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sources import open_events

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark():
    require_spark()
    from prsrank.spark.engine import SparkEngine

    with SparkEngine(master="local[2]", options=SMALL) as engine:
        yield engine


@pytest.fixture(scope="module")
def full(log_with_features, tmp_path_factory):
    """The log with times, clients, a context, and features that are not as they should be."""
    path = tmp_path_factory.mktemp("audit") / "full.parquet"
    duckdb.sql(
        "COPY (SELECT *, TIMESTAMP '2026-01-01' + INTERVAL (CASE WHEN session_id < 60 THEN 0 "
        "ELSE session_id END) MINUTE AS timestamp, "
        "CASE WHEN session_id < 60 THEN 'c' ELSE 'c' || (session_id % 97) END AS client_id, "
        "CASE WHEN session_id % 2 = 0 THEN 'phone' ELSE 'desk' END AS device, "
        'position * 1.0::DOUBLE AS "f\'13", CASE WHEN doc_id % 5 = 0 THEN NULL '
        "WHEN doc_id % 7 = 0 THEN 'infinity'::DOUBLE ELSE doc_id END AS \"f 14\" "
        f"FROM '{log_with_features}') TO '{path}'"
    )
    return path


@pytest.fixture(scope="module")
def broken(full, tmp_path_factory):
    """The same log, with every kind of row that cannot be used."""
    path = tmp_path_factory.mktemp("audit") / "broken.parquet"
    duckdb.sql(
        "COPY (SELECT * REPLACE (CASE WHEN session_id = 3 THEN position - 1 "
        "WHEN session_id = 9 AND position = 2 THEN NULL WHEN session_id = 11 THEN position + 0.5 "
        "WHEN session_id = 12 AND position = 1 THEN 'infinity'::DOUBLE "
        "ELSE position END AS position, CASE WHEN session_id = 5 AND position = 1 THEN NULL "
        "WHEN session_id = 7 AND position = 1 THEN 'd ' || doc_id "
        "ELSE 'D ' || doc_id END AS doc_id, "
        "CASE WHEN session_id = 6 AND position = 1 THEN 2 ELSE click::INT END AS click, "
        "CASE WHEN session_id = 8 AND position = 1 THEN 'x:1' ELSE randomised END AS randomised, "
        "CASE WHEN session_id = 4 AND position = 1 THEN 'tv' ELSE device END AS device), "
        "CASE WHEN position = 3 THEN -1 ELSE 2 END::DOUBLE AS weight, "
        "CASE position WHEN 4 THEN 1.5 WHEN 5 THEN 0 WHEN 6 THEN 'nan'::DOUBLE ELSE 0.5 END "
        f"AS propensity FROM '{full}' UNION ALL "
        f"SELECT *, 2, 0.5 FROM '{full}' WHERE session_id = 20) TO '{path}'"
    )
    return path


@pytest.mark.parametrize("name", ["full", "broken"])
def test_the_audit_is_the_same(spark, request, name):
    path = request.getfixturevalue(name)
    mapping = LogMapping(contexts=("device",), features=("f*",))
    with open_events(path, mapping=mapping) as here:
        expected = audit(here).to_dict()
    with spark.open_log(path, mapping=mapping) as there:
        found = audit(there).to_dict()
    assert found == expected
    codes = {finding["code"] for finding in expected["findings"]}
    assert len(codes) > (15 if name == "broken" else 5)
    assert "client-too-fast" in codes
    assert expected["periods"]
    assert not spark.session.catalog.listTables()


def test_swaps_identify_the_same(spark, lists, tmp_path):
    path = tmp_path / "log.parquet"
    model = PositionBasedModel(cutoff=5)
    swaps = {"randomised": 0.8, "design": "adjacent", "design_k": 4}
    write_events(simulate_clicks(lists, lists.labels, model, clicks=1500, **swaps), path)
    found = []
    with open_events(path) as here, spark.open_log(path) as there:
        for source in (here, there):
            with open_tables(source, contexts=(), features=(), base=1) as tables:
                found.append(identify(tables))
    assert found[0] == found[1]
    assert {one.method: one.status for one in found[1]}["swap"] != "not identified"


def test_a_table_of_features_beside_the_log(spark, log_file, tmp_path):
    table = tmp_path / "features.csv"
    duckdb.sql(
        "COPY (SELECT DISTINCT query_id AS q, doc_id, doc_id % 3 AS f, 1 AS one "
        f"FROM '{log_file}' WHERE doc_id > 4) TO '{table}'"
    )
    mapping = LogMapping().with_columns(["query_id=q"])
    found = []
    with open_events(log_file) as here, spark.open_log(log_file) as there:
        none = audit(here)
        for source in (here, there):
            found.append(with_feature_table(none, source, table, mapping=mapping).to_dict())
    assert found[0] == found[1]
    codes = {finding["code"] for finding in found[1]["findings"]}
    assert {"feature-rows-missing", "feature-constant"} <= codes


@pytest.mark.parametrize(
    ("features", "problem"),
    [
        ("position", "'position' says what happened and can be no feature"),
        ("click", "'click' says what happened and can be no feature"),
        ("nothing*", "no column of numbers matches the features 'nothing"),
    ],
)
def test_features_that_local_refuses_are_refused(spark, log_file, features, problem):
    with pytest.raises(InputError, match=problem):
        spark.open_log(log_file, mapping=LogMapping(features=(features,)))


def test_forms_that_pass_through_the_driver(spark, log, log_file, tmp_path):
    write_compact(log, tmp_path / "compact")
    some = "count(*), sum(position), count_if(click = 1), max(randomised)"
    with open_events(log_file) as here:
        expected = here.total(some)
    frame = duckdb.read_parquet(str(log_file)).df()
    for form in (tmp_path / "compact", log, frame, spark.session.read.parquet(str(log_file))):
        with spark.open_log(form) as events:
            check_columns(events, events.contexts)
            assert check_rows(events) == expected[0]
            assert events.total(some) == expected


def test_events_for_which_a_condition_holds(spark, log_file):
    with spark.open_log(log_file) as events:
        few = events.where('"position" <= 2 AND click::BOOLEAN')
    assert few.total("max(position), min(click)") == (2, 1)
    assert (few.contexts, few.name) == (events.contexts, str(log_file))
    with pytest.raises(InputError, match="cannot be read"):
        events.where("nothing = 1")
