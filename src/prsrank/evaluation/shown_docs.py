"""All docs that a log showed, clicked or not, and the value of their ranks under new scores."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.click_statistics import Pools, pools_of
from prsrank.evaluation.click_sums import slot_levels
from prsrank.evaluation.curve_doubt import CurveLevels
from prsrank.evaluation.rank_values import RankValue
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.log_on_lists import LogOnLists, PropensitySource
from prsrank.ragged import list_of_row, row_in_list
from prsrank.types import Floats, Longs, Marks
from prsrank.weighting import WEIGHTINGS


class Corrected(Protocol):
    """Makes theta of each doc from its impressions, their propensities and its clicks."""

    def corrected(self, shown: Floats, seen: Floats, clicks: Floats) -> tuple[Floats, Floats]:
        """Return theta, and by how much a unit of the propensities moves it down."""
        ...


@dataclass(frozen=True, eq=False)
class DocSums:
    """What each doc adds to the sums, and how these move with the curve.

    Attributes:
        values: of each column of values, then the sum of theta over sessions (columns x docs).
        moves: with each entry of the curve (columns x entries).
    """

    values: Floats
    moves: Floats


@dataclass(frozen=True, eq=False)
class ShownDocs:
    """The slots of a log's rankings, over the rows of a data set.

    Attributes:
        log: the click log.
        pools: docs that were shown together, every one of them counting.
        pool_doc: index into the docs of `pools` of each slot.
        row: row in the data set of each slot.
        ranking: ranking of each slot.
        propensities: of each slot, in each context (contexts x slots).
        context: the context column, if propensities depend on one.
        query: index into the log's queries of each row; 0 for rows that were never shown.
    """

    log: ClickLog
    pools: Pools
    pool_doc: Longs
    row: Longs
    ranking: Longs
    propensities: Floats
    context: str | None
    query: Longs

    @classmethod
    def of_log(
        cls,
        log: ClickLog,
        dataset: RankingDataset,
        propensities: PropensitySource,
        *,
        context: str | None = None,
    ) -> "ShownDocs":
        """Lay a log over a data set."""
        laid = LogOnLists(log, dataset, propensities, WEIGHTINGS["ips"], context)
        slots = len(log.ranking_docs)
        row = log.doc_rows(dataset)[log.ranking_docs]
        pools, pool_doc = pools_of(log, row, np.arange(slots), dataset.docs)
        ranking = list_of_row(log.ranking_offsets)
        query = np.zeros(dataset.docs, np.int64)
        query[row] = log.ranking_query[ranking]
        seen = laid.propensities.reshape(-1, slots)
        return cls(log, pools, pool_doc, row, ranking, seen, context, query)

    def values(
        self, form: RankValue, scores: npt.ArrayLike | None, *, threads: int | None = None
    ) -> Floats:
        """Return the value of each slot's rank by the scores, or as shown if None."""
        rank_values = form.of_ranks(self.pools.longest)
        if scores is None:
            # by the same running sums as other orders: what ranks alike has no gain at all
            values = np.diff(np.cumsum(rank_values), prepend=0.0)
            found = values[row_in_list(self.log.ranking_offsets)]
        else:
            found = self.pools.expected_values(rank_values, scores, threads=threads)[self.pool_doc]
        return np.asarray(found / form.divisors(self.pools.lengths[self.pool_doc]))

    def sums(
        self,
        regression: Corrected,
        clicks: Floats,
        sessions: Marks,
        values: Floats,
        levels: CurveLevels,
    ) -> DocSums:
        """Return what each doc adds to the sums over some sessions.

        Args:
            regression: makes theta of each doc.
            clicks: weight of the clicks on each row, of these sessions.
            sessions: which sessions count.
            values: of each slot's rank (columns x slots).
            levels: the entries of the curve.
        """
        docs, shown = len(self.query), self._shown(sessions)
        times = shown.sum(axis=0)
        # the last columns: in how many sessions a doc was shown, and their propensities
        each = [*(values * times), times, (shown * self.propensities).sum(axis=0)]
        *sums, seen = np.array([np.bincount(self.row, column, docs) for column in each])
        theta, slope = regression.corrected(sums[-1], seen, clicks)
        moves = np.zeros((len(sums), levels.size))
        positions = self.log.ranking_positions.astype(np.int64)
        for code in range(len(shown) if levels.size else 0):
            exposed = shown[code] * self.propensities[code] * slope[self.row]
            showing = np.full(len(positions), code)
            level = slot_levels(levels, self.log, positions, showing, self.context)
            moves += [levels.sums(level, exposed * column[self.row]) for column in sums]
        return DocSums(np.array(sums) * theta, moves)

    def _shown(self, sessions: Marks) -> Floats:
        """Return how many of the sessions show each slot, in each context (contexts x slots)."""
        log, contexts = self.log, len(self.propensities)
        code = 0 if self.context is None else log.contexts[self.context].codes
        showing = log.session_ranking + code * np.int64(log.rankings)
        counts = np.bincount(showing[sessions], minlength=contexts * log.rankings)
        return counts.reshape(contexts, log.rankings)[:, self.ranking].astype(np.float64)
