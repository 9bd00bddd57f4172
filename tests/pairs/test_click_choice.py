"""When clicks are taken for those of users who read from the top."""

from dataclasses import replace

import numpy as np
import pytest

from prsrank.clicks.cascade import CascadeModel
from prsrank.clicks.depth_mixture import DepthMixtureModel
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.clicks.trust import TrustBiasModel
from prsrank.clicks.whole_sessions import WholeSessions
from prsrank.data.dataset import RankingDataset
from prsrank.pairs.click_choice import crossed_theta, mean_curve
from prsrank.pairs.doc_clicks import DocClicks
from prsrank.pairs.posterior import posterior, posterior_of_clicks
from prsrank.propensity.curve import PowerLaw
from prsrank.relevance.linear_prior import LinearPrior
from prsrank.relevance.prior import Prior

PRIOR = LinearPrior(l2=(10.0,))
THREE = DepthMixtureModel(powers=(0.2, 1, 3), shares=(0.3, 0.4, 0.3))
READERS = (CascadeModel(mu=0.1), CascadeModel(mu=0.1, satisfaction=(0.5, 0.5)))
OTHERS = (
    PositionBasedModel(),
    TrustBiasModel(),
    DepthMixtureModel(powers=(0.3, 3)),
    DepthMixtureModel(powers=(0.5, 1.5)),
    THREE,
)


def lists_of(seed, lists=300, informative=2.0):
    rng = np.random.default_rng(seed)
    docs = rng.integers(5, 16, lists)
    x = rng.normal(size=(docs.sum(), 2)).astype(np.float32)
    labels = rng.random(len(x)) < 1 / (1 + np.exp(1.5 - informative * x[:, 0]))
    return RankingDataset(x, np.append(0, np.cumsum(docs)), labels=labels)


def choice_of(model, lists, clicks, seed):
    log = simulate_clicks(lists, lists.features[:, 0], model, clicks=clicks, seed=seed)
    mixed = model if isinstance(model, DepthMixtureModel) else PositionBasedModel()
    slots = mixed.examination(15)[log.ranking_positions - 1]
    return posterior(log, lists, slots, prior=PRIOR, seed=seed).choice


@pytest.mark.parametrize("model", [*READERS, *OTHERS], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("per_query", [1.5, 6])
def test_only_readers_from_the_top_are_taken_for_a_cascade(model, per_query):
    lists = lists_of(4)
    choice = choice_of(model, lists, round(per_query * lists.lists), 11)
    assert choice.cascade == (model in READERS)
    assert ("a cascade, users" in choice.sentence) == choice.cascade
    assert choice.sentence.startswith("click model: ")


@pytest.mark.slow
@pytest.mark.parametrize("model", [*READERS, *OTHERS], ids=lambda m: type(m).__name__)
def test_the_model_is_right_in_95_of_100_logs(model):
    right = 0
    for seed in range(100):
        lists = lists_of(1000 + seed)
        right += choice_of(model, lists, 6 * lists.lists, seed).cascade == (model in READERS)
    assert right >= 95


def neighbours(lists, sessions, seed):
    """Draw position-based clicks on docs that attract less next to an attractive one."""
    log = simulate_clicks(
        lists, lists.features[:, 0], PositionBasedModel(), sessions=sessions, seed=seed
    )
    rng = np.random.default_rng(seed)
    clicks = []
    for ranking in log.session_ranking:
        docs = log.ranking_docs[slice(*log.ranking_offsets[ranking : ranking + 2])]
        theta = np.where(lists.relevance[docs] > 0, 0.9, 0.1)
        beside = np.append(theta[1:], 0) + np.append(0, theta[:-1])
        clicked = rng.random(len(docs)) < theta * (1 - 0.3 * beside) / np.arange(1, len(docs) + 1)
        clicks.append(np.flatnonzero(clicked))
    return log, clicks


def test_attraction_by_neighbours_is_no_cascade():
    lists = lists_of(5)
    log, clicks = neighbours(lists, 3000, 1)
    counts = np.array([len(own) for own in clicks], np.int32)
    log = replace(log, clicks=np.concatenate(clicks).astype(np.int32), session_clicks=counts)
    assert not posterior(log, lists, PowerLaw(1.0), prior=PRIOR).choice.cascade


def test_docs_without_features_are_told_by_the_other_half_of_the_sessions():
    """Few lists, many sessions: thetas by features alone say nothing here."""
    lists = lists_of(6, lists=20)
    bare = RankingDataset(np.zeros((lists.docs, 1)), lists.offsets, query_ids=lists.query_ids)
    for model in (READERS[1], OTHERS[2]):
        log = simulate_clicks(lists, lists.features[:, 1], model, sessions=4000, seed=2)
        choice = posterior(log, bare, PowerLaw(1.0), prior=PRIOR).choice
        assert choice.cascade == (model in READERS)


def test_too_few_lists_are_said_to_be_too_few():
    lists = lists_of(7, lists=6)
    choice = choice_of(CascadeModel(), lists, 500, 1)
    assert not choice.cascade
    assert "too few lists" in choice.sentence


def test_sessions_left_out_for_their_clicks_are_no_cascade():
    lists = lists_of(9)
    log = simulate_clicks(lists, lists.features[:, 0], READERS[0], sessions=4000, seed=1)
    choice = posterior(log.select(log.session_clicks > 0), lists, PowerLaw(1.0), prior=PRIOR).choice
    assert not choice.cascade
    assert "too few" in choice.sentence


def test_thetas_are_those_of_the_other_half():
    """Every second session clicks the first doc, the others the second one."""
    sessions = WholeSessions(
        np.arange(0, 25, 2), np.tile([0, 1], 12), np.tile([1, 2], 12),
        np.tile([True, False, False, True], 6), np.tile([0, 1], 6),
    )  # fmt: skip
    lists = RankingDataset(np.zeros((2, 1)), np.array([0, 2]))
    prior = Prior(np.zeros(2), np.zeros(2))
    for go_on in (None, 0.9):
        crossed, theta = crossed_theta(sessions, lists, prior, np.ones(2), go_on=go_on)
        seen = theta[crossed.docs].reshape(12, 2)
        assert (seen[::2, 0] < 0.5).all()
        assert (seen[1::2, 0] > 0.5).all()
    few = replace(sessions, offsets=np.arange(0, 9, 2), half=np.zeros(4, int))
    few, theta = crossed_theta(few, lists, prior, np.ones(2))
    np.testing.assert_array_equal(theta, [0.5, 0.5])
    assert (few.docs < 2).all()


def test_the_curve_of_a_choice_is_the_mean_at_each_position():
    lists = lists_of(8)
    log = simulate_clicks(lists, lists.features[:, 0], PositionBasedModel(), sessions=500, seed=1)
    p = np.where(log.ranking_query % 2 == 0, 1.0, 0.5)
    slots = np.repeat(p, np.diff(log.ranking_offsets)) / log.ranking_positions
    clicks = DocClicks.of(log, lists, slots)
    shown, _ = log.slot_statistics()
    for k, value in enumerate(mean_curve(clicks.counted), 1):
        at = log.ranking_positions == k
        assert value == pytest.approx(np.average(slots[at], weights=shown[at]))
    given = posterior_of_clicks(clicks, lists, model=PositionBasedModel(), prior=PRIOR)
    assert given.choice is None
