"""The sums over queries that a window's statistics are made of: one pass over its sessions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.log_sums import QueryUnits
from prsrank.logs.click_log import ClickLog
from prsrank.logs.units import UnitSums
from prsrank.monitor.ratios import Ratio
from prsrank.ragged import list_of_row, row_in_list
from prsrank.types import Floats, Longs

DEPTH = 50
"""The last position that is counted by itself; those below it are one more."""

BANDS = ((1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, 20), (21, DEPTH), (DEPTH + 1, DEPTH + 1))
"""Positions whose click rates are compared together: deep ones have few clicks each."""

ORDERED = 20
"""Of so many features, those that the model uses most, the order shown is compared with each."""

# a reader may click three docs of five; who clicks half of a long list is none
_GREEDY_CLICKS, _GREEDY_SHARE = 3, 0.5


@dataclass(frozen=True, eq=False)
class WindowSums:
    """Sums by unit of a window, or of a piece of one; those of pieces add up with `+`.

    Attributes:
        names: of the columns of `totals`.
        totals: counts of sessions, docs and clicks.
        shown: docs shown at positions 1, 2, ..., DEPTH, and below.
        clicked: docs clicked there.
        orders: correlations of the order shown with the features used most, over sessions.
        features: impressions in each bin of each feature; the last bin is of missing values.
    """

    names: tuple[str, ...]
    totals: UnitSums
    shown: UnitSums
    clicked: UnitSums
    orders: UnitSums
    features: dict[str, UnitSums]

    @classmethod
    def of(
        cls,
        log: ClickLog,
        lists: RankingDataset,
        scores: Floats,
        edges: Mapping[str, Floats],
    ) -> "WindowSums":
        """Add up a log.

        Args:
            log: the sessions.
            lists: their lists.
            scores: of the model, for each doc of the lists.
            edges: upper ends of the bins of each feature, those used most first.
        """
        units, rows = QueryUnits.of(log), log.doc_rows(lists)
        query = log.ranking_query[list_of_row(log.ranking_offsets)]
        shown, clicked = log.slot_statistics()
        depths = np.log(log.ranking_positions)
        by_ranking = _of_rankings(log, scores[rows])
        by_slot = {"docs": shown, "depth": clicked * depths, "depth_squared": clicked * depths**2}
        position = np.minimum(log.ranking_positions, DEPTH + 1) - 1

        def values(name: str) -> Floats:
            column = lists.features[rows, lists.feature_names.index(name)]
            return np.asarray(column, np.float64)

        def bins(name: str, ends: Floats) -> UnitSums:
            column = values(name)
            cell = np.where(np.isnan(column), len(ends) + 1, np.searchsorted(ends, column))
            return _cells(units, list_of_row(log.doc_offsets), cell, impressions, len(ends) + 2)

        impressions = np.bincount(log.ranking_docs, shown, len(rows))
        orders = _order_by_features(log, map(values, list(edges)[:ORDERED]))
        return cls(
            (*by_ranking, *by_slot),
            units.table(
                [
                    *((log.ranking_query, column) for column in by_ranking.values()),
                    *((query, column) for column in by_slot.values()),
                ]
            ),
            _cells(units, query, position, shown, DEPTH + 1),
            _cells(units, query, position, clicked, DEPTH + 1),
            units.table((log.ranking_query, column) for column in orders),
            {name: bins(name, ends) for name, ends in edges.items()},
        )

    def __add__(self, other: "WindowSums") -> "WindowSums":
        """Return the sums of both; no query is in both."""
        return WindowSums(
            self.names,
            self.totals + other.totals,
            self.shown + other.shown,
            self.clicked + other.clicked,
            self.orders + other.orders,
            {name: sums + other.features[name] for name, sums in self.features.items()},
        )

    def column(self, name: str) -> Floats:
        """Return a named sum of each unit."""
        return self.totals.values[:, self.names.index(name)]

    def ratio(self, name: str, by: str) -> Ratio | None:
        """Return the ratio of two named sums."""
        return Ratio.of_sums(self.column(name), self.column(by))

    def click_rates(self) -> dict[str, Ratio]:
        """Return the click rate of each band of positions that was shown."""
        shown, clicked = self.shown.values, self.clicked.values
        rates = {
            _band_name(low, high): Ratio.of_sums(
                clicked[:, low - 1 : high].sum(axis=1), shown[:, low - 1 : high].sum(axis=1)
            )
            for low, high in BANDS
        }
        return {name: rate for name, rate in rates.items() if rate is not None}

    def feature_shares(self) -> dict[str, list[Ratio]]:
        """Return the share of impressions up to each edge of each feature; missing ones last."""
        docs, shares = self.column("docs"), {}
        for name, bins in self.features.items():
            below = np.cumsum(bins.values[:, :-2], axis=1)
            ratios = [Ratio.of_sums(column, docs) for column in (*below.T, bins.values[:, -1])]
            shares[name] = [ratio for ratio in ratios if ratio is not None]
        return shares

    def feature_orders(self) -> dict[str, Ratio]:
        """Return the mean correlation of the order shown with each of the most used features."""
        sessions, columns = self.column("ordinary"), self.orders.values.T
        orders = {
            n: Ratio.of_sums(c, sessions) for n, c in zip(self.features, columns, strict=False)
        }
        return {name: order for name, order in orders.items() if order is not None}


def _band_name(low: int, high: int) -> str:
    """Return what a band of positions is called.

    >>> _band_name(1, 1), _band_name(6, 10), _band_name(51, 51)
    ('1', '6-10', '51+')
    """
    if low > DEPTH:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"


def _cells(
    units: QueryUnits, query: npt.NDArray, cell: npt.NDArray, values: npt.NDArray, size: int
) -> UnitSums:
    """Add up values by the unit of their query and by their cell."""
    sums = np.bincount(units.unit[query] * size + cell, values, len(units.keys) * size)
    return UnitSums(units.keys, np.arange(size), sums.reshape(-1, size).astype(np.float64))


def _of_rankings(log: ClickLog, scores: Floats) -> dict[str, npt.NDArray]:
    """Return sums over the sessions of each ranking, given the model's score of each doc of the log."""
    lengths = np.diff(log.ranking_offsets)
    filled = lengths > 0
    first, last = np.ones((2, log.rankings), np.int64)
    first[filled] = log.ranking_positions[log.ranking_offsets[:-1][filled]]
    last[filled] = log.ranking_positions[log.ranking_offsets[1:][filled] - 1]
    sessions = np.bincount(log.session_ranking, minlength=log.rankings).astype(np.float64)
    randomised, order = log.ranking_design > 0, _order_by_model(log, scores)
    ordinary = sessions * (~randomised & np.isfinite(order))
    shown = lengths[log.session_ranking]
    greedy = log.session_clicks >= np.maximum(_GREEDY_CLICKS, _GREEDY_SHARE * shown)
    clicks, keen = (
        np.bincount(log.session_ranking, chosen, log.rankings)
        for chosen in (log.session_clicks, greedy)
    )
    return {
        "sessions": sessions,
        "randomised": sessions * randomised,
        "gaps": sessions * (last - first + 1 > lengths),
        "late": sessions * (first > 1),
        "ordinary": ordinary,
        "order": ordinary * np.nan_to_num(order),
        "clicks": clicks,
        "greedy": keen,
    }


def _order_by_model(log: ClickLog, scores: Floats) -> Floats:
    r"""Return Spearman's correlation of each ranking with the model's order; NaN for one doc.

    $1 - 6 \sum_i (r_i - s_i)^2 / (n (n^2 - 1))$, ties of the model in the order shown.
    """
    ranking, shown = list_of_row(log.ranking_offsets), row_in_list(log.ranking_offsets)
    best = np.lexsort((shown, -scores[log.ranking_docs], ranking))
    ranked = np.empty(len(best), np.int64)
    ranked[best] = shown
    squares = np.bincount(ranking, (ranked - shown) ** 2.0, log.rankings)
    lengths = np.diff(log.ranking_offsets).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = 1 - 6 * squares / (lengths * (lengths**2 - 1))
    return np.where(lengths > 1, correlation, np.nan)


def _order_by_features(log: ClickLog, features: Iterable[Floats]) -> Iterator[Floats]:
    """Yield correlations of rank and feature within each ordinary ranking, over its sessions.

    A ranker is known by them, whatever its scores: another one follows other features. They do not
    depend on a feature's unit, and are 0 where it is the same for the whole list.

    Args:
        log: the sessions.
        features: values of each doc of the log.
    """
    ranking, lengths = list_of_row(log.ranking_offsets), np.diff(log.ranking_offsets)
    sessions = np.bincount(log.session_ranking, minlength=log.rankings).astype(np.float64)
    sessions[(log.ranking_design > 0) | (lengths < 2)] = 0
    dx = row_in_list(log.ranking_offsets) - (lengths[ranking] - 1) / 2
    sxx = lengths * (lengths.astype(np.float64) ** 2 - 1) / 12
    for column in features:
        values = np.nan_to_num(column)[log.ranking_docs]
        mean = np.bincount(ranking, values, log.rankings) / np.maximum(lengths, 1)
        dv = values - mean[ranking]
        sxy, syy = (np.bincount(ranking, x * dv, log.rankings) for x in (dx, dv))
        varies = syy > 1e-12 * np.maximum(lengths * mean**2, 1e-30)
        correlation = np.zeros(log.rankings)
        np.divide(sxy, np.sqrt(sxx * syy), out=correlation, where=varies & (sxx > 0))
        yield sessions * correlation


def impressions_of(log: ClickLog, lists: RankingDataset) -> Floats:
    """Return how often each doc of the lists was shown."""
    shown, _ = log.slot_statistics()
    slots = log.doc_rows(lists)[log.ranking_docs]
    return np.asarray(np.bincount(slots, shown, lists.docs), np.float64)


def feature_edges(values: Floats, impressions: Floats) -> Floats:
    """Return the distinct deciles of a feature over impressions, missing values left out.

    >>> feature_edges(np.arange(20.0), np.ones(20)).tolist()
    [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0]
    """
    there = np.isfinite(values) & (impressions > 0)
    order = np.argsort(values[there])
    ranked, weight = values[there][order], np.cumsum(impressions[there][order])
    if not len(ranked):
        return np.zeros(0)
    tenths: Longs = np.searchsorted(weight, weight[-1] * np.arange(1, 10) / 10 * (1 - 1e-12))
    return np.unique(ranked[tenths])
