import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prsrank.experiment.inputs import Inputs, read_source
from prsrank.experiment.jobs import Cell, Planner
from prsrank.experiment.measures import compute
from prsrank.experiment.methods import make_ranker, trained, training_pairs
from prsrank.experiment.reproduction import small
from prsrank.experiment.spec_files import load_spec

sys.path.insert(0, str(Path(__file__).parents[1] / "evaluation"))
from estimates import evaluate_counterfactual


def planned(name, data, cell):
    spec = small(load_spec(name))
    job = Planner(spec, read_source(data, 1), "1").job(cell, None)
    inputs = Inputs(job)
    return job, inputs, inputs.parts


def test_the_mean_over_queries_is_the_wmrr_of_the_clicks():
    from prsrank.evaluation.counterfactual import CounterfactualMetric

    data = "synthetic:personal:100"
    job, inputs, parts = planned("table2", data, Cell("linear", "prs", "", 1, 0))
    values, _ = compute(job)
    held_out = inputs.held_out("test")
    assert (held_out.log.session_clicks == 1).all()
    curve = inputs.curve(job.identity["test_propensity"])
    setting = {"settings": job.identity["settings"], "parameters": job.identity["parameters"]}
    ranker = trained(inputs, setting)
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
    values, _ = compute(job)
    assert job.identity["clicks"] is None
    _, pairs = training_pairs(inputs, make_ranker(inputs, {}), {})
    weights = pairs.diagnostics()
    bounds = zip(parts.train.offsets[:-1], parts.train.offsets[1:], strict=True)
    winners = [int((parts.train.relevance[a:b] > 0).sum()) for a, b in bounds]
    both = [0 < n < size for n, size in zip(winners, parts.train.list_lengths, strict=True)]
    assert weights.lists == sum(both)
    assert weights.winners == sum(n for n, used in zip(winners, both, strict=True) if used)
    assert len(values["ndcg@10"]) == parts.test.lists


def test_the_least_relevant_label_reaches_data_and_jobs():
    data = "synthetic:mq2007:20"
    source = read_source(data, 1, 2.0)
    assert source.fingerprints != read_source(data, 1).fingerprints
    planner = Planner(small(load_spec("fig3")), source, "1")
    job = planner.job(Cell("linear", "labels", 1000, 1, 0), None)
    parts = Inputs(job).parts
    np.testing.assert_array_equal(parts.test.relevance > 0, parts.test.labels >= 2)


def test_shares_are_of_all_docs_shown_and_come_query_by_query():
    data = "synthetic:mq2007:40"
    name = "non-clicks", "relevant unobserved"
    job, inputs, parts = planned("fig1", data, Cell(*name, 1.0, 1, 0))
    values, _ = compute(job)
    shown = inputs.held_out("test")
    seen = inputs.keep("observations", 0, lambda: pytest.fail("observations were not kept"))
    expected = (seen.relevant & ~seen.observed)[~seen.clicked].mean()
    assert values["share"].mean() == pytest.approx(expected)
    assert len(values["share"]) == parts.test.lists
    # the first query's docs alone
    of_first = np.repeat(shown.log.ranking_query[shown.log.session_ranking], np.diff(seen.offsets))
    first = of_first == 0
    row = parts.test.query_ids.tolist().index(shown.log.query_ids[0])
    count = (seen.relevant & ~seen.observed & ~seen.clicked)[first].sum()
    assert values["share"][row] == pytest.approx(count * parts.test.lists / (~seen.clicked).sum())


def test_the_estimated_curve_reaches_every_list():
    data = "synthetic:mq2007:40"
    job, inputs, parts = planned("table1", data, Cell("", "prs", "", 1, 0))
    curve = inputs.curve(job.identity["propensity"])
    longest = max(part.list_lengths.max() for part in (parts.train, parts.validation, parts.test))
    p = curve.at(np.arange(1, longest + 1))
    assert p[0] == 1
    assert (p > 0).all()
    assert (np.diff(p) <= 0).all()


def test_propensities_are_estimated_before_sessions_are_left_out():
    data = "synthetic:personal:2000"
    spec = load_spec("table2")
    source = read_source(data, 1)
    job = Planner(spec, source, "1").job(Cell("linear", "prs", "", 1, 0), None)
    curve = Inputs(job).curve(job.identity["propensity"])
    assert curve.at(np.arange(1, 4)) == pytest.approx([1, 1 / 2, 1 / 3], abs=0.02)


def test_posterior_and_doubly_robust_pairs_are_those_of_the_library():
    from prsrank.pairs.posterior import doubly_robust_pairs, posterior_pairs
    from prsrank.propensity.curve import PowerLaw

    data = "synthetic:mq2007:40"
    for method, make, chosen in (
        ("posterior", posterior_pairs, {"own": 0.25}),
        ("doubly_robust", doubly_robust_pairs, {"tau": 0.3}),
    ):
        cell = Cell("linear", method, 6, 1, 0)
        job, inputs, _ = planned("beyond-density", data, cell)
        setting = {"settings": job.identity["settings"], "parameters": chosen}
        ranker = make_ranker(inputs, setting["settings"])
        _, pairs = training_pairs(inputs, ranker, chosen)
        logged = inputs.logged()
        options = {"prior": ranker.prior, **ranker.pair_options}
        expected = make(logged.log, logged.lists, PowerLaw(1.0), parameters=chosen, **options)
        np.testing.assert_allclose(pairs.winning, expected.winning, rtol=1e-12)
        np.testing.assert_allclose(pairs.losing, expected.losing, rtol=1e-12)


def test_clicks_come_from_the_model_that_a_panel_names():
    data, cell = "synthetic:mq2007:40", Cell("linear cascade", "naive", 6, 1, 0)
    job, *_ = planned("beyond-model", data, cell)
    assert job.identity["clicks"]["model"] == "cascade"
    many = {}
    for model in ("cascade", "position-based"):
        clicks = job.identity["clicks"] | {"model": model}
        log = Inputs(replace(job, identity={**job.identity, "clicks": clicks})).logged().log
        many[model] = (log.session_clicks > 2).mean()
    # a satisfied user stops: fewer sessions of several clicks
    assert many["cascade"] < many["position-based"]
