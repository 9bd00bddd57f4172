"""Logs on Spark: every form, one interpreter of mappings, and the same audit as on one machine."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

import json

import duckdb
import numpy as np
import pytest
from spark_checks import same_curve

from prsrank.audit import audit, identify, with_curve
from prsrank.audit.event_tables import open_tables
from prsrank.audit.feature_checks import check_table
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.errors import DataWarning, InputError
from prsrank.fit.engine import LocalEngine
from prsrank.logs.click_log_files import write_compact, write_events
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import open_events
from prsrank.logs.row_rules import check_columns, check_rows
from prsrank.propensity.estimators import estimator

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def full(log_with_features, tmp_path_factory):
    """The log with times, clients, a context, and features that are not as they should be."""
    path = tmp_path_factory.mktemp("audit") / "full.parquet"
    duckdb.sql(
        "COPY (SELECT * REPLACE (TIMESTAMP '2026-01-01' + INTERVAL (CASE WHEN session_id < 60 THEN 0 "
        "ELSE session_id END) MINUTE AS timestamp), "
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


@pytest.fixture
def interpreted(spark):
    """Queries are not compiled: then Spark divides before it filters groups."""
    names = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    before = {name: spark.session.conf.get(name) for name in names}
    for settings in (names, before):
        for name, value in settings.items():
            spark.session.conf.set(name, value)
        if settings is names:
            yield


# rows that cannot be used have tests below, which are quick
@pytest.mark.parametrize("name", ["full", pytest.param("broken", marks=pytest.mark.slow)])
def test_the_audit_is_the_same(spark, request, name):
    path = request.getfixturevalue(name)
    if name == "broken":
        request.getfixturevalue("interpreted")
    mapping = LogMapping(contexts=("device",), features=("f*",))
    with open_events(path, mapping=mapping) as here:
        expected = with_curve(audit(here), here, mapping=mapping).to_dict()
    with spark.open_log(path, mapping=mapping) as there:
        found = with_curve(audit(there), there, mapping=mapping).to_dict()
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
    with open_events(path) as here, spark.open_log(path, mapping=LogMapping()) as there:
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
    with open_events(log_file) as here, spark.open_log(log_file, mapping=LogMapping()) as there:
        for source in (here, there):
            with open_tables(source, contexts=(), features=(), base=1) as tables:
                found.append(list(check_table(tables, table, mapping)))
    assert found[0] == found[1]
    codes = {finding.code for finding in found[1]}
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
    mapping = LogMapping(features=(features,))
    with pytest.raises(InputError, match=problem), spark.open_log(log_file, mapping=mapping):
        pass


def test_what_cannot_be_opened(spark, tmp_path, log_file):
    missing = pytest.raises(InputError, match="nowhere")
    with missing, spark.open_log(tmp_path / "nowhere.parquet", mapping=LogMapping()):
        pass
    mapping = LogMapping(columns={"query_id": "qid"})
    with (
        pytest.raises(InputError, match="no column 'qid'"),
        spark.open_log(log_file, mapping=mapping),
    ):
        pass


def test_forms_that_pass_through_the_driver(spark, log, log_file, tmp_path):
    write_compact(log, tmp_path / "compact")
    some = "count(*), sum(position), count_if(click = 1), max(randomised)"
    with open_events(log_file) as here:
        expected = here.total(some)
    frame = duckdb.read_parquet(str(log_file)).df()
    for form in (tmp_path / "compact", log, frame, spark.session.read.parquet(str(log_file))):
        with spark.open_log(form, mapping=LogMapping()) as events:
            check_columns(events, events.contexts)
            assert check_rows(events) == expected[0]
            assert events.total(some) == expected


def test_events_for_which_a_condition_holds(spark, log_file):
    with spark.open_log(log_file, mapping=LogMapping()) as events:
        few = events.where('"position" <= 2 AND click::BOOLEAN')
    assert few.total("max(position), min(click)") == (2, 1)
    assert (few.contexts, few.name) == (events.contexts, str(log_file))
    with pytest.raises(InputError, match="cannot be read"):
        events.where("nothing = 1")


@pytest.mark.parametrize("impressions", [False, True])
def test_ubi(spark, log, tmp_path, impressions):
    write_ubi(log, tmp_path / "ubi", base=1 - impressions, impressions=impressions)
    with (
        open_events(tmp_path / "ubi") as here,
        spark.open_log(tmp_path / "ubi", mapping=LogMapping()) as there,
    ):
        some = "count(*), sum(position), count_if(click = 1), count(DISTINCT doc_id)"
        assert here.total(some) == there.total(some)
        assert here.findings == there.findings
        assert sum(there.findings.values()) > 0


def write_ubi(log, folder, *, base, impressions):
    """Write 100 sessions as UBI, one click on a doc that was not shown, one of no query."""
    queries, events = [], []

    def act(name, action, doc, ordinal):
        slot = {"object": {"object_id": doc}, "position": {"ordinal": ordinal}}
        events.append({"action_name": action, "query_id": name, "event_attributes": slot})

    for session in range(100):
        ranking = log.session_ranking[session]
        slots = slice(*log.ranking_offsets[ranking : ranking + 2])
        docs = [str(doc) for doc in log.doc_ids[log.ranking_docs[slots]]]
        name, query = f"r{session}", str(log.query_ids[log.ranking_query[ranking]])
        queries.append({"query_id": name, "user_query": query, "query_response_hit_ids": docs})
        queries[-1]["query_attributes"] = {"randomised": session % 3 == 0}
        for index in range(len(docs)) if impressions else []:
            act(name, "impression", docs[index], index + base)
        for index in log.clicks[log.click_offsets[session] : log.click_offsets[session + 1]]:
            act(name, "click", docs[index], int(index) + base)
    act("r0", "click", "nowhere", 1)
    act("lost", "click", "1", 1)
    folder.mkdir()
    for name, rows in (("ubi_queries", queries), ("ubi_events", events)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text)


def loaded(engine, path):
    with engine.open_log(path, mapping=LogMapping()) as source:
        return engine.sessions(source)


@pytest.mark.parametrize(
    ("change", "value"),
    [("position", "0"), ("position", "NULL"), ("click", "2"), ("doc_id", "NULL"), ("weight", "-1")],
)
def test_rows_that_cannot_be_used_are_named_as_on_one_machine(
    spark, log_file, tmp_path, change, value
):
    path = tmp_path / "log.parquet"
    where = "session_id < 50" if change == "weight" else "session_id = 5 AND position = 2"
    duckdb.sql(
        f"COPY (SELECT * REPLACE (CASE WHEN {where} THEN {value} "
        f"ELSE {change} END AS {change}) FROM (SELECT * REPLACE (click::INT AS click), "
        f"2.5::DOUBLE AS weight FROM '{log_file}')) TO '{path}'"
    )
    told = []
    for engine in (LocalEngine(), spark):
        with pytest.raises(InputError) as found:
            loaded(engine, path)
        told.append(str(found.value))
    assert told[0] == told[1]
    assert "\n" not in told[1]


@pytest.mark.parametrize("column", ["position", "doc_id"])
def test_a_session_with_a_doc_or_position_twice(spark, log_file, tmp_path, column):
    path = tmp_path / "log.parquet"
    duckdb.sql(
        f"COPY (SELECT * REPLACE (CASE WHEN session_id = 5 THEN 1 ELSE {column} END AS {column}) "
        f"FROM '{log_file}') TO '{path}'"
    )
    told = []
    for engine in (LocalEngine(), spark):
        with pytest.raises(InputError, match="twice in session 5 of query") as found:
            loaded(engine, path)
        told.append(str(found.value).removeprefix(f"{path}: "))
    assert told[0] == told[1]
    assert "\n" not in told[1]


def test_a_query_with_many_of_all_rows_is_named(spark, log_file, tmp_path):
    path = tmp_path / "skewed.parquet"
    [(query,)] = duckdb.sql(f"SELECT min(query_id) FROM '{log_file}'").fetchall()
    duckdb.sql(
        f"COPY (SELECT * FROM '{log_file}' UNION ALL SELECT * EXCLUDE (copy) "
        f"REPLACE (session_id + 1000000 * copy AS session_id) FROM '{log_file}', "
        f"range(1, 10) copies(copy) WHERE query_id = {query}) TO '{path}'"
    )
    with pytest.warns(DataWarning, match=f"query {query} has [1-9][0-9]*% of all"):
        loaded(spark, path)


# a third method is estimated from the same counts
@pytest.mark.parametrize(
    "method", ["harvest", "randomised", pytest.param("regression-em", marks=pytest.mark.slow)]
)
def test_propensities_and_intervals_are_the_same(spark, log_file, method):
    curves = []
    for engine in (LocalEngine(), spark):
        with engine.open_log(log_file, mapping=LogMapping()) as source:
            pieces = engine.sessions(source)
            curves.append(estimator(method).estimate_pieces(pieces, seed=3))
    same_curve(*curves)
    assert np.isfinite(curves[0].low).any()


def test_ids_of_a_csv_file_stay_as_they_are_written(spark, tmp_path):
    """007 is not 7; what is written as integers are is whole numbers."""
    rows = [f"{q},{s},0{d},{d},{int(d == 1)}" for q in (7, 8) for s in (1, 2) for d in (1, 2)]
    path = tmp_path / "log.csv"
    path.write_text("query_id,session_id,doc_id,position,click\n" + "\n".join(rows) + "\n")
    found = []
    for engine in (LocalEngine(), spark):
        with engine.open_log(path, mapping=LogMapping()) as source:
            found.append(sorted(source.rows("query_id, session_id, doc_id", limit=99)))
    assert found[0] == found[1]
    assert found[1][0] == (7, 1, "01")
