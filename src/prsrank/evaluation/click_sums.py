"""What an estimate needs of held-out clicks: sums by query, to which those of other pieces add."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.click_statistics import ClickStatistics
from prsrank.evaluation.curve_doubt import CurveLevels
from prsrank.evaluation.rank_values import RankValue, find_rank_value
from prsrank.evaluation.results import ALL, AT_OTHERS, AT_TOP, LOGGED
from prsrank.evaluation.weight_diagnostics import WeightSums
from prsrank.logs.click_log import ClickLog
from prsrank.logs.events import check_few_values
from prsrank.logs.features import original_queries
from prsrank.logs.units import UnitSums, id_keys, units_of
from prsrank.pairs.log_on_lists import PropensitySource
from prsrank.threads import one_blas_thread
from prsrank.types import Floats, Longs


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


@dataclass(frozen=True, eq=False)
class PartSums:
    """Sums over a part of the clicks, by unit: a query, or a group of queries.

    Attributes:
        part: which clicks; see `Estimate`.
        keys: of the units, rising.
        values: sum of w v, the weight of a click times the value of its doc's rank (units x
            metrics x rankers).
        weights: sum of w (units).
        sessions: number of sessions (units).
        spread: how the weights are spread.
        moves: how far the values move with each entry of an uncertain curve, and the weights
            beside them (entries x columns); see `prsrank.evaluation.curve_doubt`.
    """

    part: str
    keys: Longs
    values: Floats
    weights: Floats
    sessions: Longs
    spread: WeightSums
    moves: Floats

    @classmethod
    def of(
        cls,
        part: str,
        units: QueryUnits,
        query: Longs,
        columns: Sequence[Floats],
        *,
        sessions: Longs,
        spread: WeightSums,
        moves: Floats,
        rankers: int,
    ) -> "PartSums":
        """Add up columns by unit.

        Args:
            part: which clicks.
            units: of the log's queries.
            query: index of each row's query.
            columns: values of each row, ranker after ranker of each metric, then its weight.
            sessions: of each query.
            spread: how the weights are spread.
            moves: as above.
            rankers: how many there are.
        """
        sums = np.stack([units.sums(query, column) for column in columns], axis=1)
        return cls(
            part,
            units.keys,
            sums[:, :-1].reshape(len(units.keys), -1, rankers),
            sums[:, -1],
            units.sums(np.arange(len(sessions)), sessions).astype(np.int64),
            spread,
            moves,
        )

    def __add__(self, other: "PartSums") -> "PartSums":
        """Return the sums over the clicks of both; no query is in both."""
        both = self._by_unit() + other._by_unit()
        shape = (len(both.keys), *self.values.shape[1:])
        return PartSums(
            self.part,
            both.keys,
            both.values[:, :-2].reshape(shape),
            both.values[:, -2],
            both.values[:, -1].astype(np.int64),
            self.spread + other.spread,
            self.moves + other.moves,
        )

    def _by_unit(self) -> UnitSums:
        flat = self.values.reshape(len(self.keys), int(np.prod(self.values.shape[1:])))
        table = np.column_stack([flat, self.weights, self.sessions])
        return UnitSums(self.keys, np.arange(table.shape[1]), table)


@dataclass(frozen=True, eq=False)
class ClickSums:
    """Sums over the clicks of a log, of which `evaluation_of_sums` makes estimates.

    Attributes:
        metrics: names of the metrics.
        rankers: names of the rankers; the first is "logged", the rankings as shown.
        parts: all clicks, those at position 1, the others, and those of each context.
        position_shown: docs shown at positions 1, 2, ...
        position_clicks: docs clicked there.
        tau: the clip of the weights.
    """

    metrics: tuple[str, ...]
    rankers: tuple[str, ...]
    parts: tuple[PartSums, ...]
    position_shown: Longs
    position_clicks: Longs
    tau: float

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return int(self.parts[0].sessions.sum())

    def position_counts(self) -> tuple[Longs, Longs]:
        """Return how many docs were shown, and clicked, at each position."""
        return self.position_shown, self.position_clicks

    def __add__(self, other: "ClickSums") -> "ClickSums":
        """Return the sums over the clicks of both, which have the same metrics and rankers."""
        return replace(
            self,
            parts=tuple(a + b for a, b in zip(self.parts, other.parts, strict=True)),
            position_shown=_added(self.position_shown, other.position_shown),
            position_clicks=_added(self.position_clicks, other.position_clicks),
        )


def _added(one: Longs, other: Longs) -> Longs:
    total = np.zeros(max(len(one), len(other)), np.int64)
    total[: len(one)] += one
    total[: len(other)] += other
    return total


@one_blas_thread()
def sum_clicks(
    log: ClickLog,
    dataset: RankingDataset | None,
    propensities: PropensitySource,
    rankers: Mapping[str, npt.ArrayLike],
    *,
    metrics: Sequence[str],
    tau: float = 0.0,
    context: str | None = None,
    by: str | None = None,
    threads: int | None = None,
) -> ClickSums:
    """Sum up the clicks of a log by query; many queries are joined by a hash of their ids.

    Lists that `--lists session` made of one query are one unit.

    Args:
        log: held-out sessions.
        dataset: as for `CounterfactualMetric`, like `propensities`, `tau` and `context`.
        propensities: where clicks were likely.
        rankers: scores of each ranker, by name.
        metrics: names of the table of `prsrank.evaluation.counterfactual`.
        tau: clip of the weights.
        context: context column whose values have propensity curves of their own.
        by: context column to make parts of.
        threads: default: all cores. The sums do not depend on it.

    Raises:
        InputError: if queries or docs of the log are not in the data set, a click has
            propensity 0, or scores are missing or NaN.
    """
    statistics = ClickStatistics.of_log(log, dataset, propensities, tau=tau, context=context)
    values = np.array(
        [
            _slot_values(statistics, form, scores, threads)
            for form in map(find_rank_value, metrics)
            for scores in (None, *rankers.values())
        ]
    )
    units = QueryUnits.of(log)
    levels = CurveLevels.of_curve(propensities)
    level = slot_levels(levels, log, statistics.position, statistics.showing, context)
    # a weight that is clipped does not move with the curve
    moving = statistics.weights >= (1 - 1e-12) * statistics.free_weights
    parts = []
    for part, clicks, sessions in _parts(statistics, by):
        weights = statistics.weights * clicks
        columns = [*(values * weights), weights]
        moves = np.stack([levels.sums(level, column * moving) for column in columns], axis=1)
        parts.append(
            PartSums.of(
                part,
                units,
                statistics.query,
                columns,
                sessions=sessions,
                spread=WeightSums.of(statistics, clicks, sessions),
                moves=moves,
                rankers=1 + len(rankers),
            )
        )
    shown, clicked = log.position_counts()
    return ClickSums(tuple(metrics), (LOGGED, *rankers), tuple(parts), shown, clicked, float(tau))


def slot_levels(
    levels: CurveLevels, log: ClickLog, positions: Longs, showing: Longs, context: str | None
) -> Longs:
    """Return the entry of the curve that weighs each slot; -1 for none.

    Args:
        levels: the entries of the curve.
        log: the log.
        positions: of each slot.
        showing: code of each slot's context.
        context: context column whose values have curves of their own.
    """
    found = levels.of(positions)
    for code, value in enumerate(() if context is None else log.contexts[context].values):
        found = np.where(showing == code, levels.of(positions, value), found)
    return found


def _slot_values(
    statistics: ClickStatistics,
    form: RankValue,
    scores: npt.ArrayLike | None,
    threads: int | None,
) -> Floats:
    """Return the value of each clicked slot's rank by the scores, or as shown if None."""
    pools = statistics.pools
    rank_values = form.of_ranks(pools.longest)
    lengths = pools.lengths[statistics.clicked_doc]
    if scores is None:
        values = rank_values[statistics.shown_rank - 1]
    else:
        found = pools.expected_values(rank_values, scores, threads=threads)
        values = found[statistics.clicked_doc]
    return np.asarray(values / form.divisors(lengths))


def _parts(statistics: ClickStatistics, by: str | None) -> Iterator[tuple[str, Longs, Longs]]:
    """Yield each part's name, its clicks in each slot and its sessions of each query."""
    clicks, sessions = statistics.counts()
    top = statistics.position == 1
    yield ALL, clicks, sessions
    # at position 1 there is no bias to correct: an estimate rests on the others
    yield AT_TOP, clicks * top, sessions
    yield AT_OTHERS, clicks * ~top, sessions
    if by is None:
        return
    contexts = statistics.log.contexts
    if by not in contexts:
        raise InputError(
            f"context {by!r} is not in the log (it has: {', '.join(contexts) or 'none'})"
        )
    check_few_values(by, len(contexts[by].values))
    for code, value in enumerate(contexts[by].values):
        yield f"{by}={value}", *statistics.counts(contexts[by].codes == code)
