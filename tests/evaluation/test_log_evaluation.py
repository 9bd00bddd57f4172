"""All estimators together: each under its own name, with the doubt about the curve and the clip."""

from dataclasses import replace

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.evaluation.counterfactual import CounterfactualMetric
from prsrank.evaluation.log_evaluation import evaluate_on_log
from prsrank.propensity.curve import Propensities

DEPTH = 60


@pytest.fixture(scope="module")
def world():
    lists = synthetic_dataset("mq2007", 80, seed=4)
    log = simulate_clicks(lists, lists.features[:, 0], PositionBasedModel(), sessions=2000, seed=1)
    return log, lists, {"new": lists.features[:, 1].astype(np.float64)}


def curve_of(error):
    p = 1 / np.arange(1.0, DEPTH + 1)
    covariance = np.diag(np.where(np.arange(DEPTH) > 0, error**2, 0.0))
    known = Propensities(p, p, p, np.full(DEPTH, 99), "identified", "harvest")
    return replace(known, covariance=covariance)


def test_intervals_of_all_estimators_know_how_uncertain_the_curve_is(world):
    sure, unsure = (evaluate_on_log(*world[:2], curve_of(e), world[2]) for e in (0.0, 0.5))
    for kind in ("ips", "snips", "clipped", "dr"):
        widths = []
        for found in (sure, unsure):
            one = found.evaluation.estimate("new", "dcg@10", estimator=kind)
            widths.append(one.high - one.low)
        assert widths[1] > 1.05 * widths[0]


def test_the_clip_changes_its_own_estimate_alone_and_is_told(world):
    log, lists, rankers = world
    found = evaluate_on_log(log, lists, curve_of(0.0), rankers, tau=0.3).evaluation
    for kind, tau in (("ips", 0.0), ("clipped", 0.3)):
        metric = CounterfactualMetric(log, lists, curve_of(0.0), metric="dcg@10", tau=tau)
        value = found.estimate("new", "dcg@10", estimator=kind).value
        assert value == pytest.approx(metric(rankers["new"]))
    positions = log.ranking_positions[
        np.repeat(log.ranking_offsets[log.session_ranking], log.session_clicks) + log.clicks
    ]
    assert found.diagnostics[0].clipped_clicks == pytest.approx((positions > 3).mean())
    cut = 1 - np.minimum(positions, 1 / 0.3).sum() / positions.sum()
    assert found.diagnostics[0].cut_weight == pytest.approx(cut)
    assert found.tau == 0.3
