"""The demo keeps the best of its settings on the validation part, and measures on the test part."""

from types import SimpleNamespace

import numpy as np
import pytest

from prsrank.cli import demo
from prsrank.data.synthetic import synthetic_dataset
from prsrank.metrics.ranking import average, ndcg

VALIDATION, TEST = (synthetic_dataset("mq2007", 20, seed=seed) for seed in (1, 2))
# how much of each part's labels a ranker knows, by the tau that it was trained with
KNOWN = {0.0: (0.3, 0.5), 0.05: (0.9, 0.3), 0.2: (0.1, 0.9)}


class Knowing:
    """A ranker that knows as much as its tau says."""

    quick_settings = {"trees": 5}  # noqa: RUF012

    def __init__(self, **given):
        assert given == {"seed": 7, "trees": 5}

    @staticmethod
    def accepted(**settings):
        return settings

    def pairs(self, log, lists, curve, weighting, *, parameters):
        assert (log, lists, curve, weighting) == ("log", "lists", "curve", "ips")
        return SimpleNamespace(tau=parameters["tau"], diagnostics=lambda: parameters["tau"])

    def fit(self, lists, pairs, *, validation):
        assert validation is VALIDATION
        self.tau = pairs.tau
        return self

    def score(self, features):
        part = 0 if features is VALIDATION.features else 1
        lists, share = (VALIDATION, TEST)[part], KNOWN[self.tau][part]
        known = np.random.default_rng(0).random(lists.docs) < share
        return np.where(known, lists.labels, 0).astype(np.float64)


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(demo, "ranker_class", lambda _: Knowing)
    production = np.zeros(TEST.docs)
    return demo._Clicked("log", "lists", "curve", VALIDATION, TEST, production)


def test_the_best_tau_is_kept_with_its_pairs_and_measured_on_the_test_part(world):
    found = demo._best("linear", "ips", world, 7)
    assert (found.parameters, found.model.tau, found.weights) == ({"tau": 0.05}, 0.05, 0.05)
    new, old = (
        average(ndcg(TEST.relevance, scores, TEST.offsets, k=10)).mean
        for scores in (found.model.score(TEST.features), world.production)
    )
    assert found.values["ndcg@10"] == pytest.approx(new)
    assert found.values["gain"] == pytest.approx(new - old)
