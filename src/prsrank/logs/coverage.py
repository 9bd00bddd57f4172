"""Which sessions of a log a data set knows, doc for doc."""

import numpy as np

from prsrank.data.dataset import RankingDataset
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
    try:
        log.doc_rows(dataset)
    except InputError:
        unknown = ~_known_docs(log, dataset)
        slots = np.concatenate([[0], np.cumsum(unknown[log.ranking_docs])])
        missing = slots[log.ranking_offsets[1:]] - slots[log.ranking_offsets[:-1]]
        known_query = _isin(log.query_ids, dataset.query_ids)[log.ranking_query]
        return np.asarray(((missing == 0) & known_query)[log.session_ranking])
    return np.ones(log.sessions, bool)


def known_lists(log: ClickLog, dataset: RankingDataset) -> RankingDataset:
    """Return the lists of the log's queries only, in the data set's order."""
    return lists_of_queries(log.query_ids, dataset)


def lists_of_queries(query_ids: IdArray, dataset: RankingDataset) -> RankingDataset:
    """Return the lists of some queries only, in the data set's order."""
    return dataset.select(_isin(dataset.query_ids, query_ids))


def _known_docs(log: ClickLog, dataset: RankingDataset) -> Marks:
    """Mark each (query, doc) of the log that the data set has."""
    queries = np.repeat(log.query_ids.astype(np.str_), np.diff(log.doc_offsets))
    of_row = np.repeat(dataset.query_ids.astype(np.str_), dataset.list_lengths)
    names, codes = np.unique(np.concatenate([queries, of_row]), return_inverse=True)
    docs = np.concatenate([log.doc_ids.astype(np.str_), dataset.doc_names.astype(np.str_)])
    doc_codes = np.unique(docs, return_inverse=True)[1]
    keys = codes.astype(np.int64) + len(names) * doc_codes.astype(np.int64)
    return np.asarray(np.isin(keys[: len(queries)], keys[len(queries) :]))


def _isin(ids: IdArray, among: IdArray) -> Marks:
    return np.asarray(np.isin(ids.astype(np.str_), among.astype(np.str_)))
