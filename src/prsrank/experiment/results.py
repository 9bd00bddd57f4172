"""The finished jobs of an experiment as one frame: in memory to compare, tidy on disk."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.experiment.jobs import Cell, Job, Planner
from prsrank.experiment.journal import Finished
from prsrank.experiment.spec import Point, Spec
from prsrank.files import atomic_output
from prsrank.types import Floats

FRAME = "results.parquet"
COLUMNS = (
    *("experiment", "panel", "method", "point", "fold", "run"),
    *("metric", "query", "value"),
)
"""Columns of the frame, one row for each value; NULL where a metric has no meaning."""

Key = tuple[str, str, Point, str]
"""Panel, method, point and metric."""


@dataclass(frozen=True, eq=False)
class Results:
    """What the finished jobs of one experiment say.

    Attributes:
        spec: the experiment as it was run, with notes of what was left out.
        arrays: values by (panel, method, point, metric): runs x queries. The queries of all folds
            stand side by side, in the same order for every method; NaN where the metric has no
            meaning for the query.
        queries: ids of the test queries of each fold.
        chosen: hyper-parameters of the last point by "panel method", one entry for each fold.
        clicks_per_query: by point.
    """

    spec: Spec
    arrays: Mapping[Key, Floats]
    queries: tuple[tuple[str, ...], ...] = ()
    chosen: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    clicks_per_query: Mapping[Point, float] = field(default_factory=dict)

    @classmethod
    def of_jobs(
        cls, planner: Planner, jobs: Mapping[Cell, Job], finished: Mapping[str, Finished]
    ) -> "Results":
        """Put finished jobs where an experiment says they belong.

        Args:
            planner: of the experiment.
            jobs: the job of each cell.
            finished: all that are finished, by their ids.
        """
        spec = planner.spec
        parts: dict[Key, dict[int, list[Floats]]] = {}
        clicks: dict[Point, list[float]] = {}
        chosen: dict[str, list[dict[str, Any]]] = {}
        for cell, job in jobs.items():  # of each run, the folds follow one another
            done = finished[job.id]
            for metric in spec.metrics:
                runs = parts.setdefault((cell.panel, cell.method, cell.point, metric), {})
                runs.setdefault(cell.run, []).append(done.values[metric])
            if "clicks_per_query" in done.details:
                clicks.setdefault(cell.point, []).append(done.details["clicks_per_query"])
            if "settings" in job.identity and (cell.run, cell.point) == (0, spec.axis.points[-1]):
                values = {**job.identity["parameters"], **job.identity["settings"]}
                chosen.setdefault(cell.name, []).append(values)
        return cls(
            spec,
            {
                key: np.array([np.concatenate(runs[run]) for run in sorted(runs)])
                for key, runs in parts.items()
            },
            planner.source.queries[: spec.folds],
            chosen,
            {point: float(np.mean(values)) for point, values in clicks.items()},
        )

    def panels(self) -> dict[str, str]:
        """Return the panels measured with their titles, in order."""
        names = {key[0] for key in self.arrays}
        return {p.name: p.title or p.name for p in self.spec.panels if p.name in names}

    def titles(self) -> dict[str, str]:
        """Return the title of each method, measured or not."""
        return {method.name: method.title or method.name for method in self.spec.methods}

    def methods(self, panel: str) -> dict[str, str]:
        """Return the methods measured in a panel with their titles, in order."""
        names = {key[1] for key in self.arrays if key[0] == panel}
        return {name: title for name, title in self.titles().items() if name in names}

    def measured(self, panel: str, method: str, point: Point, metric: str) -> Floats | None:
        """Return the values of a method at a point; None if there are none."""
        values = self.arrays.get((panel, method, point, metric))
        return None if values is None or np.isnan(values).all() else values


def write_frame(experiments: Iterable[Results], folder: Path) -> None:
    """Write `results.parquet`; the same values give the same file, byte for byte.

    Points are text in it, as an experiment without an axis has none.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    kinds = {"fold": pa.int32(), "run": pa.int32(), "value": pa.float64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    with (
        atomic_output(folder / FRAME) as draft,
        ParquetWriter(draft, schema, compression="zstd") as writer,
    ):
        for results in experiments:
            ids = pa.array([query for fold in results.queries for query in fold], pa.string())
            folds = np.repeat(np.arange(len(results.queries)) + 1, [*map(len, results.queries)])
            for (panel, method, point, metric), values in results.arrays.items():
                run, row = (index.ravel() for index in np.indices(values.shape))
                names = (results.spec.id, panel, method, str(point), metric)
                texts = [pa.repeat(name, values.size) for name in names]
                value = pa.array(values.ravel(), from_pandas=True)
                columns = [*texts[:4], folds[row], run, texts[4], ids.take(pa.array(row)), value]
                table = pa.table(dict(zip(COLUMNS, columns, strict=True)), schema=schema)
                writer.write_table(table)
