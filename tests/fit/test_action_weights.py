"""Actions that weigh more steer what `fit` learns and how it is judged."""

import duckdb
import numpy as np
import pytest

from prsrank.fit import fit_log
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import read_click_log
from prsrank.rankers.base import load_ranker

CHEAP, DEAR = 0, 1


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Lists of two docs in random order: the cheap one is clicked more, the dear one bought."""
    rng = np.random.default_rng(0)
    sessions = 1500
    order = np.argsort(rng.random((sessions, 2)), axis=1)
    clicked = rng.random((sessions, 2)) < np.where(order == CHEAP, 0.4, 0.2)
    bought = clicked & (order == DEAR) & (rng.random((sessions, 2)) < 0.5)
    ids = np.repeat(np.arange(sessions), 2)
    columns = {
        "query_id": ids // 10, "session_id": ids, "doc_id": order.ravel(),
        "position": np.tile([1, 2], sessions), "clicked": clicked.ravel().astype(int),
        "bought": bought.ravel().astype(int), "randomised": np.ones(2 * sessions, bool),
        "price": order.ravel().astype(float),
    }  # fmt: skip
    path = tmp_path_factory.mktemp("actions") / "log.parquet"
    with duckdb.connect() as connection:
        connection.register("rows", columns)
        connection.sql("SELECT * FROM rows").write_parquet(str(path))
    return path


@pytest.mark.parametrize(("bought", "best"), [(1, CHEAP), (10, DEAR)])
def test_weights_steer_training_and_judging(log, tmp_path, bought, best):
    mapping = LogMapping(actions={"clicked": 1, "bought": bought}, features=("price",))
    result = fit_log(
        log,
        out=tmp_path / "fitted",
        mapping=mapping,
        propensity="power:0",
        trials=1,
        trees=5,
        force=True,
    )
    model = load_ranker(tmp_path / "fitted" / "model")
    scores = model.score(np.array([[float(CHEAP)], [float(DEAR)]], np.float32))
    assert scores.argmax() == best
    held_out = read_click_log(tmp_path / "fitted" / "held_out" / "log.parquet")
    mean = 1.0 if held_out.click_weights is None else held_out.click_weights.mean()
    assert (mean > 1) == (bought > 1)
    # every session's value: the summed weight of its clicks by the discount of their new ranks
    discount = np.where(held_out.doc_ids == best, 1, 1 / np.log2(3))
    weight = np.bincount(held_out.ranking_docs, held_out.slot_click_weights())
    expected = weight @ discount / held_out.sessions
    found = result.evaluation.evaluation.estimate("prs", "dcg@10", estimator="ips")
    assert found.value == pytest.approx(expected)
