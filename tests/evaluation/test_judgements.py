"""Judgements from clicks."""

import csv
import json

import duckdb
import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.evaluation.judgements import JUDGEMENT_FORMATS, Judgements, judge, write_judgements
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


def test_without_features_the_ranks_shown_are_what_is_known_before_clicks(data):
    """Relevant docs on top, everything seen: unclicked docs are worth more the higher they were."""
    users = PositionBasedModel(eta=0, mu=0.1)
    best = simulate_clicks(data, data.labels.astype(float), users, clicks=2000, seed=2)
    found = judge(best, PowerLaw(0.0))
    position = np.zeros(len(best.doc_ids))
    position[best.ranking_docs] = best.ranking_positions
    position = position[position > 0]  # docs that no session showed are not judged
    unclicked = (found.clicks == 0) & (found.impressions <= 8)
    top, bottom = unclicked & (position <= 5), unclicked & (position >= 20)
    assert min(top.sum(), bottom.sum()) > 20
    assert found.theta[top].mean() > 1.5 * found.theta[bottom].mean()


def test_judgements_show_themselves(log):
    found = judge(log, PowerLaw(1.0))
    assert repr(found).startswith(f"<Judgements: {len(found.rating):,} docs, grades from")
    assert list(found.to_frame())[:3] == ["query_id", "doc_id", "rating"]
    assert "rating" in found.plot().to_json()


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
