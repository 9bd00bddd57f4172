"""Spark for real, on local[2]: the same results as the local engine."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from spark_checks import SMALL, require_spark, same_pairs, trees_of

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import DataWarning, InputError
from prsrank.logs.click_log_files import write_events
from prsrank.logs.mapping import LogMapping
from prsrank.metrics.ranking import average, ndcg
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.estimators import estimator
from prsrank.rankers.base import load_ranker
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker
from prsrank.rankers.svm import SVMRanker
from prsrank.spark import find_engine
from prsrank.spark.barrier import SparkFailure
from prsrank.spark.local import LocalEngine

pytestmark = pytest.mark.spark

LOCAL = LocalEngine(threads=1)
CURVE = PowerLaw(1.0)


@pytest.fixture(scope="module")
def spark():
    require_spark()
    from prsrank.spark.engine import SparkEngine

    with SparkEngine(master="local[2]", options=SMALL) as engine:
        yield engine


@pytest.mark.parametrize(
    ("weighting", "options"),
    [
        ("prs", {"normalise": "ndcg", "dtype": np.float32}),
        ("prs", {"normalise": "ndcg", "truncation": 5}),
        ("ips", {"normalise": "arp", "parameters": {"tau": 0.05}}),
        ("ips_all", {}),
        ("naive", {}),
        ("pns_oracle", {}),
    ],
)
def test_pairs_of_a_simulated_log(spark, log_file, lists, weighting, options):
    with LOCAL.open_log(log_file) as here, spark.open_log(log_file) as there:
        one = LOCAL.pairs(here, lists, CURVE, weighting, **options)
        other = spark.pairs(there, lists, CURVE, weighting, **options)
    same_pairs(one, other)
    assert one.weights.dtype == other.weights.dtype


def test_text_ids_logged_propensities_and_weighed_actions(spark, log_file, lists, tmp_path):
    import duckdb

    path = tmp_path / "log.csv"
    duckdb.sql(
        f"COPY (SELECT 'q' || query_id AS query, session_id AS s, 'd' || doc_id AS doc_id, "
        f"position - 1 AS rank, click AS clicked, (click = 1 AND session_id % 3 = 0)::INT AS bought, "
        f"1 / position AS propensity FROM '{log_file}') TO '{path}'"
    )
    mapping = LogMapping(
        columns={"query_id": "query", "session_id": "s", "position": "rank"},
        actions={"clicked": 1, "bought": 2.5},
        positions_from=0,
    )
    named = replace(
        lists,
        query_ids=np.array([f"q{q}" for q in lists.query_ids]),
        doc_ids=np.array([f"d{d}" for d in lists.doc_names]),
    )
    with (
        LOCAL.open_log(path, mapping=mapping) as here,
        spark.open_log(path, mapping=mapping) as there,
    ):
        same_pairs(
            LOCAL.pairs(here, named, normalise="ndcg"), spark.pairs(there, named, normalise="ndcg")
        )


def test_single_actions_are_gathered(spark, log_file, lists, tmp_path):
    import duckdb

    path = tmp_path / "actions.parquet"
    duckdb.sql(
        f"COPY (SELECT query_id, session_id, doc_id, position, 'impression' AS action "
        f"FROM '{log_file}' UNION ALL SELECT query_id, session_id, doc_id, position, 'click' "
        f"FROM '{log_file}' WHERE click = 1) TO '{path}'"
    )
    mapping = LogMapping(actions={"click": 1})
    with (
        LOCAL.open_log(path, mapping=mapping) as here,
        spark.open_log(path, mapping=mapping) as there,
    ):
        same_pairs(LOCAL.pairs(here, lists, CURVE), spark.pairs(there, lists, CURVE))


def test_a_curve_by_context(spark, log_file, lists, tmp_path):
    import duckdb

    path = tmp_path / "log.parquet"
    duckdb.sql(
        f"COPY (SELECT *, CASE WHEN session_id % 2 = 0 THEN 'phone' END AS device "
        f"FROM '{log_file}') TO '{path}'"
    )

    class ByDevice:
        def at(self, positions, *, context=None):
            return np.asarray(positions, float) ** (-1.5 if context == "phone" else -0.5)

    mapping = LogMapping(contexts=("device",))
    with (
        LOCAL.open_log(path, mapping=mapping) as here,
        spark.open_log(path, mapping=mapping) as there,
    ):
        same_pairs(
            LOCAL.pairs(here, lists, ByDevice(), context="device"),
            spark.pairs(there, lists, ByDevice(), context="device"),
        )
        with pytest.raises(InputError, match="context 'tablet' is not in the log"):
            spark.pairs(there, lists, ByDevice(), context="tablet")


@pytest.mark.parametrize("impressions", [False, True])
def test_ubi(spark, log, lists, tmp_path, impressions):
    write_ubi(log, tmp_path / "ubi", base=1 - impressions, impressions=impressions)
    with LOCAL.open_log(tmp_path / "ubi") as here, spark.open_log(tmp_path / "ubi") as there:
        same_pairs(LOCAL.pairs(here, lists, CURVE), spark.pairs(there, lists, CURVE))
        assert LOCAL.counts(here) == spark.counts(there)
        for name, count in there.findings.items():
            assert here.findings[name] == count


def write_ubi(log, folder, *, base, impressions):
    """Write 300 sessions as UBI, one click on a doc that was not shown, one of no query."""
    import json

    queries, events = [], []

    def act(name, action, doc, ordinal):
        place = {"object": {"object_id": doc}, "position": {"ordinal": ordinal}}
        events.append({"action_name": action, "query_id": name, "event_attributes": place})

    for session in range(300):
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


def test_counts_of_an_audit(spark, log_file):
    with LOCAL.open_log(log_file) as here, spark.open_log(log_file) as there:
        assert LOCAL.counts(here) == spark.counts(there)


@pytest.mark.parametrize("method", ["harvest", "harvest-chain", "regression-em"])
def test_propensities_from_cells(spark, log_file, method):
    with LOCAL.open_log(log_file) as here, spark.open_log(log_file) as there:
        one = LOCAL.propensities(here, estimator(method), seed=3)
        other = spark.propensities(there, estimator(method), seed=3)
    for name in ("propensity", "low", "high"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-9)
    np.testing.assert_array_equal(other.clicks, one.clicks)
    assert other.verdict == one.verdict


@pytest.mark.parametrize("method", ["harvest", "regression-em"])
def test_what_reaches_the_driver_of_cells_is_bounded(spark, log_file, monkeypatch, method):
    from prsrank.spark import spark_cells, spark_counts

    brought = []
    collect = spark_counts.arrays_of

    def counted(frame):
        columns = collect(frame)
        brought.append(len(next(iter(columns.values()))))
        return columns

    monkeypatch.setattr(spark_cells, "MOST_UNITS", 5)
    monkeypatch.setattr(spark_counts, "arrays_of", counted)
    chosen = replace(estimator(method), positions=4)
    with LOCAL.open_log(log_file) as here, spark.open_log(log_file) as there:
        one = LOCAL.propensities(here, chosen, seed=3)
        other = spark.propensities(there, chosen, seed=3)
    np.testing.assert_allclose(other.propensity, one.propensity, rtol=1e-9)
    assert (other.low < other.propensity)[1:].all()
    assert max(brought) <= 5 * 4 * 3  # units, and ordered pairs of positions


def test_propensities_with_features(spark, log_file, lists):
    chosen = replace(estimator("regression-em"), steps=5)
    with LOCAL.open_log(log_file) as here, spark.open_log(log_file) as there:
        one = LOCAL.propensities(here, chosen, dataset=lists)
        other = spark.propensities(there, chosen, dataset=lists)
    np.testing.assert_allclose(other.propensity, one.propensity, rtol=1e-9)


@pytest.mark.parametrize("method", ["randomised", "swap"])
def test_propensities_of_experiments(spark, lists, tmp_path, method):
    design = "adjacent" if method == "swap" else "top-k"
    log = simulate_clicks(
        lists,
        np.arange(lists.docs),
        PositionBasedModel(cutoff=8),
        clicks=6000,
        randomised=0.8,
        design=design,
        design_k=6,
    )
    write_events(log, tmp_path / "log.parquet")
    path = tmp_path / "log.parquet"
    with LOCAL.open_log(path) as here, spark.open_log(path) as there:
        one = LOCAL.propensities(here, estimator(method))
        other = spark.propensities(there, estimator(method))
    np.testing.assert_allclose(other.propensity, one.propensity, rtol=1e-9)
    np.testing.assert_array_equal(other.clicks, one.clicks)
    # sessions fall into other groups of the bootstrap
    known = np.isfinite(one.low[1:])
    assert known.sum() >= 4
    widths = np.log(other.high / other.low)[1:][known] / np.log(one.high / one.low)[1:][known]
    np.testing.assert_allclose(widths, 1, atol=0.35)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("position", "0"),
        ("position", "NULL"),
        ("click", "2"),
        ("doc_id", "NULL"),
        ("weight", "-1"),
        ("weight", "NULL"),
    ],
)
def test_rows_that_cannot_be_used(spark, log_file, lists, tmp_path, change, value):
    import duckdb

    path = tmp_path / "log.parquet"
    where = "session_id = 5 AND position = 2" if change != "weight" else "session_id < 50"
    duckdb.sql(
        f"COPY (SELECT * REPLACE (CASE WHEN {where} THEN {value} ELSE {change} END AS {change}) "
        f"FROM (SELECT *, 2.5::DOUBLE AS weight FROM '{log_file}')) TO '{path}'"
    )
    messages = []
    for engine in (LOCAL, spark):
        with engine.open_log(path) as events, pytest.raises(InputError) as found:
            engine.pairs(events, lists, CURVE)
        messages.append(str(found.value))
    assert messages[0] == messages[1]


def test_what_cannot_be_opened(spark, tmp_path, log_file):
    with pytest.raises(InputError, match="nowhere"):
        spark.open_log(tmp_path / "nowhere.parquet")
    with pytest.raises(InputError, match="no column 'qid'"):
        spark.open_log(log_file, mapping=LogMapping(columns={"query_id": "qid"}))
    with pytest.raises(InputError, match="no features"), spark.open_log(log_file) as events:
        spark.train_on_log([LambdaMART()], events, CURVE)


def test_a_query_with_a_tenth_of_all_rows(spark, lists, tmp_path):
    """It is named in a warning, and its pairs are the same."""
    import duckdb

    few = lists.select(np.arange(30))
    log = simulate_clicks(few, few.labels, PositionBasedModel(), clicks=1500, seed=2)
    write_events(log, tmp_path / "log.parquet")
    query = int(few.query_ids[few.list_lengths.argmax()])
    path = tmp_path / "skewed.parquet"
    duckdb.sql(
        f"COPY (SELECT * FROM '{tmp_path}/log.parquet' UNION ALL SELECT * EXCLUDE (copy) "
        f"REPLACE (session_id + 1000000 * copy AS session_id) FROM '{tmp_path}/log.parquet', "
        f"range(1, 6) copies(copy) WHERE query_id = {query}) TO '{path}'"
    )
    with LOCAL.open_log(path) as here, spark.open_log(path) as there:
        with pytest.warns(DataWarning, match=f"query {query} has [1-9][0-9]% of all"):
            other = spark.pairs(there, few, CURVE)
        same_pairs(LOCAL.pairs(here, few, CURVE), other)


def test_a_long_list_leaves_its_rank_room(spark):
    """Half of all docs are in one list: the other lists go to the other rank."""
    from prsrank.spark.events import SparkEvents
    from prsrank.spark.pairs import counted_pairs, log_rows
    from prsrank.weighting import find_weighting

    rows = [(7, 1, doc, doc + 1, int(doc == 3), 0.5) for doc in range(600)]
    rows += [(q, 1, doc, doc + 1, int(doc == 3), 0.5) for q in range(100, 160) for doc in range(10)]
    frame = spark.session.createDataFrame(
        rows, "query_id int, session_id int, doc_id int, position int, click int, f double"
    )
    events = SparkEvents(frame, features=("f",))
    counted = counted_pairs(events, CURVE, find_weighting("prs"))
    placed = log_rows(events, counted.frame, 2).where("kind = 0").select("query_id", "rank")
    docs = np.zeros(2)
    ranks_of: dict[int, set] = {}
    for query, rank in placed.collect():
        docs[rank] += 1
        ranks_of.setdefault(query, set()).add(rank)
    assert all(len(ranks) == 1 for ranks in ranks_of.values())
    assert docs.sum() == 1200
    assert abs(docs[0] - docs[1]) < 100


def test_lambdamart_on_two_ranks_is_that_of_one(spark, lists):
    judged = synthetic_dataset("mq2007", 30, seed=5)
    pairs = PairSet.from_labels(lists, normalise="ndcg", dtype=np.float32)
    options = {"trees": 15, "leaves": 7, "threads": 1, "patience": 3}
    alone = LambdaMART(**options).fit(lists, pairs, validation=judged)
    together = spark.train(LambdaMART(**options), lists, pairs, validation=judged)
    assert trees_of(together) == trees_of(alone)
    np.testing.assert_allclose(together.history_, alone.history_, rtol=1e-12)
    np.testing.assert_array_equal(together.score(lists.features), alone.score(lists.features))


def test_continuous_features_rank_as_well(spark):
    data = synthetic_dataset("mq2007", 2000, seed=7)
    train, test = data.select(np.arange(1000)), data.select(np.arange(1000, 2000))
    pairs = PairSet.from_labels(train, normalise="ndcg", dtype=np.float32)
    options = {"trees": 50, "leaves": 15, "threads": 1}
    alone = LambdaMART(**options).fit(train, pairs)
    together = spark.train(LambdaMART(**options), train, pairs)
    values = [
        average(ndcg(test.relevance, model.score(test.features), test.offsets, k=10)).mean
        for model in (alone, together)
    ]
    assert abs(values[0] - values[1]) < 0.005


def test_a_saved_model_is_an_ordinary_one(spark, lists, tmp_path):
    pairs = PairSet.from_labels(lists, normalise="ndcg", dtype=np.float32)
    model = spark.train(LambdaMART(trees=3), lists, pairs)
    model.save(tmp_path / "model")
    again = load_ranker(tmp_path / "model")
    np.testing.assert_array_equal(again.score(lists.features), model.score(lists.features))
    assert "machines" not in (tmp_path / "model" / "model.txt").read_text()


@pytest.mark.parametrize("missing", ["error", "impute"])
def test_the_linear_ranker(spark, lists, missing):
    features = lists.features.copy()
    if missing == "impute":
        features[::7, 3] = np.nan
    data = replace(lists, features=features)
    pairs = PairSet.from_labels(data)
    options = {"tolerance": 1e-9, "missing": missing}
    alone = LinearRanker(**options, threads=1).fit(data, pairs)
    together = spark.train(LinearRanker(**options), data, pairs)
    np.testing.assert_allclose(together.weights_, alone.weights_, atol=1e-6)
    np.testing.assert_allclose(together.objective_, alone.objective_, rtol=1e-9)
    assert together.converged_
    np.testing.assert_allclose(together.score(features), alone.score(features), atol=1e-6)


FEATURES = LogMapping(features=("f*",))


def test_from_log_to_trees_without_lists_on_the_driver(spark, log_with_features):
    # several ranks estimate how many docs a leaf has, so no rule may ask for it
    options = {"trees": 10, "leaves": 7, "threads": 1, "min_docs_in_leaf": 0}
    one, other = LambdaMART(**options), LambdaMART(**options)
    with (
        LOCAL.open_log(log_with_features, mapping=FEATURES) as here,
        spark.open_log(log_with_features, mapping=FEATURES) as there,
    ):
        assert LOCAL.train_on_log([one], here, CURVE) == [None]
        assert spark.train_on_log([other], there, CURVE) == [None]
    assert trees_of(one) == trees_of(other)
    assert one.feature_names_ == other.feature_names_
    assert not other.history_


def test_from_log_to_the_linear_ranker(spark, log_with_features):
    one, other = (LinearRanker(tolerance=1e-9, threads=1) for _ in range(2))
    with (
        LOCAL.open_log(log_with_features, mapping=FEATURES) as here,
        spark.open_log(log_with_features, mapping=FEATURES) as there,
    ):
        LOCAL.train_on_log([one], here, CURVE, "ips")
        spark.train_on_log([other], there, CURVE, "ips")
    np.testing.assert_allclose(other.weights_, one.weights_, atol=1e-6)


@pytest.mark.parametrize("ranker", [LambdaMART(trees=2), LinearRanker()])
def test_a_feature_with_two_values(spark, log_with_features, tmp_path, ranker):
    import duckdb

    path = tmp_path / "log.parquet"
    duckdb.sql(
        f"COPY (SELECT * REPLACE (CASE WHEN session_id = 5 THEN 77 ELSE f3 END AS f3) "
        f"FROM '{log_with_features}') TO '{path}'"
    )
    with spark.open_log(path, mapping=FEATURES) as events, pytest.raises(InputError) as found:
        spark.train_on_log([ranker], events, CURVE)
    assert "has two values of a feature" in str(found.value)
    assert "\n" not in str(found.value)
    assert "Error" not in str(found.value)


def test_what_spark_does_not_train(spark, lists):
    pairs = PairSet.from_labels(lists)
    with pytest.raises(InputError, match="lambdamart and linear, not svm"):
        spark.train(SVMRanker(), lists, pairs)
    with pytest.raises(InputError, match="ndcg and arp, not map"):
        spark.train(LambdaMART(metric="map"), lists, pairs)


def killed_once(marker: Path):
    """Return a judge whose process is killed when it has seen three trees, the first time."""
    seen = []

    def judge(scores: np.ndarray) -> float:
        seen.append(1)
        if len(seen) == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return float(len(seen))

    return judge


def test_a_killed_task_starts_the_stage_again(spark, lists, tmp_path):
    pairs = PairSet.from_labels(lists, normalise="ndcg", dtype=np.float32)
    judge = (lists, killed_once(tmp_path / "killed"))
    ranker = LambdaMART(trees=6, leaves=7, threads=1)
    with pytest.warns(DataWarning, match="interrupted and starts again"):
        spark.train(ranker, lists, pairs, validation=judge)
    assert (tmp_path / "killed").exists()
    alone = LambdaMART(trees=6, leaves=7, threads=1).fit(lists, pairs)
    assert trees_of(ranker) == trees_of(alone)


def test_a_killed_task_fails_in_one_line(spark, lists, tmp_path):
    pairs = PairSet.from_labels(lists, normalise="ndcg", dtype=np.float32)
    judge = (lists, killed_once(tmp_path / "killed"))
    spark.attempts = 1
    try:
        with pytest.raises(SparkFailure, match="training on Spark failed once") as found:
            spark.train(LambdaMART(trees=6, threads=1), lists, pairs, validation=judge)
    finally:
        spark.attempts = 2
    assert "\n" not in str(found.value)


def test_a_session_of_the_users_stays_open(spark, log_file):
    with find_engine("spark", session=spark.session) as engine, engine.open_log(log_file) as events:
        assert engine.counts(events)["rows"] > 0
    assert spark.session.range(3).count() == 3


def test_nothing_is_left_cached(spark):
    assert spark.session.sparkContext._jsc.getPersistentRDDs().isEmpty()


def test_zz_nothing_is_left_behind(spark):
    """Last in the file: it closes the session that the others use."""
    folder = Path(spark._own._folder)
    assert folder.is_dir()
    spark.close()
    assert not folder.exists()
    own = [p for p in Path(tempfile.gettempdir()).glob("prsrank-spark-*") if p == folder]
    assert not own
