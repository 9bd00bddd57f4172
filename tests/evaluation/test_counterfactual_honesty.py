"""Whether estimates tell the truth where they promise to, and show it where they cannot.

Every log has lists of its own; the truth is that of a large sample of other lists.
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.clicks.trust import TrustBiasModel
from prsrank.data.synthetic import synthetic_dataset
from prsrank.evaluation.sensitivity import AffineJudge, Assumption, study_sensitivity
from prsrank.propensity.curve import PowerLaw

sys.path.insert(0, str(Path(__file__).parent))
from estimates import evaluate_counterfactual

TRAINING, TRUTH, LOGS, LISTS, SESSIONS = 600, 8000, 100, 100, 300
NOISE = 0.2


def dcg(relevance, scores, offsets):
    """DCG@10 of each list, by sorting."""
    values = []
    for first, last in pairwise(offsets):
        best = np.argsort(-scores[first:last], kind="stable")[:10]
        values.append((relevance[first:last][best] / np.log2(2 + np.arange(len(best)))).sum())
    return np.array(values)


class Population:
    """Lists without end, a production ranker, a better one, and what they are worth."""

    def __init__(self):
        self.data = synthetic_dataset("mq2007", TRAINING + TRUTH + LOGS * LISTS, seed=0)
        trained = self.data.select(np.arange(TRAINING))
        features = self.data.features
        self.old = production_scores(trained, share=0.01, seed=2).score(features)
        self.new = production_scores(trained, share=0.1, seed=1).score(features)
        sample = np.arange(TRAINING, TRAINING + TRUTH + 1)
        relevance, offsets = self.data.relevance, self.data.offsets[sample]
        old, new = (dcg(relevance, scores, offsets) for scores in (self.old, self.new))
        self.value, self.gain = new.mean(), new.mean() - old.mean()
        self.error = new.std() / np.sqrt(TRUTH)
        # what a list of all docs relevant would be worth
        self.ceiling = dcg(np.ones(self.data.docs), self.new, offsets).mean()

    def log(self, number, clicks):
        """Return lists of their own, sessions on them, and the better ranker's scores."""
        chosen = np.arange(LISTS) + TRAINING + TRUTH + number * LISTS
        rows = slice(self.data.offsets[chosen[0]], self.data.offsets[chosen[-1] + 1])
        lists = self.data.select(chosen)
        log = simulate_clicks(lists, self.old[rows], clicks, sessions=SESSIONS, seed=number)
        return lists, log, self.new[rows]

    def evaluations(self, clicks, curve):
        for number in range(LOGS):
            lists, log, new = self.log(number, clicks)
            found = evaluate_counterfactual(log, lists, curve, {"new": new}, metrics=["dcg@10"])
            yield found.estimate("new", "dcg@10"), found.difference("new", "dcg@10")

    def studies(self, clicks, curve, values):
        for number in range(LOGS):
            lists, log, new = self.log(number, clicks)
            yield study_sensitivity(AffineJudge(log, lists, curve, samples=200), new, values=values)


@pytest.fixture(scope="module")
def population():
    return Population()


def holds(interval, truth):
    return interval.low <= truth <= interval.high


@pytest.fixture(scope="module")
def honest(population):
    return list(population.evaluations(PositionBasedModel(1, 0.0), PowerLaw(1)))


def test_the_interval_holds_the_truth_in_90_to_99_of_100_logs(population, honest):
    """Noise-free, known propensities, fresh lists."""
    assert population.error < 0.1 * np.std([value.value for value, _ in honest])
    assert 90 <= sum(holds(value, population.value) for value, _ in honest) <= 99
    covered = [gain.low <= population.gain <= gain.high for _, gain in honest]
    assert 90 <= sum(covered) <= 99


def test_the_estimate_is_unbiased(population, honest):
    values = np.array([value.value for value, _ in honest])
    gains = np.array([gain.difference for _, gain in honest])
    assert values.mean() == pytest.approx(population.value, abs=3 * values.std() / LOGS**0.5)
    assert gains.mean() == pytest.approx(population.gain, abs=3 * gains.std() / LOGS**0.5)


@pytest.mark.parametrize(("assumed", "direction"), [(0.5, -1), (1.5, 1)])
def test_wrong_propensities_miss_the_truth(population, assumed, direction):
    """Too flat a curve gives clicks below too little weight, too steep a curve too much."""
    found = list(population.evaluations(PositionBasedModel(1, 0.0), PowerLaw(assumed)))
    assert sum(holds(value, population.value) for value, _ in found) < 50
    assert direction * (np.mean([v.value for v, _ in found]) - population.value) > 0.5
    assert direction * (np.mean([g.difference for _, g in found]) - population.gain) > 0.1


@pytest.fixture(scope="module")
def flat_studies(population):
    """Curves assumed as (1/k)^0.5, where (1/k)^1 is true: eta = 2 would put it right."""
    clicks = PositionBasedModel(1, 0.0)
    return list(population.studies(clicks, PowerLaw(0.5), {"eta": [2.0]}))


def test_the_study_shows_the_error_of_wrong_propensities(population, flat_studies):
    base, right = zip(*flat_studies, strict=True)
    assert all(point.is_base for point in base)
    assert sum(holds(point.value_of_model, population.value) for point in base) < 50
    assert 90 <= sum(holds(point.value_of_model, population.value) for point in right) <= 100
    assert np.mean([p.gain_of_model.value for p in base]) < 0.5 * population.gain
    gains = np.array([p.gain_of_model.value for p in right])
    assert gains.mean() == pytest.approx(population.gain, abs=3 * gains.std() / LOGS**0.5)


def test_the_study_shows_the_error_of_noise(population):
    """Noise counts false clicks, and takes 2 mu of every gain."""
    clicks = PositionBasedModel(1, NOISE)
    studies = list(population.studies(clicks, PowerLaw(1), {"noise": [NOISE]}))
    base, right = zip(*studies, strict=True)
    gains = np.array([p.gain_of_model.value for p in base])
    tolerance = 3 * gains.std() / LOGS**0.5
    assert gains.mean() == pytest.approx((1 - 2 * NOISE) * population.gain, abs=tolerance)
    assert gains.mean() < population.gain - tolerance
    values = np.array([p.value_of_model.value for p in base])
    false = NOISE * (population.ceiling - population.value)
    assert values.mean() == pytest.approx(
        (1 - NOISE) * population.value + false, abs=3 * values.std() / LOGS**0.5
    )
    corrected = np.array([p.gain_of_model.value for p in right])
    assert corrected.mean() == pytest.approx(population.gain, abs=3 * corrected.std() / LOGS**0.5)
    assert 90 <= sum(holds(p.value_of_model, population.value) for p in right) <= 100


def test_the_study_shows_the_error_of_trust(population):
    """Clicks that trust the top make the logged ranking look better than it is."""
    clicks = TrustBiasModel(eta=1, mu=0.1, trust=0.5)
    values = {"trust": [0.5]}
    wrong, right = [], []
    for number in range(LOGS):
        lists, log, new = population.log(number, clicks)
        judge = AffineJudge(log, lists, PowerLaw(1), samples=100)
        base, true = study_sensitivity(judge, new, values=values, base=Assumption(noise=0.1))
        wrong.append(base.gain_of_model.value)
        right.append(true.gain_of_model.value)
    error = np.std(right) / LOGS**0.5
    assert np.mean(right) == pytest.approx(population.gain, abs=3 * error)
    assert np.mean(wrong) < population.gain - 3 * np.std(wrong) / LOGS**0.5
