"""Sums by query: those of parts of a log make the estimates of the whole."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.evaluation.counterfactual import ClickStatistics
from prsrank.evaluation.log_evaluation import evaluation_of
from prsrank.evaluation.log_sums import sum_log
from prsrank.evaluation.weight_diagnostics import WeightSums
from prsrank.logs.features import known_lists
from prsrank.propensity.curve import PowerLaw

sys.path.insert(0, str(Path(__file__).parent))
from estimates import evaluate_counterfactual, part_sums

METRICS = ("dcg@10", "wmrr", "arp")


@pytest.fixture(scope="module")
def data():
    return synthetic_dataset("mq2007", 60, seed=3)


@pytest.fixture(scope="module")
def log(data):
    rng = np.random.default_rng(1)
    shown = [data.labels + rng.normal(size=data.docs) for _ in range(2)]
    log = simulate_clicks(data, shown, PositionBasedModel(), clicks=1500, seed=2)
    return replace(log, click_weights=rng.uniform(0.5, 4, len(log.clicks)))


@pytest.mark.parametrize("tau", [0.0, 0.1])
def test_halves_of_a_log_make_the_whole(data, log, tau):
    new = data.labels * 1.0
    whole = evaluate_counterfactual(log, data, PowerLaw(1), {"new": new}, tau=tau, samples=200)
    middle = np.median(log.query_ids)
    query = log.query_ids[log.ranking_query[log.session_ranking]]
    halves = []
    for part in (log.select(query <= middle), log.select(query > middle)):
        lists = known_lists(part, data)
        scores = {"new": lists.labels * 1.0}
        halves.append(sum_log(part, lists, PowerLaw(1), scores, metrics=METRICS, tau=tau))
    found = evaluation_of(halves[0] + halves[1], PowerLaw(1), samples=200).evaluation
    for name in ("estimates", "differences", "diagnostics"):
        for one, other in zip(getattr(whole, name), getattr(found, name), strict=True):
            numbers = [k for k, v in vars(one).items() if isinstance(v, float)]
            assert [getattr(other, k) for k in numbers] == pytest.approx(
                [getattr(one, k) for k in numbers], rel=1e-9, nan_ok=True
            )
            assert getattr(one, "warnings", ()) == getattr(other, "warnings", ())


def test_the_heaviest_clicks_by_bins(data, log):
    """Weights that all differ: bins of 0.1 % lose less than that of the exact share."""
    statistics = ClickStatistics.of_log(log, data, PowerLaw(1))
    clicks, sessions = statistics.counts()
    found = WeightSums.of("all", statistics, clicks, sessions).diagnostics()
    weights = np.sort(np.repeat(statistics.weights, clicks))[::-1]
    exact = weights[: round(0.01 * len(weights))].sum() / weights.sum()
    assert found.heaviest_share == pytest.approx(exact, rel=1e-3)
    assert found.largest_share == pytest.approx(weights[0] / weights.sum(), rel=1e-12)
    assert len(np.unique(statistics.weights)) > 1000


def test_lists_of_one_query_are_one_unit(data, log):
    """As `lists = "session"` names them: a query's lists are resampled together."""
    numbers = np.arange(log.queries)
    names = np.array([f"q{n // 3}#{n % 3 + 1}" for n in numbers])
    lists = replace(data, query_ids=names)
    named = replace(log, query_ids=names)
    scores = {"new": data.labels * 1.0}
    apart, together = (
        part_sums(sum_log(one, lists_of, PowerLaw(1), scores, metrics=METRICS), "")[0]
        for one, lists_of in ((log, data), (named, lists))
    )
    assert (len(apart.units.keys), len(together.units.keys)) == (
        log.queries,
        len(np.unique(numbers // 3)),
    )
    np.testing.assert_allclose(together.values.sum(axis=0), apart.values.sum(axis=0))
    assert together.sessions.sum() == log.sessions


def test_pieces_of_unlike_depth_keep_every_position(data):
    """The first piece shows fewer positions than the second, and the other way round."""
    deep, flat = (
        simulate_clicks(data, data.labels, PositionBasedModel(cutoff=k), sessions=80)
        for k in (9, 2)
    )
    sums = [sum_log(log, data, PowerLaw(1), {}, metrics=METRICS) for log in (deep, flat)]
    for pair in (sums, sums[::-1]):
        both = pair[0] + pair[1]
        counts = [log.position_counts()[1] for log in (deep, flat)]
        expected = counts[0] + np.pad(counts[1], (0, len(counts[0]) - len(counts[1])))
        np.testing.assert_array_equal(both.clicked, expected)
