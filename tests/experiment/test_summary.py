"""Sections, tables and files of a report from made-up results."""

import csv
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from prsrank.errors import InputError
from prsrank.experiment.reproduction import report_of, write_tables
from prsrank.experiment.results import Results
from prsrank.experiment.spec import (
    Axis,
    Claim,
    Method,
    Panel,
    PaperValue,
    Spec,
)
from prsrank.experiment.summary import BETTER, STATISTICS, WORSE, summarise
from prsrank.report.parts import page

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from report_checks import check_report

POINTS = (10.0, 100.0, 1000.0)
NASTY = "<script>alert('x|y')</script>"


def make_spec(**changes):
    values = {
        "id": "fig3",
        "title": "Quality by clicks",
        "claim": "PRS ranks better than IPS.",
        "kind": "ranking",
        "axis": Axis("clicks", "clicks", "log", POINTS),
        "panels": (Panel("linear", "Linear", "linear"), Panel("lambdamart", "LambdaMART", "x")),
        "methods": tuple(
            Method(name, title, panels=("linear", "lambdamart"))
            for name, title in (("prs", "PRS"), ("ips", "IPS"), ("labels", "full information"))
        ),
        "metrics": ("ndcg@10", "arp"),
        "test": (Claim(better="prs", than=("ips",), metric=("ndcg@10",)),),
        "folds": 2,
        "runs": 3,
        "seed": 1,
    }
    return Spec(**{**values, **changes})


MEANS = {"prs": 0.5, "ips": 0.4, "labels": 0.6}


def make_results(spec, *, means=MEANS, runs=3, queries=40, **options):
    rng = np.random.default_rng(0)
    base = rng.normal(0, 0.1, 2 * queries)  # two folds side by side
    arrays = {}
    for panel in spec.panels:
        for method in (m for m in spec.methods if panel.name in m.panels):
            for point in spec.axis.points:
                for metric in spec.metrics:
                    mean = means[method.name] * (-1 if metric == "arp" else 1)
                    values = mean + base + rng.normal(0, 0.1, (runs, 2 * queries))
                    values[:, [0, queries]] = math.nan
                    arrays[panel.name, method.name, point, metric] = values
    return Results(spec, arrays, **options)


@pytest.fixture(scope="module")
def spec():
    return make_spec()


@pytest.fixture(scope="module")
def results(spec):
    return make_results(
        spec,
        chosen={
            "linear prs": [{"l2": 0.01}],
            "linear ips": [{"l2": 0.1, "tau": t} for t in (0.05, 0.05, 0.1)],
        },
        clicks_per_query={10.0: 0.5},
    )


@pytest.fixture(scope="module")
def section(spec, results):
    return summarise(results)


def cells(table, row):
    return dict(zip(table["columns"], table["rows"][row], strict=True))


def test_section_is_plain_json_and_whole(section):
    json.dumps(section, allow_nan=False)
    check_report(page("t", "", [section]))
    assert section["verdict"]["label"] == "confirmed"


def test_figure_holds_mean_and_deviation_over_runs(section, results):
    main = section["figures"][0]
    assert (main["kind"], main["x"]["scale"], main["y"]["title"]) == ("lines", "log", "NDCG@10")
    assert [panel["title"] for panel in main["panels"]] == ["Linear", "LambdaMART"]
    series = main["panels"][1]["series"][1]
    assert series["name"] == "IPS"
    assert series["x"] == list(POINTS)
    for i, point in enumerate(POINTS):
        runs = np.nanmean(results.arrays["lambdamart", "ips", point, "ndcg@10"], axis=1)
        assert series["y"][i] == pytest.approx(runs.mean())
        assert series["low"][i] == pytest.approx(runs.mean() - runs.std(ddof=1))
        assert series["high"][i] == pytest.approx(runs.mean() + runs.std(ddof=1))
    assert "3 runs" in main["caption"]


def test_one_figure_for_each_metric(section):
    assert [f["id"] for f in section["figures"]] == ["fig3-ndcg-10", "fig3-arp"]


def test_table_marks_against_the_reference_after_holm(section, results):
    table = section["tables"][0]
    assert table["columns"] == ["ranker", "method", "10", "100", "1,000"]
    reference, ips, labels = (cells(table, row) for row in range(3))
    runs = np.nanmean(results.arrays["linear", "prs", 10.0, "ndcg@10"], axis=1)
    assert reference["10"] == f"{runs.mean():.4f} ({runs.std(ddof=1):.4f})"
    assert (ips["10"]["mark"], labels["10"]["mark"]) == (WORSE, BETTER)
    data = {
        tuple(row[1:5]): dict(zip(STATISTICS, row, strict=True)) for row in table["data"]["rows"]
    }
    raw = {}
    for panel in ("linear", "lambdamart"):
        for method in ("ips", "labels"):
            for point in POINTS:
                sides = [
                    results.arrays[panel, m, point, "ndcg@10"].mean(axis=0) for m in (method, "prs")
                ]
                test = scipy.stats.ttest_rel(*sides, nan_policy="omit")
                raw[panel, method, point, "ndcg@10"] = test.pvalue
    largest = max(raw, key=raw.get)
    assert data[largest]["p_holm"] >= raw[largest]
    smallest = min(raw, key=raw.get)
    assert data[smallest]["p_holm"] == pytest.approx(12 * raw[smallest])
    assert f"{len(raw)} comparisons" in table["caption"]
    for place, p in raw.items():
        assert data[place]["p"] == pytest.approx(p)


def test_less_is_better_turns_the_marks(section):
    _, ips, labels = (cells(section["tables"][1], row) for row in range(3))
    assert (ips["10"]["mark"], labels["10"]["mark"]) == (WORSE, BETTER)
    assert ips["10"]["note"].startswith("+0.")


def test_no_mark_without_a_difference(spec):
    same = summarise(make_results(spec, means=dict.fromkeys(MEANS, 0.5)))
    marks = [
        cell["mark"] for row in same["tables"][0]["rows"] for cell in row if isinstance(cell, dict)
    ]
    assert marks == [""] * 12
    assert same["verdict"]["label"] == "not confirmed"


def test_details_tell_settings_and_choices(section):
    blocks = {block["title"]: dict(block["rows"]) for block in section["details"]}
    assert blocks["Settings"]["seed"] == "1"
    assert blocks["Settings"]["propensity"] == "source known, clicks 12,800"
    assert blocks["Chosen hyper-parameters"]["linear ips"] == "l2 0.1, tau 0.05; l2 0.1, tau 0.1"
    assert blocks["Clicks per training query"] == {"10": "0.5"}


def test_claim_table_has_every_comparison(section):
    table = section["tables"][-1]
    assert len(table["rows"]) == 2 * 3
    assert {row[-1] for row in table["rows"]} == {"supports"}
    assert table["rows"][0][0] == "PRS better than IPS in NDCG@10"


@pytest.fixture(scope="module")
def table1():
    spec = make_spec(
        id="table1",
        axis=Axis("none", "", "ordinal", ("",)),
        panels=(Panel("", "", "lambdamart"),),
        methods=tuple(Method(n, n.upper(), panels=("",)) for n in ("prs", "ips", "labels")),
        paper=tuple(
            PaperValue(m, "ndcg@10", v) for m, v in (("prs", 0.9), ("ips", 0.8), ("labels", 0.1))
        ),
    )
    return summarise(make_results(spec))


def test_without_an_axis_metrics_are_columns_and_the_paper_stands_beside(table1):
    table = table1["tables"][0]
    assert table["columns"] == ["method", "NDCG@10", "paper: NDCG@10", "ARP"]
    assert cells(table, 1)["paper: NDCG@10"] == 0.8
    assert table1["figures"][0]["kind"] == "intervals"
    assert [s["x"] for s in table1["figures"][0]["panels"][0]["series"]] == [
        *(["PRS"], ["IPS"], ["LABELS"])
    ]


def test_values_relative_to_a_method_of_another_panel():
    spec = make_spec(
        id="table2",
        axis=Axis("none", "", "ordinal", ("",)),
        metrics=("wmrr",),
        relative_to=("linear", "ips"),
        test=(Claim(better="prs", than=("ips",), metric=("wmrr",)),),
        paper=(PaperValue("prs", "wmrr", 0.39, panel="linear"),),
    )
    results = make_results(spec)
    section = summarise(results)
    row = cells(section["tables"][0], 3)
    assert row["ranker"] == "LambdaMART"
    flat = {
        place: np.nanmean(results.arrays[*place, "", "wmrr"])
        for place in (("lambdamart", "prs"), ("linear", "ips"))
    }
    change = 100 * (flat["lambdamart", "prs"] / flat["linear", "ips"] - 1)
    assert row["WMRR, change in %"].startswith(f"{change:.2f} (")
    assert cells(section["tables"][0], 0)["paper: WMRR, change in %"] == 0.39
    series = section["figures"][0]["panels"][1]["series"][0]
    assert series["y"] == pytest.approx([change])
    assert series["low"][0] < change < series["high"][0]
    base = section["figures"][0]["panels"][0]["series"][1]
    assert base["y"] == pytest.approx([0.0])


def test_marks_of_one_point_against_the_others():
    spec = make_spec(
        axis=Axis("gamma", "gamma", "log", POINTS),
        methods=(Method("prs", "PRS", panels=("linear", "lambdamart")),),
        test=(Claim(better="prs", at=100.0, metric=("ndcg@10",), margin=0.01),),
    )
    section = summarise(make_results(spec))
    table = section["tables"][0]
    row = cells(table, 0)
    assert "significantly worse than PRS at 100" in table["caption"]
    assert isinstance(row["100"], str)
    assert "against PRS at 100, corrected p" in row["10"]["note"]


def test_one_run_and_one_query_do_not_break():
    spec = make_spec()
    section = summarise(make_results(spec, runs=1, queries=2))
    json.dumps(section, allow_nan=False)
    assert section["figures"][0]["panels"][0]["series"][0]["low"] is None
    assert "One run" in section["figures"][0]["caption"]
    arrays = {
        ("linear", method, point, metric): np.array([[value]])
        for method, value in MEANS.items()
        for point in POINTS
        for metric in spec.metrics
    }
    single = summarise(Results(spec, arrays))
    json.dumps(single, allow_nan=False)
    assert single["verdict"]["label"] == "not confirmed"
    assert single["tables"][0]["rows"][1][-1]["note"].startswith("no test: 1 of 1")


def test_report_lists_verdicts_and_passes_names_on():
    methods = (Method("prs", NASTY, panels=("linear",)), Method("ips", "IPS", panels=("linear",)))
    spec = make_spec(title=NASTY, methods=methods, panels=(Panel("linear", NASTY, "linear"),))
    section = summarise(make_results(spec))
    silent = {**section, "id": "other", "verdict": None}
    report = report_of([section, silent], [["data", NASTY], ["seed", 1]], ["First."])
    assert section["figures"][0]["panels"][0]["series"][0]["name"] == NASTY
    assert report["lead"] == ["First."]
    assert [v["section"] for v in report["verdicts"]] == ["fig3"]
    assert report["about"] == [["data", NASTY], ["seed", 1]]
    assert NASTY in report["subtitle"]


def test_the_page_takes_the_report(section):
    check_report(report_of([section], [["data", "x"], ["seed", "1"]]))


def test_tables_are_written_as_csv(section, results, tmp_path):
    plain = {
        **{"id": "plain", "title": "", "caption": "", "columns": ["a,b", "c"]},
        "rows": [["x", 1.5], [None, 2]],
    }
    report = report_of([{**section, "tables": [*section["tables"], plain]}], [["data", "x"]])
    write_tables(report, tmp_path / "tables")
    assert len(list((tmp_path / "tables").iterdir())) == 4
    with (tmp_path / "tables" / "fig3-ndcg-10-table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3 * 3
    first = rows[0]
    runs = np.nanmean(results.arrays["linear", "prs", 10.0, "ndcg@10"], axis=1)
    assert float(first["mean"]) == pytest.approx(runs.mean())
    assert float(first["sd"]) == pytest.approx(runs.std(ddof=1))
    assert (tmp_path / "tables" / "plain.csv").read_text() == '"a,b",c\nx,1.5\n,2\n'


def test_nothing_is_left_of_a_table_that_cannot_be_written(section, tmp_path):
    (tmp_path / "tables").write_text("a file")
    with pytest.raises(InputError, match="cannot be written"):
        write_tables(report_of([section], [["data", "x"]]), tmp_path / "tables")
    assert (tmp_path / "tables").read_text() == "a file"
