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
from prsrank.evaluation.query_bootstrap import CurveDoubt
from prsrank.evaluation.rank_values import RankValue, find_rank_value
from prsrank.evaluation.results import ALL, AT_OTHERS, AT_TOP, CLIPPED, DOUBLY_ROBUST, LOGGED
from prsrank.evaluation.weight_diagnostics import WeightSums
from prsrank.hashing import id_keys
from prsrank.logs.click_log import ClickLog
from prsrank.logs.events import check_few_values
from prsrank.logs.features import original_queries
from prsrank.pairs.log_on_lists import PropensitySource
from prsrank.propensity.bootstrap import UnitSums, units_of
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

    def table(self, columns: Iterable[tuple[npt.NDArray, npt.NDArray]]) -> UnitSums:
        """Add up columns, each given as the query of its entries and their values."""
        sums = [np.bincount(self.unit[query], v, len(self.keys)) for query, v in columns]
        values = np.column_stack([np.zeros((len(self.keys), 0)), *sums])
        return UnitSums(self.keys, np.arange(values.shape[1]), values)


@dataclass(frozen=True, eq=False)
class PartSums:
    """Sums over a part of the sessions, or of their clicks, by unit: a query, or a group of them.

    Attributes:
        part: which clicks; see `prsrank.evaluation.results.Estimate`.
        kind: "" for clicks by their weights, "clipped" for clipped weights, "dr" for docs.
        rankers: how many there are, the logged ranking among them.
        units: by unit the values times the weights, ranker after ranker of each metric, then the
            weights w, then the number of sessions.
        moves: how far the values move with each entry of an uncertain curve, and the weights
            beside them (entries x columns); see `prsrank.evaluation.query_bootstrap`.
    """

    part: str
    kind: str
    rankers: int
    units: UnitSums
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
        return replace(self, units=self.units + other.units, moves=self.moves + other.moves)


@dataclass(frozen=True, eq=False)
class LogSums:
    """Sums over held-out sessions, of which `prsrank.evaluation.log_evaluation` makes estimates.

    Attributes:
        metrics: names of the metrics.
        rankers: names of the rankers; the first is "logged", the rankings as shown.
        tau: the clip of the clipped weights; 0 for none.
        parts: sums over all clicks, those at position 1, the others, and those of each context;
            the same of clipped weights; doubly robust sums over all sessions, and those of each
            context, where relevance was given.
        spreads: how the weights of the clicks of each part are spread.
        clicked: clicks at positions 1, 2, ...
    """

    metrics: tuple[str, ...]
    rankers: tuple[str, ...]
    tau: float
    parts: tuple[PartSums, ...]
    spreads: tuple[WeightSums, ...]
    clicked: Longs

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return int(self.parts[0].sessions.sum())

    def __add__(self, other: "LogSums") -> "LogSums":
        """Return the sums over the sessions of both, which have the same metrics and rankers."""
        clicked = np.zeros(max(len(self.clicked), len(other.clicked)), np.int64)
        for sums in (self, other):
            clicked[: len(sums.clicked)] += sums.clicked
        return replace(
            self,
            parts=tuple(a + b for a, b in zip(self.parts, other.parts, strict=True)),
            spreads=tuple(a + b for a, b in zip(self.spreads, other.spreads, strict=True)),
            clicked=clicked,
        )


@one_blas_thread()
def sum_log(
    log: ClickLog,
    dataset: RankingDataset | None,
    propensities: PropensitySource,
    rankers: Mapping[str, npt.ArrayLike],
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    tau: float = DEFAULT_TAU,
    regression: Regression | None = None,
    context: str | None = None,
) -> LogSums:
    """Sum up a log, or a piece of one, by query; many queries are joined by a hash of their ids.

    Lists that `lists = "session"` in the mapping made of one query are one unit.

    Args:
        log: held-out sessions.
        dataset: the lists that rankers score; None for scores per doc of the log.
        propensities: where clicks were likely: as for `PairSet.from_log`.
        rankers: scores of each ranker, by name.
        metrics: names of the table of `prsrank.evaluation.counterfactual`.
        tau: clip of the clipped weights; 0 leaves these out.
        regression: relevance of the docs of the data set from their features, for doubly robust
            sums; None for none.
        context: context column whose values are parts, and may have curves of their own.

    Raises:
        InputError: if queries or docs of the log are not in the data set, a click has
            propensity 0, or scores are missing or NaN.
    """
    statistics = ClickStatistics.of_log(
        log, dataset, propensities, context=context, every_doc=regression is not None
    )
    pools, slot, query = statistics.pools, statistics.slot, statistics.query
    expected = [
        (form, [form.of_pools(pools, scores) for scores in rankers.values()])
        for form in map(find_rank_value, metrics)
    ]
    values = np.array([*_rank_values(statistics, slot, expected)])
    units, doubt = QueryUnits.of(log), CurveDoubt.of_curve(propensities)
    entries = _entries(doubt, statistics)
    parts, sums = list(_parts(statistics)), []

    def add(
        part: str, kind: str, query: Longs, columns: Iterable[Floats], shown: Longs, moves: Floats
    ) -> None:
        table = [*((query, column) for column in columns), (np.arange(len(shown)), shown)]
        sums.append(PartSums(part, kind, 1 + len(rankers), units.table(table), moves))

    for kind, clip in {"": 0.0, **({CLIPPED: tau} if tau else {})}.items():
        weighed = replace(statistics, tau=clip)
        # a weight that is clipped does not move with the curve
        moving, entry = ~weighed.clipped, entries[statistics.showing, slot]
        for part, counts, sessions, _ in parts:
            weights = weighed.weights * counts
            columns = [*(values * weights), weights]
            moves = np.stack([doubt.sums(entry, column * moving) for column in columns], axis=1)
            add(part, kind, query, columns, sessions, moves)
    for part, counts, sessions, chosen in parts:
        if regression is not None and chosen is not None:
            every = np.arange(len(log.ranking_docs))
            owner, added, moves = _doc_columns(
                statistics,
                _rank_values(statistics, every, expected, running=True),
                regression,
                counts,
                chosen,
                doubt,
                entries,
            )
            add(part, DOUBLY_ROBUST, owner, added, sessions, moves)
    return LogSums(
        tuple(metrics),
        (LOGGED, *rankers),
        float(tau),
        tuple(sums),
        tuple(WeightSums.of(p, statistics, counts, shown, tau) for p, counts, shown, _ in parts),
        log.position_counts()[1],
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


def _entries(doubt: CurveDoubt, statistics: ClickStatistics) -> Longs:
    """Return the entry of the curve that weighs each slot in each context (contexts x slots)."""
    log, context = statistics.log, statistics.context
    positions = log.ranking_positions.astype(np.int64)
    values = (None,) if context is None else log.contexts[context].values
    return np.stack([doubt.entries(positions, value) for value in values])


def _rank_values(
    statistics: ClickStatistics,
    slots: Longs,
    expected: Iterable[tuple[RankValue, Sequence[Floats]]],
    running: bool = False,
) -> Iterator[Floats]:
    """Yield the values of slots by each metric: as shown, then by each ranker.

    Args:
        statistics: the log.
        slots: the slots.
        expected: each metric with the values of the docs of the pools by each ranker.
        running: whether what is shown is valued by the same running sums as other orders are: then
            what ranks alike has no gain at all.
    """
    pools, docs = statistics.pools, statistics.pool_doc[slots]
    rank = row_in_list(statistics.log.ranking_offsets)[slots]
    for form, by_ranker in expected:
        shown = form.of_ranks(pools.longest)
        if running:
            shown = np.diff(np.cumsum(shown), prepend=0.0)
        yield np.asarray(shown[rank] / form.divisors(pools.lengths[docs]))
        yield from (values[docs] for values in by_ranker)


def _doc_columns(
    statistics: ClickStatistics,
    slot_values: Iterable[Floats],
    regression: Regression,
    counts: Longs,
    sessions: Marks,
    doubt: CurveDoubt,
    entries: Longs,
) -> tuple[Longs, Floats, Floats]:
    """Return what each doc adds to the sums over some sessions, and how these move with the curve.

    Args:
        statistics: the log.
        slot_values: for each column of values those of each slot, clicked or not.
        regression: makes theta of each doc.
        counts: clicks on each clicked slot in these sessions.
        sessions: which sessions count.
        doubt: about the curve.
        entries: of the curve, by context and slot.

    Returns:
        The query of each doc (any for those never shown); for each column of values, then for
        theta itself, what it adds (columns x docs); how they move (entries x columns).
    """
    docs, row, slot = len(regression.relevance), statistics.row, statistics.slot
    query = np.zeros(docs, np.int64)
    query[row] = statistics.slot_query
    clicked = np.bincount(row[slot], statistics.actions * counts, docs).astype(np.float64)
    shown = statistics.times_shown(sessions)
    exposed, times = shown * statistics.propensities, shown.sum(axis=0)
    seen = np.bincount(row, exposed.sum(axis=0), docs)
    sums = np.array(
        [
            *(np.bincount(row, values * times, docs) for values in slot_values),
            np.bincount(row, times, docs),
        ]
    )
    theta, slope = regression.corrected(sums[-1], seen.astype(np.float64), clicked)
    moving = exposed * slope[row]
    moves = [sum(map(doubt.sums, entries, moving * column[row])) for column in sums]
    return query, sums * theta, np.stack(moves, axis=1)
