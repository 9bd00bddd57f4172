"""Some of a log's lists with the counts of their clicks: enough to judge a curve by."""

from dataclasses import dataclass, replace

import numpy as np

from prsrank.data.dataset import RankingDataset, concatenate
from prsrank.data.ids import texts_of
from prsrank.logs.click_log import ClickLog
from prsrank.logs.coverage import lists_of_queries
from prsrank.propensity.cells import Cells
from prsrank.propensity.cells_on_lists import count_on_lists
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.propensity.curve import Propensities
from prsrank.ragged import list_of_row, offsets_of, ragged_rows
from prsrank.relevance.prior import sampled_queries
from prsrank.types import Longs

DOCS_FOR_JUDGING = 30_000
"""So many docs judge a curve to a few hundredths."""

_OF_CELLS, _OF_DOCS = ("positions", "shown", "clicked"), ("query_key", "doc_key")


@dataclass(frozen=True, eq=False)
class SampledClicks:
    """Lists and counts of pieces of a log without a common query; those of pieces add up.

    Attributes:
        parts: lists, and the counts on their docs, of each piece.
    """

    parts: tuple[tuple[RankingDataset, Cells], ...]

    @classmethod
    def of(cls, log: ClickLog, lists: RankingDataset, share: float) -> "SampledClicks":
        """Count a share of the queries of a log, or of a piece of it."""
        chosen = sampled_queries(log.query_ids, share)
        if not chosen.any():
            return cls(())
        part = log.select(chosen[log.ranking_query][log.session_ranking])
        some = lists_of_queries(part.query_ids, lists)
        return cls(((some, count_on_lists(part, some)),))

    def __add__(self, other: "SampledClicks") -> "SampledClicks":
        """Return those of both."""
        return SampledClicks(self.parts + other.parts)

    def on_curve(self, curve: Propensities) -> tuple[RankingDataset, CountedClicks]:
        """Return all lists in the order of their ids, docs too, and their counts with a curve.

        The order is that of the ids because sums of floats depend on it: pieces come in any.
        Counts at positions that the curve does not know are left out.
        """
        lists = concatenate([replace(one, doc_ids=one.doc_names) for one, _ in self.parts])
        queries = texts_of(lists.query_ids)
        by_query = np.argsort(queries)
        by_doc = np.lexsort((texts_of(lists.doc_names), np.repeat(queries, lists.list_lengths)))
        ordered = RankingDataset(
            lists.features[by_doc],
            offsets_of(lists.list_lengths[by_query]),
            query_ids=lists.query_ids[by_query],
            doc_ids=lists.doc_names[by_doc],
            feature_names=lists.feature_names,
        )
        cells = self._cells(by_doc, np.flatnonzero(curve.propensity > 0) + 1)
        return ordered, CountedClicks(cells, cells.positions, curve.at(cells.positions))

    def _cells(self, order: Longs, known: Longs) -> Cells:
        """Return the counts at some positions, of all docs in an order."""
        starts = offsets_of(np.concatenate([np.diff(cells.offsets) for _, cells in self.parts]))
        rows, offsets = ragged_rows(starts, order)
        joined = {
            name: np.concatenate([getattr(cells, name) for _, cells in self.parts])[chosen]
            for names, chosen in ((_OF_CELLS, rows), (_OF_DOCS, order))
            for name in names
        }
        there = np.isin(joined["positions"], known)
        lengths = np.bincount(list_of_row(offsets)[there], minlength=len(order))
        joined |= {name: joined[name][there] for name in _OF_CELLS}
        depth = max(cells.depth for _, cells in self.parts)
        return Cells(offsets=offsets_of(lengths), depth=depth, **joined)
