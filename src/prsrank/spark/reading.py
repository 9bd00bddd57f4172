"""What tasks read of Parquet files by themselves, in place of rows that Spark hands to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt

from prsrank.spark.events import SparkEvents
from prsrank.spark.placing import EVENT, Batches, Packer
from prsrank.spark.row_groups import FileGroups, plan_tasks, read_tables

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Reading:
    """Row groups, and what is made of them.

    Attributes:
        tasks: what each task reads.
        columns: of the files.
        queries: SQL over them, by the kind of rows that it gives.
    """

    tasks: Sequence[Sequence[FileGroups]]
    columns: "pyarrow.Schema"
    queries: Mapping[int, str]

    def blobs(self, task: int, keys: Sequence[int]) -> Batches:
        """Yield the blobs that a task packs."""
        packer = Packer(keys)
        for tables in read_tables(self.tasks[task], self.columns, list(self.queries.values())):
            for kind, rows in zip(self.queries, tables, strict=True):
                if kind == EVENT:
                    yield from packer.add_events(rows)
                else:
                    yield from packer.add_docs(rows.select([0, 1]), feature_values(rows))
        yield from packer.finish()


def feature_values(docs: "pyarrow.Table") -> npt.NDArray[np.float32]:
    """Return a row of values for each feature: NaN where there is none.

    Args:
        docs: query_id, doc_id and the features, numbers or booleans.
    """
    import pyarrow as pa

    values = np.empty((docs.num_columns - 2, docs.num_rows), np.float32)
    for row, column in zip(values, docs.columns[2:], strict=True):
        one = column.combine_chunks()
        one = one.cast(pa.int8()) if pa.types.is_boolean(one.type) else one
        with np.errstate(over="ignore"):  # beyond float32 a value becomes infinite
            row[:] = one.fill_null(0).to_numpy()
        if one.null_count:
            row[one.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return values


def reading_of(rows: Mapping[int, SparkEvents], usable: int) -> Reading | None:
    """Return how tasks read events or docs of the same files; None if they must come from Spark.

    Args:
        rows: by their kind.
        usable: how many events Spark has counted.
    """
    import pyarrow as pa

    replays = [reading.replay for reading in rows.values()]
    types = [reading.types for reading in rows.values()]
    known = [
        reading
        for reading, kinds in zip(replays, types, strict=True)
        if reading and reading.makes(kinds)
    ]
    if len(known) < len(replays):
        return None
    columns = pa.unify_schemas([reading.columns() for reading in known])
    table = known[0].table
    paths = [_local_path(url) for url in table.inputFiles()]
    if not all(paths):
        return None
    least = table.sparkSession.sparkContext.defaultParallelism
    tasks = plan_tasks(paths, columns, least)
    if tasks is None or (EVENT in rows and usable != sum(g.rows for task in tasks for g in task)):
        return None  # Spark counts a file twice that is named twice, and may have seen others
    queries = (reading.query() for reading in known)
    return Reading(tasks, columns, dict(zip(rows, queries, strict=True)))


def _local_path(url: str) -> str:
    """Return the path that a URL of Spark's names on this disk, as on those of the workers; "": none.

    >>> _local_path("file:///logs/day%201.parquet"), _local_path("hdfs:///logs/1.parquet")
    ('/logs/day 1.parquet', '')
    """
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else ""
