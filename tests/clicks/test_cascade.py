"""The cascade's likelihood against enumeration, plain counts and simulated users."""

import itertools

import numpy as np
import pytest

from prsrank.clicks.cascade import (
    CascadeCounts,
    CascadeModel,
    clicks_below,
    fit_cascade,
    reading_on,
)
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log import ClickLog
from prsrank.relevance.linear_prior import LinearPrior
from prsrank.relevance.prior import cross_fitting

THETA, SATISFIED, GO_ON = np.array([0.3, 0.8, 0.15, 0.5]), np.array([0.2, 0.9, 0.4, 0.6]), 0.85


def chance_of(clicks: tuple[int, ...], at: int = 0) -> float:
    """Return the probability of clicks at `at` and below for a user who has reached it."""
    if at == len(clicks):
        return 1.0
    nothing = float(not any(clicks[at + 1 :]))
    if clicks[at]:
        stays = (1 - SATISFIED[at]) * GO_ON
        return THETA[at] * (stays * chance_of(clicks, at + 1) + (1 - stays) * nothing)
    return (1 - THETA[at]) * (GO_ON * chance_of(clicks, at + 1) + (1 - GO_ON) * nothing)


def every_session() -> list[tuple[np.ndarray, float]]:
    return [(np.array(c), chance_of(c)) for c in itertools.product([0, 1], repeat=4)]


def test_clicks_given_one_here_or_below_are_those_of_enumeration() -> None:
    assert sum(p for _, p in every_session()) == pytest.approx(1)
    below = clicks_below(np.array([4]), THETA, GO_ON)
    for k in range(4):
        certain = sum(p for c, p in every_session() if c[k:].any())
        clicked = sum(p for c, p in every_session() if c[k])
        expected = THETA[k] / (THETA[k] + (1 - THETA[k]) * below[k])
        assert clicked / certain == pytest.approx(expected, rel=1e-12)


def test_clicks_below_are_those_of_enumeration() -> None:
    # B of the second slot: users who start there, and skip it
    reached = [(c, chance_of((0, *c), 1)) for c in itertools.product([0, 1], repeat=3)]
    skipped = sum(p for c, p in reached if not c[0])
    followed = sum(p for c, p in reached if not c[0] and any(c))
    below = clicks_below(np.array([4]), THETA, GO_ON)[1]
    assert followed / skipped == pytest.approx(below, rel=1e-12)


def test_independent_clicks_have_the_same_recursion() -> None:
    p = np.array([0.3, 0.4, 0.1])
    expected = [1 - np.prod(1 - p[k + 1 :]) for k in range(3)]
    np.testing.assert_allclose(clicks_below(np.array([3]), p, 1.0), expected)


def counts_of_sessions(sessions: float) -> CascadeCounts:
    """Return what is expected of so many sessions of one ranking."""
    certain = [sum(p for c, p in every_session() if c[k:].any()) for k in range(4)]
    clicked = [sum(p for c, p in every_session() if c[k]) for k in range(4)]
    return CascadeCounts(
        np.array([4]),
        np.array([sessions]),
        np.arange(4),
        np.arange(1, 5),
        sessions * np.array(certain),
        sessions * np.array(clicked),
    )


def test_reading_on_follows_from_the_sessions_without_a_click() -> None:
    counts = counts_of_sessions(1000.0)
    assert reading_on(counts, THETA) == pytest.approx(GO_ON, abs=1e-6)
    # docs that are clicked less than they are can only be made up for by reading all
    assert reading_on(counts, THETA * 0.5) == 1.0


@pytest.fixture(scope="module")
def lists() -> RankingDataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3)).astype(np.float32)
    labels = rng.random(3000) < 1 / (1 + np.exp(1.5 - 2 * x[:, 0]))
    return RankingDataset(x, np.arange(0, 3001, 10), labels=labels)


def log_of(lists: RankingDataset, clicks: int, rankers: int = 1) -> ClickLog:
    rng = np.random.default_rng(2)
    scores = [lists.features[:, 0] + rng.normal(size=lists.docs) for _ in range(rankers)]
    return simulate_clicks(lists, scores, CascadeModel(), clicks=clicks, seed=1)


def test_counts_are_sums_over_sessions(lists: RankingDataset) -> None:
    log = log_of(lists, 900, rankers=2)
    counts = CascadeCounts.of_log(log, lists)
    certain, clicked = np.zeros(len(counts.docs)), np.zeros(len(counts.docs))
    for session in range(log.sessions):
        first = log.ranking_offsets[log.session_ranking[session]]
        own = log.clicks[log.click_offsets[session] : log.click_offsets[session + 1]]
        clicked[first + own] += 1
        certain[first : first + own.max(initial=-1) + 1] += 1
    np.testing.assert_array_equal(counts.certain, certain)
    np.testing.assert_array_equal(counts.clicked, clicked)
    assert counts.sessions.sum() == log.sessions
    assert counts.with_clicks.sum() == np.count_nonzero(log.session_clicks)
    rows = log.doc_rows(lists)[log.ranking_docs]
    np.testing.assert_array_equal(counts.docs, rows)


def test_theta_and_reading_on_are_found_from_clicks(lists: RankingDataset) -> None:
    truth = np.where(lists.relevance > 0, 0.9, 0.1)
    counts = CascadeCounts.of_log(log_of(lists, 60_000), lists)
    # with the right B the certain impressions have the click rate that theta says
    below = clicks_below(counts.lengths, truth[counts.docs], 0.9)
    evidence = counts.evidence(lists.docs, np.ones(len(below)), below)
    p = truth[evidence.cell_docs]
    expected = evidence.shown * p / (p + (1 - p) * evidence.below)
    for relevant in (0.1, 0.9):
        chosen = p == relevant
        spread = np.sqrt(expected[chosen].sum())
        assert abs(evidence.clicked[chosen].sum() - expected[chosen].sum()) < 4 * spread
    clicks = float(counts.with_clicks.sum())
    found = fit_cascade(counts, lists.docs, cross_fitting(lists, clicks, LinearPrior(l2=(10.0,))))
    assert found.go_on == pytest.approx(0.9, abs=0.03)
    assert found.prior.q[truth > 0.5].mean() > found.prior.q[truth < 0.5].mean() + 0.15
