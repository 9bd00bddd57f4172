"""A new member of each family, by its one line in the family's table, goes through the commands."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import prsrank.audit
from prsrank.audit.catalogue import KINDS, Kind
from prsrank.audit.findings import Finding
from prsrank.cli import run
from prsrank.clicks.models import CLICK_MODELS, WalkTables, marginal_clicks
from prsrank.data.collections import load_dataset
from prsrank.data.preprocess import FeatureScaling
from prsrank.export.formats import FORMATS
from prsrank.metrics.ranking import METRICS, RankingMetric
from prsrank.propensity.bootstrap import CurveOptions, RawCurve
from prsrank.propensity.estimators import ESTIMATORS
from prsrank.propensity.identification import Identified
from prsrank.rankers.base import RANKERS, Ranker, checked_features, load_ranker
from prsrank.rankers.scorers import LinearSum
from prsrank.weighting import WEIGHTINGS, Weighting

DATA = "synthetic:mq2007:60:3"
LEVELS = (1.0, 0.6, 0.36)


class ToyRanker(Ranker):
    """Ranks by one feature, upwards or downwards."""

    name = "toy"
    search_grid = ({"column": 45}, {"column": 3})

    def __init__(self, *, column: int = 0) -> None:
        self.column = column

    def fit(self, lists, what, *, validation=None, progress=None):
        values, pulls = lists.features[:, self.column], np.zeros(lists.docs)
        for winner in range(what.winners):
            weights = what.weights[what.weight_offsets[winner] : what.weight_offsets[winner + 1]]
            start = lists.offsets[what.winner_list[winner]]
            pulls[start + what.winner_row[winner]] += weights.sum()
            pulls[start : start + len(weights)] -= weights
        self.direction_ = 1.0 if float(pulls @ values) >= 0 else -1.0
        self.feature_names_ = lists.feature_names
        return self

    def score(self, features):
        self.check_fitted()
        values = checked_features(features, len(self.feature_names_))
        return self.direction_ * np.asarray(values[:, self.column], np.float64)

    def scorer(self):
        weights = np.zeros(len(self.feature_names_))
        weights[self.column] = self.direction_
        zeros = np.zeros(len(weights))
        scaling = FeatureScaling(zeros, zeros + 1, np.zeros(0, np.int64), np.zeros(0))
        return LinearSum(weights, scaling)

    def _state(self):
        return {"direction": self.direction_, "names": list(self.feature_names_)}, {}

    def _restore(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        self.direction_, self.feature_names_ = values["direction"], tuple(values["names"])


@dataclass(frozen=True, kw_only=True)
class ToyEstimator(CurveOptions):
    """Knows the levels of the toy's users."""

    method: ClassVar[str] = "toy"
    needs: ClassVar[str] = "faith"

    def identify(self, tables):
        (rows,) = tables.row("SELECT count(*) FROM {events}")
        return Identified("toy", "identified", "it believes", {"rows": rows})

    def raw_curve(self, pieces, depth):
        p = level(np.arange(1, depth + 1))
        return RawCurve(np.log(p), np.zeros((0, depth)), np.full(depth, 100), "")


@dataclass(frozen=True)
class ToyUsers:
    """Users who look at positions in levels of three."""

    mu: float = 0.1
    cutoff: int | None = None

    def tables(self, depth):
        p = level(np.arange(1, depth + 1))
        return WalkTables.of(np.vstack([p * self.mu, p * (1 - self.mu)]))

    def click_probabilities(self, relevance, positions):
        return marginal_clicks(self.tables(int(np.max(positions))), relevance, positions)


def level(positions):
    return np.array(LEVELS)[np.minimum((positions - 1) // 3, len(LEVELS) - 1)]


def last_relevance(labels, scores, offsets):
    """The relevance of the doc ranked last."""
    worst = [a + np.argmin(scores[a:b]) for a, b in itertools.pairwise(offsets)]
    return np.asarray(labels, np.float64)[worst]


def toy_weights(p_clicked, p_non_clicked, *, power=1.0):
    return (np.asarray(p_non_clicked) / np.asarray(p_clicked)) ** power


TOY_WEIGHTING = Weighting(
    "toy",
    toy_weights,
    parameters={"power": 1.0},
    search_grid=({"power": 1.0}, {"power": 2.0}),
)


def write_toy(model):
    return f"{model.ranker} of {model.scorer.columns}".encode()


def check_toy(tables):
    (rows,) = tables.row("SELECT count(*) FROM {events}")
    yield Finding("toy-rows", f"the toy saw {rows} rows")


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    monkeypatch.setitem(KINDS, "toy-rows", Kind("note", "play on"))
    monkeypatch.setitem(RANKERS, "toy", ToyRanker)
    monkeypatch.setitem(ESTIMATORS, "toy", ToyEstimator())
    monkeypatch.setitem(CLICK_MODELS, "toy", ToyUsers)
    monkeypatch.setitem(METRICS, "toy", RankingMetric(last_relevance, higher_is_better=False))
    monkeypatch.setitem(WEIGHTINGS, "toy", TOY_WEIGHTING)
    monkeypatch.setitem(FORMATS, "toy", write_toy)
    monkeypatch.setattr(prsrank.audit, "CHECKS", (*prsrank.audit.CHECKS, check_toy))


@pytest.fixture
def prsrank_run(capsys):
    def call(*arguments):
        code = run([str(one) for one in arguments])
        told = capsys.readouterr()
        assert code == 0, told.err
        return told.out

    return call


@pytest.fixture
def log(tmp_path, prsrank_run):
    path = tmp_path / "log.parquet"
    simulate = ("simulate", DATA, "--clicks", 3000, "--click-model", "toy", "--set", "cutoff=9")
    prsrank_run(*simulate, "--out", path)
    return path


@pytest.fixture
def model(tmp_path, log, prsrank_run):
    curve, out = tmp_path / "p.json", tmp_path / "model"
    prsrank_run("propensity", log, "--method", "toy", "--out", curve)
    train = ("train", log, "--data", DATA, "--propensity", curve, "--ranker", "toy")
    settings = ("--weighting", "toy", "--set", "column=45", "--set", "power=2")
    prsrank_run(*train, *settings, "--out", out)
    return out


def test_a_click_model_an_estimator_and_a_check_are_in_the_audit(log, prsrank_run):
    found = json.loads(prsrank_run("audit", log, "--json"))
    methods = {one["method"]: one["status"] for one in found["estimators"]}
    assert methods["toy"] == "identified"
    rows = found["counts"]["rows"]
    told = {one["code"]: one for one in found["findings"]}["toy-rows"]
    assert told["what"] == f"the toy saw {rows} rows"
    assert (told["severity"], told["fix"]) == ("note", "play on")
    shown = {at["position"]: at["ctr"] for at in found["positions"]}
    assert len(shown) == 9
    assert shown[1] > 1.2 * shown[4] > 1.4 * shown[7]


def test_an_estimator_by_its_name(log, prsrank_run):
    told = json.loads(prsrank_run("propensity", log, "--method", "toy", "--json"))
    assert told["propensity"] == level(np.arange(1, 10)).tolist()


def test_a_ranker_and_a_weighting_are_trained_and_judged(model, prsrank_run):
    ranker = load_ranker(model)
    assert isinstance(ranker, ToyRanker)
    assert ranker.get_params() == {"column": 45}
    assert ranker.about_["weighting"] == "toy"
    assert "Feature importance" not in (model / "report.html").read_text()  # it has none
    assert ranker.about_["weighting_parameters"] == {"power": 2}
    told = json.loads(
        prsrank_run(
            *("evaluate", model, "--data", DATA, "--metric", "toy", "--metric", "ndcg@5"), "--json"
        )
    )
    test = load_dataset(DATA, "test")
    values = last_relevance(test.relevance, ranker.score(test.features), test.offsets)
    assert told["toy"] == pytest.approx(values.mean())
    assert 0 < told["ndcg@5"] <= 1


def test_a_format_and_a_ranker_are_exported(model, tmp_path, prsrank_run):
    prsrank_run("export", model, "--to", "toy", "--out", tmp_path / "m.toy")
    assert (tmp_path / "m.toy").read_text() == "toy of 46"
    prsrank_run("export", model, "--to", "ranklib", "--out", tmp_path / "m.txt")
    assert "46:" in (tmp_path / "m.txt").read_text()


def test_an_experiment_with_toys(tmp_path, prsrank_run):
    spec = tmp_path / "toys.toml"
    spec.write_text(
        """
id = "toys"
title = "Toys"
claim = "The toy is there."
metrics = ["toy", "ndcg@10"]
[axis]
name = "clicks"
points = [500]
[[panels]]
name = ""
ranker = "toy"
[[methods]]
name = "toy"
weighting = "toy"
[[methods]]
name = "prs"
weighting = "prs"
[rankers.toy]
grid = { column = [45, 3] }
"""
    )
    out = tmp_path / "out"
    prsrank_run(
        *("reproduce", spec, "--data", DATA, "--out", out, "--set", "folds=1", "--set", "runs=2"),
        *("--processes", 0),
    )
    page = (out / "report.html").read_text()
    assert "TOY" in page
    assert "NDCG@10" in page


def test_a_fit_with_toys(log, tmp_path, prsrank_run):
    out = tmp_path / "fitted"
    fit = ("fit", log, "--data", DATA, "--ranker", "toy", "--propensity", "toy", "--trials", 4)
    told = json.loads(prsrank_run(*fit, "--weighting", "toy", "--out", out, "--json"))
    model = load_ranker(out / "model")
    assert isinstance(model, ToyRanker)
    assert model.about_["weighting"] == "toy"
    assert told["propensities"].startswith("toy, from")
    tried = [text for text, _ in told["rankers"]["toy"]["trials"]]
    every = [f"column {c}, power {p}" for c in (45, 3) for p in (1.0, 2.0)]
    assert tried[0] == every[0]
    assert len(tried) == 2  # as many as the ranker alone has settings
    assert set(tried) < set(every)
    assert list(told["rankers"]) == ["toy", "ips", "naive"]
    assert told["conclusions"][1].startswith("TOY")


def test_help_names_the_toys(prsrank_run):
    for command, words in {
        "train": ("lightgbm_position or toy.", "doubly_robust or toy."),
        "fit": ("lightgbm_position or toy; not", "doubly_robust or toy; not"),
        "propensity": ("likelihood or toy.",),
        "simulate": ("user-browsing or toy.",),
        "export": ("onnx or toy.",),
        "evaluate": ("arp_mean_rank or toy.",),
    }.items():
        shown = " ".join(prsrank_run(command, "--help").split())
        for word in words:
            assert word in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "LOG", "--data", DATA, "--ranker", "tyo"), "there is no ranker 'tyo'; there are: linear"),
        (("train", "LOG", "--data", DATA, "--weighting", "tyo"), "there is no weighting 'tyo'; there are: naive"),
        (("train", "LOG", "--data", DATA, "--ranker", "toy", "--set", "x=1"), "toy has: column; prs has: gamma, tau"),
        (("propensity", "LOG", "--method", "tyo"), "there is no propensity method 'tyo'; there are: known"),
        (("simulate", DATA, "--clicks", "9", "--click-model", "tyo"), "there is no click model 'tyo'"),
    ],
)  # fmt: skip
def test_refusals_name_all_members(arguments, message, tmp_path, capsys):
    assert run([*arguments, "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert message in told
