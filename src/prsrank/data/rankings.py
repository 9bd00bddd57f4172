"""Rankings as files: which doc stands where, for each query."""

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import objects
from prsrank.errors import InputError
from prsrank.files import FileName, atomic_output
from prsrank.files.drafts import write_reason
from prsrank.ragged import list_of_row

_WRITERS = {".parquet": "write_parquet", ".csv": "write_csv"}


def ranking_columns(dataset: RankingDataset, scores: npt.ArrayLike) -> dict[str, npt.NDArray]:
    """Return query_id, doc_id, rank and score of each doc, best first; ties in row order.

    >>> data = RankingDataset(np.zeros((3, 1)), np.array([0, 2, 3]))
    >>> ranking_columns(data, [0.1, 0.7, 0.2])["doc_id"].tolist()
    [1, 0, 0]
    """
    values = np.asarray(scores, np.float64)
    lists = list_of_row(dataset.offsets)
    order = np.lexsort((dataset.rows_in_list, -values, lists))
    return {
        "query_id": np.repeat(dataset.query_ids, dataset.list_lengths),
        "doc_id": dataset.doc_names[order],
        "rank": dataset.rows_in_list + 1,
        "score": values[order],
    }


def write_ranking(dataset: RankingDataset, scores: npt.ArrayLike, path: FileName) -> None:
    """Write the columns of `ranking_columns` as Parquet or CSV, by the file's ending."""
    import duckdb

    suffix = "." + str(path).rpartition(".")[2].lower()
    if suffix not in _WRITERS:
        raise InputError(f"{path}: the file must end in {' or '.join(_WRITERS)}")
    columns = ranking_columns(dataset, scores)
    with atomic_output(path) as draft, duckdb.connect() as connection:
        connection.register("columns", {name: objects(array) for name, array in columns.items()})
        relation = connection.sql("SELECT * FROM columns")
        try:
            getattr(relation, _WRITERS[suffix])(str(draft))
        except duckdb.Error as error:  # a full disk, mostly
            raise InputError(f"{path}: cannot be written: {write_reason(error)}") from error
