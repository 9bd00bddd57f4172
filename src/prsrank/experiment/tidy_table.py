"""The tidy table of a run: every measured value a row, in Parquet; and the timings beside it."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.experiment.journal import Finished
from prsrank.files import atomic_output

TABLE = "results.parquet"
TIMINGS = "timings.csv"

_CELL = ("experiment", "panel", "method", "point", "fold", "run")
COLUMNS = (*_CELL, "metric", "query", "value")
"""Columns of the tidy table, one row for each value; NULL where a metric has no meaning."""

_QUERY = """
COPY (
    SELECT cell.experiment, cell.panel, cell.method, cell.point, cell.fold, cell.run,
        metric.metric, query.query, value.value
    FROM value
    JOIN cell ON cell.cell = value.cell
    JOIN metric ON metric.number = value.metric
    JOIN query ON query.source = cell.source AND query.fold = value.fold AND query.row = value.row
    ORDER BY value.number
) TO '{}' (FORMAT parquet, COMPRESSION zstd)
"""


def write_table(plan: Mapping[str, Any], finished: Mapping[str, Finished], folder: Path) -> None:
    """Write `results.parquet`; the same values give the same file, byte for byte.

    Points are text in it, as some experiments have names there. Names are joined on by DuckDB:
    a run has many millions of values, and a text for each would not fit into memory.
    """
    import duckdb

    metrics = dict.fromkeys(m for part in plan["experiments"].values() for m in part["metrics"])
    sources = [part["data"] for part in plan["experiments"].values() for _ in part["rows"]]
    cells = [
        (number, name, panel, method, str(point), fold, run, source)
        for number, ((name, panel, method, point, fold, run, _), source) in enumerate(
            zip(_rows(plan), sources, strict=True)
        )
    ]
    tables = {
        "cell": _columns(("cell", *_CELL, "source"), cells),
        "query": _columns(("source", "fold", "row", "query"), _queries(plan)),
        "metric": _columns(("number", "metric"), enumerate(metrics)),
        "value": _values(plan, finished, list(metrics)),
    }
    with atomic_output(folder / TABLE) as draft, duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for name, columns in tables.items():
            connection.register("columns_given", columns)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM columns_given")  # noqa: S608
            connection.unregister("columns_given")
        connection.execute(_QUERY.format(str(draft).replace("'", "''")))


def write_timings(plan: Mapping[str, Any], finished: Mapping[str, Finished], folder: Path) -> None:
    """Write what each job of the run took, apart from the results: it differs from run to run."""
    with atomic_output(folder / TIMINGS) as draft, draft.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*_CELL, "seconds", "cpu_seconds", "job"])
        for *cell, job in _rows(plan):
            spent = finished[job]
            writer.writerow([*cell, f"{spent.seconds:.4f}", f"{spent.cpu_seconds:.4f}", job])


def _rows(plan: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield experiment, panel, method, point, fold, run and job of every cell."""
    for experiment, part in plan["experiments"].items():
        for row in part["rows"]:
            yield (experiment, *row)


def _columns(names: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
    """Return rows as columns: whole numbers as int32, text as objects."""
    return {
        name: np.array(column, np.int32 if isinstance(column[0], int) else object)
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }


def _queries(plan: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the query id of each row of each fold; row -1 of any fold is no query."""
    for source, folds in plan["queries"].items():
        for fold, queries in enumerate(folds, start=1):
            for row, query in enumerate(["", *queries], start=-1):
                yield source, fold, row, query


def _values(
    plan: Mapping[str, Any], finished: Mapping[str, Finished], metrics: list[str]
) -> dict[str, Any]:
    cells: list[tuple[int, int, int]] = []
    values = []
    for number, (experiment, *_, fold, _, job) in enumerate(_rows(plan)):
        for metric in plan["experiments"][experiment]["metrics"]:
            cells.append((number, fold, metrics.index(metric)))
            values.append(finished[job].values[metric])
    lengths = np.array([len(found) for found in values])
    ends = np.cumsum(lengths)
    rows = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    rows[np.repeat(lengths == 1, lengths)] = -1
    repeated = np.repeat(np.array(cells, np.int32), lengths, axis=0).T
    return {
        "number": np.arange(ends[-1]),
        **dict(zip(("cell", "fold", "metric"), map(np.ascontiguousarray, repeated), strict=True)),
        "row": rows.astype(np.int32),
        "value": np.concatenate(values),
    }
