"""Verdicts on made-up results with a known truth."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from prsrank.errors import InputError
from prsrank.experiment.claims import judge as verdict_of
from prsrank.experiment.results import Results
from prsrank.experiment.spec import Axis, Claim, Method, Panel, Spec
from prsrank.experiment.spec_files import parse_spec


def judge(entries, results, *, titles=None):
    """The verdict on the entries of a spec's `test`, with its evidence in words."""
    claims = tuple(
        Claim(
            **{
                "metric": ("ndcg@10",),
                **{k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()},
            }
        )
        for entry in entries
    )
    verdict = verdict_of(Results(replace(results.spec, test=claims), results.arrays))
    if verdict is None:
        return None
    return SimpleNamespace(
        label=verdict.label,
        assertions=verdict.assertions,
        comparisons=[made for each in verdict.assertions for made in each.comparisons],
        evidence=verdict.evidence(titles or {}),
    )


def results_of(table):
    panels, methods, points, metrics = (
        tuple(dict.fromkeys(part)) for part in zip(*table, strict=True)
    )
    spec = Spec(
        "made",
        "Made up",
        "",
        Axis("eta", points=points),
        tuple(Method(name, panels=panels) for name in methods),
        metrics,
        tuple(Panel(name) for name in panels),
    )
    return Results(spec, table)


def results(means, *, runs=3, queries=60, noise=0.1, seed=0):
    """Make values of the given means, (panel, method, point, metric) -> mean."""
    rng = np.random.default_rng(seed)
    base = rng.normal(0, 0.2, size=queries)
    return results_of(
        {key: mean + base + rng.normal(0, noise, (runs, queries)) for key, mean in means.items()}
    )


def over_points(methods, points=(1.0, 2.0, 3.0), metric="ndcg@10", panel="linear"):
    return {(panel, m, p, metric): mean for m, mean in methods.items() for p in points}


BETTER = [{"better": "prs", "than": ["ips"]}]


def test_a_clear_difference_is_confirmed():
    verdict = judge(BETTER, results(over_points({"prs": 0.7, "ips": 0.5})))
    assert verdict.label == "confirmed"
    assert [made.outcome for made in verdict.comparisons] == ["supports"] * 3
    assert ": 3 of 3 significantly so; difference +0.2" in verdict.evidence


def test_a_difference_the_other_way_contradicts_even_at_one_point():
    means = over_points({"prs": 0.7, "ips": 0.5})
    means["linear", "prs", 2.0, "ndcg@10"] = 0.3
    verdict = judge(BETTER, results(means))
    assert verdict.label == "contradicted"
    assert ": 2 of 3 significantly so, 1 against; difference" in verdict.evidence
    assert verdict.comparisons[1].outcome == "against"


def test_one_point_that_is_not_significant_is_not_confirmed():
    means = over_points({"prs": 0.7, "ips": 0.5})
    means["linear", "prs", 2.0, "ndcg@10"] = 0.501
    verdict = judge(BETTER, results(means, seed=3))
    assert verdict.label == "not confirmed"
    assert ": 2 of 3 significantly so; difference" in verdict.evidence


def test_p_values_are_corrected_over_the_whole_claim():
    frame = results(over_points({"prs": 0.51, "ips": 0.5, "naive": 0.49}), seed=1)
    verdict = judge([{"better": "prs", "than": ["ips", "naive"]}], frame)
    raw = {}
    for rival in ("ips", "naive"):
        for point in frame.spec.axis.points:
            sides = [
                frame.arrays["linear", m, point, "ndcg@10"].mean(axis=0) for m in ("prs", rival)
            ]
            raw[rival, point] = scipy.stats.ttest_rel(*sides).pvalue
    order = sorted(raw, key=raw.get)
    running, expected = 0.0, {}
    for step, key in enumerate(order):
        running = max(running, min(1.0, raw[key] * (6 - step)))
        expected[key] = running
    ours = {
        (each.rival, made.point): made.corrected
        for each in verdict.assertions
        for made in each.comparisons
    }
    assert ours == pytest.approx(expected)


def test_arp_is_better_when_lower():
    means = over_points({"prs": 3.0, "ips": 4.0}, metric="arp")
    better = [{"better": "prs", "than": ["ips"], "metric": ["arp"]}]
    verdict = judge(better, results(means))
    assert verdict.label == "confirmed"
    assert verdict.evidence.startswith("prs better than ips in ARP: 3 of 3 significantly so")
    assert verdict.assertions[0].lower_wins
    turned = judge([{"better": "ips", "than": ["prs"], "metric": ["arp"]}], results(means))
    assert turned.label == "contradicted"
    above = [{"above": "ips", "than": ["prs"], "metric": ["arp"]}]
    assert judge(above, results(means)).label == "confirmed"


@pytest.mark.parametrize(("prs", "label"), [(0.5, "confirmed"), (0.3, "contradicted")])
def test_not_worse_within_a_margin(prs, label):
    spec = [{"better": "prs", "than": ["ips"], "margin": 0.1}]
    made = results(over_points({"prs": prs, "ips": 0.5}), noise=0.05)
    assert judge(spec, made).label == label


def test_margin_of_a_lower_is_better_metric():
    means = over_points({"prs": 4.05, "ips": 4.0}, metric="arp")
    spec = [{"better": "prs", "than": ["ips"], "metric": ["arp"], "margin": 0.2}]
    assert judge(spec, results(means)).label == "confirmed"
    spec = [{"better": "ips", "than": ["prs"], "metric": ["arp"], "margin": 0.001}]
    assert judge(spec, results(means, noise=0.01)).label == "confirmed"


def test_who_loses_less_wins_relative_to_a_point():
    means = {
        **{("linear", "prs", p, "ndcg@10"): 0.5 - 0.05 * (p - 1) for p in (1.0, 2.0, 3.0)},
        **{("linear", "ips", p, "ndcg@10"): 0.9 - 0.20 * (p - 1) for p in (1.0, 2.0, 3.0)},
    }
    spec = [{"better": "prs", "than": ["ips"], "relative_to": 1.0}]
    verdict = judge(spec, results(means))
    assert verdict.label == "confirmed"
    assert [made.point for made in verdict.comparisons] == [2.0, 3.0]
    assert verdict.comparisons[0].paired.difference == pytest.approx(0.15, abs=0.05)
    assert judge(BETTER, results(means)).label == "contradicted"


def test_one_point_against_the_others_of_the_same_method():
    means = {("linear", "prs", g, "ndcg@10"): m for g, m in ((0.5, 0.4), (1.0, 0.7), (3.0, 0.2))}
    verdict = judge([{"better": "prs", "at": 1.0}], results(means))
    assert verdict.label == "confirmed"
    assert [made.point for made in verdict.comparisons] == [0.5, 3.0]
    assert verdict.evidence.startswith("prs at 1 better than at other points in NDCG@10: 2 of 2")


def test_values_without_queries_and_constants():
    shares = results_of(
        {
            ("clicks", "relevant observed", 1.0, "share"): np.ones((1, 5)),
            ("clicks", "relevant unobserved", 1.0, "share"): np.linspace(0.1, 0.2, 5)[None],
        }
    )
    all_clicked = {"above": "relevant observed", "than": [1], "margin": 1e-6, "metric": ["share"]}
    some_hidden = {"above": "relevant unobserved", "than": [0.0], "metric": ["share"]}
    assert judge([all_clicked, some_hidden], shares).label == "confirmed"
    too_many = {"below": "relevant unobserved", "than": [0.05], "metric": ["share"]}
    assert judge([too_many], shares).label == "contradicted"


def test_panels_without_the_rival_are_left_out_unless_named():
    means = {**over_points({"prs": 0.7, "ips": 0.5}), ("dnn", "prs", 1.0, "ndcg@10"): 0.7}
    assert judge(BETTER, results(means)).label == "confirmed"
    named = [{**BETTER[0], "panels": ["linear", "dnn"], "points": [1.0]}]
    verdict = judge(named, results(means))
    assert verdict.label == "not confirmed"
    assert ": 1 of 2 significantly so, 1 not run;" in verdict.evidence


def test_what_was_not_run_is_not_confirmed():
    made = results(over_points({"prs": 0.7, "ips": 0.5}))
    verdict = judge([{"better": "prs", "than": ["svm"]}], made)
    assert verdict.label == "not confirmed"
    assert "none of 3 comparisons was run" in verdict.evidence
    both = judge([*BETTER, {"better": "prs", "than": ["svm"]}], made)
    assert both.label == "not confirmed"
    assert both.evidence.endswith("none of 3 comparisons was run.")


def test_comparisons_at_other_points_than_those_of_the_run_are_dropped():
    made = results(over_points({"prs": 0.7, "ips": 0.5}))
    verdict = judge([{**BETTER[0], "points": [1.0, 9.0]}], made)
    assert (verdict.label, [c.point for c in verdict.comparisons]) == ("confirmed", [1.0])
    gone = [{**BETTER[0], "points": [9.0]}, {"better": "prs", "at": 9.0}]
    for claims in (gone[:1], gone[1:], [{**BETTER[0], "relative_to": 9.0}], []):
        assert judge(claims, made) is None


def test_one_query_is_not_confirmed_and_says_why():
    values = {"prs": np.array([[0.9, np.nan]]), "ips": np.array([[0.1, np.nan]])}
    made = results_of({("", m, "", "ndcg@10"): v for m, v in values.items()})
    verdict = judge(BETTER, made)
    assert verdict.label == "not confirmed"
    assert math.isnan(verdict.comparisons[0].corrected)
    assert "no test (1 of 2 queries can be compared; a test needs 2)" in verdict.evidence


def test_queries_without_a_relevant_doc_change_nothing():
    made = results(over_points({"prs": 0.52, "ips": 0.5}))
    with_holes = results_of(
        {k: np.insert(v, [0, 30], np.nan, axis=1) for k, v in made.arrays.items()}
    )
    ours, expected = (judge(BETTER, r) for r in (with_holes, made))
    assert ours.evidence == expected.evidence
    assert {made.paired.skipped for made in ours.comparisons} == {2}


def test_chance_alone_decides_at_most_one_claim_in_twenty():
    trials, decided = 400, {"confirmed": 0, "contradicted": 0, "not confirmed": 0}
    for seed in range(trials):
        means = over_points({"prs": 0.5, "ips": 0.5, "naive": 0.5}, points=(1.0, 2.0))
        made = results(means, runs=2, queries=30, seed=seed)
        spec = [{"better": "prs", "than": ["ips", "naive"]}]
        decided[judge(spec, made).label] += 1
    slack = 3 * math.sqrt(0.05 * 0.95 / trials)
    assert (decided["confirmed"] + decided["contradicted"]) / trials <= 0.05 + slack


def test_a_real_difference_is_found():
    found = 0
    for seed in range(50):
        made = results(over_points({"prs": 0.55, "ips": 0.5}), runs=3, queries=100, seed=seed)
        found += judge(BETTER, made).label == "confirmed"
    assert found >= 45


def test_evidence_holds_the_figures():
    made = results(over_points({"prs": 0.54, "ips": 0.5}, points=(1.0,)), queries=200)
    verdict = judge(BETTER, made)
    sides = [made.arrays["linear", m, 1.0, "ndcg@10"].mean(axis=0) for m in ("prs", "ips")]
    theirs = scipy.stats.ttest_rel(*sides)
    low, high = theirs.confidence_interval(0.95)
    differences = sides[0] - sides[1]
    assert (
        f"difference {differences.mean():+.4f} (95 % {low:+.4f} to {high:+.4f}), "
        f"d {differences.mean() / differences.std(ddof=1):.2f}"
    ) in verdict.evidence


def test_mean_difference_is_that_of_all_points():
    made = results(over_points({"prs": 0.54, "ips": 0.5}))
    sides = [
        np.mean(
            [made.arrays["linear", m, p, "ndcg@10"].mean(axis=0) for p in made.spec.axis.points],
            axis=0,
        )
        for m in ("prs", "ips")
    ]
    low, high = scipy.stats.ttest_rel(*sides).confidence_interval(0.95)
    assert f"(95 % {low:+.4f} to {high:+.4f})" in judge(BETTER, made).evidence


def test_each_metric_is_an_assertion():
    means = {
        **over_points({"prs": 0.7, "ips": 0.5}),
        **over_points({"prs": 4.0, "ips": 3.0}, metric="arp"),
    }
    entry = {"better": "prs", "than": ["ips"], "metric": ["ndcg@10", "arp"]}
    verdict = judge([entry], results(means), titles={"prs": "PRS"})
    assert verdict.label == "contradicted"
    assert verdict.evidence.startswith("PRS better than ips in NDCG@10: 3 of 3 significantly so;")
    assert "PRS better than ips in ARP: 0 of 3 significantly so, 3 against;" in verdict.evidence


def test_a_margin_is_said():
    made = results(over_points({"prs": 0.4, "ips": 0.5}, points=(1.0,)))
    text = judge([{**BETTER[0], "margin": 0.01}], made).evidence
    assert text.startswith(
        "prs better than ips in NDCG@10, margin 0.01: 0 of 1 significantly so, 1"
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"beter": "prs", "than": ["ips"]}, "no key 'test.*beter': did you mean 'better'"),
        ({"than": ["ips"]}, "one of better, above, below, not 0"),
        ({"better": "prs", "above": "prs", "than": ["ips"]}, "not 2"),
        ({"better": "prs"}, "needs than"),
        ({"better": "prs", "than": ["ipz"]}, "no method 'ipz': did you mean 'ips'"),
        ({"better": "prs", "than": "ips"}, "than must be a list, not 'ips'"),
        ({"better": "prs", "than": ["ips"], "metric": ["ndgc@10"]}, "ndgc@10"),
        ({"above": "prs", "than": ["ips"], "metric": ["ndgc@10"]}, "did you mean 'ndcg@10'"),
        ({"better": "prs", "than": [0.5], "metric": ["spread"]}, "write above or below"),
        ({"better": "prs", "than": ["ips"], "points": 3}, "points must be a list"),
        ({"better": "prs", "than": ["ips"], "points": [5]}, "no point 5 on the axis"),
        ({"better": "prs", "than": ["ips"], "panels": ["lin"]}, "did you mean 'linear'"),
        ({"better": "prs", "than": [True]}, "a text or a finite number"),
        ({"better": "prs", "than": ["ips"], "margin": -1}, "margin"),
        ({"better": "prs", "than": ["ips"], "margin": float("nan")}, "margin"),
        ({"better": ["prs"], "than": ["ips"]}, "must be a text"),
    ],
)
def test_bad_entries_are_named(entry, message, spec_values):
    metrics = ["ndcg@10", "spread"]
    kind = {}
    if "spread" in entry.get("metric", []):
        metrics, kind = ["bound", "spread"], {"kind": "bounds"}
    values = spec_values | kind | {"metrics": metrics if kind else ["ndcg@10", "arp"]}
    values["methods"] = [{"name": "prs"}, {"name": "ips"}]
    with pytest.raises(InputError, match=message):
        parse_spec(values | {"test": [entry]})


def test_good_entries_pass_and_numbers_match_by_value(spec_values):
    entry = {"better": "prs", "at": 100.0, "points": [400.0], "metric": ["ndcg@10", "map"]}
    spec = parse_spec(spec_values | {"test": [entry]})
    assert spec.test[0].rivals == ("prs",)
    assert parse_spec(spec_values | {"test": [{"better": "prs", "at": 100}]}).test[0].metric == (
        "ndcg@10",
    )
