"""Sensitivity: the affine estimate, agreement of rankings, and the study with its chart."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.clicks.trust import TrustBiasModel
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.evaluation.sensitivity import (
    AffineJudge,
    Assumption,
    Interval,
    Point,
    Sensitivity,
    study_log,
    study_sensitivity,
)
from prsrank.logs.click_log_files import write_events
from prsrank.propensity.curve import PowerLaw
from prsrank.report.parts import page
from prsrank.report.sensitivity_section import report_lines, report_section, turning_points

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
sys.path.insert(0, str(Path(__file__).parent))
from estimates import evaluate_counterfactual
from report_checks import check_report

DATA = "synthetic:mq2007:80:3"


@pytest.fixture(scope="module")
def collection():
    data = synthetic_dataset("mq2007", 80, seed=3)
    new = production_scores(data, share=0.2, seed=1).scores
    old = production_scores(data, share=0.03, seed=2).scores
    return data, new, old


@pytest.fixture(scope="module")
def log(collection):
    data, _, old = collection
    return simulate_clicks(data, old, PositionBasedModel(1, 0.1), sessions=1500, seed=4)


@pytest.mark.parametrize("metric", ["dcg@10", "dcg", "arp"])
@pytest.mark.parametrize("weighted", [False, True])
def test_without_noise_the_judge_is_inverse_propensity_scoring(collection, log, metric, weighted):
    data, new, _ = collection
    if weighted:
        drawn = np.random.default_rng(0).choice([1, 5.5], len(log.clicks))
        log = replace(log, click_weights=drawn)
    tied = np.round(new, 1)
    found = evaluate_counterfactual(log, data, PowerLaw(1), {"new": tied}, metrics=[metric], seed=2)
    judge = AffineJudge(log, data, PowerLaw(1), metric=metric, seed=2)
    ours, our_gain = judge(tied, Assumption())
    value, gain = found.estimate("new", metric), found.difference("new", metric)
    assert ours.value == pytest.approx(value.value, rel=1e-10)
    assert (ours.low, ours.high) == pytest.approx((value.low, value.high), rel=1e-6)
    assert (our_gain.value, our_gain.low, our_gain.high) == pytest.approx(
        (gain.difference, gain.low, gain.high), rel=1e-6
    )


@pytest.mark.parametrize("trust", [0.0, 0.6])
@pytest.mark.parametrize("mu", [0.0, 0.15])
def test_the_expectation_is_the_truth_where_the_assumption_holds(mu, trust):
    """Put expected clicks in place of clicks, by the click models' own formulas."""
    model = TrustBiasModel(eta=1, mu=mu, trust=trust)
    relevance, positions = np.array([0, 1, 0, 1, 1]), np.arange(1, 6)
    expected = model.click_probabilities(relevance, positions)
    slope, floor = Assumption(noise=mu, trust=trust).clicks(PowerLaw(1).at(positions), positions)
    np.testing.assert_allclose((expected - floor) / slope, relevance, atol=1e-12)


def test_every_session_counts_in_the_affine_estimate(collection, log):
    """A plain loop over sessions and slots."""
    data, new, _ = collection
    assumption = Assumption(eta=1.3, noise=0.1, trust=0.4)
    judge = AffineJudge(log, data, PowerLaw(1), samples=100)
    ends = np.cumsum(log.session_clicks)
    rows, total, logged = log.doc_rows(data), 0.0, 0.0
    for session in range(log.sessions):
        ranking = log.session_ranking[session]
        slots = np.arange(log.ranking_offsets[ranking], log.ranking_offsets[ranking + 1])
        clicked = log.clicks[ends[session] - log.session_clicks[session] : ends[session]]
        scores = new[rows[log.ranking_docs[slots]]]
        rank = (-scores).argsort().argsort() + 1
        for i in range(len(slots)):
            k = i + 1
            p, t = k**-1.3, 0.4 / k
            weight = ((i in clicked) - p * (0.1 + 0.9 * t)) / (p * 0.8 * (1 - t))
            total += weight / math.log2(1 + rank[i]) * (rank[i] <= 10)
            logged += weight / math.log2(1 + k) * (k <= 10)
    value, gain = judge(new, assumption)
    assert value.value == pytest.approx(total / log.sessions, rel=1e-9)
    assert gain.value == pytest.approx((total - logged) / log.sessions, rel=1e-9)


def test_noise_scales_every_gain(collection, log):
    data, new, _ = collection
    judge = AffineJudge(log, data, PowerLaw(1), samples=100)
    (plain, plain_gain), (noisy, noisy_gain) = (
        judge(new, Assumption(noise=noise)) for noise in (0.0, 0.2)
    )
    assert noisy_gain.value == pytest.approx(plain_gain.value / 0.6)
    assert noisy.value != pytest.approx(plain.value, rel=0.01)


def test_assumptions_are_checked_and_listed(collection, log):
    data, new, _ = collection
    judge = AffineJudge(log, data, PowerLaw(1), samples=100)
    tried = study_sensitivity(judge, new, values={"gamma": [5, 2]})
    assert [(p.value, p.is_base) for p in tried] == [(1, True), (2, False), (5, False)]
    with pytest.raises(InputError, match="no assumption 'mu'"):
        study_sensitivity(judge, new, values={"mu": [0.1]})
    for bad in ({"eta": -1.0}, {"noise": 0.5}, {"trust": 1.0}, {"gamma": 0.0}, {"eta": math.nan}):
        with pytest.raises(InputError, match=f"{next(iter(bad))} must be"):
            Assumption(**bad)


def test_the_judge_refuses(collection, log):
    data = collection[0]
    with pytest.raises(InputError, match="self-normalised"):
        AffineJudge(log, data, PowerLaw(1), metric="wmrr")
    with pytest.raises(InputError, match="clicked at position 1, whose propensity is 0"):
        unseen = np.zeros(len(log.ranking_docs))
        AffineJudge(replace(log, ranking_propensities=unseen), data, None)
    with pytest.raises(InputError, match="has no propensities"):
        AffineJudge(log, data, None)


@pytest.fixture(scope="module")
def study(collection, log):
    settings = {"trees": 10, "threads": 1}
    values = {"eta": [0.5], "noise": [0.1], "trust": [0.3], "gamma": [5.0]}
    return study_log(log, collection[0], PowerLaw(1), settings=settings, values=values, samples=100)


def test_a_study_trains_anew_only_where_training_differs(study):
    base = [point for point in study.points if point.is_base]
    assert {point.kind for point in base} == {"eta", "noise", "trust", "gamma"}
    for point in base:
        assert point.kendall_tau == pytest.approx(1)
        assert point.gain_retrained == point.gain_of_model
    points = study.by_kind()
    noisy = points["noise"][1]
    assert noisy.kendall_tau == pytest.approx(1)
    assert noisy.gain_of_model.value == pytest.approx(base[0].gain_of_model.value / 0.8)
    flat, clipped = points["eta"][0], points["gamma"][1]
    assert flat.kendall_tau < 1
    assert clipped.kendall_tau < 0.9
    assert clipped.gain_of_model == base[0].gain_of_model
    assert clipped.gain_retrained != base[0].gain_of_model
    assert 0 < study.reference_tau < 1
    assert any("queries: too few" in warning for warning in study.warnings)


def test_a_study_of_scores_alone_trains_nothing(collection, log):
    data, new, _ = collection
    judge = AffineJudge(log, data, PowerLaw(1), samples=100)
    points = study_sensitivity(judge, new, values={"eta": [2]})
    study = Sensitivity("dcg@10", 0.95, points)
    assert [point.gain_retrained for point in study.points] == [None, None]
    (figure,) = report_section(study)["figures"]
    assert [[s["x"] for s in panel["series"]] for panel in figure["panels"]] == [[[1.0, 2.0]]]
    assert json.loads(json.dumps(study.to_json_dict(), allow_nan=False))["metric"] == "dcg@10"


def points_of(*gains):
    """Points of eta 1, 2, ..., whose logged value is 2."""
    return tuple(
        Point("eta", float(at), at == 1, Interval(2 + gain, gain, gain + 3), Interval(gain, gain - 1, gain + 1))
        for at, gain in enumerate(gains, 1)
    )  # fmt: skip


def test_where_the_gain_turns_is_marked_and_said():
    study = Sensitivity("dcg@10", 0.95, points_of(0.3, 0.1, -0.3, -0.1))
    assert study.turns("eta") == [pytest.approx(2.25)]
    assert study.to_json_dict()["turns"] == {"eta": [pytest.approx(2.25)]}
    line = "position bias: power of the curve: the sign of the gain turns at 2.25"
    assert line in report_lines(study)
    section = report_section(study)
    assert f"P{line[1:]}." in section["text"]
    (panel,) = section["figures"][0]["panels"]
    assert panel["marks"] == [pytest.approx(2.25)]
    # in percent of the logged ranking's value
    assert panel["series"][0]["y"] == pytest.approx([15, 5, -15, -5])
    check_report(page("t", "", [section]))
    steady = Sensitivity("dcg@10", 0.95, points_of(0.3, 0.1))
    assert "the gain keeps its sign from 1 to 2" in "".join(turning_points(steady))


def test_too_few_queries_for_an_interval(collection, log):
    data, new, _ = collection
    one = log.select(log.ranking_query[log.session_ranking] == log.ranking_query[0])
    judge = AffineJudge(one, data, PowerLaw(1), samples=100)
    study = Sensitivity("dcg@10", 0.95, study_sensitivity(judge, new, values={"eta": [2]}))
    assert study.points[0].gain_of_model.low == -np.inf
    section = json.loads(json.dumps(report_section(study), allow_nan=False))
    assert section["figures"][0]["panels"][0]["series"][0]["low"][0] is None


def test_text_and_section(study):
    lines = list(report_lines(study))
    assert sum("*" in line for line in lines) == 4
    assert lines[-1].startswith("warning: ")
    section = report_section(study)
    check_report(page("t", "", [section]))
    assert [panel["series"][1]["name"] for panel in section["figures"][0]["panels"]] == [
        "retrained so"
    ] * 4


@pytest.fixture(scope="module")
def command():
    import typer

    from prsrank.cli.options import with_groups
    from prsrank.cli.sensitivity import sensitivity

    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(with_groups(sensitivity))
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_command_writes_one_chart(command, log, tmp_path):
    write_events(log, tmp_path / "log.parquet")
    arguments = [tmp_path / "log.parquet", "--data", DATA, "--propensity", "power:1"]
    quick = []
    for one in ("eta=0.5", "noise=0.1", "trust=0.3", "gamma=5"):
        quick += ["--try", one]
    result = command(*arguments, *quick, "--out", tmp_path / "study", "--json")
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "study/sensitivity.json").read_text())
    assert written == json.loads(result.stdout)
    assert len(written["points"]) == 8
    assert "Kendall" in (tmp_path / "study/sensitivity.svg").read_text()
    assert (tmp_path / "study/sensitivity.png").read_bytes()[:4] == b"\x89PNG"
    taken = command(*arguments, "--out", tmp_path)
    assert isinstance(taken.exception, InputError)
    assert "other things in it" in str(taken.exception)
    wrong = command(*arguments, "--out", tmp_path / "new", "--try", "bias=2")
    assert "names are:" in str(wrong.exception)
    assert not (tmp_path / "new").exists()
