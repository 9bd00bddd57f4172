import numpy as np
import pytest

from prsrank.experiment.jobs import Cell
from prsrank.experiment.measures import compute
from prsrank.experiment.planning import Planner
from prsrank.experiment.reproduction import small
from prsrank.experiment.shared_inputs import SharedInputs, lengthened, read_source
from prsrank.experiment.spec_files import load_spec


def planned(name, data, cell):
    spec = small(load_spec(name))
    job = Planner(spec, read_source(data, 1), "1").job(cell, None)
    inputs = SharedInputs()
    inputs.enter(job.group)
    return job, inputs, inputs.parts(data, 1)


def test_the_mean_over_queries_is_the_wmrr_of_the_clicks():
    from prsrank.evaluation.counterfactual import CounterfactualMetric, evaluate_counterfactual
    from prsrank.experiment.methods import trained

    data = "synthetic:personal:100"
    job, inputs, parts = planned("table2", data, Cell("linear", "prs", "", 1, 0))
    values, _ = compute(inputs, data, job.identity)
    held_out = inputs.held_out(parts, job.identity, "test")
    assert (held_out.log.session_clicks == 1).all()
    curve = inputs.curve(parts, job.identity, job.identity["test_propensity"])
    setting = {"settings": job.identity["settings"], "parameters": job.identity["parameters"]}
    ranker, _ = trained(inputs, parts, job.identity, setting)
    scores = ranker.score(parts.test.features)
    metric = CounterfactualMetric(held_out.log, held_out.lists, curve, metric="wmrr")
    assert values["wmrr"].mean() == pytest.approx(metric(scores))
    found = evaluate_counterfactual(
        held_out.log, held_out.lists, curve, {"prs": scores}, metrics=["wmrr"], samples=100
    )
    parts_of = {e.part: e.value for e in found.estimates if e.ranker == "prs"}
    assert len(parts_of) == 3
    ours = sorted(values[name].mean() for name in ("wmrr", "wmrr top", "wmrr others"))
    assert ours == pytest.approx(sorted(parts_of.values()))


@pytest.mark.parametrize("method", ["ips", "prs unclipped", "prs"])
def test_the_measured_coverage_is_that_of_the_enumeration(method):
    from prsrank.experiment.measures import _list_bounds
    from prsrank.theory import bound_coverage, bound_terms, tail_bound

    spec = load_spec("bounds")
    source = read_source("synthetic:mq2007:20", 1)
    job = Planner(spec, source, "1").job(Cell("", method, 1.0, 1, 0), None)
    rng = np.random.default_rng(0)
    scores = np.sort(rng.normal(size=8))[::-1]
    relevance = np.array([0, 1, 0, 1, 1, 0, 0, 1])
    sessions = {**job.identity, "clicks": {"eta": 1.0, "sessions": 40_000}}
    bound, spread, relative, _, part, full = _list_bounds(scores, relevance, sessions, rng)
    losses = np.log1p(np.exp(-(scores[:, None] - scores[None, :])))
    p = 1 / np.arange(1.0, 9.0)
    rule = {
        "weighting": job.identity["weighting"],
        "parameters": job.identity["parameters"] or None,
    }
    assert bound == pytest.approx(tail_bound(bound_terms(losses, p, relevance, **rule)))
    assert full == pytest.approx(bound_coverage(losses, p, relevance, **rule), abs=0.01)
    assert part >= 0.95
    assert 0 < spread <= bound
    irrelevant = relevance == 0
    weights = {"ips": 1 / p[:, None] + 0 * p, "prs unclipped": p[None, :] / p[:, None]}
    weights["prs"] = np.minimum(weights["prs unclipped"], 1.0)
    of_doc = (weights[method] * losses)[:, irrelevant].sum(axis=1)
    assert relative == pytest.approx(bound / (p * of_doc)[~irrelevant].sum())


def test_labels_are_trained_on_the_whole_training_part_and_need_no_clicks():
    data = "synthetic:mq2007:40"
    job, inputs, parts = planned("fig3", data, Cell("linear", "labels", 1000, 1, 1))
    values, details = compute(inputs, data, job.identity)
    assert job.identity["clicks"] is None
    assert details["weights"]["lists"] <= parts.train.lists
    assert len(values["ndcg@10"]) == parts.test.lists


def test_the_estimated_curve_reaches_every_list():
    data = "synthetic:mq2007:40"
    job, inputs, parts = planned("table1", data, Cell("", "prs", "", 1, 0))
    curve = inputs.curve(parts, job.identity, job.identity["propensity"])
    longest = max(part.list_lengths.max() for part in (parts.train, parts.validation, parts.test))
    p = curve.at(np.arange(1, longest + 1))
    assert p[0] == 1
    assert (p > 0).all()
    assert (np.diff(p) <= 0).all()
    assert len(lengthened(curve, longest + 5).propensity) == longest + 5
