"""`reproduce all` in tiny: structure and honest ranges, no wished-for winner."""

import json

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.experiment.reproduction import Changes, parse_points, reproduce, small
from prsrank.experiment.runner import run_experiments
from prsrank.experiment.spec_files import load_spec, load_specs
from prsrank.report import charts

SHARES = ("ndcg@10", "ndcg@5", "map", "coverage", "coverage full")


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    with pytest.MonkeyPatch.context() as patch:  # pictures are drawn by the tests of the command
        patch.setattr(charts, "figure_picture", lambda *_, **__: b"picture")
        smoke = Changes(smoke=True)
        report = reproduce("all", "synthetic:mq2007:60", folder, changes=smoke, processes=0)
    return folder, report


def test_every_experiment_is_in_the_report(everything):
    folder, report = everything
    assert [section["id"] for section in report["sections"]] == [s.id for s in load_specs("all")]
    labels = {verdict["label"] for verdict in report["verdicts"]}
    assert labels <= {"confirmed", "not confirmed", "contradicted"}
    assert "mean nothing" in report["lead"][0]
    page = (folder / "report.html").read_text()
    for section in report["sections"]:
        assert section["title"] in page
    assert json.loads((folder / "report.json").read_text())["title"] == report["title"]
    assert list((folder / "tables").glob("*.csv"))
    assert list((folder / "figures").glob("fig3*.svg"))


def results_of(spec, folder):
    run = run_experiments([spec], "synthetic:mq2007:60", folder, resume=True, processes=0)
    assert run.computed == 0
    return run.results[spec.id]


# without PyTorch an experiment goes without its nets
NEURAL = ("table1", "table2")
NAMES = [
    pytest.param(spec.id, marks=pytest.mark.neural) if spec.id in NEURAL else spec.id
    for spec in load_specs("all")
]


@pytest.mark.parametrize("name", NAMES)
def test_every_value_is_there_and_in_its_range(everything, name):
    folder, _ = everything
    spec = small(load_spec(name))
    results = results_of(spec, folder)
    assert list(results.panels()) == [panel.name for panel in spec.panels]
    assert {key[3] for key in results.arrays} == set(spec.metrics)
    for panel in spec.panels:
        assert list(results.methods(panel.name)) == [m.name for m in spec.methods_of(panel.name)]
        for method in spec.methods_of(panel.name):
            for point in spec.axis.points:
                for metric in spec.metrics:
                    values = results.arrays[panel.name, method.name, point, metric]
                    present = values[~np.isnan(values)]
                    assert len(values) == 2
                    assert present.size
                    assert np.isfinite(present).all()
                    assert (present >= 0).all()
                    if metric in SHARES:
                        assert (present <= 1).all()
                    if metric.startswith("wmrr"):
                        assert (np.nanmean(values, axis=1) <= 1 + 1e-12).all()


def test_shares_add_up_and_clicked_docs_were_observed(everything):
    folder, _ = everything
    spec = small(load_spec("fig1"))
    results = results_of(spec, folder)
    for panel in ("clicks", "non-clicks"):
        for point in spec.axis.points:
            parts = {m: results.arrays[panel, m, point, "share"] for m in results.methods(panel)}
            np.testing.assert_allclose(sum(parts.values()).mean(axis=1), 1.0)
            if panel == "clicks":
                assert not parts["relevant unobserved"].any()
                assert not parts["irrelevant unobserved"].any()
            elif point == 0.0:  # without position bias everything is observed
                assert not parts["relevant unobserved"].any()


def test_the_bound_covers_what_it_is_about(everything):
    folder, _ = everything
    spec = small(load_spec("bounds"))
    results = results_of(spec, folder)
    for method in results.methods(""):
        for point in spec.axis.points:
            covered = results.arrays["", method, point, "coverage"]
            assert np.nanmean(covered) >= 0.95
    for point in spec.axis.points:  # a ratio of propensities is at most 1 / p
        ips, prs = (results.arrays["", m, point, "bound"] for m in ("ips", "prs unclipped"))
        known = ~np.isnan(ips)
        assert (prs[known] <= ips[known]).all()


def test_production_and_naive_do_not_depend_on_the_assumed_propensities(everything):
    folder, _ = everything
    spec = small(load_spec("fig6"))
    results = results_of(spec, folder)
    first, last = spec.axis.points
    for method in ("production", "naive"):
        np.testing.assert_array_equal(
            results.arrays["linear", method, first, "map"],
            results.arrays["linear", method, last, "map"],
        )
    assert not np.array_equal(
        results.arrays["linear", "prs", first, "map"], results.arrays["linear", "prs", last, "map"]
    )


def test_small_leaves_two_points_and_a_comparison_where_it_can():
    for spec in load_specs("all"):
        tiny = small(spec)
        assert len(tiny.axis.points) == min(2, len(spec.axis.points))
        assert tiny.test
        assert (tiny.folds, tiny.runs) == (1, 2)


def test_changes_win_over_the_spec():
    spec = Changes(folds=3, runs=1, seed=7, points=(0.5,), tune_on="clicks").applied(
        load_spec("fig4")
    )
    assert (spec.folds, spec.runs, spec.seed, spec.axis.points) == (3, 1, 7, (0.5,))
    assert spec.tuning.on == "clicks"
    with pytest.raises(InputError, match="has no axis"):
        Changes(points=(1.0,)).applied(load_spec("table1"))


def test_points_are_numbers():
    assert parse_points("0,0.5,2") == (0, 0.5, 2)
    for wrong in ("a", "1,,2", "1,1"):
        with pytest.raises(InputError):
            parse_points(wrong)


def test_points_for_all_experiments_are_refused(tmp_path):
    with pytest.raises(InputError, match="for one experiment"):
        reproduce("all", "synthetic:mq2007:60", tmp_path, changes=Changes(points=(1.0,)))
