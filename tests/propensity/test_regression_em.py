from typing import NamedTuple

import numpy as np
import pytest

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.pieces import LocalPieces
from prsrank.propensity.bootstrap import linked_to_first, solve_grounded
from prsrank.propensity.cells import count_cells
from prsrank.propensity.em_steps import (
    CellLikelihood,
    best_relevance_per_doc,
    most_likely_curve,
    propensity_given_relevance,
    relevance_gradient,
)
from prsrank.propensity.regression_em import RegressionEM

TRUTH = np.array([1, 0.7, 0.5, 0.4, 0.3, 0.2])


def plain_step(log, p, r):
    """METHOD's E and M step, event by event."""
    seen, relevant = [[] for _ in p], [[] for _ in r]
    offsets = log.click_offsets
    likelihood = 0.0
    for session, ranking in enumerate(log.session_ranking):
        slots = range(log.ranking_offsets[ranking], log.ranking_offsets[ranking + 1])
        clicks = set(log.clicks[offsets[session] : offsets[session + 1]].tolist())
        for i, slot in enumerate(slots):
            doc, k = log.ranking_docs[slot], log.ranking_positions[slot] - 1
            both = p[k] * r[doc]
            if i in clicks:
                seen[k].append(1.0)
                relevant[doc].append(1.0)
                likelihood += np.log(both)
            else:
                seen[k].append(p[k] * (1 - r[doc]) / (1 - both))
                relevant[doc].append(r[doc] * (1 - p[k]) / (1 - both))
                likelihood += np.log(1 - both)
    means = [np.array([np.mean(x) if x else old for x, old in zip(xs, olds, strict=True)])
             for xs, olds in ((seen, p), (relevant, r))]  # fmt: skip
    return *means, likelihood


class Step(NamedTuple):
    propensity: np.ndarray
    relevance: np.ndarray
    log_likelihood: float


def em_step(cells, p, r):
    """The E and M step of `plain_step`, on counts: the new p and r, the likelihood of the old."""
    doc, k = cells.cell_docs, cells.positions - 1
    both = np.minimum(p[k] * r[doc], 1 - 1e-15)
    missed = (cells.shown - cells.clicked) / (1 - both)
    seen = np.bincount(k, cells.clicked + missed * (p[k] - both), cells.depth)
    relevant = np.bincount(doc, cells.clicked + missed * (r[doc] - both), cells.docs)
    at, of = np.bincount(k, cells.shown, cells.depth), np.bincount(doc, cells.shown, cells.docs)
    heights = cells.clicked * np.log(np.maximum(both, 1e-300))
    heights += (cells.shown - cells.clicked) * np.log1p(-both)
    new = np.where(at > 0, seen / np.maximum(at, 1), p)
    return Step(new, np.where(of > 0, relevant / np.maximum(of, 1), r), heights.sum())


def some_cells(simulated_log, **options):
    log = simulated_log(TRUTH, rankers=3, **{"queries": 8, "sessions": 600, **options})
    return log, count_cells(log)


def test_a_step_is_that_of_single_events(simulated_log):
    log, cells = some_cells(simulated_log)
    rng = np.random.default_rng(0)
    p, r = rng.uniform(0.1, 0.9, cells.depth), rng.uniform(0.1, 0.9, cells.docs)
    for found, expected in zip(em_step(cells, p, r), plain_step(log, p, r), strict=True):
        np.testing.assert_allclose(found, expected)


def test_a_step_by_hand(tiny_log):
    # one doc at position 1: clicked once in two sessions
    cells = count_cells(tiny_log([(0, [0], [1])], [(0, [1]), (0, [])], docs_per_query=1))
    step = em_step(cells, np.array([0.8]), np.array([0.5]))
    assert step.propensity[0] == pytest.approx((1 + 0.8 * 0.5 / 0.6) / 2)
    assert step.relevance[0] == pytest.approx((1 + 0.5 * 0.2 / 0.6) / 2)
    assert step.log_likelihood == pytest.approx(np.log(0.4) + np.log(0.6))


def test_the_fit_is_where_many_plain_steps_end(simulated_log):
    _, cells = some_cells(simulated_log, sessions=6000, seed=2)
    cells = cells.of_docs(np.bincount(cells.cell_docs, cells.clicked, cells.docs) > 0)
    p = most_likely_curve(LocalPieces([CellLikelihood(cells)]), cells.clicks_at, tolerance=1e-9)
    r, _ = best_relevance_per_doc(cells, p)
    # the scale is free: choose one at which both are probabilities
    scale = 0.9 * min(1 / p.max(), 1.0)
    if (r / scale).max() <= 1:
        step = em_step(cells, p * scale, r / scale)
        np.testing.assert_allclose(step.propensity, p * scale, rtol=1e-5)
    slow_p, slow_r = np.full(cells.depth, 0.5), np.full(cells.docs, 0.5)
    for _ in range(20_000):
        slow_p, slow_r, _ = em_step(cells, slow_p, slow_r)
    np.testing.assert_allclose(p, slow_p / slow_p[0], rtol=1e-3)


def test_relevance_and_propensity_maximise_given_the_other(simulated_log):
    _, cells = some_cells(simulated_log, sessions=5000)
    p = np.arange(1, cells.depth + 1) ** -0.5
    r, height = best_relevance_per_doc(cells, p)
    assert height == pytest.approx(em_step(cells, p, r).log_likelihood)
    for factor in (0.97, 1.03):
        nudged = np.minimum(r * factor, 0.999)
        assert em_step(cells, p, nudged).log_likelihood < height
    r = np.full(cells.docs, 0.4)
    best = propensity_given_relevance(cells, p, r, tolerance=1e-10)
    for k, factor in ((0, 0.98), (2, 1.02), (4, 0.98)):
        nudged = best.copy()
        nudged[k] *= factor
        assert em_step(cells, nudged, r).log_likelihood < em_step(cells, best, r).log_likelihood


def test_gradient_is_what_an_m_step_descends(simulated_log):
    _, cells = some_cells(simulated_log)
    rng = np.random.default_rng(1)
    p, r = rng.uniform(0.1, 0.9, cells.depth), rng.uniform(0.1, 0.9, cells.docs)
    gradient, curvature = relevance_gradient(cells, p, r)
    shown = np.bincount(cells.cell_docs, cells.shown, cells.docs)
    np.testing.assert_allclose(gradient, shown * (r - em_step(cells, p, r).relevance), atol=1e-9)
    assert (curvature >= 0).all()


def test_information_is_the_curvature_of_the_best_likelihood(simulated_log):
    _, cells = some_cells(simulated_log, queries=30, sessions=60_000, seed=3)
    p = most_likely_curve(LocalPieces([CellLikelihood(cells)]), cells.clicks_at, tolerance=1e-10)
    information = CellLikelihood(cells).information(p)

    def height(k, a, other, b):
        moved = np.log(p)
        moved[k] += a
        moved[other] += b
        return best_relevance_per_doc(cells, np.exp(moved))[1]

    step = 0.02
    for k, other in ((0, 1), (2, 3), (1, 4)):
        mixed = (
            height(k, step, other, step) - height(k, step, other, -step)
            - height(k, -step, other, step) + height(k, -step, other, -step)
        ) / (4 * step**2)  # fmt: skip
        assert information[k, other] == pytest.approx(mixed, rel=0.1)


def test_recovery_without_features(simulated_log):
    log = simulated_log(TRUTH, queries=150, rankers=3, sessions=150_000, seed=3)
    curve = RegressionEM().estimate(log)
    assert np.abs(curve.propensity / TRUTH - 1).max() < 0.08
    assert curve.verdict == "identified"


def test_coverage_without_features(simulated_log):
    held = []
    for seed in range(30):
        log = simulated_log(TRUTH, queries=80, rankers=3, sessions=20_000, seed=seed)
        curve = RegressionEM().estimate(log, seed=seed)
        held.append(((curve.low <= TRUTH) & (curve.high >= TRUTH))[1:])
    assert 0.85 <= np.mean(held) <= 0.995


def featured(rng, queries, length):
    features = rng.normal(size=(queries * length, 4)).astype(np.float32)
    relevance = 1 / (1 + np.exp(1.5 - 1.5 * features[:, 0] - features[:, 1]))
    data = RankingDataset(features, np.arange(queries + 1) * length)
    return data, relevance.reshape(queries, length)


@pytest.mark.parametrize("rankers", [1, 3])
def test_recovery_with_features(simulated_log, rankers):
    data, relevance = featured(np.random.default_rng(0), 300, 6)
    log = simulated_log(
        TRUTH, queries=300, relevance=relevance, rankers=rankers, sessions=60_000, seed=4
    )
    curve = RegressionEM().estimate(log, dataset=data)
    assert np.median(np.abs(curve.propensity / TRUTH - 1)[1:]) < 0.2
    again = RegressionEM().estimate(log, dataset=data)
    assert again.propensity.tolist() == curve.propensity.tolist()
    if rankers == 1:
        assert curve.verdict.startswith("weak: positions 2-6: every doc was only ever shown at one")
    else:
        assert curve.verdict == "identified"


def test_nothing_to_tell_relevance_from_position(simulated_log):
    curve = RegressionEM().estimate(simulated_log(TRUTH, rankers=1, sessions=500))
    assert curve.verdict.startswith("not identified: every doc was only ever shown at one position")
    assert "randomise a share" in curve.verdict
    assert np.isnan(curve.propensity[1:]).all()


@pytest.mark.parametrize("shape", [None, "monotone", "power"])
def test_positions_that_fall_away_together_are_not_identified(tiny_log, shape):
    """Nothing but one doc ties positions 2 and 3 to the first, and it was clicked there alone."""
    rankings = [(0, [0], [1]), (0, [0], [2]), (1, [1, 2], [2, 3]), (1, [2, 1], [2, 3])]
    clicks = [(0, [1])] * 20 + [(1, [])] * 20 + [(r, [k]) for r in (2, 3) for k in (2, 3)] * 5
    log = tiny_log(rankings, clicks, docs_per_query=3)
    curve = RegressionEM(shape=shape).estimate(log)
    assert curve.verdict.startswith("not identified: position 2 would have a propensity of")
    assert np.isnan(curve.propensity[1:]).all()


def test_no_click_at_position_1(tiny_log):
    log = tiny_log([(0, [0, 1], [1, 2])], [(0, [2]), (0, [])], docs_per_query=2)
    data = RankingDataset(np.eye(2), np.array([0, 2]))
    curve = RegressionEM().estimate(log, dataset=data)
    assert curve.verdict.startswith("not identified: no doc at position 1 was clicked")


@pytest.mark.parametrize(
    "options", [{"steps": 0}, {"trees_per_step": 0}, {"leaves": 1}, {"learning_rate": 0}]
)
def test_bad_options(options):
    with pytest.raises(InputError):
        RegressionEM(**options)


@pytest.mark.parametrize("shape", [None, "monotone", "power"])
@pytest.mark.parametrize("fault", ["collinear", "constant", "missing", "one query", "one position"])
def test_features_that_tell_nothing_end_in_a_verdict(simulated_log, fault, shape):
    queries = 1 if fault == "one query" else 20
    data, relevance = featured(np.random.default_rng(0), queries, 6)
    truth = [1.0, *[0.0] * 5] if fault == "one position" else TRUTH
    features = data.features.copy()
    if fault == "collinear":
        features[:, 1:] = 2 * features[:, :1]
    elif fault in ("constant", "missing"):
        features[:] = np.nan if fault == "missing" else 1.0
    log = simulated_log(truth, queries=queries, relevance=relevance, sessions=400)
    data = RankingDataset(features, data.offsets)
    curve = RegressionEM(steps=5, shape=shape).estimate(log, dataset=data)
    assert not curve.verdict.startswith("identified")


def test_what_hardly_ties_positions_to_the_first_is_solved_all_the_same():
    """1 + 1e-20 is 1: without a hold of their own, positions 2 and 3 would be singular."""
    tied = np.array([[0, 1e-20, 0], [0, 0, 1], [0, 0, 0]])
    potentials = solve_grounded(tied, np.array([[0, 0.5, -0.5]]), linked_to_first(tied))
    assert np.isfinite(potentials).all()
    assert potentials[0, 1] - potentials[0, 2] == pytest.approx(0.5, rel=1e-3)
