"""What tests of Spark share: a small session, and what it means to be equal."""

import shutil

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.fit.on_engine import engine_plan, fit_on_engine
from prsrank.spark.session import find_java, import_pyspark

SMALL = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.sql.shuffle.partitions": "3",
}


def require_spark():
    """Skip, with the reason, where Spark cannot run."""
    try:
        import_pyspark()
        find_java()
    except InputError as error:
        pytest.skip(str(error))


def fitted(engine, log, *, out, **settings):
    """Fit on an engine with these settings."""
    return fit_on_engine(engine, engine_plan(log, out=out, **settings), out=out)


def same_pairs(one, other):
    """Counts bit for bit, sums to 1e-9."""
    for name in ("offsets", "winner_offsets", "winner_row"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.totals[:, 0], other.totals[:, 0])
    np.testing.assert_allclose(one.totals, other.totals, rtol=1e-9)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9)
    assert one.winners > 100


def trees_of(ranker):
    """Splits and values. Ranks estimate the counts of docs from hessians; nothing uses them."""
    text = ranker.booster_.model_to_string()
    trees = text[text.index("Tree=0") : text.index("end of trees")]
    estimated = ("leaf_count", "internal_count")
    return [line for line in trees.splitlines() if not line.startswith(estimated)]


def free_of_leftovers(folder):
    """Whether Spark left nothing in the folder for temporary files."""
    shutil.rmtree(folder / "hsperfdata_root", ignore_errors=True)
    return not [p for p in folder.iterdir() if p.name.startswith(("prsrank", "spark", "blockmgr"))]
