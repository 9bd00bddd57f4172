"""Randomised sessions: the designs are uniform, marked, and clicked as the model says."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy import stats

from prsrank.clicks.cascade import CascadeModel
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import DESIGNS, Design, simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError

ONE_LIST = RankingDataset(np.eye(5), [0, 5], labels=[1, 0, 1, 0, 0])
SCORES = [5, 4, 3, 2, 1]


def shown(log):
    """Return (design mark, docs) of each ranking and how many sessions showed it."""
    times = np.bincount(log.session_ranking, minlength=log.rankings)
    orders = [tuple(log.ranking_docs[a:b].tolist()) for a, b in pairwise(log.ranking_offsets)]
    marks = [log.designs[d] for d in log.ranking_design]
    return list(zip(marks, orders, strict=True)), times


def counted(log):
    counts = {}
    for key, times in zip(*shown(log), strict=True):
        counts[key] = counts.get(key, 0) + int(times)
    return counts


def simulate(**options):
    settings = {"sessions": 24_000, "randomised": 1.0, "seed": 5, **options}
    return simulate_clicks(ONE_LIST, SCORES, PositionBasedModel(), **settings)


def assert_uniform(counts, orders, mark):
    assert set(counts) == {(mark, order) for order in orders}
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_uniform_shows_every_order_equally_often():
    assert_uniform(counted(simulate()), list(permutations(range(5))), "uniform")


def test_uniform_with_cutoff_shows_docs_from_the_whole_list():
    log = simulate_clicks(
        ONE_LIST, SCORES, PositionBasedModel(cutoff=2), sessions=20_000, randomised=1.0
    )
    assert_uniform(counted(log), list(permutations(range(5), 2)), "uniform")


@pytest.mark.parametrize("k", [2, 3, 5, 9])
def test_top_k_shuffles_the_first_k(k):
    orders = [(*order, *range(k, 5)) for order in permutations(range(min(k, 5)))]
    counts = counted(simulate(design="top-k", design_k=k))
    assert_uniform(counts, orders, f"top-k:{k}")


def test_top_k_with_cutoff_below_k():
    model = PositionBasedModel(cutoff=2)
    log = simulate_clicks(
        ONE_LIST, SCORES, model, sessions=20_000, randomised=1.0, design="top-k", design_k=4
    )
    assert_uniform(counted(log), list(permutations(range(4), 2)), "top-k:4")


@pytest.mark.parametrize(("design", "k"), [("adjacent", None), ("adjacent", 3), ("pivot", 4)])
def test_swaps_are_uniform_and_stored_once(design, k):
    log = simulate(design=design, design_k=k)
    rankings, times = shown(log)
    assert len(set(rankings)) == len(rankings)
    expected = set()
    for second in range(1, min(k or 10, 5)):
        first = second - 1 if design == "adjacent" else 0
        order = list(range(5))
        mark = f"swap:{first + 1}:{second + 1}"
        expected.add((mark, tuple(order)))
        order[first], order[second] = order[second], order[first]
        expected.add((mark, tuple(order)))
    assert set(rankings) == expected
    assert stats.chisquare(times).pvalue > 1e-4


def test_lists_too_short_to_swap_are_not_marked():
    data = RankingDataset(np.eye(3), [0, 1, 3], labels=[1, 0, 1])
    log = simulate_clicks(
        data, [1, 2, 3], PositionBasedModel(), sessions=500, randomised=1.0, design="adjacent"
    )
    assert {(m, len(o)) for m, o in shown(log)[0]} == {("", 1), ("swap:1:2", 2)}


@pytest.mark.parametrize("design", DESIGNS)
def test_share_of_randomised_sessions(design):
    log = simulate(design=design, randomised=0.2)
    randomised = (log.ranking_design[log.session_ranking] > 0).sum()
    assert abs(randomised - 4800) < 4.5 * np.sqrt(24_000 * 0.2 * 0.8)
    rankings, times = shown(log)
    assert rankings.count(("", (0, 1, 2, 3, 4))) == 1
    assert times.min() > 0


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("model", [PositionBasedModel(eta=0.5), CascadeModel(mu=0.2)])
def test_clicks_follow_the_model(design, model):
    rng = np.random.default_rng(0)
    data = RankingDataset(np.zeros((90, 1)), np.arange(0, 91, 15), labels=rng.random(90) < 0.3)
    log = simulate_clicks(
        data, rng.normal(size=(2, 90)), model, sessions=15_000, randomised=0.7, design=design
    )
    slots = log.ranking_offsets[np.repeat(log.session_ranking, log.session_clicks)] + log.clicks
    clicks = np.bincount(slots, minlength=len(log.ranking_docs)).reshape(-1, 15)
    times = np.bincount(log.session_ranking, minlength=log.rankings)[:, None]
    relevance = data.relevance[log.ranking_docs].reshape(-1, 15)
    chances = np.array([model.click_probabilities(r, np.arange(1, 16)) for r in relevance])
    for relevant in (0, 1):
        here = relevance == relevant
        mean = (times * chances * here).sum(axis=0)
        spread = np.sqrt((times * chances * (1 - chances) * here).sum(axis=0))
        assert (np.abs((clicks * here).sum(axis=0) - mean) <= 4.5 * spread).all()


def test_equal_rankings_of_different_rankers_are_stored_once():
    scores = [SCORES, [50, 40, 30, 20, 10], [5, 4, 3, 1, 2]]
    log = simulate_clicks(
        ONE_LIST, scores, PositionBasedModel(), sessions=2000, randomised=0.3, design="pivot"
    )
    rankings, _ = shown(log)
    assert sum(mark == "" for mark, _ in rankings) == 2
    assert len(set(rankings)) == len(rankings)
    cut = PositionBasedModel(cutoff=3)
    assert simulate_clicks(ONE_LIST, scores, cut, sessions=2000).rankings == 1


def test_bad_designs():
    for options in ({"name": "x"}, {"share": -0.1}, {"name": "pivot", "k": 1}, {"k": 3}):
        with pytest.raises(InputError):
            Design(**options)
    assert Design("adjacent").marks == ("",)
