import numpy as np
import pytest

from prsrank import LambdaMART, LinearRanker, PairSet, RankingDataset
from prsrank.propensity.curve import PowerLaw, Propensities, learned_curve
from prsrank.report.fit_report import training_report
from prsrank.report.html import report_html
from prsrank.report.parts import importance_figures, weight_tables
from prsrank.report.propensity_figure import propensity_figure

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
    ranker = fitted(model, lists)[0]
    [figure] = importance_figures({"prs": ranker})
    [drawn] = figure["panels"][0]["series"]
    assert ("weights" in figure["y"]["title"]) == isinstance(model, LinearRanker)
    assert drawn["x"][0] == "<b>"
    assert drawn["y"][0] > 0.5
    assert sum(drawn["y"]) == pytest.approx(1)
    assert (
        importance_figures({"prs": ranker}, most=2)[0]["panels"][0]["series"][0]["x"]
        == (drawn["x"][:2])
    )


def test_weights_are_those_of_the_pairs(lists):
    pairs = fitted(LinearRanker(), lists)[1]
    [table] = weight_tables({"prs": pairs.diagnostics(), "ips": None})
    [row] = table["rows"]
    shown = dict(zip(table["columns"], row, strict=True))
    assert shown["pairs"] == np.count_nonzero(pairs.weights)
    assert shown["largest weight"] == 1


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
    assert "model" in ids
    assert ["weighting", "prs"] in report["about"]
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


def test_wild_intervals_are_cut_off():
    curve = Propensities([1, 0.5], [1, 0.1], [1, 40.0], [8, 4], "weak", "swap")
    figure = propensity_figure({"swap": curve})
    assert figure["panels"][0]["series"][0]["high"] == [1, 40.0]
    assert figure["y"]["max"] == pytest.approx(1.1)
