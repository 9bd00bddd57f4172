"""The same fit on both engines: the same parts, curves, settings, values and estimates."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

import json
import warnings

import duckdb
import pytest
from spark_checks import close, same_curve, same_evaluation, sessions_of, trees_of

from prsrank.errors import DataWarning, InputError
from prsrank.fit import fit_log, repeat_fit
from prsrank.fit.log import HALF
from prsrank.logs.mapping import LogMapping
from prsrank.spark import SparkEngine

pytestmark = pytest.mark.spark

FEATURES = LogMapping(features=("f*",))
QUICK = {"trials": 2, "trees": 8, "weighting": "prs"}


def fitted_on_both(spark, log, folder, *, mapping=FEATURES, **settings):
    """Fit on the local engine and on Spark; both say the same of sessions left out."""
    engine = SparkEngine(spark.session)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", DataWarning)
        options = QUICK | {"mapping": mapping, "seed": 3} | settings
        here = fit_log(log, out=folder / "here", **options)
        there = fit_log(log, out=folder / "there", engine=engine, **options)
    told = [str(one.message) for one in heard if "left out" in str(one.message)]
    assert told[: len(told) // 2] == told[len(told) // 2 :]
    return here, there


def assert_same_fit(here, there):
    """All that a fit decides and finds."""
    assert here.audit.to_dict() == there.audit.to_dict()
    assert here.left_out == there.left_out
    assert here.parts.counts() == there.parts.counts()
    assert here.parts.dropped_sessions == there.parts.dropped_sessions
    for part in ("train", "validation", "held_out", "learning"):
        assert sessions_of(getattr(here.parts, part)) == sessions_of(getattr(there.parts, part))
    assert here.propensities.how == there.propensities.how
    assert here.propensities.context == there.propensities.context
    judged, other = here.propensities.judged, there.propensities.judged
    close(*([one.power, one.low, one.high] for one in (judged, other)))
    assert judged.sentence == other.sentence
    if here.propensities.curve is None:
        assert there.propensities.curve is None
    else:
        same_curve(here.propensities.curve, there.propensities.curve)
        same_curve(here.propensities.judging, there.propensities.judging)
    assert here.tuned.keys() == there.tuned.keys()
    for name, one in here.tuned.items():
        other = there.tuned[name]
        mine, yours = one.search.trials, other.search.trials
        assert [trial.candidate for trial in mine] == [trial.candidate for trial in yours]
        close([trial.value for trial in mine], [trial.value for trial in yours])
        assert one.chosen.candidate == other.chosen.candidate
    same_evaluation(here.evaluation, there.evaluation)
    assert here.baseline == there.baseline


@pytest.mark.parametrize(
    "holdout", ["query:0.3", pytest.param("randomised", marks=pytest.mark.slow)]
)
def test_linear(spark, half_randomised, tmp_path, holdout):
    """Features are columns of the log; where shuffled sessions judge, each half has its curve."""
    method, trials = ("randomised", 2) if holdout == "randomised" else ("auto", 1)
    here, there = fitted_on_both(
        spark, half_randomised, tmp_path, ranker="linear", holdout=holdout,
        propensity=method, trials=trials,
    )  # fmt: skip
    assert_same_fit(here, there)
    assert there.propensities.context == (HALF if holdout == "randomised" else None)
    assert there.manifest["engine"] == {"name": "spark", "share of the queries learned from": 1.0}
    wrote = {path.name for path in there.folder.iterdir()}
    assert {path.name for path in here.folder.iterdir()} - wrote == {"held_out", "explore.html"}


@pytest.mark.slow  # tests/spark/test_log.py reads such a table
def test_a_table_of_features_beside_the_log(spark, log_with_features, feature_table, tmp_path):
    """It has docs that were never shown, too."""
    here, there = fitted_on_both(
        spark, log_with_features, tmp_path, mapping=LogMapping(), features=feature_table,
        ranker="linear", trials=1, holdout="time:0.1", propensity="power:1",
    )  # fmt: skip
    assert_same_fit(here, there)


@pytest.mark.slow  # tests/spark/test_log.py has the same trees, tests/spark/test_cluster.py such a fit
def test_trees_and_the_same_again(spark, log_with_features, tmp_path):
    here, there = fitted_on_both(spark, log_with_features, tmp_path, trials=1)
    assert_same_fit(here, there)
    for name, one in here.tuned.items():
        assert trees_of(one.ranker) == trees_of(there.tuned[name].ranker)
    written = json.loads((there.folder / "manifest.json").read_text())
    assert written["engine"]["name"] == "spark"
    assert "pyspark" in written["versions"]
    engine = SparkEngine(spark.session)
    again = repeat_fit(there.folder, out=tmp_path / "again", engine=engine)
    assert again.differs == ()


@pytest.mark.slow  # tests/spark/test_log.py reads such a log
def test_features_of_a_data_set(spark, log_with_features, tmp_path):
    """It lacks queries of the log: their sessions are left out."""
    here, there = fitted_on_both(
        spark, log_with_features, tmp_path, mapping=LogMapping(), data="synthetic:mq2007:50:1",
        trials=1, trees=4, propensity="power:1",
    )  # fmt: skip
    assert_same_fit(here, there)
    assert there.left_out > 0


@pytest.mark.slow  # tests/spark/test_events.py has such rows, test_log.py what is left
def test_bad_input_is_one_line_and_writes_nothing(spark, log_with_features, tmp_path):
    log, out = tmp_path / "log.parquet", tmp_path / "out"
    duckdb.sql(
        "COPY (SELECT * REPLACE (CASE WHEN session_id = 5 THEN 0 ELSE position END AS position) "
        f"FROM '{log_with_features}') TO '{log}'"
    )
    with pytest.raises(InputError, match="not usable") as found:
        fit_log(log, out=out, mapping=FEATURES, engine=SparkEngine(spark.session))
    assert "\n" not in str(found.value)
    assert not out.exists()
    assert not spark.session.catalog.listTables()
    assert spark.session.sparkContext._jsc.getPersistentRDDs().isEmpty()


@pytest.mark.slow  # tests/spark/test_log.py has the same pairs in seconds
def test_posterior_pairs(spark, half_randomised, tmp_path):
    """Clicks have weights."""
    here, there = fitted_on_both(
        spark, half_randomised, tmp_path, weighting="posterior", trials=1,
        propensity="power:1",
    )  # fmt: skip
    assert_same_fit(here, there)
    assert trees_of(here.tuned["posterior"].ranker) == trees_of(there.tuned["posterior"].ranker)
