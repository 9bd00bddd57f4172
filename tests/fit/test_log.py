"""A log over pieces that lie elsewhere, each with its own lists, is the log in memory."""

from dataclasses import replace

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import concatenate
from prsrank.data.synthetic import synthetic_dataset
from prsrank.fit.judging import Weighed
from prsrank.fit.log import PiecedLog
from prsrank.logs.features import covered_sessions, lists_of_queries
from prsrank.logs.pieces import LocalPieces, Place, SessionPieces, Sessions
from prsrank.logs.split import RANDOMISED, TIME, Split
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker

CURVE = PowerLaw(1.0)


class Apart(SessionPieces):
    """Pieces as another process holds them: nothing of them is asked but by functions."""

    local = False

    feature_names = synthetic_dataset("mq2007", 5).feature_names

    def __init__(self, held):
        self.held = LocalPieces([piece for piece in held if piece.log.sessions])
        self.logs = LocalPieces([piece.log for piece in self.held])

    def map(self, function):
        return self.held.map(function)

    def total(self, function, nothing=None):
        return self.held.total(function, nothing)

    def select(self, change):
        changed = [(change(piece.log), piece.every) for piece in self.held]
        return Apart(Sessions(log, lists_of_queries(log.query_ids, e)) for log, e in changed)

    def covered(self):
        kept = [(p, p.log.select(covered_sessions(p.log, p.every))) for p in self.held]
        return Apart(Sessions(log, piece.every) for piece, log in kept)

    @property
    def lists(self):
        whole = concatenate([piece.lists for piece in self.held])
        return whole.select(np.argsort(whole.query_ids))

    def each(self, function, *, threads=1):
        return ((Place.of(p.lists.query_ids, self.lists), function(p)) for p in self.held)


@pytest.fixture(scope="module")
def lists():
    return synthetic_dataset("mq2007", 60, seed=4)


@pytest.fixture(scope="module")
def log(lists):
    rng = np.random.default_rng(0)
    shown = [rng.normal(size=lists.docs) + lists.labels for _ in range(2)]
    model = PositionBasedModel(cutoff=6)
    found = simulate_clicks(lists, shown, model, sessions=2000, seed=1, randomised=0.2)
    weights = np.where(np.arange(len(found.clicks)) % 3 == 0, 2.0, 1.0)
    query = found.ranking_query[found.session_ranking]
    times = query * 50 + np.arange(found.sessions) % 70
    found = replace(found, session_times=times, click_weights=weights)
    # only some queries have sessions in random order
    return found.select((query % 3 == 0) | (found.ranking_design[found.session_ranking] == 0))


@pytest.fixture(scope="module")
def both(log, lists):
    """The log in memory, and in three pieces that lie elsewhere."""
    third = (log.ranking_query[log.session_ranking] * 7) % 11 % 3
    pieces = [log.select(third == n) for n in range(3)]
    apart = Apart(Sessions(one, lists_of_queries(one.query_ids, lists)) for one in pieces)
    return PiecedLog.of([log], lists), PiecedLog(apart)


@pytest.mark.parametrize("how", [Split("query", 0.3), Split(TIME, 0.15), Split(RANDOMISED, 1.0)])
def test_parts_are_those_of_the_log_in_memory(both, how):
    here, there = (log.split(how) for log in both)
    assert here.counts() == there.counts()
    assert here.dropped_sessions == there.dropped_sessions
    for name in ("train", "validation", "held_out", "learning"):
        mine, yours = (getattr(parts, name) for parts in (here, there))
        assert mine.sessions.docs() == yours.sessions.docs()
        np.testing.assert_array_equal(mine.lists.query_ids, yours.lists.query_ids)
        np.testing.assert_array_equal(mine.lists.features, yours.lists.features)


@pytest.mark.parametrize("weighting", ["prs", "posterior"])
def test_trees_and_their_values_are_those_of_the_log_in_memory(both, weighting):
    found = []
    for log in both:
        parts = log.split(Split("query", 0.2))
        ranker = LambdaMART(trees=10, leaves=5, patience=3, threads=1)
        how = Weighed(CURVE, weighting, {}, tau=0.05)
        trained = parts.train.train([ranker], how, validation=parts.validation)
        found.append((trained, ranker))
    (mine, trees), (yours, others) = found
    assert trees.booster_.model_to_string() == others.booster_.model_to_string()
    assert mine.values == pytest.approx(yours.values, rel=1e-12)
    assert mine.diagnostics == yours.diagnostics


def test_the_linear_ranker_is_solved_by_sums_over_the_pieces(both, monkeypatch):
    weights, values = [], []
    for log in (both[0], replace(both[1], share=0.5)):  # which the linear ranker does not heed
        if not log.sessions.local:
            monkeypatch.setattr(PiecedLog, "lists", None)  # nobody asks for them
        parts = log.split(Split("query", 0.2))
        ranker = LinearRanker(tolerance=1e-9, missing="impute")
        how = Weighed(CURVE, "ips", {"tau": 0.2}, tau=0.05)
        trained = parts.train.train([ranker], how, validation=parts.validation)
        weights.append(ranker.weights_)
        values.append(trained.values)
    np.testing.assert_allclose(weights[1], weights[0], atol=1e-6)
    assert values[0] == pytest.approx(values[1], rel=1e-6)


@pytest.mark.parametrize("eta", [0.5, 2.5])
def test_estimates_are_those_of_the_log_in_memory(both, lists, eta):
    """Also doubly robust ones, whose relevance is learned where a propensity is below the clip."""
    ranker = LinearRanker(missing="impute")
    both[0].train([ranker], Weighed(CURVE, "prs", {}))
    here, there = (
        log.evaluate(PowerLaw(eta), {"line": ranker, "random": None}, against=["logged"], seed=3)
        for log in both
    )
    assert here.warnings == there.warnings
    for mine, yours in zip(here.evaluation.estimates, there.evaluation.estimates, strict=True):
        assert mine.part == yours.part
        expected = [mine.value, mine.low, mine.high]
        np.testing.assert_allclose([yours.value, yours.low, yours.high], expected, rtol=1e-9)


def labelled(lists):
    """Lists, and pairs of labels that say something."""
    graded = replace(lists, labels=(lists.features[:, 0] > 0.5).astype(np.float32))
    return graded, PairSet.from_labels(graded)


def test_a_share_of_the_queries_is_learned_from_and_all_are_judged(both):
    whole = both[1]
    some = replace(whole, share=0.5)
    names = set(some.lists.query_ids.tolist())
    assert 15 < len(names) < 45
    assert names < set(whole.lists.query_ids.tolist())
    parts = some.split(Split("query", 0.3))
    held = set(parts.held_out.lists.query_ids.tolist())
    assert held < names  # one sample, whatever the part
    assert parts.held_out.extent() == whole.split(Split("query", 0.3)).held_out.extent()
    ranker = LinearRanker(missing="impute").fit(*labelled(some.lists))
    estimates = [
        log.evaluate(PowerLaw(0.5), {"line": ranker}, against=["logged"]).evaluation.estimates
        for log in (whole, some)
    ]
    assert estimates[0] == estimates[1]


def test_sessions_without_features_are_left_out(both, log, lists):
    few = lists.select(np.arange(40))
    here = PiecedLog.of([log], few).covered()
    there = PiecedLog(Apart(replace(p, every=few) for p in both[1].sessions.held)).covered()
    assert here.left_out == there.left_out > 0
    assert here.extent() == there.extent()
