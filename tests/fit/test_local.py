"""The engine of one process: what its rankers learn from, stop on and are judged by."""

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.evaluation.counterfactual import CounterfactualMetric
from prsrank.evaluation.log_evaluation import evaluate_on_log
from prsrank.fit.judging import Weighed
from prsrank.fit.log import PiecedLog
from prsrank.pairs.pair_set import PairSet
from prsrank.pairs.posterior import posterior
from prsrank.propensity.curve import PowerLaw
from prsrank.rankers.base import Ranker
from prsrank.rankers.linear import LinearRanker

CURVE = PowerLaw(1.0)


@pytest.fixture(scope="module")
def lists():
    return synthetic_dataset("mq2007", 30, seed=4)


@pytest.fixture(scope="module")
def log(lists):
    return simulate_clicks(lists, lists.features[:, 0], PositionBasedModel(), sessions=700, seed=1)


@pytest.fixture(scope="module")
def pieces(log, lists):
    """The log in two pieces of unlike size."""
    cut = log.ranking_query[log.session_ranking] < 8
    return PiecedLog.of([log.select(cut), log.select(~cut)], lists)


class Fixed(Ranker):
    """A ranker of one feature that notes what it was given."""

    name = "fixed"
    stops_early = True

    def __init__(self, column=0):
        self.column = column

    @property
    def pair_options(self):
        return {}

    def fit(self, lists, what, *, validation=None, progress=None):
        self.given = lists, what, validation
        return self

    def score(self, features):
        return np.asarray(features[:, self.column], np.float64)

    def _state(self):
        raise NotImplementedError

    def _restore(self, values, files):
        raise NotImplementedError


@pytest.mark.parametrize("tau", [0.0, 0.3])
def test_rankers_stop_on_and_are_valued_by_the_validation_clicks(log, lists, pieces, tau):
    rankers = [Fixed(0), Fixed(1)]
    found = pieces.train(rankers, Weighed(CURVE, "prs", {}, tau), validation=pieces)
    metric = CounterfactualMetric(log, lists, CURVE, metric="dcg@10", tau=tau)
    expected = [metric(one.score(lists.features)) for one in rankers]
    assert found.values == pytest.approx(expected)
    for one, value in zip(rankers, expected, strict=True):
        judged, quality = one.given[2]
        assert judged is pieces.lists
        assert quality(one.score(lists.features)) == pytest.approx(value)


def test_without_validation_there_is_no_value_and_nothing_to_stop_on(pieces):
    ranker = Fixed()
    (value,) = pieces.train([ranker], Weighed(CURVE, "naive", {})).values
    assert np.isnan(value)
    assert ranker.given[2] is None


def test_pairs_of_pieces_have_the_parameters_of_the_weighting(log, lists, pieces):
    ranker = Fixed()
    pieces.train([ranker], Weighed(CURVE, "ips", {"tau": 0.2}))
    whole = PairSet.from_log(log, lists, CURVE, "ips", parameters={"tau": 0.2})
    np.testing.assert_allclose(ranker.given[1].weights, whole.weights)


@pytest.mark.parametrize(("own", "one_way"), [(1.0, 0.0), (0.25, 1.0)])
def test_posterior_pairs_have_the_parameters_of_the_weighting(log, lists, pieces, own, one_way):
    given = {"own": own, "one_way": one_way}
    found = pieces.fold(LinearRanker(), Weighed(CURVE, "posterior", given))
    known = posterior(log, lists, CURVE).pairs(**given, **LinearRanker().pair_options)
    np.testing.assert_allclose(found.winning, known.winning, rtol=1e-9)
    assert found.one_way == one_way


def test_estimates_of_pieces_are_those_of_the_log(log, lists, pieces):
    found = pieces.evaluate(CURVE, {"one": Fixed(1)}, against=["logged"]).evaluation
    scores = {"one": lists.features[:, 1].astype(np.float64)}
    known = evaluate_on_log(log, lists, CURVE, scores).evaluation
    for kind in ("ips", "clipped", "dr"):
        values = [e.difference("one", "dcg@10", estimator=kind).difference for e in (found, known)]
        assert values[0] == pytest.approx(values[1])
    assert found.estimate("one", "dcg@10", estimator="clipped").value < (
        found.estimate("one", "dcg@10", estimator="ips").value
    )
