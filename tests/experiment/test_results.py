import duckdb
import numpy as np
import pytest

from prsrank.experiment.journal import Finished
from prsrank.experiment.results import Results
from prsrank.experiment.tidy_table import COLUMNS, write_table, write_timings


@pytest.fixture
def plan():
    rows = [
        ["linear", method, point, fold, run, f"{method} {point} {fold} {run}"]
        for method in ("naive", "prs")
        for point in (1, 2)
        for fold in (1, 2)
        for run in (0, 1)
    ]
    return {
        "experiments": {
            "x": {
                "data": "d",
                "metrics": ["map", "arp"],
                "points": [1, 2],
                "axis": "eta",
                "source": "known",
                "learning": [],
                "chosen": {"linear prs": {"l2": 0.1}},
                "rows": rows,
            },
            "shares": {
                "data": "d",
                "metrics": ["share"],
                "points": [""],
                "axis": "none",
                "source": "known",
                "learning": [],
                "chosen": {},
                "rows": [
                    ["", "part", "", fold, run, f"s {fold} {run}"]
                    for fold in (1, 2)
                    for run in (0, 1)
                ],
            },
        },
        "queries": {"d": [["q1", "q<2>", "q3"], ["q4", "q5"]]},
    }


@pytest.fixture
def finished(plan):
    rng = np.random.default_rng(0)
    found = {}
    for *_, fold, _, job in plan["experiments"]["x"]["rows"]:
        queries = len(plan["queries"]["d"][fold - 1])
        values = {"map": rng.random(queries), "arp": rng.random(queries)}
        values["map"][0] = np.nan
        found[job] = Finished(job, "ranking", values, {"clicks_per_query": 6.0 * fold}, 1.0, 0.5)
    for *_, job in plan["experiments"]["shares"]["rows"]:
        found[job] = Finished(job, "observations", {"share": rng.random(1)}, {}, 1.0, 0.5)
    return found


def rows_of(folder, experiment):
    path = folder / "results.parquet"
    relation = duckdb.sql(f"SELECT * FROM '{path}' WHERE experiment = '{experiment}'")  # noqa: S608
    assert tuple(relation.columns) == COLUMNS
    return relation.fetchall()


def test_folds_stand_side_by_side_and_runs_below_one_another(plan, finished):
    results = Results.of_plan(plan["experiments"]["x"], finished)
    values = results.arrays["linear", "prs", 2, "arp"]
    assert values.shape == (2, 5)
    for run in (0, 1):
        expected = [finished[f"prs 2 {fold} {run}"].values["arp"] for fold in (1, 2)]
        np.testing.assert_array_equal(values[run], np.concatenate(expected))
    assert results.panels() == ["linear"]
    assert results.methods("linear") == ["naive", "prs"]
    assert list(results.axis_points) == [1, 2]
    assert results.details["clicks_per_query"] == {"eta 1": 9.0, "eta 2": 9.0}


def test_the_tidy_table_holds_every_value(plan, finished, tmp_path):
    write_table(plan, finished, tmp_path)
    rows = rows_of(tmp_path, "x")
    expected = [
        (
            "x",
            panel,
            method,
            str(point),
            fold,
            run,
            metric,
            query,
            None if value != value else value,
        )
        for panel, method, point, fold, run, job in plan["experiments"]["x"]["rows"]
        for metric in ("map", "arp")
        for query, value in zip(
            plan["queries"]["d"][fold - 1], finished[job].values[metric].tolist(), strict=True
        )
    ]
    np.testing.assert_equal(rows, expected)
    shares = rows_of(tmp_path, "shares")
    assert {row[7] for row in shares} == {""}
    assert len(shares) == 4


def test_the_tidy_table_does_not_depend_on_the_order_of_finishing(plan, finished, tmp_path):
    write_table(plan, finished, tmp_path / "one")
    write_table(plan, dict(reversed(finished.items())), tmp_path / "other")
    one, other = (tmp_path / name / "results.parquet" for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_timings_are_kept_apart(plan, finished, tmp_path):
    write_timings(plan, finished, tmp_path)
    lines = (tmp_path / "timings.csv").read_text().splitlines()
    assert lines[0] == "experiment,panel,method,point,fold,run,seconds,cpu_seconds,job"
    assert len(lines) == 1 + 16 + 4
