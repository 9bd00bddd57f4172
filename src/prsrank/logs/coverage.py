"""Which sessions of a log a data set knows, doc for doc."""

from dataclasses import replace

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import indices_of
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.types import IdArray, Marks


def covered_sessions(log: ClickLog, dataset: RankingDataset) -> Marks:
    """Mark the sessions whose query and docs are all in the data set.

    >>> data = RankingDataset(np.zeros((4, 1)), [0, 2, 4], query_ids=[7, 8])
    >>> log = ClickLog.from_frame({
    ...     "query_id": np.array([7, 7, 8, 9]), "session_id": np.array([1, 1, 2, 3]),
    ...     "doc_id": np.array([0, 1, 5, 0]), "position": np.array([1, 2, 1, 1]),
    ...     "click": np.array([1, 0, 0, 1])})
    >>> covered_sessions(log, data).tolist()
    [True, False, False]
    """
    lists, rows = log.find_docs(dataset)
    missing = np.concatenate([[0], np.cumsum(rows[log.ranking_docs] < 0)])
    covered = missing[log.ranking_offsets[1:]] == missing[log.ranking_offsets[:-1]]
    covered &= lists[log.ranking_query] >= 0
    return np.asarray(covered[log.session_ranking])


def covered_log(log: ClickLog, dataset: RankingDataset) -> ClickLog:
    """Return the sessions whose docs are all in the data set; an InputError if there are none."""
    covered = covered_sessions(log, dataset)
    if not covered.any():
        log.doc_rows(dataset)  # says which query or doc is missing
        raise InputError("the log has no sessions")
    return log if covered.all() else log.select(covered)


def known_lists(log: ClickLog, dataset: RankingDataset) -> RankingDataset:
    """Return the lists of the log's queries only, in the data set's order."""
    return lists_of_queries(log.query_ids, dataset)


def lists_of_queries(query_ids: IdArray, dataset: RankingDataset) -> RankingDataset:
    """Return the lists of some queries only, in the data set's order."""
    chosen = marked_queries(query_ids, dataset)
    return dataset if chosen.all() else dataset.select(chosen)


def bare_lists(dataset: RankingDataset) -> RankingDataset:
    """Return the same lists without features."""
    nothing = np.zeros((dataset.docs, 0), np.float32)
    return replace(dataset, features=nothing, feature_names=())


def marked_queries(query_ids: IdArray, dataset: RankingDataset) -> Marks:
    """Mark the lists of some queries."""
    return indices_of(dataset.query_ids, query_ids) >= 0
