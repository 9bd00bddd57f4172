"""Doubly robust sums: against the formula, its expectation by enumeration, and derivatives."""

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.evaluation.doc_sums import Regression
from prsrank.evaluation.log_sums import sum_log
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.features import known_lists
from prsrank.propensity.curve import PowerLaw, Propensities

sys.path.insert(0, str(Path(__file__).parent))
from estimates import learned, part_sums

METRICS = ("dcg@10", "dcg@2", "wmrr", "arp")
POSITIONS = 150


@pytest.fixture(scope="module")
def data():
    return synthetic_dataset("mq2007", 40, seed=3)


@pytest.fixture(scope="module")
def log(data):
    """Sessions of two rankers, some in random order, with weights of clicks and a context."""
    rng = np.random.default_rng(1)
    shown = [data.labels + rng.normal(size=data.docs) for _ in range(2)]
    model = PositionBasedModel()
    log = simulate_clicks(data, shown, model, clicks=900, randomised=0.1, seed=2)
    codes = rng.integers(2, size=log.sessions)
    return replace(
        log,
        click_weights=rng.uniform(0.5, 4, len(log.clicks)),
        contexts={"device": Context(("desk", "phone"), codes)},
    )


@pytest.fixture(scope="module")
def relevance(data):
    return np.random.default_rng(5).uniform(0.05, 0.6, data.docs)


def uncertain(p, seed=0):
    """Return a curve with a covariance."""
    rng = np.random.default_rng(seed)
    factor = 0.2 * rng.normal(size=(len(p), 3))
    factor[0] = 0
    clicks = np.ones(len(p), np.int64)
    return Propensities(p, p, p, clicks, "", "test", covariance=factor @ factor.T)


def power(eta):
    return np.arange(1.0, POSITIONS + 1) ** -eta


def rank_value(metric, rank, shown):
    if metric.startswith("dcg"):
        return (rank <= int(metric[4:])) / np.log2(1 + rank)
    return 1 / rank if metric == "wmrr" else (rank - 1) / shown


def plain(log, data, p, scores, relevance, tau, metric):
    """Return sums of theta x value over sessions, of the scores and as shown, and of theta."""
    rows = log.doc_rows(data)
    n, exposure, clicks = np.zeros((3, data.docs))
    values = np.zeros((2, data.docs))
    for session, ranking in enumerate(log.session_ranking):
        slots = slice(*log.ranking_offsets[ranking : ranking + 2])
        docs, positions = rows[log.ranking_docs[slots]], log.ranking_positions[slots]
        for i, doc in enumerate(docs):
            rank = 1 + np.sum(scores[docs] > scores[doc])
            n[doc] += 1
            exposure[doc] += p[positions[i] - 1]
            values[0, doc] += rank_value(metric, rank, len(docs))
            values[1, doc] += rank_value(metric, i + 1, len(docs))
        for click in range(*log.click_offsets[session : session + 2]):
            clicks[docs[log.clicks[click]]] += log.click_weights[click]
    divisor = np.maximum(exposure, tau * n)
    theta = np.where(
        n > 0, relevance + (clicks - relevance * exposure) / np.where(n > 0, divisor, 1), 0
    )
    return values @ theta, n @ theta


@pytest.mark.parametrize("tau", [0.0, 0.05, 0.4])
@pytest.mark.parametrize("metric", METRICS)
def test_sums_are_those_of_the_formula(data, log, relevance, metric, tau):
    scores = np.random.default_rng(2).normal(size=data.docs)
    regression = Regression(relevance, tau)
    sums = sum_log(log, data, PowerLaw(1), {"new": scores}, metrics=[metric], regression=regression)
    (new, logged), weight = plain(log, data, power(1), scores, relevance, tau, metric)
    (part,) = part_sums(sums, "dr")
    assert part.values[:, 0].sum(axis=0) == pytest.approx([logged, new])
    assert part.weights.sum() == pytest.approx(weight)
    assert part.sessions.sum() == sums.sessions == log.sessions


def tiny(outcomes):
    """Return two sessions of three docs, shown in two orders, with these clicks."""
    clicked = np.array(outcomes).reshape(2, 3)
    return ClickLog(
        query_ids=np.array([0]),
        doc_offsets=np.array([0, 3]),
        doc_ids=np.arange(3),
        ranking_query=np.array([0, 0]),
        ranking_offsets=np.array([0, 3, 6]),
        ranking_docs=np.array([0, 1, 2, 2, 0, 1]),
        ranking_positions=np.tile([1, 2, 3], 2),
        session_ranking=np.array([0, 1]),
        session_clicks=clicked.sum(axis=1),
        clicks=np.nonzero(clicked)[1],
        ranking_design=np.zeros(2, np.int64),
        designs=("",),
    )


@pytest.mark.parametrize("tau", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("right", [True, False])
def test_the_expectation_over_all_clicks(tau, right):
    """Unbiased if the relevance is right, or nothing is clipped; else by the stated bias."""
    lists = RankingDataset(np.zeros((3, 1)), np.array([0, 3]), query_ids=np.array([0]))
    p, theta = 1 / np.arange(1, 4), np.array([0.7, 0.2, 0.5])
    mu = theta if right else np.array([0.1, 0.9, 0.4])
    scores = np.array([1.0, 3.0, 2.0])
    chances = (p[None, :] * theta[np.array([(0, 1, 2), (2, 0, 1)])]).ravel()
    expected = 0.0
    for outcome in product([False, True], repeat=6):
        chance = np.where(outcome, chances, 1 - chances).prod()
        sums = sum_log(
            tiny(outcome), lists, PowerLaw(1), {"new": scores}, metrics=["dcg"],
            regression=Regression(mu, tau),
        )  # fmt: skip
        expected += chance * part_sums(sums, "dr")[0].values[:, 0, 1].sum() / 2
    value = 1 / np.log2(1 + np.array([3, 1, 2]))  # ranks of docs 0, 1, 2
    exposure = np.array([p[0] + p[1], p[1] + p[2], p[2] + p[0]])
    clipped = np.maximum(1 - exposure / np.maximum(2 * tau, 1e-9), 0)
    assert expected == pytest.approx(value @ theta + value @ (clipped * (mu - theta)))
    if right or tau == 0:
        assert expected == pytest.approx(value @ theta)
    elif tau == 0.9:
        assert abs(expected - value @ theta) > 0.01


@pytest.mark.parametrize(("tau", "share"), [(0.0, 0.3), (0.1, 0.0)])
def test_with_one_position_per_doc_it_is_ips(data, tau, share):
    """For any relevance without a clip; with one, for relevance 0."""
    log = simulate_clicks(data, data.labels, PositionBasedModel(), clicks=500, seed=1)
    scores = {"new": -data.labels}
    regression = Regression(np.full(data.docs, share), tau)
    sums = sum_log(log, data, PowerLaw(1), scores, metrics=METRICS, tau=tau, regression=regression)
    ours, ips = (part_sums(sums, kind)[0] for kind in ("dr", "clipped" if tau else ""))
    np.testing.assert_allclose(ours.values, ips.values, atol=1e-9)
    np.testing.assert_allclose(ours.weights, ips.weights, atol=1e-9)


def test_halves_of_a_log_make_the_whole(data, log, relevance):
    curve = uncertain(power(1))
    scores = -data.labels * 1.0
    whole = sum_log(
        log, data, curve, {"new": scores},
        metrics=METRICS, regression=Regression(relevance, 0.1), context="device",
    )  # fmt: skip
    query = log.query_ids[log.ranking_query[log.session_ranking]]
    middle = np.median(log.query_ids)
    halves = []
    for part in (log.select(query <= middle), log.select(query > middle)):
        lists = known_lists(part, data)
        rows = np.isin(np.repeat(data.query_ids, data.list_lengths), lists.query_ids)
        halves.append(
            sum_log(
                part, lists, curve, {"new": scores[rows]},
                metrics=METRICS, regression=Regression(relevance[rows], 0.1), context="device",
            )
        )  # fmt: skip
    both = halves[0] + halves[1]
    assert [part.part for part in part_sums(both, "dr")] == ["all", "device=desk", "device=phone"]
    for one, other in zip(whole.parts, both.parts, strict=True):
        np.testing.assert_allclose(one.values, other.values, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(one.moves, other.moves, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("tau", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["docs", "clicks"])
@pytest.mark.parametrize("context", [None, "device"])
def test_moves_are_the_derivatives_by_the_log_of_each_propensity(
    data, log, relevance, tau, kind, context
):
    own = {} if context is None else {"phone": uncertain(power(0.8))}
    curve = replace(uncertain(power(1)), contexts=own)
    scores = {"new": -data.labels * 1.0}

    def sums(curve):
        made = sum_log(
            log, data, curve, scores,
            metrics=METRICS, tau=tau, regression=Regression(relevance, tau), context=context,
        )  # fmt: skip
        clicks = "clipped" if tau else ""
        part = part_sums(made, "dr" if kind == "docs" else clicks)[0]
        return np.append(part.values.sum(axis=0).ravel(), part.weights.sum()), part.moves

    _, moves = sums(curve)
    step = 1e-6
    for k, of_context in ((2, False), (7, False), (14, False), (7, True)):
        if of_context and context is None:
            continue
        source = curve.contexts["phone"] if of_context else curve
        found = []
        for sign in (-1, 1):
            p = np.array(source.propensity)
            p[k] *= np.exp(sign * step)
            other = replace(source, propensity=p)
            moved = replace(curve, contexts={"phone": other}) if of_context else other
            found.append(sums(moved)[0])
        derivative = (found[1] - found[0]) / (2 * step)
        row = k + POSITIONS * of_context
        np.testing.assert_allclose(-derivative, moves[row], rtol=1e-5, atol=1e-5)
        assert kind == "clicks" or np.abs(moves[row]).max() > 0


def test_relevance_is_learned_where_a_clip_needs_it(data, log):
    assert not learned([log], data, PowerLaw(0.1), 0.05).relevance.any()
    relevance = learned([log], data, PowerLaw(1), 0.05).relevance
    mean = log.click_weights.mean()
    assert 0 < relevance.min() < relevance.max() < mean
    # docs of grades above 0 are clicked more often
    assert relevance[data.labels > 0].mean() > relevance[data.labels == 0].mean()


def test_relevance_is_that_of_the_log_in_pieces(data, log):
    whole = learned([log], data, PowerLaw(1), 0.05)
    query = log.ranking_query[log.session_ranking]
    pieces = [log.select(query % 2 == n) for n in (0, 1)]
    cut = learned(pieces, data, PowerLaw(1), 0.05)
    np.testing.assert_allclose(cut.relevance, whole.relevance, rtol=1e-12)


def test_relevance_is_worth_what_clicks_weigh(data, log):
    plain = replace(log, click_weights=None)
    double = replace(log, click_weights=np.full(len(log.clicks), 2.0))
    one, two = (learned([x], data, PowerLaw(1.0), 0.4) for x in (plain, double))
    assert one.relevance.any()
    np.testing.assert_allclose(two.relevance, 2 * one.relevance)
