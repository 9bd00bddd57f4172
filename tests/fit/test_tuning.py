"""What tuning trains, on which part it judges, and what it keeps: with a log that only notes it."""

from types import SimpleNamespace

import numpy as np
import pytest

from prsrank.audit.findings import Finding
from prsrank.fit.judging import Trained, Weighed
from prsrank.fit.plan import Plan
from prsrank.fit.tuning import VALIDATION_TAU, Method, candidates, methods, refit, tune
from prsrank.propensity.curve import PowerLaw

CURVE = PowerLaw(1.0)
PLAN = Plan("log.parquet", data="synthetic:mq2007:50", trials=6, trees=17, seed=5)


class NotingLog:
    """A log whose rankers are as good as their leaves and their clip say."""

    def __init__(self, values=None):
        self.values, self.calls = values or {}, []

    def train(self, rankers, how, *, validation=None, progress=None):
        self.calls.append((list(rankers), how, validation))
        tau = how.parameters.get("tau")
        found = tuple(self.values.get((one.min_docs_in_leaf, tau), 0.0) for one in rankers)
        return Trained(found, diagnostics=f"pairs of tau {tau}")

    @property
    def sessions(self):
        """One piece, of one session with a click on a list of two docs."""
        log = SimpleNamespace(
            session_ranking=np.array([0]),
            session_clicks=np.array([1]),
            ranking_offsets=np.array([0, 2]),
        )
        return SimpleNamespace(only=SimpleNamespace(log=log))


def parts_of(train):
    names = ("validation", "held_out", "learning")
    return SimpleNamespace(train=train, **{name: NotingLog() for name in names})


@pytest.mark.parametrize("best", [(20, 0.05), (100, 0.2), (20, 0.0)])
def test_the_best_on_the_validation_part_is_kept_with_its_own_pairs(best):
    parts = parts_of(NotingLog({best: 1.0}))
    found = tune(Method("ips", "lambdamart", "ips"), parts, CURVE, PLAN, lambda _: None)
    docs, tau = best
    assert found.chosen.candidate.parameters == {"tau": tau}
    assert found.chosen.candidate.settings["min_docs_in_leaf"] == docs
    assert (found.ranker.min_docs_in_leaf, found.chosen.value) == (docs, 1.0)
    assert found.diagnostics == f"pairs of tau {tau}"
    assert (found.ranker.trees, found.ranker.seed) == (17, 5)


def test_the_linear_ranker_also_tries_pairs_that_count_one_way():
    ways = {
        name: {one.parameters.get("one_way", 0.0) for one in candidates(name, "posterior", 12)}
        for name in ("linear", "lambdamart")
    }
    assert ways == {"linear": {0.0, 1.0}, "lambdamart": {0.0}}
    assert all(not one.parameters for one in candidates("linear", "prs", 12))


def test_every_candidate_is_trained_once_with_its_clip_and_judged_on_the_validation_part():
    parts = parts_of(NotingLog())
    found = tune(Method("ips", "lambdamart", "ips"), parts, CURVE, PLAN, lambda _: None)
    tried = candidates("lambdamart", "ips", 6)
    calls = parts.train.calls
    assert [how.parameters["tau"] for _, how, _ in calls] == [0.0, 0.05, 0.2]
    for rankers, how, validation in calls:
        assert how == Weighed(CURVE, "ips", how.parameters, VALIDATION_TAU)
        assert how.tau == 0.05
        assert validation is parts.validation
        wanted = [dict(c.settings) for c in tried if c.parameters == how.parameters]
        assert [{k: one.get_params()[k] for k in wanted[0]} for one in rankers] == wanted
    assert [trial.candidate for trial in found.search.trials] == tried
    for other in ("validation", "held_out", "learning"):
        assert not getattr(parts, other).calls


def test_the_chosen_settings_are_trained_again_with_their_clip_on_all_sessions():
    parts = parts_of(NotingLog({(100, 0.2): 1.0}))
    found = tune(Method("ips", "lambdamart", "ips"), parts, CURVE, PLAN, lambda _: None)
    found.ranker.booster_ = SimpleNamespace(num_trees=lambda: 7)
    whole = NotingLog()
    again = refit(found, whole, CURVE)
    ((rankers, how, validation),) = whole.calls
    assert rankers == [again]
    assert (again.trees, again.min_docs_in_leaf) == (7, 100)
    assert (how.curve, how.weighting, how.parameters) == (CURVE, "ips", {"tau": 0.2})
    assert validation is None


def names_of(plan, *codes):
    found = [Finding(code, "what was found") for code in codes]
    return [one.name for one in methods(plan, SimpleNamespace(findings=found), NotingLog(), str)]


def test_posterior_pairs_come_first_but_where_clicks_have_weights():
    assert names_of(PLAN) == ["posterior", "prs", "ips", "naive", "lightgbm_position"]
    assert names_of(PLAN, "clicks-weighted") == ["prs", "ips", "naive", "posterior"]


def test_a_named_weighting_has_no_other_rivals():
    named = Plan("log.parquet", data="synthetic:mq2007:50", weighting="prs")
    assert names_of(named) == ["prs", "ips", "naive"]
