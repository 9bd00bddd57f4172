"""Propensities from counts: what the estimators ask of a log, made of aggregates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset, id_array
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.counted_kernels import DocIndex, whole_numbers
from prsrank.propensity.curve import Propensities
from prsrank.types import Bytes, IdArray, Ints, Longs, Marks


@dataclass(frozen=True, eq=False)
class CountedLog:
    """Counts per (query, doc, position) in the shape in which estimators read a log.

    Every cell is a slot of its own, so `prsrank.propensity.cells.count_cells` gives the cells
    back. Single sessions are gone: estimators that need them have a `curve` of counts.

    Attributes:
        query_ids: the queries, rising.
        doc_offsets: where each query's docs begin (queries + 1).
        doc_ids: of each doc.
        ranking_docs: doc of each cell.
        ranking_positions: position of each cell.
        shown: of each cell.
        clicked: of each cell.
        max_position: the last position of the whole log.
        sessions: how many the log has.
        clicks: as many entries as the log has clicks, up to 1: estimators ask whether any.
    """

    query_ids: IdArray
    doc_offsets: Longs
    doc_ids: IdArray
    ranking_docs: Longs
    ranking_positions: Ints
    shown: Longs
    clicked: Longs
    max_position: int
    sessions: int
    clicks: Bytes

    @classmethod
    def of(
        cls, cells: dict[str, npt.NDArray], *, max_position: int, sessions: int, clicks: int
    ) -> "CountedLog":
        """Make it of the columns of `cell_counts`."""
        order = np.lexsort((cells["position"], cells["doc_id"], cells["query_id"]))
        queries, docs = cells["query_id"][order], cells["doc_id"][order]
        new_query = _changes(queries)
        new_doc = new_query | _changes(docs)
        query_of_doc = (np.cumsum(new_query) - 1)[new_doc]
        counts = np.bincount(query_of_doc, minlength=int(new_query.sum()))
        return cls(
            query_ids=id_array(queries[new_query]),
            doc_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            doc_ids=id_array(docs[new_doc]),
            ranking_docs=(np.cumsum(new_doc) - 1).astype(np.int64),
            ranking_positions=cells["position"][order].astype(np.int32),
            shown=cells["shown"][order],
            clicked=cells["clicked"][order],
            max_position=max_position,
            sessions=sessions,
            clicks=np.zeros(min(clicks, 1), np.uint8),
        )

    @property
    def queries(self) -> int:
        """Number of queries."""
        return len(self.query_ids)

    def slot_statistics(self) -> tuple[Longs, Longs]:
        """Return how often each slot was shown, and clicked."""
        return self.shown, self.clicked

    def doc_rows(self, dataset: RankingDataset) -> Longs:
        """Return the row in the data set of each doc."""
        owners: Any = np.repeat(self.query_ids, np.diff(self.doc_offsets))
        queries, query_keys = whole_numbers(owners, dataset.query_ids)
        docs, doc_keys = whole_numbers(self.doc_ids, dataset.doc_names)
        lists, rows = DocIndex(dataset, query_keys, doc_keys).find(queries, docs)
        if rows.min(initial=0) < 0:
            at = int(rows.argmin())
            raise InputError(
                f"doc {self.doc_ids[at]} of query {owners[at]} is in the log but not in the data set"
            )
        return np.asarray(dataset.offsets[lists] + rows)


def estimate_from_cells(
    log: CountedLog, estimator: Any, *, dataset: RankingDataset | None, seed: int
) -> Propensities:
    """Run an estimator that reads cells only."""
    shaped: ClickLog = log  # type: ignore[assignment] # it has all that such estimators read
    result: Propensities = estimator.estimate(shaped, dataset=dataset, seed=seed)
    return result


def _changes(values: npt.NDArray) -> Marks:
    changed = np.ones(len(values), bool)
    changed[1:] = values[1:] != values[:-1]
    return changed
