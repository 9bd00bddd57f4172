"""What estimates need of held-out sessions: sums by query, to which those of other pieces add.

Sums over clicks are the plain ones: the weight of each click times the value of its doc's new rank.
Doubly robust ones are over docs, clicked or not; see `prsrank.evaluation.doc_sums`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.counterfactual import ClickStatistics
from prsrank.evaluation.doc_sums import DEFAULT_TAU, Regression
from prsrank.evaluation.query_bootstrap import CurveLevels
from prsrank.evaluation.rank_values import RankValue, find_rank_value
from prsrank.evaluation.results import ALL, AT_OTHERS, AT_TOP, LOGGED
from prsrank.evaluation.weight_diagnostics import WeightSums
from prsrank.hashing import id_keys
from prsrank.logs.click_log import ClickLog
from prsrank.logs.events import check_few_values
from prsrank.logs.features import original_queries
from prsrank.logs.units import UnitSums, units_of
from prsrank.pairs.log_on_lists import PropensitySource
from prsrank.ragged import row_in_list
from prsrank.threads import one_blas_thread
from prsrank.types import Floats, Longs, Marks

DEFAULT_METRICS = ("dcg@10", "wmrr", "arp")


@dataclass(frozen=True, eq=False)
class QueryUnits:
    """The units of resampling of a log: its queries, or groups of them.

    Attributes:
        keys: of the units, rising.
        unit: index of each query's unit.
    """

    keys: Longs
    unit: Longs

    @classmethod
    def of(cls, log: ClickLog) -> "QueryUnits":
        """Return the units of a log; lists that were made of one query belong together."""
        return cls(*units_of(id_keys(original_queries(log.query_ids))))

    def sums(self, query: npt.NDArray, values: npt.NDArray) -> Floats:
        """Add up values by the unit of their query (units)."""
        return np.asarray(np.bincount(self.unit[query], values, len(self.keys)), np.float64)

    def table(self, columns: Iterable[tuple[npt.NDArray, npt.NDArray]]) -> UnitSums:
        """Add up columns, each given as the query of its entries and their values."""
        empty = np.zeros((len(self.keys), 0))
        values = np.column_stack([empty, *(self.sums(*column) for column in columns)])
        return UnitSums(self.keys, np.arange(values.shape[1]), values)


@dataclass(frozen=True, eq=False)
class PartSums:
    """Sums over a part of the sessions, or of their clicks, by unit: a query, or a group of them.

    Attributes:
        part: which clicks; see `prsrank.evaluation.results.Estimate`.
        rankers: how many there are, the logged ranking among them.
        units: by unit the values times the weights, ranker after ranker of each metric, then the
            weights w, then the number of sessions.
        spread: how the weights of its clicks are spread.
        moves: how far the values move with each entry of an uncertain curve, and the weights
            beside them (entries x columns); see `prsrank.evaluation.query_bootstrap`.
    """

    part: str
    rankers: int
    units: UnitSums
    spread: WeightSums
    moves: Floats

    @property
    def values(self) -> Floats:
        """Sum of w v: the weight of a click times the value of its rank (units x metrics x rankers)."""
        table = self.units.values
        return table[:, :-2].reshape(len(table), -1, self.rankers)

    @property
    def weights(self) -> Floats:
        """Sum of the weights w (units)."""
        return self.units.values[:, -2]

    @property
    def sessions(self) -> Floats:
        """Number of sessions (units)."""
        return self.units.values[:, -1]

    def __add__(self, other: "PartSums") -> "PartSums":
        """Return the sums over the sessions of both; no query is in both."""
        return replace(
            self,
            units=self.units + other.units,
            spread=self.spread + other.spread,
            moves=self.moves + other.moves,
        )


@dataclass(frozen=True, eq=False)
class LogSums:
    """Sums over held-out sessions, of which `prsrank.evaluation.log_evaluation` makes estimates.

    Attributes:
        metrics: names of the metrics.
        rankers: names of the rankers; the first is "logged", the rankings as shown.
        taus: the clips of the weights of clicks.
        clicks: for each of them, sums over all clicks, those at position 1, the others, and those
            of each context.
        docs: doubly robust sums over all sessions, and those of each context; empty where no
            relevance was given.
        positions: docs shown, and clicked, at positions 1, 2, ... (2 x positions).
    """

    metrics: tuple[str, ...]
    rankers: tuple[str, ...]
    taus: tuple[float, ...]
    clicks: tuple[tuple[PartSums, ...], ...]
    docs: tuple[PartSums, ...]
    positions: Longs

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return int(self.clicks[0][0].sessions.sum())

    def position_counts(self) -> tuple[Longs, Longs]:
        """Return how many docs were shown, and clicked, at each position."""
        return self.positions[0], self.positions[1]

    def __add__(self, other: "LogSums") -> "LogSums":
        """Return the sums over the sessions of both, which have the same metrics and rankers."""
        depth = max(self.positions.shape[1], other.positions.shape[1])
        shallow, deep = (
            np.pad(sums.positions, ((0, 0), (0, depth - sums.positions.shape[1])))
            for sums in (self, other)
        )
        return replace(
            self,
            clicks=tuple(map(_added, self.clicks, other.clicks)),
            docs=_added(self.docs, other.docs),
            positions=shallow + deep,
        )


def _added(parts: Sequence[PartSums], others: Sequence[PartSums]) -> tuple[PartSums, ...]:
    return tuple(part + other for part, other in zip(parts, others, strict=True))


@one_blas_thread()
def sum_log(
    log: ClickLog,
    dataset: RankingDataset | None,
    propensities: PropensitySource,
    rankers: Mapping[str, npt.ArrayLike],
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    taus: Sequence[float] = (0.0, DEFAULT_TAU),
    regression: Regression | None = None,
    context: str | None = None,
    threads: int | None = None,
) -> LogSums:
    """Sum up a log, or a piece of one, by query; many queries are joined by a hash of their ids.

    Lists that `lists = "session"` in the mapping made of one query are one unit.

    Args:
        log: held-out sessions.
        dataset: the lists that rankers score; None for scores per doc of the log.
        propensities: where clicks were likely: as for `PairSet.from_log`.
        rankers: scores of each ranker, by name.
        metrics: names of the table of `prsrank.evaluation.counterfactual`.
        taus: clips of the weights of clicks; 0 is none.
        regression: relevance of the docs of the data set from their features, for doubly robust
            sums; None for none.
        context: context column whose values are parts, and may have curves of their own.
        threads: default: all cores. The sums do not depend on it.

    Raises:
        InputError: if queries or docs of the log are not in the data set, a click has
            propensity 0, or scores are missing or NaN.
    """
    statistics = ClickStatistics.of_log(
        log, dataset, propensities, context=context, every_doc=regression is not None
    )
    ranked = _Ranked.by(statistics, list(map(find_rank_value, metrics)), rankers, threads)
    query, units, levels = statistics.query, QueryUnits.of(log), CurveLevels.of_curve(propensities)
    level = _slot_levels(levels, statistics, statistics.position, statistics.showing)
    values = ranked.of_clicks()
    clicks: list[list[PartSums]] = [[] for _ in taus]
    docs: list[PartSums] = []
    for part, counts, sessions, chosen in _parts(statistics):

        def table(query: Longs, columns: Iterable[Floats], shown: Longs = sessions) -> UnitSums:
            return units.table([*((query, c) for c in columns), (np.arange(len(shown)), shown)])

        for tau, sums in zip(taus, clicks, strict=True):
            weighed = replace(statistics, tau=tau)
            weights = weighed.weights
            # a weight that is clipped does not move with the curve
            moving = weights >= (1 - 1e-12) * weighed.free_weights
            weights = weights * counts
            columns = [*(values * weights), weights]
            moves = np.stack([levels.sums(level, column * moving) for column in columns], axis=1)
            spread = WeightSums.of(weighed, counts, sessions)
            sums.append(PartSums(part, 1 + len(rankers), table(query, columns), spread, moves))
        if regression is not None and chosen is not None:
            owner, added, moves = _doc_columns(ranked, regression, counts, chosen, levels)
            spread = clicks[0][-1].spread
            docs.append(PartSums(part, 1 + len(rankers), table(owner, added), spread, moves))
    return LogSums(
        tuple(metrics),
        (LOGGED, *rankers),
        tuple(map(float, taus)),
        tuple(map(tuple, clicks)),
        tuple(docs),
        np.array(log.position_counts()),
    )


def _parts(statistics: ClickStatistics) -> Iterator[tuple[str, Longs, Longs, Marks | None]]:
    """Yield each part's name, its clicks in each slot, its sessions of each query, and which they are.

    A part of the clicks alone has no sessions, and no docs, of its own.
    """
    log, context = statistics.log, statistics.context
    clicks, sessions = statistics.counts()
    top = statistics.position == 1
    yield ALL, clicks, sessions, np.ones(log.sessions, bool)
    # at position 1 there is no bias to correct: an estimate rests on the others
    yield AT_TOP, clicks * top, sessions, None
    yield AT_OTHERS, clicks * ~top, sessions, None
    if context is None:
        return
    column = log.contexts[context]
    check_few_values(context, len(column.values))
    for code, value in enumerate(column.values):
        chosen = column.codes == code
        yield f"{context}={value}", *statistics.counts(chosen), chosen


@dataclass(frozen=True, eq=False)
class _Ranked:
    """The values of ranks, of each metric by each ranker.

    Attributes:
        statistics: the log.
        forms: the metrics.
        expected: for each, the values of the docs of the pools by each ranker.
    """

    statistics: ClickStatistics
    forms: Sequence[RankValue]
    expected: Sequence[Sequence[Floats]]

    @classmethod
    def by(
        cls,
        statistics: ClickStatistics,
        forms: Sequence[RankValue],
        rankers: Mapping[str, npt.ArrayLike],
        threads: int | None,
    ) -> "_Ranked":
        pools = statistics.pools
        expected = [
            [form.of_pools(pools, scores, threads=threads) for scores in rankers.values()]
            for form in forms
        ]
        return cls(statistics, forms, expected)

    def of_clicks(self) -> Floats:
        """Return the values of each clicked slot, as shown first (columns x clicked slots)."""
        statistics, docs = self.statistics, self.statistics.clicked_doc
        pools = statistics.pools
        rank = row_in_list(statistics.log.ranking_offsets)[statistics.slot]
        columns = []
        for form, by_ranker in zip(self.forms, self.expected, strict=True):
            divisors = form.divisors(pools.lengths[docs])
            columns.append(form.of_ranks(pools.longest)[rank] / divisors)
            columns += [values[docs] for values in by_ranker]
        return np.array(columns)

    def of_slots(self) -> Iterator[Floats]:
        """Yield the values of each slot, clicked or not, as shown first."""
        pools, docs = self.statistics.pools, self.statistics.pool_doc
        rank = row_in_list(self.statistics.log.ranking_offsets)
        for form, by_ranker in zip(self.forms, self.expected, strict=True):
            # by the same running sums as other orders: what ranks alike has no gain at all
            shown = np.diff(np.cumsum(form.of_ranks(pools.longest)), prepend=0.0)
            yield np.asarray(shown[rank] / form.divisors(pools.lengths[docs]))
            yield from (values[docs] for values in by_ranker)


def _doc_columns(
    ranked: _Ranked, regression: Regression, counts: Longs, sessions: Marks, levels: CurveLevels
) -> tuple[Longs, Floats, Floats]:
    """Return what each doc adds to the sums over some sessions, and how these move with the curve.

    Args:
        ranked: the values of ranks.
        regression: makes theta of each doc.
        counts: clicks on each clicked slot in these sessions.
        sessions: which sessions count.
        levels: the entries of the curve.

    Returns:
        The query of each doc (any for those never shown); for each column of values, then for
        theta itself, what it adds (columns x docs); how they move (entries x columns).
    """
    statistics, docs = ranked.statistics, len(regression.relevance)
    row, slot = statistics.row, statistics.slot
    query = np.zeros(docs, np.int64)
    query[row] = statistics.slot_query
    clicked = np.bincount(row[slot], statistics.actions * counts, docs).astype(np.float64)
    shown = statistics.times_shown(sessions)
    times = shown.sum(axis=0)
    seen = np.bincount(row, (shown * statistics.propensities).sum(axis=0), docs)
    sums = np.array(
        [
            *(np.bincount(row, values * times, docs) for values in ranked.of_slots()),
            np.bincount(row, times, docs),
        ]
    )
    theta, slope = regression.corrected(sums[-1], seen.astype(np.float64), clicked)
    moves = np.zeros((levels.size, len(sums)))
    positions = statistics.log.ranking_positions.astype(np.int64)
    for code in range(len(shown) if levels.size else 0):
        exposed = shown[code] * statistics.propensities[code] * slope[row]
        level = _slot_levels(levels, statistics, positions, np.full(len(positions), code))
        moves += np.stack([levels.sums(level, exposed * column[row]) for column in sums], axis=1)
    return query, sums * theta, moves


def _slot_levels(
    levels: CurveLevels, statistics: ClickStatistics, positions: Longs, showing: Longs
) -> Longs:
    """Return the entry of the curve that weighs slots of these positions and contexts; -1 for none."""
    entries = levels.of(positions)
    if statistics.context is not None:
        values = statistics.log.contexts[statistics.context].values
        for code, value in enumerate(values):
            entries = np.where(showing == code, levels.of(positions, value), entries)
    return entries
