"""LightGBM's network over our sockets. LightGBM keeps it by thread: each thread is a worker."""

import lightgbm
import numpy as np
import pytest
from spark_checks import ending_at, in_threads

from prsrank.relevance.workers import Workers
from prsrank.spark.tree_network import tree_network
from prsrank.spark.worker_sums import LostWorker

OPTIONS = {"num_leaves": 5, "min_data_in_leaf": 0, "num_threads": 1, "verbosity": -1}
ROWS = 900


@pytest.fixture(scope="module")
def table():
    """Every worker has all values of each feature, and finds the bins of all rows."""
    random = np.random.default_rng(3)
    values = random.integers(0, 8, (ROWS, 6)).astype(np.float64)
    return values, values[:, 0] * values[:, 1] + random.normal(size=ROWS)


def grown(table, rows, trees=4, **network):
    values, target = table[0][rows], table[1][rows]

    def objective(scores, _):
        return scores - target, np.ones(len(target))

    options = OPTIONS | network | {"objective": objective}
    return lightgbm.train(options, lightgbm.Dataset(values), trees)


def grown_together(table, sums):
    rows = np.arange(sums.worker, ROWS, sums.workers)
    with tree_network(sums):
        return grown(table, rows, **Workers(sums.workers).network)


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_workers_grow_the_trees_of_one(table, workers, capfd):
    """Eight have more workers than features: some add up nothing."""
    one = grown(table, np.arange(ROWS))
    texts = set()
    for _ in range(2):
        for booster in in_threads(workers, lambda sums: grown_together(table, sums)):
            np.testing.assert_allclose(booster.predict(table[0]), one.predict(table[0]), rtol=1e-9)
            texts.add(booster.model_to_string())
    assert len(texts) == 1  # the same bits on all workers, each time
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("workers", [2, 3])
def test_a_worker_that_goes_is_noticed_whatever_it_was_to_do(table, workers):
    """Sizes of bins, bins, sums at a root, histograms, splits: LightGBM gets no answer to one."""

    def run(last):
        def work(sums):
            calls = ending_at(sums, last)
            try:
                grown_together(table, sums)
            except MemoryError as error:
                return error
            return len(calls)

        return in_threads(workers, work)

    for last in range(1, run(None)[0] + 1):
        first, gone, *rest = run(last)
        assert isinstance(gone, MemoryError)
        assert all(isinstance(one, LostWorker) for one in (first, *rest))


def test_one_worker_has_no_network(table):
    assert Workers().network == {}
    [booster] = in_threads(1, lambda sums: grown_together(table, sums))
    rows = np.arange(ROWS)
    assert booster.model_to_string() == grown(table, rows).model_to_string()


def test_after_a_training_lightgbm_is_alone_again(table):
    def work(sums):
        grown_together(table, sums)
        return grown(table, np.arange(ROWS)).model_to_string()

    assert set(in_threads(2, work)) == {grown(table, np.arange(ROWS)).model_to_string()}
