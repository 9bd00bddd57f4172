"""What experiments train on, stop on and tune by; jobs of one log share no more than they may."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from prsrank.evaluation.counterfactual import CounterfactualMetric
from prsrank.experiment import methods
from prsrank.experiment.inputs import Inputs, read_source, simulated
from prsrank.experiment.jobs import Cell, Planner
from prsrank.experiment.methods import (
    click_quality,
    label_quality,
    make_ranker,
    trained,
    training_pairs,
    tuned,
)
from prsrank.experiment.reproduction import small
from prsrank.experiment.spec_files import load_spec
from prsrank.metrics.ranking import average, metric
from prsrank.propensity.curve import PowerLaw

DATA = "synthetic:mq2007:40"


@pytest.fixture(scope="module")
def world():
    """The parts of a fold, and the identity of a job of LambdaMART on its clicks."""
    spec = small(load_spec("fig3"))
    job = Planner(spec, read_source(DATA, 1), "1").job(Cell("lambdamart", "prs", 1000, 1, 0), None)
    inputs = Inputs(job)
    return SimpleNamespace(
        job=job, inputs=inputs, parts=inputs.parts, identity=job.identity, settings={"trees": 3}
    )


def changed(world, **changes):
    """The inputs of the same job with another identity."""
    return Inputs(replace(world.job, identity=world.identity | changes))


class Noting:
    """A ranker that notes what it is given."""

    def fit(self, lists, pairs, *, validation=None):
        self.arguments = lists, pairs, validation
        return self


def stopped(world, monkeypatch, **changes):
    monkeypatch.setattr(methods, "make_ranker", lambda *_: Noting())
    monkeypatch.setattr(methods, "training_pairs", lambda *_: ("lists", "pairs"))
    ranker = trained(changed(world, **changes), {"settings": {}, "parameters": {}})
    assert ranker.arguments[:2] == ("lists", "pairs")
    return ranker.arguments[2]


def test_rankers_stop_on_labels_of_the_validation_part(world, monkeypatch):
    assert stopped(world, monkeypatch, stop_on="labels") is world.parts.validation
    assert stopped(world, monkeypatch, stop_on="") is None


def test_rankers_stop_on_clicks_of_the_validation_part(world, monkeypatch):
    lists, quality = stopped(world, monkeypatch, stop_on="clicks")
    assert lists is world.parts.validation
    scores = lists.features[:, 0].astype(np.float64)
    held_out = world.inputs.held_out("validation")
    assert held_out.lists is world.parts.validation
    known = CounterfactualMetric(held_out.log, lists, PowerLaw(1.0), metric="dcg@10")
    assert quality(scores) == pytest.approx(known(scores))


def test_who_tempers_a_curve_is_judged_by_the_tempered_one(world, monkeypatch):
    judged = SimpleNamespace(followed=0.5)
    monkeypatch.setattr(methods, "temper", lambda *_, **__: judged)
    lists = world.parts.validation
    scores = lists.features[:, 0].astype(np.float64)
    held_out = world.inputs.held_out("validation")
    for parameters, eta in (({"temper": 1.0}, 0.5), ({"temper": 0.0}, 1.0), ({}, 1.0)):
        quality = click_quality(world.inputs, parameters)
        known = CounterfactualMetric(held_out.log, lists, PowerLaw(eta), metric="dcg@10")
        assert quality(scores) == pytest.approx(known(scores))


@pytest.mark.parametrize("split", ["validation", "test"])
def test_held_out_clicks_have_their_own_seed_and_as_many_clicks_a_list(world, split):
    parts, identity = world.parts, world.identity
    logged = world.inputs.held_out(split)
    lists = getattr(parts, split)
    clicks = max(round(identity["clicks"]["clicks"] * lists.lists / parts.train.lists), 50)
    scores = world.inputs.production.score(lists.features)
    settings = {**identity["clicks"], "clicks": clicks}
    known = simulated(lists, scores, settings, seed=world.inputs.seed(split))
    assert logged.log.equals(known)
    assert clicks < identity["clicks"]["clicks"]


def test_labels_of_the_validation_part_tune_whichever_way_a_metric_is_better(world):
    lists = world.parts.validation
    good, bad = lists.labels.astype(np.float64), -lists.labels.astype(np.float64)
    for name in ("ndcg@10", "map", "arp"):
        quality = label_quality(world.parts, name)
        value = average(metric(name)(lists.relevance, good, lists.offsets)).mean
        assert abs(quality(good)) == pytest.approx(value)
        assert quality(good) > quality(bad)


@pytest.mark.parametrize("on", ["labels", "clicks"])
def test_the_setting_that_is_best_on_the_validation_part_is_chosen(world, on, monkeypatch):
    columns = world.parts.validation.features.shape[1]
    tried = [{"column": c, "parameters": {}} for c in range(0, columns, 5)]

    def ranker_of(_, setting):
        return SimpleNamespace(score=lambda x: x[:, setting["column"]].astype(float))

    monkeypatch.setattr(methods, "trained", ranker_of)
    search = tuned(changed(world, tried=tried, tune_on=on, metric="ndcg@10"))
    quality = label_quality(world.parts, "ndcg@10")
    if on == "clicks":
        quality = click_quality(world.inputs, {})
    features = world.parts.validation.features
    values = [quality(features[:, setting["column"]].astype(float)) for setting in tried]
    assert search["values"] == pytest.approx(values)
    assert search["chosen"] == tried[int(np.argmax(values))]
    assert np.argmax(values) != np.argmin(values)


def test_settings_of_a_job_win_over_the_runner_s(world):
    assert make_ranker(world.inputs, {}).seed == world.inputs.seed("ranker")
    ranker = make_ranker(world.inputs, {"seed": 77, "leaves": 5})
    assert (ranker.seed, ranker.leaves, ranker.threads) == (77, 5, 1)


def pairs_of(world, weighting, parameters=None, settings=None, **changes):
    inputs = changed(world, **{"weighting": weighting, **changes})
    ranker = make_ranker(inputs, world.settings | (settings or {}))
    return training_pairs(inputs, ranker, parameters or {})[1]


@pytest.mark.parametrize("weighting", ["prs", "labels", "posterior"])
def test_truncation_reaches_the_pairs(world, weighting):
    whole = pairs_of(world, weighting)
    cut = pairs_of(world, weighting, settings={"truncation": 2})
    assert (whole.truncation, cut.truncation) == (None, 2)
    assert cut.weight_sum > whole.weight_sum * 1.01  # 1 / IDCG@2 is larger than 1 / IDCG


def test_pairs_of_another_clip_or_curve_are_made_anew(world):
    free, cut = (pairs_of(world, "ips", {"tau": tau}) for tau in (0.0, 0.5))
    assert cut.weights.sum() < free.weights.sum()
    known = [{"source": "known", "eta": eta} for eta in (1.0, 2.0)]
    sums = [pairs_of(world, "ips", {"tau": 0.0}, propensity=one).weights.sum() for one in known]
    assert sums[1] > sums[0]


def test_posteriors_of_another_curve_are_made_anew_and_own_is_passed_on(world):
    known = [{"source": "known", "eta": eta} for eta in (1.0, 2.0)]
    one, other = (pairs_of(world, "posterior", propensity=curve) for curve in known)
    assert not np.allclose(one.losing, other.losing)
    part = pairs_of(world, "posterior", {"own": 0.25}, propensity=known[0])
    none = pairs_of(world, "posterior", {"own": 0.0}, propensity=known[0])
    expected = none.losing + 0.25 * (one.losing - none.losing)
    np.testing.assert_allclose(part.losing, expected, rtol=1e-5, atol=1e-7)
    assert not np.allclose(part.losing, one.losing)
    ways = [pairs_of(world, "posterior", {"one_way": way}).one_way for way in (0.0, 1.0)]
    assert ways == [0.0, 1.0]
