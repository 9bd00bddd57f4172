"""The same fit on both engines: the same parts, curves, settings, values and estimates."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

import json
import warnings

import duckdb
import numpy as np
import pytest
from spark_checks import close, same_curve, same_evaluation, sessions_of, trees_of

from prsrank.errors import DataWarning, InputError
from prsrank.fit import fit_log, repeat_fit
from prsrank.fit.parts import HALF
from prsrank.logs.mapping import LogMapping
from prsrank.rankers.base import load_ranker

pytestmark = pytest.mark.spark

FEATURES = LogMapping(features=("f*",))
QUICK = {"trials": 2, "trees": 8}


def fitted_on_both(spark, log, folder, *, workers=None, mapping=FEATURES, **settings):
    """Fit on the local engine and on Spark; the parts are compared while the log is open."""
    from prsrank.spark import SparkEngine

    engine = SparkEngine(spark.session, workers=workers)
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


@pytest.mark.parametrize("holdout", ["query:0.3", "time:0.1", "randomised"])
def test_linear_on_two_workers(spark, log_with_features, half_randomised, tmp_path, holdout):
    log = half_randomised if holdout == "randomised" else log_with_features
    here, there = fitted_on_both(spark, log, tmp_path, ranker="linear", holdout=holdout)
    assert_same_fit(here, there)


@pytest.mark.parametrize("holdout", ["query:0.3", "time:0.1", "randomised"])
def test_trees_of_one_worker(spark, log_with_features, half_randomised, tmp_path, holdout):
    log = half_randomised if holdout == "randomised" else log_with_features
    here, there = fitted_on_both(spark, log, tmp_path, workers=1, holdout=holdout)
    assert_same_fit(here, there)
