import json
from dataclasses import replace

import pytest

from prsrank.experiment.jobs import Cell, Planner, Source, canonical, configurations, seed_of
from prsrank.experiment.spec_files import load_spec, parse_spec


def planner(spec):
    return Planner(spec, Source("data", ("f1", "f2"), (("a",), ("b",)), (3, 3), "data"), "1")


def job_of(experiment, method, point, *, panel="linear", run=1, chosen=None):
    spec = load_spec(experiment)
    return planner(spec).job(Cell(panel, method, point, 2, run), chosen)


@pytest.mark.parametrize("panel", ["linear", "lambdamart"])
@pytest.mark.parametrize("method", ["naive", "ips", "prs", "production"])
def test_the_default_setting_is_one_job_in_all_figures(panel, method):
    jobs = [
        job_of("fig3", method, 128000, panel=panel),
        job_of("fig4", method, 1.0, panel=panel),
        job_of("fig5", method, 0.1, panel=panel),
        job_of("fig6", method, 1.0, panel=panel),
    ]
    assert len({job.id for job in jobs}) == 1
    assert (
        len(
            {
                planner(load_spec(name)).tuning_job(Cell(panel, "prs", "", 1, 0)).id
                for name in ("fig3", "fig4", "fig5", "fig6")
            }
        )
        == 1
    )


def test_gamma_1_is_the_prs_of_the_other_figures():
    assert job_of("gamma", "prs", 1.0).id == job_of("fig3", "prs", 128000).id
    assert job_of("gamma", "prs", 2.0).id != job_of("fig3", "prs", 128000).id


def test_an_identity_leaves_out_what_does_not_matter():
    assert job_of("fig6", "naive", 0.5).id == job_of("fig6", "naive", 2.0).id
    assert job_of("fig6", "prs", 0.5).id != job_of("fig6", "prs", 2.0).id
    assert job_of("fig3", "labels", 1000, run=0).id == job_of("fig3", "labels", 64000, run=3).id
    assert job_of("fig3", "production", 1000).id == job_of("fig4", "production", 2.0).id
    assert job_of("fig3", "production", 1000).id != job_of("fig3", "production", 1000, run=0).id


def test_an_identity_holds_all_that_matters():
    spec = load_spec("fig3")
    cell = Cell("linear", "ips", 4000, 1, 0)
    base = planner(spec).job(cell, None)
    changed = [
        planner(replace(spec, seed=1)).job(cell, None),
        planner(spec).job(replace(cell, run=1), None),
        planner(spec).job(replace(cell, fold=2), None),
        planner(spec).job(replace(cell, point=8000), None),
        planner(spec).job(replace(cell, method="prs"), None),
        planner(spec).job(replace(cell, panel="lambdamart"), None),
        planner(spec).job(cell, {"settings": {"l2": 7.0}, "parameters": {"tau": 0.5}}),
        planner(replace(spec, metrics=("map",))).job(cell, None),
        planner(replace(spec, clicks=replace(spec.clicks, mu=0.2))).job(cell, None),
        replace(planner(spec), code="2").job(cell, None),
        Planner(spec, Source("data", ("g1", "f2"), (("a",), ("b",)), (3, 3), "data"), "1").job(
            cell, None
        ),
    ]
    ids = [base.id, *(job.id for job in changed)]
    assert len(set(ids)) == len(ids)
    moved = Planner(spec, replace(planner(spec).source, name="elsewhere"), "1").job(cell, None)
    assert moved.id == base.id


def test_an_identity_is_plain_json():
    identity = job_of("table1", "dla", "", panel="").identity
    assert json.loads(canonical(identity)) == json.loads(json.dumps(identity))


def test_jobs_of_one_log_are_one_group():
    groups = {job_of("fig3", m, 4000).group for m in ("naive", "ips", "prs")}
    assert len(groups) == 1
    assert job_of("fig3", "prs", 8000).group not in groups
    assert job_of("fig6", "prs", 0.5).group == job_of("fig6", "ips", 2.0).group


def test_seeds_depend_on_every_part():
    seeds = {seed_of("a", 1), seed_of("a", 2), seed_of("b", 1), seed_of("a", "1")}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_the_grid_is_the_product_of_ranker_and_weighting(spec_values):
    spec_values["methods"].append({"name": "ips", "grid": {"tau": [0.0, 0.1, 0.2]}})
    spec = parse_spec(spec_values)
    tried = configurations(spec, spec.panels[0], spec.methods[-1])
    assert len(tried) == 6
    assert {(c["settings"]["l2"], c["parameters"]["tau"]) for c in tried} == {
        (l2, tau) for l2 in (0.01, 1.0) for tau in (0.0, 0.1, 0.2)
    }


def test_a_grid_above_the_budget_is_cut_the_same_way_each_time(spec_values):
    spec_values["rankers"]["linear"]["grid"]["l2"] = [10.0**-k for k in range(9)]
    spec_values["tuning"] = {"budget": 4}
    spec = parse_spec(spec_values)
    tried = [configurations(spec, spec.panels[0], method) for method in spec.methods[1:]]
    assert [len(settings) for settings in tried] == [4, 4, 4]
    assert tried == [configurations(spec, spec.panels[0], method) for method in spec.methods[1:]]


@pytest.mark.parametrize("name", ["density", "noise", "bias", "model", "wrong-curve"])
def test_every_method_of_the_tables_beyond_the_paper_tries_as_many_settings(name):
    spec = load_spec(f"beyond-{name}")
    for panel in spec.panels:
        tried = {
            method.name: configurations(spec, panel, method)
            for method in spec.methods
            if method.name != "production" and panel.name in (method.panels or [panel.name])
        }
        assert {len(settings) for settings in tried.values()} == {12}
        if panel.ranker == "lambdamart":
            norms = {setting["settings"].get("norm") for setting in tried["posterior"]}
            assert norms == {False, True}


def test_tuning_at_each_point_is_a_job_of_each_point(spec_values):
    spec_values["tuning"] = {"at": "point"}
    plan = planner(parse_spec(spec_values))
    jobs = {p: plan.tuning_job(Cell("linear", "prs", p, 1, 1)).id for p in (100, 400)}
    assert len(set(jobs.values())) == 2
    spec_values["tuning"] = {"at": "default"}
    default = planner(parse_spec(spec_values)).tuning_job(Cell("linear", "prs", 100, 1, 1))
    assert default.id == jobs[400]
    assert default.identity["production"]["run"] == 0


@pytest.mark.parametrize(("point", "clicks"), [(0.5, 2), (6, 18), (100, 300)])
def test_clicks_per_query_set_the_clicks_by_the_training_lists(point, clicks):
    assert job_of("density", "prs", point).identity["clicks"]["clicks"] == clicks  # 3 lists


def test_rankers_that_stop_early_do_so_on_what_their_method_may_know():
    spec = load_spec("fig3")
    on_clicks = replace(spec, tuning=replace(spec.tuning, on="clicks"))
    stops = {
        (panel, method): planner(on_clicks).job(Cell(panel, method, 1000, 1, 0), None)
        for panel in ("linear", "lambdamart")
        for method in ("labels", "prs")
    }
    found = {key: job.identity["stop_on"] for key, job in stops.items()}
    assert found == {
        ("linear", "labels"): "",
        ("linear", "prs"): "",
        ("lambdamart", "labels"): "labels",
        ("lambdamart", "prs"): "clicks",
    }
