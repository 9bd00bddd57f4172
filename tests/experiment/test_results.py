from dataclasses import replace

import duckdb
import numpy as np
import pytest

from prsrank.experiment.jobs import Planner, Source
from prsrank.experiment.journal import Finished
from prsrank.experiment.results import COLUMNS, Results, write_frame
from prsrank.experiment.spec_files import parse_spec

QUERIES = (("q1", "q<2>", "q3"), ("q4", "q5"))


@pytest.fixture
def planner(spec_values):
    spec = parse_spec(spec_values | {"methods": [{"name": "naive"}, {"name": "prs"}]})
    return Planner(spec, Source("d", ("f", "g"), QUERIES, (3, 3), "d"), "1")


@pytest.fixture
def jobs(planner):
    return {cell: planner.job(cell, None) for cell in planner.cells()}


@pytest.fixture
def finished(jobs):
    rng = np.random.default_rng(0)
    entries = {}
    for cell, job in jobs.items():
        values = {name: rng.random(len(QUERIES[cell.fold - 1])) for name in ("ndcg@10", "map")}
        values["map"][0] = np.nan
        details = {"clicks_per_query": 6.0 * cell.fold}
        entries[job.id] = Finished(job.id, "ranking", values, details, 1.0, 0.5)
    return entries


@pytest.fixture
def results(planner, jobs, finished):
    return Results.of_jobs(planner, jobs, finished)


def test_folds_stand_side_by_side_and_runs_below_one_another(results, jobs, finished):
    values = results.arrays["linear", "prs", 400, "map"]
    assert values.shape == (2, 5)
    for run in (0, 1):
        at = [job.id for cell, job in jobs.items() if (cell.method, cell.point, cell.run) == ("prs", 400, run)]  # fmt: skip
        expected = [finished[job].values["map"] for job in at]
        np.testing.assert_array_equal(values[run], np.concatenate(expected))
    assert results.panels() == {"linear": "linear"}
    assert list(results.methods("linear")) == ["naive", "prs"]
    assert results.clicks_per_query == {100: 9.0, 400: 9.0}


def test_the_frame_holds_every_value(results, jobs, finished, tmp_path):
    shares = replace(results, spec=replace(results.spec, id="other"))
    write_frame([results, shares], tmp_path)
    path = tmp_path / "results.parquet"
    relation = duckdb.sql(f"SELECT * FROM '{path}' WHERE experiment = 'tiny'")  # noqa: S608
    assert tuple(relation.columns) == COLUMNS
    expected = [
        (
            *(cell.panel, cell.method, str(cell.point), cell.fold, cell.run, metric, query),
            None if value != value else value,
        )
        for cell, job in jobs.items()
        for metric in ("ndcg@10", "map")
        for query, value in zip(
            QUERIES[cell.fold - 1], finished[job.id].values[metric].tolist(), strict=True
        )
    ]
    rows = sorted(row[1:] for row in relation.fetchall() if row[-1] is not None)
    assert rows == sorted(row for row in expected if row[-1] is not None)
    count, missing = duckdb.sql(f"SELECT count(*), count(*) - count(value) FROM '{path}'").fetchall()[0]  # noqa: S608  # fmt: skip
    assert (count, missing) == (2 * len(expected), 2 * sum(row[-1] is None for row in expected))


def test_the_frame_does_not_depend_on_the_order_of_finishing(
    planner, jobs, finished, results, tmp_path
):
    reverse = dict(reversed(finished.items()))
    write_frame([results], tmp_path / "a")
    write_frame([Results.of_jobs(planner, jobs, reverse)], tmp_path / "b")
    first, second = (tmp_path / name / "results.parquet" for name in "ab")
    assert first.read_bytes() == second.read_bytes()
