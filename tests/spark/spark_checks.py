"""What tests of Spark share: a small session, and what it means to be equal."""

import os
from dataclasses import fields

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.spark.session import find_java, import_pyspark

# What the second compiler of Java gains is less than it costs on logs as small as these.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": "2",
}


def require_spark():
    """Skip, with the reason, where Spark cannot run; on continuous integration it has to."""
    try:
        import_pyspark()
        find_java()
    except InputError as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))


def trees_of(ranker):
    """Splits and values."""
    text = ranker.booster_.model_to_string()
    return text[text.index("Tree=0") : text.index("end of trees")]


def close(one, other, what="", atol=1e-12):
    np.testing.assert_allclose(other, one, rtol=1e-9, atol=atol, err_msg=what)


def same_curve(one, other):
    """Propensities, intervals and clicks, and what is said of them."""
    for name in ("propensity", "low", "high", "clicks"):
        close(getattr(one, name), getattr(other, name))
    assert (one.method, one.verdict) == (other.method, other.verdict)
    assert one.contexts.keys() == other.contexts.keys()
    for name, curve in one.contexts.items():
        same_curve(curve, other.contexts[name])


def same_evaluation(one, other):
    """Estimates, differences and diagnostics, with their intervals, to 1e-9."""
    assert one.warnings == other.warnings
    assert one.left_out == other.left_out
    for name in ("estimates", "differences", "diagnostics"):
        mine, yours = (getattr(found.evaluation, name) for found in (one, other))
        assert len(mine) == len(yours) > 0
        for a, b in zip(mine, yours, strict=True):
            for key, value in vars(a).items():
                if isinstance(value, float):
                    close(value, getattr(b, key), f"{name}: {key} of {a}")
                else:
                    assert getattr(b, key) == value, (a, b)


def sessions_of(log):
    """Return the (query, session) pairs of a log on any engine."""

    def of_piece(piece):  # made here: tasks need not find this file
        queries = piece.query_ids[piece.ranking_query[piece.session_ranking]]
        return tuple(zip(queries.tolist(), piece.session_ids.tolist(), strict=True))

    found = log.pieces.total(of_piece)
    assert len(set(found)) == len(found)
    return set(found)


def contents_of(log):
    """Return all that a log in one piece holds with its lists, as arrays by name."""

    def of_piece(piece):  # made here: tasks need not find this file
        values = {field.name: getattr(piece.log, field.name) for field in fields(piece.log)}
        if values["session_ids"] is None:  # they are 0, 1, 2, ...
            values["session_ids"] = np.arange(piece.log.sessions)
        for name, context in values.pop("contexts").items():
            values[f"context {name}"] = np.array(context.values)[context.codes]
        for field in fields(piece.lists):
            values[f"lists {field.name}"] = getattr(piece.lists, field.name)
        return {name: np.asarray(value) for name, value in values.items()}

    return log.sessions.total(of_piece)
