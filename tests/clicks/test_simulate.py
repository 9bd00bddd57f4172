"""Simulated logs against the click models' probabilities."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

from prsrank.clicks.cascade import CascadeModel
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import ranked_docs
from prsrank.clicks.simulate import simulate_clicks
from prsrank.clicks.trust import TrustBiasModel
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError

MODELS = [
    PositionBasedModel(eta=1, mu=0.1),
    PositionBasedModel(eta=0, mu=0),
    PositionBasedModel(mu=0.2, curve=[0.5, 1, 0, 0.3, 0.2], cutoff=5),
    CascadeModel(),
    CascadeModel(mu=0.3, satisfaction=(1, 1), gamma=1),
    TrustBiasModel(trust=1),
    TrustBiasModel(eta=0.5, trust=0.3, cutoff=4),
]


def dataset(lengths, seed=0, relevant=0.3, **options):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = (rng.random(offsets[-1]) < relevant).astype(float)
    return RankingDataset(rng.normal(size=(offsets[-1], 2)), offsets, labels=labels, **options)


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in (
            *("query_ids", "doc_offsets", "doc_ids", "ranking_query", "ranking_offsets"),
            *("ranking_docs", "ranking_positions", "ranking_design", "session_ranking"),
            *("session_clicks", "clicks", "designs"),
        )
    )


def patterns(log, length):
    """Return each session's clicks as the bits of a number, slot 0 the lowest."""
    sessions = np.repeat(np.arange(log.sessions), log.session_clicks)
    assert log.clicks.max(initial=0) < length
    return np.bincount(sessions, 2.0**log.clicks, log.sessions).astype(int)


def independent_pattern_probability(model, relevance, pattern):
    chances = model.click_probabilities(relevance, np.arange(1, len(relevance) + 1))
    return np.prod(np.where(pattern, chances, 1 - chances))


@pytest.mark.parametrize("model", MODELS)
def test_click_patterns_of_a_tiny_case(model, cascade_pattern_probability):
    cascade = isinstance(model, CascadeModel)
    probability = cascade_pattern_probability if cascade else independent_pattern_probability
    data = RankingDataset(np.eye(5), [0, 5], labels=[1, 0, 1, 0, 0])
    log = simulate_clicks(data, [5, 4, 3, 2, 1], model, sessions=60_000, seed=3)
    shown = min(5, model.cutoff or 5)
    seen = np.bincount(patterns(log, shown), minlength=2**shown)
    chances = np.array(
        [
            probability(model, [1, 0, 1, 0, 0][:shown], pattern[::-1])
            for pattern in product([0, 1], repeat=shown)
        ]
    )
    assert chances.sum() == pytest.approx(1)
    assert not seen[chances < 1e-12].any()
    possible = chances >= 1e-12
    if possible.sum() > 1:
        expected = chances[possible] * log.sessions
        rare = expected < 5
        pooled = [np.append(x[~rare], x[rare].sum()) for x in (seen[possible], expected)]
        pooled = [x[: len(x) if rare.any() else -1] for x in pooled]
        assert stats.chisquare(*pooled).pvalue > 1e-4


@pytest.mark.parametrize("model", MODELS)
def test_click_through_by_position_and_relevance(model):
    lengths = [5] * 40 if model.cutoff == 5 else np.random.default_rng(1).integers(1, 60, 40)
    data = dataset(lengths)
    scores = np.random.default_rng(2).normal(size=data.docs)
    log = simulate_clicks(data, scores, model, sessions=100_000, seed=1)
    times = np.bincount(log.session_ranking, minlength=log.rankings)
    ranking = np.repeat(log.session_ranking, log.session_clicks)
    slots = log.ranking_offsets[ranking] + log.clicks
    clicks = np.bincount(slots, minlength=len(log.ranking_docs))
    relevance = data.relevance[log.ranking_docs]
    chances, shows = np.empty(len(relevance)), np.empty(len(relevance))
    for r, (start, stop) in enumerate(pairwise(log.ranking_offsets)):
        positions = log.ranking_positions[start:stop]
        chances[start:stop] = model.click_probabilities(relevance[start:stop], positions)
        shows[start:stop] = times[r]
    key = 2 * log.ranking_positions + relevance
    got, mean = np.bincount(key, clicks), np.bincount(key, shows * chances)
    spread = np.sqrt(np.bincount(key, shows * chances * (1 - chances)))
    assert not got[mean == 0].any()
    enough = mean > 30
    assert enough.sum() >= 2
    assert (np.abs(got - mean)[enough] <= 4.5 * spread[enough] + 1e-6).all()


def test_certain_and_impossible_clicks_are_exact():
    data = RankingDataset(np.zeros((300, 1)), [0, 300], labels=np.arange(300) % 2)
    log = simulate_clicks(data, -np.arange(300), PositionBasedModel(eta=0, mu=0), sessions=200)
    assert (log.session_clicks == 150).all()
    np.testing.assert_array_equal(
        log.clicks.reshape(200, 150), np.tile(np.arange(1, 300, 2), (200, 1))
    )


def test_long_lists_keep_their_tail():
    """Small click probabilities far down a list of many near-certain ones."""
    labels = np.repeat([1, 0], [2000, 500])
    model = PositionBasedModel(eta=0, mu=0.01)
    data = RankingDataset(np.zeros((2500, 1)), [0, 2500], labels=labels)
    log = simulate_clicks(data, -np.arange(2500), model, sessions=2000)
    tail = (log.clicks >= 2000).sum()
    assert abs(tail - 10_000) < 4.5 * np.sqrt(1e6 * 0.01 * 0.99)
    assert abs((log.clicks < 2000).sum() - 3.96e6) < 4.5 * np.sqrt(4e6 * 0.01 * 0.99)


def test_queries_and_rankers_are_drawn_uniformly():
    data = dataset([3, 0, 8, 1, 5])
    scores = np.random.default_rng(0).normal(size=(3, data.docs))
    log = simulate_clicks(data, scores, PositionBasedModel(), sessions=20_000)
    assert log.query_ids.tolist() == [0, 2, 3, 4]
    queries = log.ranking_query[log.session_ranking]
    assert stats.chisquare(np.bincount(queries)).pvalue > 1e-4
    longest = np.bincount(log.session_ranking[queries == 1])
    assert stats.chisquare(longest[longest > 0]).pvalue > 1e-4
    assert (longest > 0).sum() == 3
    assert (log.ranking_query == 2).sum() == 1  # one doc: one ranking, whoever ranks


@pytest.mark.parametrize("design", ["uniform", "top-k", "adjacent", "pivot"])
def test_threads_do_not_matter(design):
    data = dataset([7, 1, 30, 12] * 5)
    scores = np.random.default_rng(0).normal(size=(2, data.docs))
    logs = [
        simulate_clicks(
            data, scores, CascadeModel(), clicks=30_000, randomised=0.3, design=design, threads=t
        )
        for t in (1, 2, 5)
    ]
    assert same(logs[0], logs[1])
    assert same(logs[0], logs[2])


@pytest.mark.parametrize("randomised", [0, 0.5])
def test_a_longer_log_begins_with_the_shorter(randomised):
    data = dataset([7, 1, 30, 12] * 5)
    scores = data.features[:, 0]
    short, long = (
        simulate_clicks(data, scores, PositionBasedModel(), sessions=n, randomised=randomised)
        for n in (3000, 5000)
    )
    slots = short.ranking_offsets[-1]
    np.testing.assert_array_equal(short.session_ranking, long.session_ranking[:3000])
    np.testing.assert_array_equal(short.session_clicks, long.session_clicks[:3000])
    np.testing.assert_array_equal(short.clicks, long.clicks[: len(short.clicks)])
    np.testing.assert_array_equal(short.ranking_docs, long.ranking_docs[:slots])
    np.testing.assert_array_equal(short.doc_ids, long.doc_ids)


def test_stops_with_the_session_that_reaches_the_clicks():
    data = dataset([20] * 10)
    model = PositionBasedModel(eta=0.3)
    whole = simulate_clicks(data, data.features[:, 0], model, sessions=4000)
    for wanted in (1, 2, 700, 5000):
        log = simulate_clicks(data, data.features[:, 0], model, clicks=wanted)
        assert len(log.clicks) >= wanted > len(log.clicks) - log.session_clicks[-1]
        np.testing.assert_array_equal(log.session_clicks, whole.session_clicks[: log.sessions])


def test_seeds_differ():
    data = dataset([10] * 4)
    one, two = (
        simulate_clicks(data, data.features[:, 0], PositionBasedModel(), sessions=500, seed=seed)
        for seed in (0, 1)
    )
    assert not np.array_equal(one.session_clicks, two.session_clicks)


def test_ranking_and_ties():
    offsets = np.array([0, 1000, 1400])
    scores = np.random.default_rng(0).normal(size=1400)
    scores[:1000] = 1.0
    order = ranked_docs(scores, offsets)
    assert sorted(order[:1000]) == list(range(1000))
    assert abs(np.corrcoef(order[:1000], np.arange(1000))[0, 1]) < 0.15
    assert not np.array_equal(order, ranked_docs(scores, offsets, seed=1))
    np.testing.assert_array_equal(order[1000:], 1000 + np.argsort(-scores[1000:]))


def test_docs_have_the_names_of_the_data_set():
    names = np.array(["a", "b", "c", "x", "y"])
    data = dataset([3, 2], doc_ids=names, query_ids=["q", "r"])
    log = simulate_clicks(data, [1, 2, 3, 4, 5], PositionBasedModel(cutoff=2), sessions=50)
    assert log.max_position == 2
    assert set(log.query_ids[log.ranking_query]) == {"q", "r"}
    shown = {tuple(log.doc_ids[log.ranking_docs[s : s + 2]]) for s in log.ranking_offsets[:-1]}
    assert shown == {("c", "b"), ("y", "x")}
    np.testing.assert_array_equal(log.doc_rows(data), np.arange(5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clicks": 10}, "either clicks or sessions"),
        ({"sessions": None}, "either clicks or sessions"),
        ({"sessions": 0}, "at least 1"),
        ({"scores": [1, 2]}, "4 docs"),
        ({"scores": [1, 2, np.nan, 4]}, "score of doc 2 is NaN"),
        ({"scores": ["a", "b", "c", "d"]}, "numbers"),
        ({"scores": [[1, 2, 3, 4], [1]]}, "numbers"),
        ({"seed": -1}, "seed"),
        ({"randomised": 1.5}, "share"),
        ({"randomised": 0.5, "design": "none"}, "unknown design 'none'"),
        ({"randomised": 0.5, "design": "top-k", "design_k": 1}, "at least 2"),
        ({"randomised": 0.5, "design_k": 5}, "takes no k"),
        ({"threads": 0}, "threads"),
        ({"model": PositionBasedModel(curve=[1])}, "covers 1 positions"),
        ({"dataset": RankingDataset(np.eye(4), [0, 4])}, "no labels"),
        ({"dataset": RankingDataset(np.empty((0, 1)), [0, 0], labels=[]), "scores": []}, "no docs"),
        (
            {"model": PositionBasedModel(curve=[0] * 4), "clicks": 1, "sessions": None},
            "no click can happen",
        ),
        (
            {"model": PositionBasedModel(eta=25, mu=0), "clicks": 1, "sessions": None},
            "too rare",
        ),
    ],
)
def test_bad_input(change, message):
    settings = {
        "dataset": RankingDataset(np.eye(4), [0, 4], labels=[0, 1, 0, 0]),
        "scores": [3, 2, 1, 0],
        "model": PositionBasedModel(),
        "sessions": 5,
        **change,
    }
    with pytest.raises(InputError, match=message):
        simulate_clicks(**settings)


def test_sessions_without_any_click_can_be_asked_for():
    data = RankingDataset(np.eye(2), [0, 2], labels=[0, 0])
    log = simulate_clicks(data, [1, 2], PositionBasedModel(mu=0), sessions=5)
    assert log.session_clicks.tolist() == [0] * 5


def test_size_in_memory():
    data = dataset([40] * 10)
    log = simulate_clicks(data, data.features[:, 0], PositionBasedModel(), clicks=50_000)
    kept = log.session_ranking.nbytes + log.session_clicks.nbytes + log.clicks.nbytes
    assert kept <= 16 * len(log.clicks) + 8 * log.sessions
    assert log.rankings == 10
    for array in (log.session_ranking, log.session_clicks, log.clicks):
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        assert base.nbytes == array.nbytes
