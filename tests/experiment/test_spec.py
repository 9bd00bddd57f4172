import copy
from pathlib import Path

import pytest

from prsrank.errors import InputError
from prsrank.experiment.spec_files import load_spec, load_specs, parse_spec, spec_names

BEYOND = [f"beyond-{what}" for what in ("bias", "density", "model", "noise", "wrong-curve")]
PAPER = ["fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "gamma", "table1", "table2", "bounds"]


def test_every_experiment_of_the_paper_has_a_spec_with_claim_and_test():
    assert spec_names() == [*PAPER, *BEYOND, "density", "fig2-sparse", "fig6-unclipped"]
    assert [spec.id for spec in load_specs("all")] == PAPER
    for spec in map(load_spec, spec_names()):
        assert spec.claim.endswith(".")
        assert spec.test
        assert (spec.folds, spec.runs) == (5, 3 if spec.id in BEYOND else 5)


def test_the_paper_s_numbers_are_in_the_tables():
    table1 = {(n.method, n.metric): n.value for n in load_spec("table1").paper}
    assert table1["svm", "map"] == 0.5720
    assert table1["prs", "ndcg@10"] == 0.6264
    assert len(table1) == 12
    table2 = {(n.panel, n.method, n.metric): n.value for n in load_spec("table2").paper}
    assert table2["linear", "ips", "wmrr top"] == -0.19
    assert table2["dnn", "prs", "wmrr others"] == 0.96
    assert len(table2) == 18


def test_table_2_has_its_own_data_and_says_so():
    spec = load_spec("table2")
    assert spec.data.startswith("synthetic:personal:")
    assert "Gmail" in spec.data_note


WRONG = {
    "key": (lambda v: v.update(metrix=[]), "no key 'metrix': did you mean 'metrics'"),
    "metric": (lambda v: v.update(metrics=["ndgc@10"]), "did you mean 'ndcg'"),
    "method": (lambda v: v["methods"].append({"name": "prz"}), "did you mean 'prs'"),
    "weighting": (
        lambda v: v["methods"].append({"name": "x", "weighting": "ipz"}),
        "no weighting 'ipz': did you mean 'ips'",
    ),
    "ranker": (
        lambda v: v["methods"].append({"name": "x", "ranker": "lambdamarrt"}),
        "no ranker 'lambdamarrt': did you mean 'lambdamart'",
    ),
    "axis": (lambda v: v["axis"].update(name="click"), "no axis 'click': did you mean 'clicks'"),
    "scale": (
        lambda v: v["axis"].update(scale="lin"),
        "must be one of 'linear', 'log', 'ordinal', not 'lin'",
    ),
    "axis key": (lambda v: v["axis"].update(pionts=[1]), "did you mean 'points'"),
    "clicks": (lambda v: v["clicks"].update(etta=1.0), "did you mean 'eta'"),
    "eta": (lambda v: v["clicks"].update(eta=-1.0), "eta must be"),
    "kind": (lambda v: v.update(kind="rankings"), "kind must be one of 'ranking'"),
    "grid": (
        lambda v: v["rankers"]["linear"]["grid"].update(l3=[1]),
        "no parameter of linear 'l3': did you mean 'l2'",
    ),
    "parameter": (
        lambda v: v["methods"].append(
            {"name": "x", "weighting": "prs", "parameters": {"gama": 1.0}}
        ),
        "did you mean 'gamma'",
    ),
    "empty grid": (lambda v: v["rankers"]["linear"].update(grid={"l2": []}), "must be a list"),
    "panel": (
        lambda v: v["methods"].append({"name": "ips", "panels": ["linaer"]}),
        "no panel 'linaer': did you mean 'linear'",
    ),
    "propensity": (lambda v: v.update(propensity={"source": "random"}), "'randomised'"),
    "tuning": (lambda v: v.update(tuning={"on": "label"}), "must be one of 'labels', 'clicks'"),
    "test method": (lambda v: v.update(test=[{"better": "pr", "than": ["naive"]}]), "'prs'"),
    "test key": (lambda v: v.update(test=[{"betterr": "prs", "than": ["naive"]}]), "'better'"),
    "paper": (
        lambda v: v.update(paper=[{"method": "prs", "metric": "mpa", "value": 1.0}]),
        "no metric 'mpa': did you mean 'map'",
    ),
    "runs": (lambda v: v.update(runs=0), "runs must be from 1 to"),
    "points": (lambda v: v["axis"].update(points=[1, 1]), "different values"),
    "twice": (lambda v: v["methods"].append({"name": "prs"}), "a method twice"),
    "no ranker": (lambda v: v.update(panels=[{"name": "linear"}]), "has no ranker"),
    "missing": (lambda v: v.pop("claim"), "'claim' is missing"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_spec_is_refused_with_the_nearest_valid_name(what, spec_values):
    change, message = WRONG[what]
    values = copy.deepcopy(spec_values)
    parse_spec(values)
    change(values)
    with pytest.raises(InputError) as error:
        parse_spec(values)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_experiment_is_refused_with_the_nearest_name():
    with pytest.raises(InputError, match="no experiment 'fig33': did you mean 'fig3'"):
        load_spec("fig33")


def test_a_spec_of_one_s_own_is_read_from_a_file(tmp_path):
    source = Path(__file__).parents[2] / "experiments" / "fig2.toml"
    own = tmp_path / "own.toml"
    own.write_text(source.read_text().replace('id = "fig2"', 'id = "own"'))
    assert load_spec(str(own)).id == "own"
    own.write_text("id = ")
    with pytest.raises(InputError, match=r"own.toml: is not valid TOML"):
        load_spec(str(own))
    own.write_text(source.read_text() + "\n[more]\n")
    with pytest.raises(InputError, match=r"own.toml: .*no key 'more'"):
        load_spec(str(own))
