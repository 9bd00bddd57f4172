"""Propensities from counts: what the estimators ask of a log, made of aggregates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.data.click_log import ClickLog
from prsrank.data.dataset import IdArray, RankingDataset, id_array
from prsrank.errors import InputError
from prsrank.ingest.pair_rows import DocIndex, whole_numbers
from prsrank.propensity.bootstrap import RawCurve, curve_with_intervals, not_identified
from prsrank.propensity.curve import Propensities
from prsrank.propensity.randomised import _NONE as NOT_SHUFFLED
from prsrank.propensity.randomised import _UNKNOWN as NOT_REACHED
from prsrank.propensity.randomised import RandomisedEstimator
from prsrank.propensity.swap import _NONE as NOT_SWAPPED
from prsrank.propensity.swap import _UNKNOWN as NOT_LINKED
from prsrank.propensity.swap import SwapEstimator, curve_of_pairs

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CountedLog:
    """Counts per (query, doc, position) in the shape in which estimators read a log.

    Every cell is a slot of its own, so `prsrank.propensity.cells.count_cells` gives the cells
    back. Single sessions are gone: estimators that need them take `shuffled_curve` and
    `swapped_curve`.

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
    ranking_positions: npt.NDArray[np.int32]
    shown: Longs
    clicked: Longs
    max_position: int
    sessions: int
    clicks: npt.NDArray[np.uint8]

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


def shuffled_curve(
    estimator: RandomisedEstimator, here: npt.NDArray, first: npt.NDArray, *, seed: int
) -> Propensities:
    """Return the curve of shuffled sessions: what `RandomisedEstimator.estimate` does.

    Args:
        estimator: its options.
        here: clicks at each position of shuffled sessions (groups of sessions x positions).
        first: their clicks at position 1, where they showed the position.
        seed: of the bootstrap.
    """
    depth = here.shape[1]
    if not len(here):
        none = np.zeros(depth, np.int64)
        return not_identified(depth, none, method="randomised", why=NOT_SHUFFLED)
    clicks, at_first = here.sum(axis=0), first.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p = np.where(at_first > 0, np.log(clicks / at_first), np.nan)
        influence = here / clicks - first / at_first
        zero_high = -np.log(0.05) / at_first
    raw = RawCurve(log_p, influence, clicks.astype(np.int64), NOT_REACHED, zero_high)
    return curve_with_intervals(raw, options=estimator, method="randomised", seed=seed)


def swapped_curve(
    estimator: SwapEstimator, pairs: Longs, counts: npt.NDArray, *, depth: int, seed: int
) -> Propensities:
    """Return the curve of swapped docs: what `SwapEstimator.estimate` does.

    Args:
        estimator: its options.
        pairs: the two positions of each kind of swap (pairs x 2).
        counts: clicks at both, per group of sessions (groups x pairs x 2).
        depth: number of positions.
        seed: of the bootstrap.
    """
    clicks = np.zeros(depth)
    np.add.at(clicks, pairs - 1, counts.sum(axis=0))
    behind = clicks.astype(np.int64)
    if not len(counts):
        return not_identified(depth, behind, method="swap", why=NOT_SWAPPED)
    log_p, influence = curve_of_pairs(pairs, counts, depth=depth)
    raw = RawCurve(log_p, influence, behind, NOT_LINKED)
    return curve_with_intervals(raw, options=estimator, method="swap", seed=seed)


def _changes(values: npt.NDArray) -> npt.NDArray[np.bool_]:
    changed = np.ones(len(values), bool)
    changed[1:] = values[1:] != values[:-1]
    return changed
