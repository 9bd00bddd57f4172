"""The likelihood of whole sessions against enumeration and formulas written out for each model."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from prsrank.clicks import whole_sessions
from prsrank.clicks.cascade import CascadeModel, DependentClickModel
from prsrank.clicks.depth_mixture import DepthMixtureModel
from prsrank.clicks.models import CLICK_MODELS
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.clicks.user_browsing import UserBrowsingModel
from prsrank.clicks.whole_sessions import WholeSessions, fit_sessions
from prsrank.data.dataset import RankingDataset

THETA, POSITIONS = np.array([0.3, 0.8, 0.15, 0.5]), (1, 2, 3, 5)
PATTERNS = np.array(list(itertools.product([False, True], repeat=4)))


def chances(model, theta=THETA):
    """Return P(what happened at a slot | what happened above) of all click patterns."""
    every = WholeSessions(
        np.arange(0, 65, 4), np.tile(np.arange(4), 16), np.tile(POSITIONS, 16), PATTERNS.ravel(),
        np.zeros(16, int),
    )  # fmt: skip
    return every.chances(model.tables(5), theta).reshape(16, 4)


@pytest.mark.parametrize("name", sorted(CLICK_MODELS))
def test_probabilities_of_all_patterns_are_those_of_the_simulated_users(name):
    model = CLICK_MODELS[name](mu=0.1)
    p = chances(model).prod(axis=1)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    relevance = np.array(list(itertools.product([0, 1], repeat=4)))
    often = np.where(relevance == 1, THETA, 1 - THETA).prod(axis=1)
    expected = sum(
        share * model.click_probabilities(each, POSITIONS)
        for share, each in zip(often, relevance, strict=True)
    )
    np.testing.assert_allclose(p @ PATTERNS, expected, atol=1e-12)


def test_user_browsing_is_the_product_over_distances_to_the_last_click():
    model = UserBrowsingModel(mu=0, eta=0.7, near=0.6, fading=1.3)
    for clicks, found in zip(PATTERNS, chances(model), strict=True):
        last = 0
        for k, theta, clicked, p in zip(POSITIONS, THETA, clicks, found, strict=True):
            examined = k**-0.7 if last == 0 else 0.6 * (k - last) ** -1.3
            assert p == pytest.approx(examined * theta if clicked else 1 - examined * theta)
            last = k if clicked else last


@pytest.mark.parametrize(
    ("model", "go_on", "stays"),
    [
        (CascadeModel(mu=0, satisfaction=(0, 0.4), gamma=0.85), 0.85, lambda _: 0.85 * 0.6),
        (DependentClickModel(mu=0, more=0.7, fading=0.5), 1.0, lambda k: 0.7 * k**-0.5),
    ],
)
def test_readers_from_the_top_are_the_sum_over_where_they_stop(model, go_on, stays):
    for clicks, found in zip(PATTERNS, chances(model), strict=True):
        total = 0.0
        for seen in range(1, 5):  # the user looks at so many slots, and no further
            if clicks[seen:].any():
                continue
            path = np.where(clicks[:seen], THETA[:seen], 1 - THETA[:seen]).prod()
            steps = [
                stays(k) if c else go_on for k, c in zip(POSITIONS, clicks[:seen], strict=False)
            ]
            ends = 1 - steps[-1] if seen < 4 else 1.0
            total += path * np.prod(steps[:-1]) * ends
        assert found.prod() == pytest.approx(total, rel=1e-12)


def test_a_mixture_is_the_mean_of_its_kinds():
    kinds = [PositionBasedModel(mu=0, eta=eta) for eta in (0.5, 2.0)]
    expected = sum(w * chances(m).prod(axis=1) for w, m in zip((0.3, 0.7), kinds, strict=True))
    mixed = DepthMixtureModel(mu=0, powers=(0.5, 2), shares=(0.3, 0.7))
    np.testing.assert_allclose(chances(mixed).prod(axis=1), expected, rtol=1e-12)
    with pytest.raises(Exception, match="add up to 1"):
        DepthMixtureModel(shares=(0.5, 0.6))


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(0)
    labels = rng.random(800) < 0.3
    return RankingDataset(rng.normal(size=(800, 1)), np.arange(0, 801, 8), labels=labels)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("position-based", PositionBasedModel(mu=0.1, eta=1.5)),
        ("cascade", CascadeModel(mu=0.1, satisfaction=(0.5, 0.5), gamma=0.85)),
        ("depth-mixture", DepthMixtureModel(mu=0.1, powers=(0.3, 3))),
        ("dependent", DependentClickModel(mu=0.1, more=0.6)),
        ("user-browsing", UserBrowsingModel(mu=0.1, near=0.9, fading=0.5)),
    ],
)
def test_the_model_that_drew_the_clicks_fits_them_best_and_its_numbers_are_found(
    lists, name, model
):
    log = simulate_clicks(lists, lists.features[:, 0], model, sessions=4000, seed=1)
    theta, curve = np.where(lists.relevance > 0, 0.9, 0.1), 1 / np.arange(1, 9.0)
    sessions = WholeSessions.of_log(log, lists)
    fits = {
        kind: fit_sessions(kind, sessions, theta, curve) for kind in CLICK_MODELS if kind != "trust"
    }
    heights = {kind: np.log(fit.chances).sum() for kind, fit in fits.items()}
    assert heights[name] > max(heights.values()) - 2  # some hold others as a special case
    true = np.where(lists.relevance > 0, 0.9, 0.1)
    own, drawn = fits[name].model.tables(8), replace(model, mu=0).tables(8)
    assert heights[name] > np.log(sessions.chances(drawn, true)).sum() - 0.5
    reached = sum(np.abs(own.click[0, 1] - drawn.click[0, 1]))
    assert reached < 0.4 or name == "depth-mixture"  # whose kinds may change places


def test_sessions_are_those_of_whole_queries_wherever_they_lie(lists, monkeypatch):
    log = simulate_clicks(lists, lists.features[:, 0], PositionBasedModel(), sessions=3000, seed=1)
    monkeypatch.setattr(whole_sessions, "_MOST", 500)
    monkeypatch.setattr(whole_sessions, "_MOST_OF_LIST", 25)
    sessions = WholeSessions.of_log(log, lists)
    owner, shown = sessions.owners(lists), np.bincount(log.ranking_query[log.session_ranking])
    assert 500 <= len(owner) < 525
    taken = np.bincount(owner, minlength=lists.lists)
    np.testing.assert_array_equal(taken[taken > 0], np.minimum(shown[taken > 0], 25))
    assert abs(np.mean(sessions.half) - 0.5) < 0.05
    query = log.ranking_query[log.session_ranking]
    parts = [WholeSessions.of_log(log.select(query % 3 == n), lists) for n in range(3)]
    again = WholeSessions.joined(parts, lists)
    assert again.clicked.sum() == sessions.clicked.sum()
    np.testing.assert_array_equal(np.bincount(again.owners(lists)), np.bincount(owner))
