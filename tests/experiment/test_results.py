from dataclasses import astuple, replace

import duckdb
import numpy as np
import pytest

from prsrank.experiment.jobs import Cell, Job, Source
from prsrank.experiment.journal import Finished
from prsrank.experiment.results import COLUMNS, PlannedJobs, Results, write_table, write_timings
from prsrank.experiment.spec_files import parse_spec


@pytest.fixture
def experiments(spec_values):
    """Two planned experiments on one data set."""
    source = Source("d", ("f", "g"), (("q1", "q<2>", "q3"), ("q4", "q5")), (3, 3), "d")

    def planned(name, panels, methods, metrics, points):
        axis = {"name": "eta", "points": points} if points != [""] else {"name": "none"}
        spec = parse_spec(spec_values | {"test": [], "axis": axis})
        spec = replace(spec, id=name, metrics=tuple(metrics))
        cells = [
            Cell(panel, method, point, fold, run)
            for panel in panels
            for method in methods
            for point in points
            for fold in (1, 2)
            for run in (0, 1)
        ]
        jobs = {cell: Job({"name": name, **vars(cell)}, "d") for cell in cells}
        return PlannedJobs(spec, source, jobs, {"linear prs": {"l2": 0.1}})

    return [
        planned("x", ["linear"], ["naive", "prs"], ["map", "arp"], [1, 2]),
        planned("shares", [""], ["part"], ["share"], [""]),
    ]


@pytest.fixture
def finished(experiments):
    rng = np.random.default_rng(0)
    entries = {}
    for planned in experiments:
        for cell, job in planned.jobs.items():
            queries = len(planned.source.queries[cell.fold - 1])
            values = {name: rng.random(queries) for name in planned.spec.metrics}
            values[planned.spec.metrics[0]][0] = np.nan
            details = {"clicks_per_query": 6.0 * cell.fold}
            entries[job.id] = Finished(job.id, "ranking", values, details, 1.0, 0.5)
    return entries


def rows_of(folder, experiment):
    path = folder / "results.parquet"
    relation = duckdb.sql(f"SELECT * FROM '{path}' WHERE experiment = '{experiment}'")  # noqa: S608
    assert tuple(relation.columns) == COLUMNS
    return relation.fetchall()


def test_folds_stand_side_by_side_and_runs_below_one_another(experiments, finished):
    planned = experiments[0]
    results = Results.of_jobs(planned, finished)
    values = results.arrays["linear", "prs", 2, "arp"]
    assert values.shape == (2, 5)
    for run in (0, 1):
        jobs = [planned.jobs[Cell("linear", "prs", 2, fold, run)].id for fold in (1, 2)]
        expected = [finished[job].values["arp"] for job in jobs]
        np.testing.assert_array_equal(values[run], np.concatenate(expected))
    assert results.panels() == ["linear"]
    assert results.methods("linear") == ["naive", "prs"]
    assert list(results.axis_points) == [1, 2]
    assert results.details["clicks_per_query"] == {"eta 1": 9.0, "eta 2": 9.0}


def test_the_tidy_table_holds_every_value(experiments, finished, tmp_path):
    write_table(experiments, finished, tmp_path)
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
        for cell, job in experiments[0].jobs.items()
        for panel, method, point, fold, run in [astuple(cell)]
        for metric in ("map", "arp")
        for query, value in zip(
            experiments[0].source.queries[fold - 1],
            finished[job.id].values[metric].tolist(),
            strict=True,
        )
    ]
    np.testing.assert_equal(rows, expected)
    shares = rows_of(tmp_path, "shares")
    assert {row[7] for row in shares} == {"q1", "q<2>", "q3", "q4", "q5"}
    assert len(shares) == 2 * 5


def test_the_tidy_table_does_not_depend_on_the_order_of_finishing(experiments, finished, tmp_path):
    write_table(experiments, finished, tmp_path / "one")
    write_table(experiments, dict(reversed(finished.items())), tmp_path / "other")
    one, other = (tmp_path / name / "results.parquet" for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_timings_are_kept_apart(experiments, finished, tmp_path):
    write_timings(experiments, finished, tmp_path)
    lines = (tmp_path / "timings.csv").read_text().splitlines()
    assert lines[0] == "experiment,panel,method,point,fold,run,seconds,cpu_seconds,job"
    assert len(lines) == 1 + 16 + 4
