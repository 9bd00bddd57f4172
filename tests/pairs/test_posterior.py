import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from prsrank.clicks.cascade import CascadeCounts, CascadeModel
from prsrank.clicks.evidence import ClickEvidence
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.clicks.trust import TrustBiasModel
from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning
from prsrank.logs.click_log import ClickLog
from prsrank.losses.logistic import logistic_loss
from prsrank.pairs.doc_clicks import DocClicks, action_weights
from prsrank.pairs.fold_kernels import SUM
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.pairs.pair_set import PairSet
from prsrank.pairs.posterior import (
    Posterior,
    doubly_robust_pairs,
    doubly_robust_relevance,
    posterior,
    posterior_of_clicks,
    posterior_pairs,
)
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.propensity.curve import PowerLaw
from prsrank.relevance.linear_prior import LinearPrior
from prsrank.relevance.tree_prior import TreePrior

CURVE, PRIOR = PowerLaw(1.0), LinearPrior(l2=(10.0,))


@pytest.fixture(scope="module")
def lists() -> RankingDataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3)).astype(np.float32)
    labels = rng.random(3000) < 1 / (1 + np.exp(1.5 - 2 * x[:, 0]))
    return RankingDataset(x, np.arange(0, 3001, 10), labels=labels)


def log_of(lists: RankingDataset, clicks: int, model: object = None, seed: int = 1) -> ClickLog:
    scores = lists.features[:, 0] + np.random.default_rng(2).normal(size=lists.docs)
    clicking = model or PositionBasedModel(eta=1, mu=0.1)
    return simulate_clicks(lists, scores, clicking, clicks=clicks, seed=seed)  # type: ignore[arg-type]


def true_theta(lists: RankingDataset) -> np.ndarray:
    return np.where(lists.relevance > 0, 0.9, 0.1)


def test_weights_are_the_expected_pairs_of_a_session_that_shows_everything() -> None:
    theta = np.array([0.7, 0.2, 0.5])
    data = RankingDataset(np.eye(3), np.array([0, 3]))
    expected = np.zeros((3, 3))
    for clicks in itertools.product([0, 1], repeat=3):
        chance = np.prod(np.where(clicks, theta, 1 - theta))
        c = np.array(clicks)
        expected += chance * np.outer(c, 1 - c)
    got = OuterPairs.from_relevance(data, theta).dense().weights.reshape(3, 3)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_loss_is_that_of_sessions_without_position_bias(lists: RankingDataset) -> None:
    # eta 0 shows all docs of a list: the mean loss of naive pairs is that of the outer pairs
    sessions = 60_000
    log = simulate_clicks(
        lists, lists.features[:, 0], PositionBasedModel(eta=0, mu=0.1), sessions=sessions, seed=5
    )
    scores = lists.features[:, 0] - lists.features[:, 1]
    naive, _ = logistic_loss(scores, PairSet.from_log(log, lists, None, "naive"))
    outer, _ = logistic_loss(scores, OuterPairs.from_relevance(lists, true_theta(lists)))
    assert naive / sessions * lists.lists == pytest.approx(outer, rel=0.02)


def test_theta_goes_to_the_truth_with_many_clicks(lists: RankingDataset) -> None:
    truth = true_theta(lists)
    errors = []
    for clicks in (300, 3000, 300_000):
        found = posterior(log_of(lists, clicks), lists, CURVE, prior=PRIOR)
        errors.append(np.abs(found.theta - truth).mean())
        assert np.abs(found.prior - truth).mean() > 0.15  # what features cannot know
    assert errors[2] < 0.06 < errors[1] < errors[0]


@pytest.mark.parametrize("clicks", [300, 3000, 100_000])
def test_intervals_cover(lists: RankingDataset, clicks: int) -> None:
    found = posterior(log_of(lists, clicks), lists, CURVE, prior=PRIOR)
    truth = true_theta(lists)
    covered = np.mean((found.low <= truth) & (truth <= found.high))
    assert 0.90 <= covered <= 0.999


def test_trust_bias_has_the_same_steps(lists: RankingDataset) -> None:
    log = log_of(lists, 100_000, TrustBiasModel(eta=1, mu=0.1, trust=0.5))
    trust = TrustBiasModel(mu=0.1, trust=0.5)
    right = posterior(log, lists, CURVE, model=trust, prior=PRIOR)
    wrong = posterior(log, lists, CURVE, prior=PRIOR)
    truth = lists.relevance
    error = np.abs(right.theta - truth).mean()
    assert error < 0.15
    assert error < np.abs(wrong.theta - true_theta(lists)).mean() + 0.1
    irrelevant_on_top = (truth == 0) & (wrong.theta > right.theta + 0.2)
    assert irrelevant_on_top.sum() > 100  # what trust in the top looks like without the model


def test_a_cascade_is_recognised_and_its_theta_found(lists: RankingDataset) -> None:
    log = log_of(lists, 20_000, CascadeModel(mu=0.1))
    found = posterior(log, lists, CURVE, prior=PRIOR)
    assert found.choice is not None
    assert found.choice.cascade
    assert found.choice.go_on == pytest.approx(0.9, abs=0.03)
    truth = true_theta(lists)
    given = posterior(log, lists, CURVE, model="cascade", prior=PRIOR)
    np.testing.assert_array_equal(given.theta, found.theta)
    wrong = posterior(log, lists, CURVE, model=PositionBasedModel(), prior=PRIOR)
    assert np.abs(found.theta - truth).mean() < 0.8 * np.abs(wrong.theta - truth).mean()
    with pytest.warns(DataWarning, match="read from the top"):
        posterior_pairs(log, lists, CURVE, prior=PRIOR)


@pytest.mark.parametrize("eta", [0.5, 1.0, 2.0])
def test_independent_clicks_stay_position_based_with_any_curve(
    lists: RankingDataset, eta: float
) -> None:
    log = log_of(lists, 3000)
    found = posterior(log, lists, PowerLaw(eta), prior=PRIOR)
    given = posterior(log, lists, PowerLaw(eta), model=PositionBasedModel(), prior=PRIOR)
    assert found.choice is not None
    assert not found.choice.cascade
    assert "position-based" in found.choice.sentence
    np.testing.assert_array_equal(found.theta, given.theta)


def test_a_cascade_in_pieces_is_that_of_the_whole(lists: RankingDataset) -> None:
    log = log_of(lists, 3000, CascadeModel(mu=0.1))
    whole = posterior(log, lists, CURVE, prior=PRIOR)
    merged = posterior((piece(log, n, 3) for n in (1, 2, 0)), lists, CURVE, prior=PRIOR)
    assert whole.choice is not None
    assert merged.choice is not None
    assert whole.choice.cascade
    assert merged.choice.advantage == pytest.approx(whole.choice.advantage)
    np.testing.assert_allclose(merged.theta, whole.theta, rtol=0, atol=1e-9)


def test_rankings_are_counted_only_where_a_cascade_may_win(
    lists: RankingDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    of_log = CascadeCounts.of_log
    monkeypatch.setattr(
        CascadeCounts, "of_log", lambda log, lists: (asked.append(1), of_log(log, lists))[1]
    )
    posterior(log_of(lists, 3000), lists, CURVE, prior=PRIOR)
    assert not asked
    posterior(log_of(lists, 3000, CascadeModel(mu=0.1)), lists, CURVE, prior=PRIOR)
    assert asked == [1]


def test_seed_and_threads(lists: RankingDataset) -> None:
    log = log_of(lists, 1000)
    few = TreePrior(trees=10)
    one, two = (posterior(log, lists, CURVE, prior=few, threads=t) for t in (1, 2))
    assert np.array_equal(one.theta, two.theta)
    assert one.strength == two.strength


def test_lists_count_alike_or_by_sessions(lists: RankingDataset) -> None:
    log = log_of(lists, 500)
    found = posterior(log, lists, CURVE, prior=PRIOR)
    shown = np.bincount(log.ranking_query[log.session_ranking], minlength=lists.lists)
    np.testing.assert_array_equal(found.sessions, shown)
    alike, often = found.pairs(), found.pairs(by_sessions=True)
    np.testing.assert_allclose(often.totals[:, SUM], alike.totals[:, SUM] * shown)


def test_weighted_actions_weigh_pairs_and_leave_theta(lists: RankingDataset) -> None:
    log = log_of(lists, 4000)
    slot = np.repeat(log.ranking_offsets[log.session_ranking], log.session_clicks) + log.clicks
    rows = log.doc_rows(lists)[log.ranking_docs[slot]]
    dear = lists.features[:, 2] > 0
    weighted = replace(log, click_weights=np.where(dear[rows], 10.0, 1.0))
    plain, found = (posterior(one, lists, CURVE, prior=PRIOR) for one in (log, weighted))
    np.testing.assert_array_equal(plain.theta, found.theta)
    worth = found.action_weights
    assert worth is not None
    assert plain.action_weights is None
    clicked = np.bincount(rows, minlength=lists.docs) > 0
    # weights do not vary within docs, so that a doc's own say everything
    np.testing.assert_allclose(worth[clicked & dear], 10.0)
    np.testing.assert_allclose(worth[clicked & ~dear], 1.0)
    np.testing.assert_allclose(worth[~clicked], weighted.click_weights.mean())
    np.testing.assert_allclose(found.pairs().winning, plain.pairs().winning * worth)


def test_weights_that_are_chance_are_shrunk_to_the_mean(lists: RankingDataset) -> None:
    log = log_of(lists, 4000)
    weights = np.random.default_rng(3).choice([1.0, 10.0], len(log.clicks))
    weighted = replace(log, click_weights=weights)
    worth = posterior(weighted, lists, CURVE, prior=PRIOR).action_weights
    assert worth is not None
    assert worth.std() < 0.35 * weights.std()


def test_weights_are_shrunk_by_credibility() -> None:
    """Two docs of two clicks each, of weights 1, 3 and 9, 11; and one without a click."""
    n, total, squares = np.array([[2, 2, 0], [4, 20, 0], [1 + 9, 81 + 121, 0]], np.float64)
    mean, within = 24 / 4, ((1 - 2) ** 2 + (3 - 2) ** 2 + (9 - 10) ** 2 + (11 - 10) ** 2) / (4 - 2)
    between = (2 * (2 - mean) ** 2 + 2 * (10 - mean) ** 2 - within) / (4 - (2**2 + 2**2) / 4)
    m = within / between
    expected = [(4 + m * mean) / (2 + m), (20 + m * mean) / (2 + m), mean]
    np.testing.assert_allclose(action_weights(n, total, squares), expected)


def weighted_log(lists: RankingDataset, *model: PositionBasedModel | CascadeModel) -> ClickLog:
    log = log_of(lists, 2000, *model)
    weights = np.random.default_rng(3).choice([1.0, 10.0], len(log.clicks))
    return replace(log, click_weights=weights)


def piece(log: ClickLog, number: int, pieces: int) -> ClickLog:
    """Return the sessions of every so-many-th query."""
    return log.select((log.ranking_query % pieces == number)[log.session_ranking])


@pytest.mark.parametrize("prior", ["trees", "linear"])
def test_pieces_of_a_log_give_the_posterior_of_the_whole(lists: RankingDataset, prior: str) -> None:
    log = weighted_log(lists)
    whole = posterior(log, lists, CURVE, prior=prior)
    merged = posterior((piece(log, n, 3) for n in (1, 2, 0)), lists, CURVE, prior=prior)
    np.testing.assert_allclose(merged.theta, whole.theta, rtol=0, atol=1e-12)
    np.testing.assert_allclose(merged.action_weights, whole.action_weights, rtol=1e-12)
    np.testing.assert_array_equal(merged.sessions, whole.sessions)


def test_doubly_robust_relevance_is_unbiased_and_clipped_in_pairs(lists: RankingDataset) -> None:
    logs = [log_of(lists, 3000, seed=seed) for seed in range(30)]
    mu = np.full(lists.docs, 0.4)  # a wrong prior
    values = [
        doubly_robust_relevance(CountedClicks.of_log(log, lists, CURVE).evidence(), mu)
        for log in logs
    ]
    relevant = lists.relevance > 0
    assert np.mean([v[relevant].mean() for v in values]) == pytest.approx(0.9, abs=0.02)
    assert np.mean([v[~relevant].mean() for v in values]) == pytest.approx(0.1, abs=0.02)
    pairs = doubly_robust_pairs(
        logs[0], lists, CURVE, parameters={"tau": 0.1}, prior=PRIOR, normalise="arp"
    )
    assert pairs.normalise == "arp"
    assert (pairs.losing <= 1).all()


def test_the_clip_of_doubly_robust_relevance_is_of_the_mean_propensity() -> None:
    hardly = ClickEvidence.of([0, 1], shown=[10], clicked=[1], gain=[0.02], floor=[0.0])
    # alpha is .02 of ten impressions: .3 + (1 / 10 - .02 * .3) / max(.02, tau)
    for tau, divisor in ((0.0, 0.02), (0.1, 0.1)):
        found = doubly_robust_relevance(hardly, [0.3], tau=tau)
        assert found == pytest.approx([0.3 + (0.1 - 0.006) / divisor])


@pytest.mark.parametrize("normalise", [None, "ndcg", "arp"])
@pytest.mark.parametrize("one_way", [0.0, 0.4, 1.0])
def test_totals_of_outer_pairs_are_those_of_their_rows(
    normalise: str | None, one_way: float
) -> None:
    sizes = np.array([1, 2, 5, 0, 7, 1, 30])
    data = RankingDataset(np.zeros((46, 1)), np.concatenate([[0], np.cumsum(sizes)]))
    theta = np.random.default_rng(0).random(46)
    theta[3], theta[9] = 0.0, 1.0
    pairs = OuterPairs.from_relevance(data, theta, normalise=normalise, one_way=one_way)
    rows, found = pairs.dense().weights, pairs.diagnostics()
    assert (found.lists, found.pairs) == (4, np.count_nonzero(rows))
    assert found.weight_mean * found.pairs == pytest.approx(rows.sum())
    assert found.weight_max == pytest.approx(rows.max())
    assert found.effective_sample_size == pytest.approx(rows.sum() ** 2 / (rows**2).sum())


def test_own_clicks_count_as_far_as_is_said(lists: RankingDataset) -> None:
    found = posterior(log_of(lists, 3000), lists, CURVE, prior=PRIOR)
    for own, theta in ((0.0, found.prior), (1.0, found.theta)):
        expected = OuterPairs.from_relevance(lists, theta, normalise="ndcg")
        np.testing.assert_allclose(
            found.pairs(normalise="ndcg", own=own).winning, expected.winning, rtol=1e-12
        )
    between = found.pairs(own=0.25).losing
    np.testing.assert_allclose(between, 1 - (0.75 * found.prior + 0.25 * found.theta), rtol=1e-12)


@pytest.fixture(scope="module")
def few(lists: RankingDataset) -> RankingDataset:
    return lists.select(np.arange(60))


def test_options_of_a_ranker_reach_the_pairs(few: RankingDataset) -> None:
    found = posterior(log_of(few, 500), few, CURVE, prior=PRIOR)
    pairs = found.pairs(normalise="ndcg", truncation=2, dtype=np.float32)
    assert (pairs.normalise, pairs.truncation, pairs.winning.dtype) == ("ndcg", 2, np.float32)
    known = OuterPairs.from_relevance(few, found.theta, normalise="ndcg", truncation=2)
    np.testing.assert_allclose(pairs.winning, known.winning, rtol=1e-6)


def test_a_power_of_the_curve_is_the_curve_of_that_power(few: RankingDataset) -> None:
    log = log_of(few, 500)
    clicks = DocClicks.of([log], few, PowerLaw(2.0))
    halved = posterior_of_clicks(clicks, few, power=0.5, prior=PRIOR)
    known = posterior(log, few, PowerLaw(1.0), prior=PRIOR)
    np.testing.assert_allclose(halved.theta, known.theta, rtol=1e-9)


@pytest.mark.parametrize("temper", [0.0, 1.0])
def test_what_the_clicks_say_of_the_curve_is_followed_if_asked_for(
    few: RankingDataset, temper: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "prsrank.pairs.posterior.temper_counts", lambda *_: SimpleNamespace(followed=0.5)
    )
    log = log_of(few, 500)
    pairs = posterior_pairs(log, few, PowerLaw(2.0), prior=PRIOR, parameters={"temper": temper})
    known = posterior_pairs(log, few, PowerLaw(1.0 if temper else 2.0), prior=PRIOR)
    np.testing.assert_allclose(pairs.losing, known.losing, rtol=1e-9)


def test_posteriors_are_kept_by_curve_and_shared_by_own(few: RankingDataset) -> None:
    log, known = log_of(few, 500), {}
    for eta in (1.0, 2.0):
        curve = PowerLaw(eta)
        for own in (1.0, 0.5):
            given = {"own": own}
            kept = posterior_pairs(log, few, curve, prior=PRIOR, parameters=given, known=known)
            anew = posterior_pairs(log, few, curve, prior=PRIOR, parameters=given)
            np.testing.assert_array_equal(kept.losing, anew.losing)
    assert len(known) == 2


def test_clicks_of_pieces_without_weights_count_one(few: RankingDataset) -> None:
    log = log_of(few, 500)
    parts = [piece(log, number, 2) for number in (0, 1)]
    weights = np.random.default_rng(3).choice([1.0, 10.0], len(parts[0].clicks))
    mixed = [replace(parts[0], click_weights=weights), parts[1]]
    plain = [mixed[0], replace(parts[1], click_weights=np.ones(len(parts[1].clicks)))]
    found, known = (DocClicks.of(logs, few, CURVE).weights for logs in (mixed, plain))
    assert found is not None
    assert known is not None
    np.testing.assert_array_equal(found, known)


def test_the_prior_of_a_part_serves_the_whole_log(
    lists: RankingDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = lists.select(np.arange(lists.lists) < 250)
    whole = log_of(lists, 6000)
    of_part = whole.select(
        np.isin(whole.query_ids, part.query_ids)[whole.ranking_query[whole.session_ranking]]
    )
    known: dict[object, Posterior] = {}
    posterior_pairs(of_part, part, CURVE, known=known)
    (like,) = known.values()
    clicks = DocClicks.of([of_part], part, CURVE)
    again = like.of_others(clicks, part)
    assert again is not None
    for name in ("theta", "low", "high", "prior"):
        np.testing.assert_allclose(getattr(again, name), getattr(like, name), atol=1e-9)

    def fitted(*_: object, **__: object) -> None:
        raise AssertionError("a prior was fitted")

    monkeypatch.setattr("prsrank.pairs.posterior.cross_fitted_prior", fitted)
    with pytest.raises(AssertionError):  # the part is small: all sessions tell more
        posterior_pairs(whole, lists, CURVE, like=like)
    assert like.learned is not None
    enough = replace(like, learned=replace(like.learned, saturated=True))
    pairs = posterior_pairs(whole, lists, CURVE, like=enough)
    assert pairs.docs == lists.docs
