"""Orders, gains and evidence of queries."""

import itertools

import numpy as np
import pytest
from explorer_pages import made, made_evidence

from prsrank import PositionBasedModel, PowerLaw, simulate_clicks, synthetic_dataset
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.report.explorer_data import PICKED, evidence_of, explored, pick


def dcg(thetas):
    return sum(theta / np.log2(rank + 1) for rank, theta in enumerate(thetas[:10], 1))


def test_gain_is_the_dcg_of_the_ranker_less_that_of_the_logged_order():
    rng = np.random.default_rng(1)
    offsets = np.array([0, 4, 30, 31])
    lists = RankingDataset(np.zeros((31, 1)), offsets, query_ids=["a", "b", "c"])
    evidence, scores = made_evidence(rng, 31), rng.normal(size=31)
    found = explored(lists, evidence, np.array([5.0, 6.0, 7.0]), {"one": scores})
    for query, (start, stop) in enumerate(itertools.pairwise(offsets)):
        docs = range(start, stop)
        logged = sorted(docs, key=lambda doc: evidence["position"][doc])
        ranked = sorted(docs, key=lambda doc: -scores[doc])
        gain = dcg(evidence["theta"][ranked]) - dcg(evidence["theta"][logged])
        assert found.gain[0, query] == pytest.approx(gain)
        assert [found.logged[doc] for doc in logged] == list(range(1, len(docs) + 1))
        assert [found.ranks[0, doc] for doc in ranked] == list(range(1, len(docs) + 1))


def test_deviation_is_that_of_gains_drawn_from_the_intervals():
    rng = np.random.default_rng(2)
    lists = RankingDataset(np.zeros((12, 1)), [0, 12])
    evidence = made_evidence(rng, 12)
    found = explored(lists, evidence, np.ones(1), {"one": rng.normal(size=12)})
    drawn = rng.normal(
        evidence["theta"], (evidence["high"] - evidence["low"]) / 3.92, size=(40_000, 12)
    )
    orders = [np.argsort(one) for one in (found.ranks[0], found.logged)]
    ranked, logged = (np.array([dcg(row) for row in drawn[:, order]]) for order in orders)
    assert found.deviation[0, 0] == pytest.approx((ranked - logged).std(), rel=0.03)


def test_equal_scores_stay_in_the_logged_order_and_gain_nothing():
    lists = RankingDataset(np.zeros((20, 1)), [0, 20])
    evidence = made_evidence(np.random.default_rng(3), 20)
    found = explored(lists, evidence, np.ones(1), {"one": np.zeros(20)})
    assert (found.ranks[0] == found.logged).all()
    assert found.gain[0, 0] == found.deviation[0, 0] == 0


def test_docs_that_were_never_shown_are_left_out():
    lists = RankingDataset(np.zeros((6, 1)), [0, 2, 4, 6], query_ids=["a", "b", "c"])
    evidence = made_evidence(np.random.default_rng(4), 6)
    evidence = evidence | {"impressions": np.array([1.0, 0, 0, 0, 2, 3])}
    found = explored(lists, evidence, np.array([1.0, 0, 3]), {"one": np.arange(6.0)})
    assert found.query_ids.tolist() == ["a", "c"]
    assert found.rows.tolist() == [0, 4, 5]
    assert found.offsets.tolist() == [0, 1, 3]
    assert found.sessions.tolist() == [1, 3]
    none = evidence | {"impressions": np.zeros(6)}
    with pytest.raises(InputError, match="shows no doc"):
        explored(lists, none, np.zeros(3), {"one": np.arange(6.0)})


def test_queries_are_picked_by_traffic_gain_and_loss_and_at_random():
    rng = np.random.default_rng(5)
    gain, sessions = rng.normal(size=400), rng.permutation(400) + 1.0
    why = pick(gain, sessions, 100, seed=1)
    assert np.bincount(why + 1).tolist() == [300, 25, 25, 25, 25]
    by = {name: set(np.flatnonzero(why == code)) for code, name in enumerate(PICKED)}
    assert by["traffic"] == set(np.argsort(-sessions)[:25])
    left = [q for q in np.argsort(-gain) if q not in by["traffic"]]
    assert by["gain"] == set(left[:25])
    assert by["loss"] == set(left[-25:])
    assert (pick(gain, sessions, 100, seed=2) != why).any()


def test_where_nothing_is_lost_more_are_picked_at_random():
    why = pick(np.linspace(0, 1, 50), np.ones(50), 20)
    assert np.bincount(why + 1, minlength=5).tolist() == [30, 5, 5, 0, 10]


def test_selected_queries_keep_their_docs():
    found, _, _ = made(6, 4, features=3, names=("one", "two"))
    few, _, _ = made(6, 4, features=3, names=("one", "two"), why=np.array([-1, 0, -1, -1, 3, -1]))
    rows = [4, 5, 6, 7, 16, 17, 18, 19]
    assert few.rows.tolist() == rows
    assert few.picked.tolist() == [0, 3]
    assert (few.gain == found.gain[:, [1, 4]]).all()
    assert (few.ranks == found.ranks[:, rows]).all()
    assert (few.evidence["theta"] == found.evidence["theta"][rows]).all()


def test_evidence_counts_what_the_log_shows():
    data = synthetic_dataset("mq2007", 20)
    log = simulate_clicks(data, data.features[:, 0], PositionBasedModel(eta=1), clicks=400)
    found, sessions = evidence_of(log, data, PowerLaw(1.0))
    rows = log.doc_rows(data)
    shown, clicked, position, seen = (np.zeros(data.docs) for _ in range(4))
    first = np.concatenate([[0], np.cumsum(log.session_clicks)])
    for session, ranking in enumerate(log.session_ranking):
        slots = slice(log.ranking_offsets[ranking], log.ranking_offsets[ranking + 1])
        docs, at = rows[log.ranking_docs[slots]], log.ranking_positions[slots]
        shown[docs] += 1
        position[docs] += at
        seen[docs] += 1 / at
        clicked[docs[log.clicks[first[session] : first[session + 1]]]] += 1
    there = shown > 0
    np.testing.assert_array_equal(found["impressions"], shown)
    np.testing.assert_array_equal(found["clicks"], clicked)
    np.testing.assert_allclose(found["position"][there], (position / shown.clip(1))[there])
    np.testing.assert_allclose(found["propensity"][there], (seen / shown.clip(1))[there])
    assert sessions.sum() == log.sessions
    assert ((found["low"] <= found["theta"]) & (found["theta"] <= found["high"])).all()
