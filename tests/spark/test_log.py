"""Training and judging on Spark: what the local engine finds, without its rows."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

import os
import signal
from dataclasses import replace

import duckdb
import numpy as np
import pytest
from spark_checks import close, same_evaluation, sessions_of, trees_of

from prsrank.clicks.cascade import CascadeModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.errors import DataWarning, InputError
from prsrank.fit.engine import LocalEngine
from prsrank.fit.judging import Weighed
from prsrank.fit.propensities import FitCurves
from prsrank.logs.click_log_files import write_events
from prsrank.logs.mapping import LogMapping
from prsrank.logs.split import QUERY, RANDOMISED, Split
from prsrank.logs.tables import named_errors
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.curve_of import given_curve
from prsrank.propensity.estimators import estimator
from prsrank.rankers.base import load_ranker
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker
from prsrank.spark import SparkEngine
from prsrank.spark.failures import SparkFailure
from prsrank.spark.pieces import SparkPieces
from prsrank.spark.placing import Size

pytestmark = pytest.mark.spark

CURVE = PowerLaw(1.0)
FEATURES = LogMapping(features=("f*",))
PRS = Weighed(CURVE, "prs", {}, tau=0.05)
TREES = {"trees": 10, "threads": 1, "patience": 3}


@pytest.fixture(scope="module")
def here(log_with_features):
    """The parts of the log on the local engine."""
    with (
        LocalEngine(threads=1) as engine,
        engine.open_log(log_with_features, mapping=FEATURES) as source,
    ):
        yield engine.load(source, mapping=FEATURES).split(Split(QUERY, 0.2))


@pytest.fixture(scope="module")
def there(spark, log_with_features):
    """The parts of the log on Spark."""
    with spark.open_log(log_with_features, mapping=FEATURES) as source:
        yield spark.load(source, mapping=FEATURES).split(Split(QUERY, 0.2))


@pytest.mark.parametrize(
    ("weighting", "parameters"), [("ips", {"tau": 0.2}), ("posterior", {"own": 0.5})]
)
def test_trees_are_those_of_one_machine(here, there, weighting, parameters):
    """The same pairs, trees, values after each tree, and stops."""
    how = Weighed(CURVE, weighting, parameters, tau=0.05)
    forests, found = [], []
    for parts in (here, there):
        settings = [{"leaves": 7, "learning_rate": 0.5}, {"leaves": 4}]
        forests.append([LambdaMART(**TREES, **one) for one in settings])
        found.append(parts.train.train(forests[-1], how, validation=parts.validation))
    close(found[0].values, found[1].values)
    assert found[0].diagnostics == found[1].diagnostics
    for one, other in zip(*forests, strict=True):
        assert trees_of(one) == trees_of(other)
        close(one.history_, other.history_)
        assert one.feature_names_ == other.feature_names_
    assert any(len(one.history_) < TREES["trees"] for one in forests[0])  # some stop early


def test_as_many_queries_as_fit_the_memory_are_learned_from(spark, log_with_features, monkeypatch):
    """Said in one line; the linear ranker, curves and estimates are those of all queries."""
    monkeypatch.setattr(Size, "bytes_to_learn", lambda size, features: 2 * 10**9)
    with spark.open_log(log_with_features, mapping=FEATURES, memory="1GB") as source:
        with pytest.warns(DataWarning, match=r"learn from 50.0% of the queries.* 1.0 GB are all"):
            log = spark.load(source, mapping=FEATURES)
        parts = log.split(Split(QUERY, 0.2))
        some, every = (
            parts.train.lists,
            set(log.pieces.total(lambda piece: tuple(piece.query_ids.tolist()))),
        )
        assert 0.2 * len(every) < log.lists.lists < 0.6 * len(every)
        assert set(some.query_ids.tolist()) < set(log.lists.query_ids.tolist()) < every
        trees = LambdaMART(**TREES)
        parts.train.train([trees], PRS, validation=parts.validation)
        assert trees.score(some.features).std() > 0
        assert parts.held_out.evaluate(CURVE, {"trees": trees}, against=["logged"])
        assert parts.held_out.extent().queries > 0.1 * len(every)


def test_a_saved_model_is_an_ordinary_one(there, lists, tmp_path):
    model = LambdaMART(trees=2)
    trained = there.train.train([model], PRS)
    assert np.isnan(trained.values).all()
    model.save(tmp_path / "model")
    x = lists.features[:, :5]
    close(load_ranker(tmp_path / "model").score(x), model.score(x))


@pytest.mark.parametrize(
    ("weighting", "parameters"), [("prs", {}), ("posterior", {"own": 0.5, "one_way": 1.0})]
)
def test_text_ids_gaps_logged_propensities_and_weighed_actions(
    spark, log_with_features, tmp_path, weighting, parameters
):
    """The linear ranker learns the same from a CSV of another's making."""
    path = tmp_path / "log.csv"
    duckdb.sql(
        "COPY (SELECT 'q' || query_id AS query, session_id AS s, 'd' || doc_id AS doc_id, "
        "position - 1 AS slot, click::INT AS clicked, (click AND session_id % 3 = 0)::INT AS bought, "
        "1 / position AS propensity, f0, f1, CASE WHEN doc_id % 3 = 0 THEN NULL ELSE f2 END AS f2 "
        f"FROM '{log_with_features}') TO '{path}'"
    )
    mapping = LogMapping(
        columns={"query_id": "query", "session_id": "s", "position": "slot"},
        actions={"clicked": 1, "bought": 2.5},
        positions_from=0,
        features=("f*",),
    )
    rankers = []
    for engine in (LocalEngine(threads=1), spark):
        rankers.append(LinearRanker(missing="impute", tolerance=1e-9, threads=1))
        with engine.open_log(path, mapping=mapping) as source:
            log = engine.load(source, mapping=mapping)
            assert log.has_propensities
            log.train([rankers[-1]], Weighed(None, weighting, parameters))
    np.testing.assert_allclose(rankers[1].weights_, rankers[0].weights_, atol=1e-6)


def test_a_cascade_is_told(spark, lists, tmp_path):
    """Its docs, g and prior are those of one machine, and so are the weights."""
    rng = np.random.default_rng(0)
    shown = [rng.normal(size=lists.docs) + lists.labels for _ in range(3)]
    log = simulate_clicks(lists, shown, CascadeModel(mu=0.1), clicks=4000, seed=1)
    write_events(log, tmp_path / "log.parquet")
    data = replace(lists, features=lists.features[:, :5], feature_names=())
    rankers = []
    for engine in (LocalEngine(threads=1), spark):
        rankers.append(LinearRanker(tolerance=1e-9, threads=1))
        with engine.open_log(tmp_path / "log.parquet", mapping=LogMapping()) as source:
            whole = engine.load(source, mapping=LogMapping(), data=data)
            with pytest.warns(DataWarning, match="read from the top"):
                whole.train([rankers[-1]], Weighed(CURVE, "posterior", {}))
    np.testing.assert_allclose(rankers[1].weights_, rankers[0].weights_, atol=1e-6)


def test_sessions_that_show_docs_without_features_are_left_out(
    spark, log_with_features, feature_table, lists, tmp_path
):
    """The table has docs that were never shown, and lacks some that were."""
    table = tmp_path / "table.parquet"
    duckdb.sql(
        f"COPY (SELECT * FROM '{feature_table}' WHERE query_id % 7 > 0 OR doc_id % 5 > 0) "
        f"TO '{table}' (FORMAT parquet)"
    )
    mapping = LogMapping()
    for given in ({"table": table}, {"data": lists.select(np.arange(50))}):
        found = []
        for engine in (LocalEngine(), spark):
            with engine.open_log(log_with_features, mapping=mapping) as source:
                log = engine.load(source, mapping=mapping, **given)
                found.append((log.left_out, log.extent(), sessions_of(log)))
        assert found[0] == found[1]
        assert found[1][0] > 0


def test_evaluated_as_on_the_local_engine(here, there):
    """Estimates, intervals, p-values, parts and diagnostics; a part of the lists has no clicks."""
    line = LinearRanker(threads=1)
    here.train.train([line], PRS)
    found = [
        parts.held_out.evaluate(
            CURVE, {"line": line, "random": None}, against=["logged", "random"], seed=3
        )
        for parts in (here, there)
    ]
    same_evaluation(*found)
    assert len({(one.part, one.estimator) for one in found[1].evaluation.estimates}) == 10
    assert found[1].evaluation.estimate("line", "dcg@10", estimator="dr").value > 0


def test_a_curve_is_judged_as_on_the_local_engine(here, there):
    curve = given_curve("power:2", 6)
    given = FitCurves(curve, curve, "given")
    mine, yours = (given.judge(parts.learning, 3) for parts in (here, there))
    assert yours.power < 0.7  # the clicks are of eta 1
    assert yours.judged.to_json_dict() == mine.judged.to_json_dict()
    some, same = (parts.learning.counted(200).on_curve(curve)[0] for parts in (here, there))
    assert 0 < same.lists < 20
    np.testing.assert_array_equal(some.query_ids, same.query_ids)
    np.testing.assert_array_equal(some.features, same.features)


def test_lists_are_those_of_the_whole_log(spark, half_randomised):
    """Held-out sessions show fewer docs of a query than the log does: all have ranks."""
    found = []
    for engine in (LocalEngine(), spark):
        with engine.open_log(half_randomised, mapping=FEATURES) as source:
            parts = engine.load(source, mapping=FEATURES).split(Split(RANDOMISED, 1.0))
            found.append(parts.held_out.evaluate(CURVE, {"random": None}, against=["logged"]))
    same_evaluation(*found)


def test_relevance_is_learned_on_the_driver_where_a_clip_asks_for_it(here, there):
    """Doubly robust estimates are those of one machine, with propensities below the clip too."""
    line = LinearRanker(threads=1)
    here.train.train([line], PRS)
    found = [
        parts.held_out.evaluate(PowerLaw(2.5), {"line": line}, against=["logged"], seed=3)
        for parts in (here, there)
    ]
    same_evaluation(*found)
    dr, clipped = (
        found[1].evaluation.estimate("line", "dcg@10", estimator=one).value
        for one in ("dr", "clipped")
    )
    assert dr != pytest.approx(clipped)


def test_sessions_without_a_click_count_in_the_divisor(here, there):
    line = LinearRanker(threads=1)
    here.train.train([line], PRS)
    quiet = [parts.train.where(lambda log: log.session_clicks == 0) for parts in (here, there)]
    assert quiet[0].extent() == quiet[1].extent()
    for log in (*quiet, there.train):
        _, quality = log.quality(PRS)
        scores = line.score(log.lists.features)
        assert (quality(scores) > 0) == (log.extent().clicks > 0)


def test_a_feature_with_two_values_is_one_line(spark, log_with_features, tmp_path):
    path = tmp_path / "log.parquet"
    duckdb.sql(
        f"COPY (SELECT * REPLACE (CASE WHEN session_id = 5 THEN 77 ELSE f3 END AS f3) "
        f"FROM '{log_with_features}') TO '{path}'"
    )
    with (
        spark.open_log(path, mapping=FEATURES) as source,
        pytest.raises(InputError, match="has two values of a feature") as found,
    ):
        spark.load(source, mapping=FEATURES)
    assert "\n" not in str(found.value)
    assert "Error" not in str(found.value)


def numbers_of(engine, path):
    """All that a curve, a linear ranker and its evaluation say."""
    line = LinearRanker(threads=1, max_iterations=2)
    with engine.open_log(path, mapping=FEATURES) as source:
        parts = engine.load(source, mapping=FEATURES).split(Split(QUERY, 0.3))
        curve = estimator("harvest").estimate_pieces(parts.learning.pieces, seed=3)
        values = parts.train.train([line], PRS, validation=parts.validation).values
        judged = parts.held_out.evaluate(curve, {"line": line}, against=["logged"], seed=3)
    found = [curve.propensity, curve.low, curve.high, line.weights_, values]
    for name in ("estimates", "differences", "diagnostics"):
        for one in getattr(judged.evaluation, name):
            found.append([value for value in vars(one).values() if isinstance(value, float)])
    return np.concatenate([np.asarray(one, float) for one in found])


@pytest.mark.filterwarnings("ignore::prsrank.errors.DataWarning")  # two steps are not all
def test_no_number_depends_on_rows_files_or_partitions(
    spark, half_randomised, tmp_path, monkeypatch
):
    """Bit for bit, in three pieces: as the file is, and shuffled, in five files and more tasks."""
    monkeypatch.setattr("prsrank.spark.placing._LEAST", 3)
    folder = tmp_path / "parts"
    folder.mkdir()
    for n in range(5):
        duckdb.sql(
            f"COPY (SELECT * FROM '{half_randomised}' WHERE hash(session_id, doc_id) % 5 = {n} "
            f"ORDER BY hash(doc_id, session_id)) TO '{folder}/{n}.parquet'"
        )
    expected = numbers_of(spark, half_randomised)
    before = spark.session.conf.get("spark.sql.shuffle.partitions")
    spark.session.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        found = numbers_of(spark, folder)
    finally:
        spark.session.conf.set("spark.sql.shuffle.partitions", before)
    assert len(expected) > 200
    np.testing.assert_array_equal(found, expected)


def test_sums_are_made_in_the_order_of_the_pieces(spark, monkeypatch):
    """Also where workers add up groups of them first."""
    monkeypatch.setattr("prsrank.spark.pieces._AT_ONCE", 3)
    rows = spark.session.range(0, 70, 1, 7)
    pieces = SparkPieces(rows, 7, lambda batches: [b.column("id")[0].as_py() for b in batches], [])
    assert pieces.total(lambda ids: (min(ids),)) == tuple(range(0, 70, 10))
    some = pieces.changed(lambda ids: ids if min(ids) % 20 else None)
    assert some.total(lambda ids: (min(ids),)) == (10, 30, 50)


def test_what_is_refused(there):
    with pytest.raises(InputError, match="has no labels"):
        there.train.train([LambdaMART()], Weighed(CURVE, "pns_oracle", {}))
    for weighting in ("prs", "posterior"):
        for ranker in (LambdaMART(), LinearRanker()):
            with pytest.raises(InputError, match="the log has none") as found:
                there.train.train([ranker], Weighed(None, weighting, {}))
            assert not isinstance(found.value, SparkFailure)
            assert "\n" not in str(found.value)


def test_a_killed_task_is_one_line(there):
    """On one machine Spark does not try again."""

    def kill(log):  # made here: tasks need not find this file
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(SparkFailure, match="counting on Spark failed: ") as found:
        there.train.pieces.total(kill)
    assert "\n" not in str(found.value)


def test_a_lost_stage_is_still_told_from_bad_input_when_the_log_is_named():
    with pytest.raises(SparkFailure, match="log: no more"), named_errors("log"):
        raise SparkFailure("no more")


def test_a_session_of_the_users_stays_open(spark, log_file):
    mapping = LogMapping()
    with SparkEngine(spark.session) as engine, engine.open_log(log_file, mapping=mapping) as events:
        assert events.total("count(*)")[0] > 0
    assert spark.session.range(3).count() == 3


def test_zz_nothing_is_kept(spark):
    """Last in the file: it takes from the others' frames what they keep."""
    for frame in spark.kept:
        frame.unpersist(blocking=True)
    assert spark.session.sparkContext._jsc.getPersistentRDDs().isEmpty()
