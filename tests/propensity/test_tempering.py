from dataclasses import replace

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PowerLaw, Propensities
from prsrank.propensity.likelihood import LikelihoodEstimator
from prsrank.propensity.tempering import (
    LEAST_SHARE,
    WIDEST_INTERVAL,
    Tempering,
    _verdict,
    temper,
    tempered,
)
from prsrank.propensity.verdict import Verdict
from prsrank.relevance.linear_prior import LinearPrior

PRIOR = LinearPrior(l2=(10.0,))


def lists_of(docs_per_list: int = 12, lists: int = 250) -> RankingDataset:
    rng = np.random.default_rng(0)
    docs = docs_per_list * lists
    x = rng.normal(size=(docs, 4)).astype(np.float32)
    labels = rng.random(docs) < 1 / (1 + np.exp(1 - 2 * x[:, 0] - x[:, 1]))
    return RankingDataset(x, np.arange(0, docs + 1, docs_per_list), labels=labels)


@pytest.fixture(scope="module")
def lists() -> RankingDataset:
    return lists_of()


def log_of(lists: RankingDataset, eta: float = 1.0, **model: object) -> ClickLog:
    scores = lists.features[:, 0] - 0.3 * lists.features[:, 2]
    clicks = PositionBasedModel(eta=eta, mu=0.1, **model)  # type: ignore[arg-type]
    return simulate_clicks(lists, scores, clicks, clicks=3000, seed=2)


@pytest.fixture(scope="module")
def log(lists: RankingDataset) -> ClickLog:
    return log_of(lists)


@pytest.mark.parametrize("assumed", [0.5, 0.75, 1.0, 2.0])
def test_the_power_that_makes_the_curve_right_is_found(
    log: ClickLog, lists: RankingDataset, assumed: float
) -> None:
    found = temper(log, lists, PowerLaw(assumed), prior=PRIOR)
    assert found.decides
    assert found.low <= 1 / assumed <= found.high
    assert found.power * assumed == pytest.approx(1.0, abs=0.15)
    assert found.contradicts == (assumed != 1.0)
    words = "agree with" if assumed == 1.0 else "contradict"
    assert words in found.sentence
    # 0.75 is too close for one ranking a query: what the ranker knew could look like it
    right = {0.5: 2.0, 0.75: 1.0, 1.0: 1.0, 2.0: 0.5}
    assert found.followed == pytest.approx(right[assumed], abs=0.3)
    assert (found.followed == 1) == (assumed in (0.75, 1.0))


def test_clicks_without_bias_flatten_a_curve(lists: RankingDataset) -> None:
    found = temper(log_of(lists, eta=0.0), lists, PowerLaw(1.0), prior=PRIOR)
    assert found.contradicts
    assert found.power < 0.15


def test_nothing_is_decided_where_features_know_the_position(lists: RankingDataset) -> None:
    # a linear prior with log k among the features mimics any power of k
    log = log_of(lists)
    position = np.ones(lists.docs)
    position[log.doc_rows(lists)[log.ranking_docs]] = log.ranking_positions
    features = np.column_stack([np.log(position), 1e-3 * lists.features[:, 3]])
    low = PositionBasedModel(curve=0.1 / np.arange(1, 13), mu=0.1)  # p theta stays far from 1
    scores = -position
    faint = simulate_clicks(lists, scores, low, clicks=3000, seed=3)
    found = temper(
        faint, RankingDataset(features, lists.offsets), PowerLaw(1.0), prior=LinearPrior(l2=(1e-3,))
    )
    assert not found.decides
    assert "cannot judge" in found.sentence


def test_a_curve_steeper_than_the_clicks_is_flattened_though_features_explain_positions() -> None:
    """One ranker by few of the features, and noisy clicks: features leave little information."""
    data = synthetic_dataset("mq2007", 200, seed=94)
    production = production_scores(data, seed=94)
    logged, scores = logging_part(data, [production])
    noisy = PositionBasedModel(eta=0.5, mu=0.3)
    log = simulate_clicks(logged, scores, noisy, clicks=20 * logged.lists, seed=94)
    found = temper(log, logged, PowerLaw(1.0))
    assert found.share < LEAST_SHARE
    assert found.followed == pytest.approx(0.5, abs=0.15)


def test_a_flat_curve_has_no_power(log: ClickLog, lists: RankingDataset) -> None:
    found = temper(log, lists, PowerLaw(0.0), prior=PRIOR)
    assert not found.decides
    assert found.power == 1.0


def test_a_handful_of_lists_decides_nothing() -> None:
    few = lists_of(lists=6)
    log = simulate_clicks(few, few.features[:, 0], PositionBasedModel(eta=1), clicks=500, seed=2)
    found = temper(log, few, PowerLaw(2.0), prior=PRIOR)
    assert not found.decides
    assert found.followed == 1
    assert "too few lists" in found.sentence


def test_tempered_curves() -> None:
    assert tempered(PowerLaw(2.0), 0.5) == PowerLaw(1.0)
    part = Propensities([1, 0.25], [1, 0.16], [1, 0.36], [9, 4], "identified", "known")
    whole = Propensities(
        *([1, 0.49], [1, 0.4], [1, 0.5], [9, 4], "weak", "known"),
        contexts={"phone": part},
        covariance=np.diag([0, 0.04]),
    )
    half = tempered(whole, 0.5)
    # no surer than the curve was
    np.testing.assert_allclose(half.log_covariance, np.diag([0, 0.04]))
    np.testing.assert_allclose(half.propensity, [1, 0.7])
    np.testing.assert_allclose(half.high / half.propensity, whole.high / whole.propensity)
    np.testing.assert_allclose(half.contexts["phone"].low, [1, 0.5 * 0.16 / 0.25])
    np.testing.assert_allclose(tempered(whole, 2.0).log_covariance, np.diag([0, 0.16]))
    # by the delta method: log p is the power times what it was
    doubt = tempered(whole, 0.5, 0.1)
    variance = 0.04 + (0.1 * np.log(0.49)) ** 2
    np.testing.assert_allclose(doubt.log_covariance, np.diag([0, variance]))
    reach = np.hypot(np.log(0.5 / 0.49), 1.96 * 0.1 * np.log(0.49))
    np.testing.assert_allclose(doubt.high, [1, 0.7 * np.exp(reach)])
    np.testing.assert_allclose(tempered([0.25, 1.0], 0.5), [0.5, 1.0])


def judged(
    power: float,
    low: float,
    high: float,
    within: tuple[float, float] = (0, np.inf),
    steepness: float = 1.0,
) -> Tempering:
    return Tempering(power, low, high, True, 0.3, within, steepness, np.ones(1), np.ones(1))


@pytest.mark.parametrize(
    ("method", "verdict", "power", "identified"),
    [
        ("regression-em", "weak: positions 2: few clicks", 0.06, False),
        ("regression-em", "weak: positions 2: few clicks", 3.5, False),
        ("regression-em", "weak: positions 2: few clicks", 0.5, True),
        ("harvest", "identified", 0.06, True),
        ("randomised", "weak: positions 2: few clicks", 0.06, True),  # an experiment knows better
        ("known", "given", 0.06, True),
        ("file", "weak: positions 2: few clicks", 0.06, True),
    ],
)
def test_a_weak_estimate_far_from_the_clicks_is_none(
    method: str, verdict: str, power: float, identified: bool
) -> None:
    p = [1.0, 0.2]
    curve = Propensities(p, p, p, [50, 9], Verdict(verdict), method)
    left = judged(power, power - 0.02, power + 0.02).left(curve)
    assert left.verdict.unknown != identified
    assert np.isnan(left.propensity[1]) != identified
    assert identified or f"look like its power {power:.2f}" in left.verdict.reason


def test_the_error_of_the_power_to_use() -> None:
    assert judged(0.5, 0.402, 0.598).error == pytest.approx(0.05)
    assert judged(1.9, 1.7, 2.1, (1.1, 1.4)).error == pytest.approx(0.5)  # it was held back


def test_a_curve_that_is_left_as_it_is_keeps_its_intervals() -> None:
    nobody_knows = Tempering(1.0, 0.0, np.inf, False, 0.0, (0, np.inf), 1.0, np.ones(1), np.ones(1))
    assert nobody_knows.followed == 1
    assert nobody_knows.error == 0


def test_the_sentence_names_the_interval() -> None:
    assert judged(0.5, 0.45, 0.56).sentence == (
        "the clicks contradict this curve: they look like its power 0.50 "
        "(95 % interval 0.45 to 0.56)"
    )
    assert judged(1.3, 1.2, 1.4).sentence.endswith("1.40), but " + HIDDEN)
    assert judged(1.9, 1.7, 2.1, (1.1, 1.4)).sentence.endswith(
        "docs shown at several positions like 1.40 at most"
    )


HIDDEN = (
    "a logged ranker that knew more than the features do has the same look; it is left as it is"
)


@pytest.mark.parametrize(
    ("found", "followed"),
    [
        (judged(0.5, 0.4, 0.6), 0.5),  # no hidden knowledge makes a curve look flatter
        (replace(judged(0.5, 0.4, 0.6), decides=False), 1.0),
        (judged(0.9, 0.8, 1.1), 1.0),
        (judged(1.3, 1.2, 1.4), 1.0),  # as hidden knowledge does
        (judged(1.3, 1.2, 1.4, (1.05, 1.5)), 1.3),  # docs at several positions say it too
        (judged(1.3, 1.2, 1.4, (0.9, 1.5)), 1.0),
        (judged(1.9, 1.7, 2.1), 1.9),  # more than hidden knowledge does
        (judged(1.9, 1.55, 2.1, steepness=0.5), 1.0),  # which adds to eta, whatever that is
        (judged(1.9, 1.8, 2.1, steepness=0.5), 1.9),
        (judged(1.9, 1.7, 2.1, (1.1, 1.4)), 1.4),
        (judged(0.6, 0.5, 0.7, (0.4, 0.55)), 0.55),
        (judged(1.9, 1.7, 2.1, (0.7, 0.9)), 1.0),
    ],
)
def test_the_power_to_follow(found: Tempering, followed: float) -> None:
    assert found.followed == followed


@pytest.mark.parametrize("assumed", [0.75, 1.0])
def test_docs_at_several_positions_tell_hidden_knowledge_from_the_curve(
    lists: RankingDataset, assumed: float
) -> None:
    # two rankers that know labels, and differ
    noise = np.random.default_rng(1).normal(size=(2, lists.docs))
    scores = list(2.0 * lists.relevance + 2 * noise)
    clicks = PositionBasedModel(eta=1, mu=0.1)
    log = simulate_clicks(lists, scores, clicks, clicks=6000, seed=2)
    found = temper(log, lists, PowerLaw(assumed), prior=PRIOR)
    assert found.low > 1 / assumed
    assert found.within[0] < 1 / assumed < found.within[1]
    assert (found.followed > 1) == (assumed == 0.75)


def test_what_the_ranker_knew_and_the_features_do_not_looks_like_a_steeper_curve(
    lists: RankingDataset,
) -> None:
    scores = lists.features[:, 0] + 2.0 * lists.relevance
    log = simulate_clicks(lists, scores, PositionBasedModel(eta=1, mu=0.1), clicks=3000, seed=2)
    found = temper(log, lists, PowerLaw(1.0), prior=PRIOR)
    assert found.power > 1.1
    assert found.within == (0, np.inf)
    assert found.followed == 1
    assert found.sentence.endswith(HIDDEN)


def test_estimated_power_law(log: ClickLog, lists: RankingDataset) -> None:
    curve = LikelihoodEstimator(shape="power", prior=PRIOR).estimate(log, dataset=lists)
    k = np.arange(1, 13)
    np.testing.assert_allclose(curve.propensity, 1 / k, atol=0.05)
    assert (curve.low <= 1 / k + 1e-12).all()
    assert (1 / k <= curve.high + 1e-12).all()
    assert curve.verdict.startswith("weak: positions 2-12: every doc was only ever shown at one")


def test_one_ranking_is_named_whatever_else_is_weak(lists: RankingDataset) -> None:
    log = log_of(lists, eta=1.8)
    found = LikelihoodEstimator(prior=PRIOR)
    two = simulate_clicks(
        lists,
        [lists.features[:, 0], lists.features[:, 2]],
        PositionBasedModel(eta=1.8, mu=0.1),
        clicks=3000,
        seed=2,
    )
    assert "few clicks" in found.estimate(two, dataset=lists).verdict
    assert "shown at one position" in found.estimate(log, dataset=lists).verdict


def test_estimated_free_curve(lists: RankingDataset) -> None:
    # a curve with a fold, that no power law has
    truth = np.array([1, 0.9, 0.85, 0.8, 0.3, 0.25, 0.2, 0.18, 0.15, 0.12, 0.1, 0.1])
    log = simulate_clicks(
        lists,
        [lists.features[:, 0], lists.features[:, 2]],
        PositionBasedModel(curve=truth, mu=0.1),
        clicks=8000,
        seed=4,
    )
    curve = LikelihoodEstimator(shape="monotone", prior=PRIOR).estimate(log, dataset=lists, seed=1)
    np.testing.assert_allclose(curve.propensity, truth, atol=0.12)
    assert np.mean(np.abs(curve.propensity - truth)) < 0.05
    assert curve.verdict == "identified"
    assert curve.propensity[3] > 2 * curve.propensity[4]


@pytest.mark.parametrize("shape", ["monotone", "power"])
def test_what_features_miss_does_not_steepen_the_curve(lists: RankingDataset, shape: str) -> None:
    """Two rankers that know the labels, and features that know half of what they know."""
    rng = np.random.default_rng(5)
    scores = [lists.labels + rng.normal(size=lists.docs) for _ in range(2)]
    model = PositionBasedModel(eta=1, mu=0.1)
    log = simulate_clicks(lists, scores, model, clicks=20_000, seed=6)
    blind = RankingDataset(lists.features[:, 1:], lists.offsets, labels=lists.labels)
    # features alone say that the curve is steeper than it is
    assert temper(log, blind, PowerLaw(1), prior=PRIOR).low > 1.05
    found = LikelihoodEstimator(shape=shape, prior=PRIOR).estimate(log, dataset=blind)
    k = np.arange(1, 13)
    np.testing.assert_allclose(found.propensity, 1 / k, atol=0.06)
    steep = np.abs(k**-1.3 - 1 / k).mean()  # about what features alone make of it
    assert np.abs(found.propensity - 1 / k).mean() < steep / 3


def test_without_features_nothing_is_identified(log: ClickLog) -> None:
    curve = LikelihoodEstimator().estimate(log)
    assert curve.verdict.startswith("not identified")
    assert np.isnan(curve.propensity[1:]).all()
    with pytest.raises(InputError, match="rounds"):
        LikelihoodEstimator(rounds=0)


@pytest.mark.parametrize(("spread", "decides"), [(0.2, True), (1.5, False)])
def test_a_wide_interval_decides_nothing(spread: float, decides: bool) -> None:
    """Each of 20 lists is likeliest at a power of its own, around 1."""
    powers = np.array([0, 0.5, 1, 1.5, 2, 3.0])
    best = 1 + spread * np.random.default_rng(0).normal(size=20)
    found = _verdict(powers, -((powers[:, None] - best) ** 2), 1.0, 1.0, 0)
    assert ((found.high - found.low) <= WIDEST_INTERVAL) == decides
    assert found.decides == decides
