"""The tidy table of a run: every measured value a row, in Parquet; and the timings beside it."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.experiment.journal import Finished
from prsrank.experiment.results import COLUMNS, TABLE, TIMINGS
from prsrank.files import atomic_output

_QUERY = """
COPY (
    SELECT place.experiment, place.panel, place.method, place.point, place.fold, place.run,
        metric.metric, query.query, value.value
    FROM value
    JOIN place ON place.place = value.place
    JOIN metric ON metric.number = value.metric
    JOIN query ON query.source = place.source AND query.fold = value.fold AND query.row = value.row
    ORDER BY value.number
) TO '{}' (FORMAT parquet, COMPRESSION zstd)
"""


def write_table(plan: Mapping[str, Any], finished: Mapping[str, Finished], folder: Path) -> None:
    """Write `results.parquet`; the same values give the same file, byte for byte.

    Points are text in it, as some experiments have names there.
    """
    import duckdb

    places, queries, metrics = _places(plan), _queries(plan), _metrics(plan)
    with atomic_output(folder / TABLE) as draft, duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for name, columns in (("place", places), ("query", queries), ("metric", metrics)):
            _fill(connection, name, columns)
        _fill(connection, "value", _values(plan, finished))
        connection.execute(_QUERY.format(str(draft).replace("'", "''")))


def write_timings(plan: Mapping[str, Any], finished: Mapping[str, Finished], folder: Path) -> None:
    """Write what each job of the run took, apart from the results: it differs from run to run."""
    rows = []
    for experiment, part in plan["experiments"].items():
        for panel, method, point, fold, run, job in part["rows"]:
            spent = finished[job]
            place = [experiment, panel, method, point, fold, run]
            rows.append([*place, f"{spent.seconds:.4f}", f"{spent.cpu_seconds:.4f}", job])
    with atomic_output(folder / TIMINGS) as draft, draft.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS[:6], "seconds", "cpu_seconds", "job"])
        writer.writerows(rows)


def _fill(connection: Any, name: str, columns: Mapping[str, Any]) -> None:
    """Make a table of columns; numbers go in as arrays, text by way of lists."""
    arrays = {
        key: values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
        for key, values in columns.items()
    }
    connection.register("columns_given", arrays)
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM columns_given")  # noqa: S608
    connection.unregister("columns_given")


def _places(plan: Mapping[str, Any]) -> dict[str, Any]:
    rows = [
        (experiment, panel, method, str(point), fold, run, part["data"])
        for experiment, part in plan["experiments"].items()
        for panel, method, point, fold, run, _ in part["rows"]
    ]
    experiments, panels, methods, points, folds, runs, sources = zip(*rows, strict=True)
    return {
        "place": np.arange(len(rows), dtype=np.int32),
        "experiment": experiments,
        "panel": panels,
        "method": methods,
        "point": points,
        "fold": np.array(folds, np.int32),
        "run": np.array(runs, np.int32),
        "source": sources,
    }


def _queries(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The query id of each row of each fold; row -1 of any fold is no query."""
    rows = [
        (source, fold, row, query)
        for source, folds in plan["queries"].items()
        for fold, queries in enumerate(folds, start=1)
        for row, query in enumerate(["", *queries], start=-1)
    ]
    sources, folds, numbers, names = zip(*rows, strict=True)
    return {
        "source": sources,
        "fold": np.array(folds, np.int32),
        "row": np.array(numbers, np.int32),
        "query": names,
    }


def _metrics(plan: Mapping[str, Any]) -> dict[str, Any]:
    names = _metric_names(plan)
    return {"number": np.arange(len(names), dtype=np.int32), "metric": names}


def _metric_names(plan: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(m for p in plan["experiments"].values() for m in p["metrics"]))


def _values(plan: Mapping[str, Any], finished: Mapping[str, Finished]) -> dict[str, Any]:
    numbers = {name: number for number, name in enumerate(_metric_names(plan))}
    places: list[tuple[int, int, int, int]] = []
    values = []
    place = 0
    for part in plan["experiments"].values():
        for *_, fold, _, job in part["rows"]:
            for metric in part["metrics"]:
                found = finished[job].values[metric]
                places.append((place, fold, numbers[metric], len(found)))
                values.append(found)
            place += 1
    lengths = np.array([length for *_, length in places], np.int64)
    ends = np.cumsum(lengths)
    rows = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    rows[np.repeat(lengths == 1, lengths)] = -1
    columns = [
        np.repeat(np.array(c, np.int32), lengths) for c in list(zip(*places, strict=True))[:3]
    ]
    return {
        "number": np.arange(ends[-1]),
        "place": columns[0],
        "fold": columns[1],
        "metric": columns[2],
        "row": rows.astype(np.int32),
        "value": np.concatenate(values),
    }
