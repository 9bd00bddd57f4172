"""Results show themselves in short: one line, an escaped table, a frame, a chart that renders."""

import builtins
from types import SimpleNamespace

import numpy as np
import pytest
import vl_convert

from prsrank.audit.findings import Audit, Finding, Position
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.log_evaluation import LogEvaluation
from prsrank.evaluation.results import CounterfactualEvaluation, Estimate
from prsrank.logs.click_log import ClickLog
from prsrank.notebook.shown import html_table
from prsrank.pairs.weighted_pairs import PairDiagnostics
from prsrank.propensity.curve import Propensities
from prsrank.propensity.tempering import Tempering

EVENTS = {
    "query_id": np.array(["<b>", "<b>", "q", "q"]),
    "session_id": np.array([1, 1, 2, 2]),
    "doc_id": np.array([30, 40, 30, 40]),
    "position": np.array([1, 2, 1, 2]),
    "click": np.array([True, False, True, True]),
}
CURVE = Propensities([1, 0.5], [1, 0.4], [1, np.nan], [80, 40], "weak: <i>few</i>", "swap")
ESTIMATES = (
    Estimate("all", "dcg@10", "ips", "<new>", 1.5, 1.25, 1.75),
    Estimate("all", "dcg@10", "ips", "logged", 1.0, 0.75, np.inf),
    Estimate("all", "arp", "ips", "logged", 3.0, 2.0, 4.0),
)
EVALUATION = CounterfactualEvaluation(
    ESTIMATES, (), (SimpleNamespace(warnings=()),), tau=0.0, samples=10, seed=0, confidence=0.95
)
LISTS = RankingDataset(
    np.arange(6.0).reshape(3, 2),
    [0, 1, 3],
    ["<b>q", "r"],
    labels=[1, 0, 2],
    feature_names=("x", "y"),
)
SHOWN = {
    "lists": LISTS,
    "log": ClickLog.from_frame(EVENTS),
    "curve": CURVE,
    "contexts": Propensities(
        [1, 0.5], [1, 0.4], [1, 0.6], [8, 4], "identified", "swap", {"<phone>": CURVE}
    ),
    "pairs": PairDiagnostics(2, 3, 9, 6, 0.5, 0.9, 8.5, 0.25),
    "audit": Audit(
        {"rows": 4},
        [Finding("no-clicks", "<script>alert(1)</script>", "doc <b>", 0, 4)],
        [Position(1, 10, 5), Position(2, 10, 2)],
    ),
    "evaluation": EVALUATION,
    "judged": LogEvaluation(EVALUATION, ("the <b>weights</b> are few",), 0),
    "tempering": Tempering(
        0.5, 0.4, 0.6, True, 0.5, (0.0, np.inf), 1.0, np.array([0.5, 1.0]), np.array([-3.0, -4.0])
    ),
}
COLUMNS = {
    "curve": ["position", "propensity", "low", "high", "clicks"],
    "contexts": ["position", "propensity", "low", "high", "clicks", "context"],
    "pairs": ["measure", "value"],
    "audit": ["severity", "code", "what", "where", "count", "of", "unit", "fix"],
    "evaluation": ["part", "metric", "estimator", "ranker", "value", "low", "high"],
    "judged": ["part", "metric", "estimator", "ranker", "value", "low", "high"],
    "tempering": ["power", "log likelihood"],
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_result_is_one_short_line_and_escaped_html(name):
    text = repr(SHOWN[name])
    assert text.startswith(f"<{type(SHOWN[name]).__name__}: ")
    assert len(text) < 250
    assert "\n" not in text
    page = SHOWN[name]._repr_html_()
    assert page.count("<table>") == 1
    for markup in ("<i>", "<b>weights", "<script>", "<new>", "<phone>", "doc <b>", "<q>"):
        assert markup not in page


@pytest.mark.parametrize("name", COLUMNS)
def test_a_result_is_a_frame(name):
    frame = SHOWN[name].to_frame()
    assert list(frame.columns) == COLUMNS[name]
    assert len(frame) > 0


@pytest.mark.parametrize("name", SHOWN)
def test_a_result_has_a_chart_that_can_be_drawn(name):
    spec = SHOWN[name].plot().to_dict()
    assert "<svg" in vl_convert.vegalite_to_svg(spec)


def test_the_frame_of_a_log_gives_the_log_back():
    log = SHOWN["log"]
    frame = log.to_frame()
    assert len(frame) == 4
    assert ClickLog.from_frame(frame).equals(log)


def test_the_frame_of_a_data_set_gives_the_data_set_back():
    frame = LISTS.to_frame()
    assert list(frame.columns) == ["query_id", "doc_id", "label", "x", "y"]
    again = RankingDataset.from_frame(frame.iloc[[0, 2, 1]], label="label")
    assert again.query_ids.tolist() == LISTS.query_ids.tolist()
    assert again.features.tolist() == [[0, 1], [4, 5], [2, 3]]
    assert again.doc_ids.tolist() == [0, 1, 0]


def test_the_table_of_a_log_counts_positions():
    table = SHOWN["log"]._table()
    assert table["shown"].tolist() == [2, 2]
    assert table["click rate"].tolist() == [1.0, 0.5]


def test_charts_draw_the_values_of_the_table():
    def drawn(name):
        return SHOWN[name]._chart().figure()["panels"][0]["series"]

    curve = {"name": "propensity", "x": [1, 2], "y": [1.0, 0.5]}
    assert drawn("curve") == [curve | {"low": [1.0, 0.4], "high": [1.0, None]}]
    assert drawn("evaluation")[0]["x"] == ["<new>", "logged"]
    assert drawn("pairs")[0]["y"] == [6, 9, 8.5]
    assert drawn("audit")[0]["y"] == [0.5, 0.2]
    assert [each["name"] for each in drawn("contexts")] == ["all", "<phone>"]


def test_long_tables_are_cut_and_say_so():
    page = html_table({"n": range(50)})
    assert page.count("<tr>") == 21
    assert "30 more rows" in page


def test_without_pandas_one_line_says_so(monkeypatch):
    found = builtins.__import__

    def without(name, *rest, **named):
        if name == "pandas":
            raise ImportError(name)
        return found(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"^to_frame needs pandas: pip install pandas$"):
        CURVE.to_frame()
