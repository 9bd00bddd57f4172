"""`prsrank evaluate --log`: estimates from held-out clicks on the command line."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from prsrank import read_click_log
from prsrank.cli import run
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.collections import open_collection
from prsrank.evaluation.log_evaluation import evaluate_on_log
from prsrank.evaluation.log_sums import sum_log
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_files import write_events
from prsrank.logs.features import known_lists
from prsrank.propensity.curve import PowerLaw, Propensities
from prsrank.rankers.base import load_ranker
from prsrank.report.evaluation_section import report_section
from prsrank.report.parts import page

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
sys.path.insert(0, str(Path(__file__).parents[1] / "evaluation"))
from estimates import evaluate_counterfactual, learned, part_sums
from report_checks import check_report

DATA = "synthetic:mq2007:80:3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    base = ["simulate", DATA, "--clicks", "2000"]
    assert run([*base, "--out", str(folder / "log.parquet")]) == 0
    # fold 3 trains on other lists, some of which are in the validation and test part of fold 1
    held_out = ["--seed", "5", "--out", str(folder / "held_out.parquet")]
    assert run(["simulate", f"{DATA}@3", *base[2:], *held_out]) == 0
    for weighting in ("prs", "naive"):
        train = ["train", str(folder / "log.parquet"), "--data", DATA, "--propensity", "power:1"]
        train += ["--ranker", "linear", "--weighting", weighting, "--stop-on", "none"]
        assert run([*train, "--out", str(folder / weighting)]) == 0
    return folder


def estimate(folder, *more):
    return [
        *("evaluate", folder / "prs", "--data", DATA, "--log", folder / "held_out.parquet"),
        *("--propensity", "power:1", *more),
    ]


def test_json_holds_the_library_s_estimates(prsrank, folder):
    code, out, _ = prsrank(*estimate(folder, "--against", folder / "naive", "--json"))
    assert code == 0
    found = json.loads(out)
    data = open_collection(DATA).everything()
    log = read_click_log(folder / "held_out.parquet")
    scores = {n: load_ranker(folder / n).score(data.features) for n in ("prs", "naive")}
    for estimator, ours, tau in (
        ("ips", "ips", 0),
        ("snips", "snips", 0),
        ("clipped", "clipped", 0.05),
    ):
        known = evaluate_counterfactual(log, data, PowerLaw(1), scores, tau=tau, samples=100)
        value = {
            (e["part"], e["metric"], e["ranker"]): e["value"]
            for e in found["estimates"]
            if e["estimator"] == ours
        }
        for one in known.estimates:
            if one.estimator == estimator:
                assert value[one.part, one.metric, one.ranker] == pytest.approx(one.value)
    lists = known_lists(log, data)
    scores = {n: load_ranker(folder / n).score(lists.features) for n in scores}
    regression = learned([log], lists, PowerLaw(1), 0.05)
    docs = part_sums(sum_log(log, lists, PowerLaw(1), scores, regression=regression), "dr")[0]
    robust = [
        e["value"]
        for e in found["estimates"]
        if (e["estimator"], e["metric"], e["part"]) == ("dr", "dcg@10", "all")
    ]
    assert robust == pytest.approx(docs.values[:, 0].sum(axis=0) / log.sessions)
    compared = {(d["ranker"], d["against"]) for d in found["differences"]}
    assert compared == {("prs", "logged"), ("naive", "logged"), ("prs", "naive")}
    assert {e["metric"] for e in found["estimates"]} == {"dcg@10", "wmrr", "arp"}
    assert found["diagnostics"][0]["effective_clicks"] > 0
    assert found["diagnostics"][0]["cut_weight"] > 0
    assert found["left_out_sessions"] == 0
    assert found["tau"] == 0.05


def test_text_has_estimates_slices_and_no_clip_if_unwanted(prsrank, folder):
    code, out, _ = prsrank(*estimate(folder, "--metric", "dcg@5", "--metric", "arp"))
    assert code == 0
    assert "sessions of " in out
    assert "the heaviest 1 % hold" in out
    assert "clicked at others" in out
    assert "clipped: tau 0.05" in out
    assert "wmrr" not in out


def test_a_model_is_told_when_it_learned_from_the_log(prsrank, folder):
    options = ["--data", DATA, "--log", folder / "log.parquet", "--propensity", "power:1"]
    out = prsrank("evaluate", folder / "prs", *options)[1]
    assert "warning: prs was trained on this log" in out
    assert "was trained on" not in prsrank(*estimate(folder))[1]


def test_parts_by_context(prsrank, folder, tmp_path):
    log = read_click_log(folder / "held_out.parquet")
    rng = np.random.default_rng(0)
    frame = _frame(log)
    devices = np.where(rng.random(log.sessions) < 0.5, "phone", "desk")
    frame["device"] = devices[np.repeat(np.arange(log.sessions), _lengths(log))]
    path = tmp_path / "log.parquet"
    write_events(ClickLog.from_frame(frame, contexts=["device"]), path)
    options = ["--data", DATA, "--log", path, "--propensity", "power:1", "--json"]
    found = json.loads(prsrank("evaluate", folder / "prs", *options, "--context", "device")[1])
    parts = {d["part"]: d["sessions"] for d in found["diagnostics"]}
    assert parts["device=desk"] + parts["device=phone"] == parts["all"] == log.sessions
    code, _, error = prsrank("evaluate", folder / "prs", *options, "--context", "country")
    assert code == 2
    assert "country" in error


def _lengths(log):
    return np.diff(log.ranking_offsets)[log.session_ranking]


def _frame(log):
    """Return the events of a log, one row per shown doc."""
    rows = []
    ends = np.cumsum(log.session_clicks)
    for session, ranking in enumerate(log.session_ranking):
        clicked = log.clicks[ends[session] - log.session_clicks[session] : ends[session]]
        first, last = log.ranking_offsets[ranking], log.ranking_offsets[ranking + 1]
        query = log.query_ids[log.ranking_query[ranking]]
        rows += [
            (query, session, log.doc_ids[log.ranking_docs[s]], s - first + 1, s - first in clicked)
            for s in range(first, last)
        ]
    names = ("query_id", "session_id", "doc_id", "position", "click")
    return {n: np.array(c) for n, c in zip(names, zip(*rows, strict=True), strict=True)}


def test_sessions_without_features_are_left_out_and_counted(prsrank, folder):
    log = read_click_log(folder / "held_out.parquet")
    known = {q for q in log.query_ids.tolist() if q <= 60}
    options = ["--log", folder / "held_out.parquet", "--propensity", "power:1"]
    model = folder / "prs"
    out = prsrank("evaluate", model, "--data", "synthetic:mq2007:60:3", *options, "--json")[1]
    found = json.loads(out)
    sessions = np.isin(log.query_ids, list(known))[log.ranking_query[log.session_ranking]]
    assert 0 < sessions.sum() < log.sessions
    assert found["left_out_sessions"] == (~sessions).sum()
    assert found["diagnostics"][0]["sessions"] == sessions.sum()
    assert "show docs that the data set does not have" in found["warnings"][0]
    part = ["--data", DATA, "--split", "test", *options]
    code, out, _ = prsrank("evaluate", model, *part)
    assert code == 0
    assert "are left out" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--context", "device"], "--context is for estimates from clicks"),
        (["--propensity", "power:1"], "--propensity is for estimates from clicks"),
        (["--log", "LOG"], "the log has no propensities"),
        (["--log", "LOG", "--propensity", "power:x"], "must be a number"),
        (["--log", "LOG", "--propensity", "power:1", "--metric", "ndcg@10"], "did you mean 'dcg'"),
        (["--log", "LOG", "--propensity", "power:1", "--against", "MODEL"], "with itself"),
        (["--log", "nowhere.parquet", "--propensity", "power:1"], "nowhere.parquet"),
    ],
)
def test_bad_options_are_one_line(prsrank, folder, options, message):
    places = {"LOG": folder / "held_out.parquet", "MODEL": folder / "prs"}
    given = [places.get(o, o) for o in options]
    code, out, error = prsrank("evaluate", folder / "prs", "--data", DATA, *given)
    assert code == 2
    assert out == ""
    assert message in error
    assert error.count("\n") == 1


def test_a_data_set_that_knows_nothing_of_the_log(prsrank, folder, tmp_path):
    frame = {"query_id": ["x", "x"], "session_id": [1, 1], "doc_id": ["a", "b"], "position": [1, 2]}
    frame = {n: np.array(v) for n, v in frame.items()} | {"click": np.array([True, False])}
    write_events(ClickLog.from_frame(frame), tmp_path / "x.parquet")
    options = ["--data", DATA, "--log", tmp_path / "x.parquet", "--propensity", "power:1"]
    code, _, error = prsrank("evaluate", folder / "prs", *options)
    assert code == 2
    assert "query x is in the log but not in the data set" in error


def curve(p, clicks, *, width=0.1, verdict="identified"):
    p = np.array(p)
    return Propensities(p, p * (1 - width), p * (1 + width), clicks, verdict, "randomised")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (curve([1, 0.5, 1 / 3], [90, 50, 30]), None),
        (curve([1, 0.5, 1 / 3], [0, 0, 0]), None),
        (curve([1, 0.5, 1 / 3], [90, 50, 0]), "clicks at positions 3, where"),
        (curve([1, 0.5, 1 / 3], [90, 50, 30], width=0.7), "clicks at positions 2, 3, where"),
        (
            curve([1, 0.5, 1 / 3], [9, 5, 3], verdict="not identified: no randomised sessions"),
            "the propensities are not identified: no randomised",
        ),
    ],
)
def test_doubtful_propensities_are_a_warning(given, expected):
    data = open_collection("synthetic:mq2007:200:1").everything()
    scores = np.arange(data.docs) * 1.0
    log = simulate_clicks(data, scores, PositionBasedModel(1, 0.1, cutoff=3), sessions=4000)
    result = evaluate_on_log(log, data, given, {"new": -scores}, samples=100)
    found = [w for w in result.warnings if "re-ordering the shown docs" not in w]
    assert len(found) == (expected is not None)
    assert expected is None or expected in found[0]
    section = report_section(result)
    check_report(page("t", "", [section]))
    json.dumps(section, allow_nan=False)
    assert section["notes"] == list(result.warnings)
