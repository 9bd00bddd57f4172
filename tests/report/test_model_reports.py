import numpy as np
import pytest

from prsrank import LambdaMART, LinearRanker, PairSet, RankingDataset
from prsrank.propensity.curve import PowerLaw, Propensities, learned_curve
from prsrank.report.html import report_html
from prsrank.report.parts import feature_importance, importance_figure, weight_rows
from prsrank.report.propensity_figure import propensity_figure
from prsrank.report.training_report import training_report

SETTINGS = {"data": "d", "log": "<log>", "clicks": 1234, "weighting": "prs", "seed": 3}


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 3))
    labels = (features[:, 1] > 0.3).astype(np.float32)
    names = ("a", "<b>", "c")
    return RankingDataset(features, np.arange(0, 201, 10), labels=labels, feature_names=names)


def fitted(model, lists):
    pairs = PairSet.from_labels(lists, **model.pair_options)
    return model.fit(lists, pairs), pairs


@pytest.mark.parametrize("model", [LinearRanker(), LambdaMART(trees=5, threads=1)])
def test_importance_finds_the_feature_that_made_the_labels(model, lists):
    measure, shares = feature_importance(fitted(model, lists)[0])
    assert ("weights" in measure) == isinstance(model, LinearRanker)
    assert sum(shares.values()) == pytest.approx(1)
    assert max(shares, key=shares.get) == "<b>"
    assert shares["<b>"] > 0.5
    figure = importance_figure("t", measure, {"prs": shares}, most=2)
    series = figure["panels"][0]["series"][0]
    assert series["x"][0] == "<b>"
    assert series["y"] == [shares[name] for name in series["x"]]


def test_weights_are_those_of_the_pairs(lists):
    pairs = fitted(LinearRanker(), lists)[1]
    rows = dict(weight_rows(pairs.diagnostics()))
    assert rows["pairs"] == np.count_nonzero(pairs.weights)
    assert rows["largest weight"] == 1


@pytest.mark.parametrize(
    ("curve", "shown"),
    [
        (PowerLaw(1), "known"),
        (Propensities([1, 0.5], [1, 0.4], [1, 0.6], [8, 4], "identified", "swap"), "identified"),
        (None, None),
    ],
)
def test_the_report_of_a_training(lists, curve, shown):
    model, pairs = fitted(LambdaMART(trees=5, threads=1), lists)
    report = training_report(
        model, pairs.diagnostics(), curve, settings=SETTINGS, about=[["seed", 3]]
    )
    ids = [section["id"] for section in report["sections"]]
    assert ("propensities" in ids) == (shown is not None)
    assert {"weights", "importance", "settings"} <= set(ids)
    page = report_html(report)
    assert "&lt;log&gt;" in page
    assert "<log>" not in page
    assert shown is None or shown in page
    assert "1,234 clicks" in page


class Learner(LinearRanker):
    """Learned a curve beside the ranker."""

    def propensities(self):
        return learned_curve(np.array([1.0, 0.5, np.nan, 0.25]), None, "learner")


def test_a_curve_that_the_ranker_learned_is_drawn(lists):
    model, pairs = fitted(Learner(), lists)
    report = training_report(model, pairs.diagnostics(), None, settings=SETTINGS, about=[])
    found = {section["id"]: section for section in report["sections"]}["propensities"]
    drawn = found["figures"][0]["panels"][0]["series"][0]
    assert (drawn["x"], drawn["y"]) == ([1, 2, 4], [1.0, 0.5, 0.25])


def test_history_is_drawn_as_it_was(lists):
    model, pairs = fitted(LambdaMART(trees=5, threads=1), lists)
    model.history_ = [0.5, 0.7, 0.6]
    report = training_report(model, pairs.diagnostics(), None, settings=SETTINGS, about=[])
    drawn = report["sections"][0]["figures"][0]["panels"][0]["series"][0]
    assert (drawn["x"], drawn["y"]) == ([1, 2, 3], [0.5, 0.7, 0.6])
    model.history_ = [{"loss": 2.0, "validation": 0.5}, {"loss": 1.0, "validation": 0.6}]
    panels = training_report(model, pairs.diagnostics(), None, settings=SETTINGS, about=[])[
        "sections"
    ][0]["figures"][0]["panels"]
    assert [panel["series"][0]["y"] for panel in panels] == [[2.0, 1.0], [0.5, 0.6]]


def test_the_truth_stands_beside_the_estimate_and_wild_intervals_are_cut_off():
    curve = Propensities([1, 0.5], [1, 0.1], [1, 40.0], [8, 4], "weak", "swap")
    figure = propensity_figure({"swap": curve}, truth=[1.0, 0.6, 0.4])
    estimate, truth = figure["panels"][0]["series"]
    assert estimate["high"] == [1, 40.0]
    assert truth["y"] == [1.0, 0.6, 0.4]
    assert figure["y"]["max"] == pytest.approx(1.1)
