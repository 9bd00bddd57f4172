"""Judgements from clicks."""

import csv
import json

import duckdb
import numpy as np
import pytest
from scipy.stats import beta

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.evaluation.judgement_files import JUDGEMENT_FORMATS, write_judgements
from prsrank.evaluation.judgements import Judgements, judge
from prsrank.propensity.curve import PowerLaw


@pytest.fixture(scope="module")
def data():
    return synthetic_dataset("mq2007", 60, seed=1)


@pytest.fixture(scope="module")
def log(data):
    model = PositionBasedModel(eta=1, mu=0.1)
    return simulate_clicks(data, data.features[:, 0], model, clicks=6000, seed=2)


@pytest.mark.parametrize("featured", [True, False])
def test_ratings_follow_relevance_and_not_the_position(data, log, featured):
    found = judge(log, PowerLaw(1.0), data if featured else None)
    rows = {key: i for i, key in enumerate(zip(
        np.repeat(data.query_ids, data.list_lengths).tolist(), data.doc_names.tolist(), strict=True
    ))}  # fmt: skip
    keys = zip(found.query_ids.tolist(), found.doc_ids.tolist(), strict=True)
    relevant = data.relevance[[rows[key] for key in keys]] > 0
    surely = found.seen >= 20
    # P(click once seen) is 0.9 and 0.1
    assert found.theta[relevant & surely].mean() == pytest.approx(0.9, abs=0.07)
    assert found.theta[~relevant & surely].mean() == pytest.approx(0.1, abs=0.07)
    held = (found.low <= np.where(relevant, 0.9, 0.1)) & (
        np.where(relevant, 0.9, 0.1) <= found.high
    )
    assert held.mean() > 0.85
    assert (found.rating[relevant & surely] > 0).all()


def test_counts_are_those_of_the_log(log):
    found = judge(log, PowerLaw(1.0))
    shown, clicked = log.slot_statistics()
    assert found.impressions.sum() == shown.sum()
    assert found.clicks.sum() == clicked.sum() == len(log.clicks)
    assert found.seen.sum() == pytest.approx((shown / log.ranking_positions).sum())
    assert found.doc_ids.tolist() == log.doc_ids.tolist()


def test_without_features_a_doc_leans_on_the_others_of_its_query_only(tiny_judged):
    """Two docs at p = 1: the prior of one is the other's rate, drawn to that of all."""
    found, m, rate, strength = tiny_judged
    others = (7 + m * rate) / (10 + m)
    first = beta(strength * others + 2, strength * (1 - others) + 8)
    assert found.theta[0] == pytest.approx(first.mean(), rel=1e-4)
    assert found.low[0] == pytest.approx(first.ppf(0.025), rel=0.02)


@pytest.fixture
def tiny_judged():
    from prsrank.clicks.likelihood import ClickEvidence
    from prsrank.data.dataset import RankingDataset
    from prsrank.relevance.beta_posterior import beta_posterior
    from prsrank.relevance.prior import cross_fitted_prior
    from prsrank.relevance.query_prior import QueryPrior

    lists = RankingDataset(np.zeros((4, 0), np.float32), np.array([0, 2, 4]))
    clicks = np.array([2.0, 7.0, 1.0, 1.0])
    ones = np.ones(4)
    evidence = ClickEvidence.of(
        np.arange(5), shown=10 * ones, clicked=clicks, gain=ones, floor=0 * ones
    )
    fitted = cross_fitted_prior(lists, evidence, QueryPrior())
    found = beta_posterior(evidence, fitted.q, strength=4.0)
    shape = Judgements(
        *(np.arange(4),) * 3, found.mean, found.low, found.high, *(np.arange(4),) * 3, (0.5,)
    )
    return shape, fitted.details["strength"], clicks.sum() / 40, 4.0


def test_thresholds_are_stated_and_kept(data, log):
    found = judge(log, PowerLaw(1.0), data)
    top = np.quantile(found.theta, 0.99)
    assert found.thresholds == pytest.approx((top / 8, top / 4, top / 2))
    own = judge(log, PowerLaw(1.0), data, thresholds=[0.3])
    assert own.rating.tolist() == (own.theta >= 0.3).astype(int).tolist()
    for bad in ([], [0.5, 0.2], [0, 0.5], [1.5]):
        with pytest.raises(InputError, match="must rise between 0 and 1"):
            judge(log, PowerLaw(1.0), data, thresholds=bad)


def judgements(queries, docs, ratings):
    values = np.array(ratings)
    return Judgements(
        np.array(queries), np.array(docs), values, *(values / 10,) * 3, *(values,) * 3, (0.1, 0.2)
    )


def test_formats(tmp_path):
    found = judgements(["red, dress", "red, dress", "b"], ['say "a"', "x", "y"], [2, 0, 1])
    rows = [["red, dress", 'say "a"', "2"], ["red, dress", "x", "0"], ["b", "y", "1"]]
    write_judgements(found, tmp_path / "q.csv", "quepid")
    with (tmp_path / "q.csv").open(newline="") as stream:
        assert list(csv.reader(stream)) == [["query", "docid", "rating"], *rows]
    write_judgements(found, tmp_path / "o.json", "opensearch")
    body = json.loads((tmp_path / "o.json").read_text())
    assert body["type"] == "IMPORT_JUDGMENT"
    told = [
        (q["query"], r["docId"], r["rating"]) for q in body["judgmentRatings"] for r in q["ratings"]
    ]
    assert told == [(q, d, f"{r}.0") for q, d, r in rows]
    write_judgements(found, tmp_path / "p.parquet", "parquet")
    columns = duckdb.read_parquet(str(tmp_path / "p.parquet")).fetchnumpy()
    assert columns["doc_id"].tolist() == found.doc_ids.tolist()
    assert columns["theta"].tolist() == found.theta.tolist()
    assert set(JUDGEMENT_FORMATS) == {"parquet", "quepid", "opensearch", "trec"}


def test_qrels_are_refused_for_ids_with_blanks(tmp_path):
    write_judgements(judgements(["1", "1"], ["a", "b"], [1, 0]), tmp_path / "a.qrels", "trec")
    assert (tmp_path / "a.qrels").read_text() == "1 0 a 1\n1 0 b 0\n"
    with pytest.raises(InputError, match="no place for blanks"):
        write_judgements(judgements(["a b"], ["c"], [1]), tmp_path / "b.qrels", "trec")
    assert not (tmp_path / "b.qrels").exists()
