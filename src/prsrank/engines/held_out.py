"""Queries held out of training, and what their clicks say of a ranking."""

from dataclasses import replace
from hashlib import md5

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import IdArray, RankingDataset
from prsrank.errors import InputError
from prsrank.ingest.pair_rows import DocIndex, whole_numbers
from prsrank.ingest.sources import LogSource
from prsrank.lambda_loss import tie_order
from prsrank.pairs import PairSet
from prsrank.propensity.curve import PropensityCurve
from prsrank.types import Floats
from prsrank.weighting import Weighting

# Shares are whole multiples of 1 / PARTS, so that SQL and Python agree on every query.
PARTS = 10_000
TOP = 10


def is_held_out(query_ids: IdArray, share: float) -> npt.NDArray[np.bool_]:
    """Tell which queries are held out: a fixed choice by the MD5 of the id as text.

    >>> is_held_out(np.arange(1000), 0.1).sum()
    np.int64(92)
    """
    check_share(share)
    parts = (
        int(md5(str(q).encode(), usedforsecurity=False).hexdigest()[:8], 16) for q in query_ids
    )
    numbers = np.fromiter((part % PARTS for part in parts), np.int64, len(query_ids))
    return np.asarray(numbers < round(share * PARTS))


def check_share(share: float) -> None:
    """Raise an InputError for a share that is not at least 0 and below 1."""
    if not 0 <= share < 1:
        raise InputError(f"held_out must be at least 0 and below 1, not {share}")


class ClickQuality:
    r"""DCG@10 of held-out clicks: $\sum_d g_d D(r_d) / \sum_d g_d$ with $g_d = \sum 1/p$.

    Numerator and denominator are sums over lists, so those of several machines add up.

    Args:
        lists: the held-out lists.
        gains: g of each doc.

    >>> lists = RankingDataset(np.eye(2), np.array([0, 2]))
    >>> ClickQuality(lists, np.array([0.0, 3.0]))(np.array([0.0, 1.0]))
    1.0
    """

    def __init__(self, lists: RankingDataset, gains: Floats) -> None:
        self.offsets = lists.offsets
        self.gains = gains
        lengths = lists.list_lengths
        self._list_of_doc = np.repeat(np.arange(lists.lists), lengths)
        start = lists.offsets[self._list_of_doc]
        self._by_tie = start + tie_order(lists.offsets, lists.query_ids, 0)
        ranks = np.arange(lists.docs) - start + 1
        self._discounts = np.where(ranks <= TOP, 1 / np.log2(1 + ranks), 0.0)

    def sums(self, scores: Floats) -> Floats:
        """Return the numerator and the denominator."""
        ranked = np.lexsort((-np.asarray(scores)[self._by_tie], self._list_of_doc))
        gains = self.gains[self._by_tie[ranked]]
        return np.array([gains @ self._discounts, self.gains.sum()])

    def __call__(self, scores: Floats) -> float:
        """Return their ratio; 0 where no click is held out."""
        total, weight = self.sums(scores)
        return float(total / weight) if weight else 0.0


def find_gains(
    source: LogSource,
    lists: RankingDataset,
    propensities: PropensityCurve | None,
    weighting: Weighting,
) -> Floats:
    """Return the sum of 1 / propensity over the clicks on each doc of some of a log's lists.

    Args:
        source: the log.
        lists: the lists.
        propensities: the curve; None: the log's own propensities.
        weighting: where it needs no propensities, every click counts 1.
    """
    own = weighting.needs_propensities and propensities is None
    gain = "sum(1 / propensity)" if own else "count(*)"
    clicked = source.relation.filter("click::BOOLEAN")
    rows = clicked.aggregate(
        f"query_id, doc_id, position, {gain}::DOUBLE AS gain", "query_id, doc_id, position"
    ).fetchnumpy()
    gains = np.asarray(rows["gain"])
    if weighting.needs_propensities and propensities is not None:
        gains = gains / propensities.at(np.asarray(rows["position"], np.int64))
    return add_gains(lists, np.asarray(rows["query_id"]), np.asarray(rows["doc_id"]), gains)


def add_gains(lists: RankingDataset, queries: IdArray, docs: IdArray, gains: Floats) -> Floats:
    """Add up gains by doc of the lists; those of other queries are passed over."""
    query_numbers, query_keys = whole_numbers(queries, lists.query_ids)
    doc_numbers, doc_keys = whole_numbers(docs, lists.doc_names)
    found, rows = DocIndex(lists, query_keys, doc_keys).find(query_numbers, doc_numbers)
    there = rows >= 0
    places = lists.offsets[found[there]] + rows[there]
    return np.bincount(places, gains[there], lists.docs).astype(np.float64)


def lists_of_pairs(pairs: PairSet, chosen: npt.NDArray[np.bool_]) -> PairSet:
    """Return the pairs of the chosen lists, on those lists only."""
    winners = chosen[pairs.winner_list]
    lengths = np.diff(pairs.offsets)
    return replace(
        pairs,
        offsets=np.concatenate([[0], np.cumsum(lengths[chosen])]).astype(np.int64),
        query_ids=pairs.query_ids[chosen],
        winner_offsets=np.concatenate([[0], np.cumsum(np.diff(pairs.winner_offsets)[chosen])]),
        winner_row=pairs.winner_row[winners],
        weights=pairs.weights[np.repeat(winners, lengths[pairs.winner_list])],
        totals=pairs.totals[chosen],
    )
