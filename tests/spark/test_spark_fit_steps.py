"""Split, tuning and evaluation on Spark: what the local engine finds, without its rows."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from spark_checks import SMALL, fitted, require_spark, trees_of

from prsrank.errors import InputError
from prsrank.logs.log_split import HALF, LogSplit
from prsrank.logs.mapping import LogMapping
from prsrank.propensity.curve import PowerLaw, Propensities
from prsrank.rankers.base import load_ranker
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker
from prsrank.spark import click_sums as spark_sums
from prsrank.spark.local import LocalEngine

pytestmark = pytest.mark.spark

LOCAL = LocalEngine(threads=1)
CURVE = PowerLaw(1.0)
FEATURES = LogMapping(features=("f*",))
# several ranks estimate how many docs a leaf has, so no rule may ask for it
TREES = {"trees": 12, "threads": 1, "patience": 4, "min_docs_in_leaf": 0}


@pytest.fixture(scope="module")
def spark():
    require_spark()
    from prsrank.spark.engine import SparkEngine

    with SparkEngine(master="local[2]", options=SMALL) as engine:
        yield engine


@pytest.fixture(scope="module")
def both(spark, log_with_features):
    """The parts of one log on both engines."""
    with (
        LOCAL.open_log(log_with_features, mapping=FEATURES) as here,
        spark.open_log(log_with_features, mapping=FEATURES) as there,
    ):
        yield LOCAL.split(here, LogSplit()), spark.split(there, LogSplit())


def queries_on_spark(events):
    return {row[0] for row in events.frame.select("query_id").distinct().collect()}


def queries_here(events):
    return {row[0] for row in events.relation.project("query_id").distinct().fetchall()}


def test_the_parts_are_the_same(spark, both, half_randomised):
    with LOCAL.open_log(half_randomised) as here, spark.open_log(half_randomised) as there:
        shuffled = LOCAL.split(here, LogSplit(None)), spark.split(there, LogSplit(None))
        for one, other in (both, shuffled):
            assert one.counts == other.counts
            assert one.dropped_sessions == other.dropped_sessions
            for name in ("train", "validation", "held_out", "learning"):
                found = queries_on_spark(getattr(other, name))
                assert found == queries_here(getattr(one, name))
        for one, other in zip(shuffled[0].halves, shuffled[1].halves, strict=True):
            assert queries_here(one) == queries_on_spark(other)


def test_tuned_as_on_the_local_engine(spark, both):
    """Several settings in one stage: each the trees and value of the local engine."""
    settings = [{"leaves": 7, "learning_rate": 0.3}, {"leaves": 4}, {"leaves": 15}]
    values, models = [], []
    for engine, parts in zip((LOCAL, spark), both, strict=True):
        rankers = [LambdaMART(**TREES, **one) for one in settings]
        values.append(
            engine.train_on_log(
                rankers, parts.train, CURVE, "ips",
                parameters={"tau": 0.2}, validation=parts.validation, tau=0.05,
            )
        )  # fmt: skip
        models.append(rankers)
    np.testing.assert_allclose(values[1], values[0], rtol=1e-9)
    assert len(set(values[0])) == 3
    assert np.argmax(values[1]) == np.argmax(values[0])
    for one, other in zip(*models, strict=True):
        assert trees_of(one) == trees_of(other)
        np.testing.assert_allclose(other.history_, one.history_, rtol=1e-9)
    assert any(len(one.history_) < TREES["trees"] for one in models[0])  # some stop early


def test_linear_rankers_are_judged_by_clicks_too(spark, both):
    values, models = [], []
    for engine, parts in zip((LOCAL, spark), both, strict=True):
        rankers = [
            LinearRanker(l2=l2, missing="impute", tolerance=1e-9, threads=1) for l2 in (0.01, 1.0)
        ]
        values.append(
            engine.train_on_log(rankers, parts.train, CURVE, validation=parts.validation, tau=0.05)
        )
        models.append(rankers)
    np.testing.assert_allclose(values[1], values[0], rtol=1e-9)
    for one, other in zip(*models, strict=True):
        np.testing.assert_allclose(other.weights_, one.weights_, atol=1e-6)


@pytest.fixture(scope="module")
def rankers(both):
    found = {"trees": LambdaMART(**TREES), "line": LinearRanker(threads=1)}
    for ranker in found.values():
        LOCAL.train_on_log([ranker], both[0].train, CURVE)
    return found | {"random": None}


def assert_same_evaluation(one, other):
    assert one.warnings == other.warnings
    assert one.left_out == other.left_out
    names = ("estimates", "differences", "diagnostics")
    for name in names:
        mine, yours = (getattr(found.evaluation, name) for found in (one, other))
        assert len(mine) == len(yours) > 0
        for a, b in zip(mine, yours, strict=True):
            for key, value in vars(a).items():
                if isinstance(value, float):
                    np.testing.assert_allclose(getattr(b, key), value, rtol=1e-9, atol=1e-12)
                else:
                    assert getattr(b, key) == value


def test_evaluated_as_on_the_local_engine(spark, both, rankers):
    """Estimates, intervals, p-values, parts and diagnostics."""
    against = ["logged", "line"]
    found = [
        engine.evaluate(parts.held_out, CURVE, rankers, against=against, seed=3)
        for engine, parts in zip((LOCAL, spark), both, strict=True)
    ]
    assert_same_evaluation(*found)
    kinds = {(one.part, one.estimator) for one in found[1].evaluation.estimates}
    assert len(kinds) == 9


def test_evaluated_with_a_curve_for_each_half(spark, half_randomised, rankers):
    nothing = np.zeros(200, int)
    curves = {n: np.arange(1, 201.0) ** -eta for n, eta in (("", 1), ("1", 0.7), ("2", 1.3))}
    halves = {n: Propensities(p, p, p, nothing, "given", "known") for n, p in curves.items() if n}
    p = curves[""]
    curve = Propensities(p, p, p, nothing, "given", "known", contexts=halves)
    found = []
    for engine in (LOCAL, spark):
        with engine.open_log(half_randomised, mapping=FEATURES) as events:
            parts = engine.split(events, LogSplit(None))
            found.append(
                engine.evaluate(
                    parts.held_out, curve, rankers, against=["logged", "random"], context=HALF
                )
            )
    assert_same_evaluation(*found)
    assert f"{HALF}=2" in {one.part for one in found[1].evaluation.estimates}


def rows_that_come(monkeypatch, spark, events, ranker, most_units):
    """Return how many rows of sums come to the driver, and the evaluation."""
    rows = []

    def arrays_of(frame):
        found = spark_counts_arrays_of(frame)
        rows.append(len(next(iter(found.values()))))
        return found

    from prsrank.spark.counts import arrays_of as spark_counts_arrays_of

    monkeypatch.setattr(spark_sums, "arrays_of", arrays_of)
    wanted = spark_sums.Wanted(("dcg@10",), (0.0, 0.05), most_units=most_units)
    sums = spark._click_sums(events, CURVE, {"trees": ranker}, wanted)
    return rows, sums


def test_as_many_rows_come_of_a_larger_log(
    monkeypatch, spark, both, rankers, log_with_features, tmp_path
):
    """Groups of queries, bins of weights and positions; no queries, sessions or events."""
    path = tmp_path / "twice.parquet"
    duckdb.sql(
        f"COPY (SELECT * REPLACE (query_id + 100000 * copy AS query_id) "
        f"FROM '{log_with_features}', range(3) copies(copy)) TO '{path}'"
    )
    few, sums = rows_that_come(monkeypatch, spark, both[1].held_out, rankers["trees"], 5)
    with spark.open_log(path, mapping=FEATURES) as events:
        many, more = rows_that_come(monkeypatch, spark, events, rankers["trees"], 5)
    assert len(sums[0].parts[0].sessions) == len(more[0].parts[0].sessions) == 5
    assert few[0] == many[0] == 6  # one more than there are units: then a hash groups them
    assert many[1] < 1.5 * few[1]
    here = LOCAL.evaluate(both[0].held_out, CURVE, {"trees": rankers["trees"]}, against=["logged"])
    one = here.evaluation.estimate("trees", "dcg@10")
    whole = sums[0].parts[0]
    value = whole.values[:, 0, 1].sum() / whole.sessions.sum()
    np.testing.assert_allclose(value, one.value, rtol=1e-9)
    assert more[0].sessions > 9 * sums[0].sessions


def test_a_part_without_clicks_in_a_task(spark, both):
    """Sessions without a click count in the divisor, wherever they are."""
    from dataclasses import replace

    events = both[1].held_out
    queries = sorted(queries_on_spark(events))
    kept = f"(query_id != {queries[0]} OR click = 0)"
    few = [
        replace(events, frame=events.frame.where(f"{which} AND {kept}"))
        for which in (f"query_id = {queries[0]}", "true")
    ]
    wanted = spark_sums.Wanted(("dcg@10",), (0.0,))
    [none], [some] = (spark._click_sums(one, CURVE, {}, wanted) for one in few)
    assert none.parts[0].spread.clicks == 0
    assert none.sessions > 0
    assert some.parts[0].spread.clicks > 0
    assert some.parts[0].sessions[0] == none.sessions
    assert some.parts[0].values[0].sum() == 0


def test_a_bad_row_is_one_line_and_writes_nothing(spark, log_with_features, tmp_path):
    path = tmp_path / "log.parquet"
    changes = [("position", "0"), ("f3", "77"), ("position", "1"), ("doc_id", "1")]
    told = []
    for column, value in changes:
        duckdb.sql(
            f"COPY (SELECT * REPLACE (CASE WHEN session_id = 5 THEN {value} ELSE {column} END "
            f"AS {column}) FROM '{log_with_features}') TO '{path}'"
        )
        with pytest.raises(InputError) as found:
            fitted(
                spark, path, out=tmp_path / "out", mapping=FEATURES, propensity="power:1",
                ranker="linear", trials=1,
            )  # fmt: skip
        told.append(str(found.value))
        path.unlink()
    assert told[0].startswith("position 0, but positions start at 1")
    assert "has two values of a feature" in told[1]
    assert "a position twice in session 5 of query" in told[2]
    assert "a doc twice in session 5 of query" in told[3]
    assert all("\n" not in one for one in told)
    assert not list(tmp_path.iterdir())


def test_a_whole_fit_on_shuffled_sessions(spark, half_randomised, tmp_path):
    """Its models, judged on the local engine, have the estimates that it wrote."""
    out = tmp_path / "fit"
    found = fitted(
        spark, half_randomised, out=out, mapping=FEATURES, holdout="randomised",
        trials=1, trees=5, seed=2,
    )  # fmt: skip
    assert found.propensities.context == HALF
    assert found.baseline == "random"
    places = {"prs": "model", "ips": "others/ips", "naive": "others/naive"}
    rankers = {name: load_ranker(out / place) for name, place in places.items()} | {"random": None}
    with LOCAL.open_log(half_randomised, mapping=FEATURES) as events:
        again = LOCAL.evaluate(
            LOCAL.split(events, LogSplit(None)).held_out,
            found.propensities.judging,
            rankers,
            against=["logged", "ips", "naive", "random"],
            context=HALF,
            seed=2,
        )
    assert_same_evaluation(found.evaluation, again)
    wrote = {"evaluation.json", "fit.json", "model", "others", "propensity.json", "report.html"}
    assert {path.name for path in out.iterdir()} == wrote


def test_nothing_is_left_cached(spark):
    assert spark.session.sparkContext._jsc.getPersistentRDDs().isEmpty()
