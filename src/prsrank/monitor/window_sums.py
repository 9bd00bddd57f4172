"""The sums over queries that a window's statistics are made of: one pass over its sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

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

_OF_SESSIONS = ("sessions", "randomised", "gaps", "late", "ordinary", "order", "clicks", "greedy")
_OF_SLOTS = ("docs", "depth", "depth_squared")
_NAMES = (*_OF_SESSIONS, *_OF_SLOTS)
ORDERED = 20
"""Of so many features, those that the model uses most, it is told how the order shown follows them."""

# a reader may click three docs of five; who clicks half of a long list is none
_GREEDY_CLICKS, _GREEDY_SHARE = 3, 0.5


@dataclass(frozen=True, eq=False)
class WindowSums:
    """Sums by unit of a window, or of a piece of one; those of pieces add up with `+`.

    Attributes:
        totals: by unit: the columns named above, docs shown at positions 1, 2, ..., docs clicked
            there, impressions in each bin of each feature, then correlations of the order shown
            with features.
    """

    totals: UnitSums

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
            edges: upper ends of the bins of each feature.
        """
        units = QueryUnits.of(log)
        columns = [*_session_columns(log, lists, scores, units), *_slot_columns(log, units)]
        columns += _feature_columns(log, lists, edges, units)
        columns += _order_columns(log, lists, list(edges)[:ORDERED], units)
        values = np.stack(columns, axis=1)
        return cls(UnitSums(units.keys, np.arange(values.shape[1]), values))

    def __add__(self, other: "WindowSums") -> "WindowSums":
        """Return the sums of both; no query is in both."""
        return WindowSums(self.totals + other.totals)

    def column(self, name: str) -> Floats:
        """Return a named sum of each unit."""
        return self.totals.values[:, _NAMES.index(name)]

    def ratio(self, name: str, by: str) -> Ratio | None:
        """Return the ratio of two named sums."""
        return Ratio.of_sums(self.column(name), self.column(by))

    @property
    def positions(self) -> tuple[Floats, Floats]:
        """Docs shown, and clicked, at each position of each unit (units x positions each)."""
        first = len(_NAMES)
        middle = first + DEPTH + 1
        return self.totals.values[:, first:middle], self.totals.values[
            :, middle : middle + DEPTH + 1
        ]

    def click_rates(self) -> dict[str, Ratio]:
        """Return the click rate of each band of positions that was shown."""
        shown, clicked = self.positions
        found = {
            band_name(low, high): Ratio.of_sums(
                clicked[:, low - 1 : high].sum(axis=1), shown[:, low - 1 : high].sum(axis=1)
            )
            for low, high in BANDS
        }
        return {name: one for name, one in found.items() if one is not None}

    def feature_shares(self, edges: Mapping[str, Floats]) -> dict[str, list[Ratio]]:
        """Return the share of impressions up to each edge of each feature; missing ones last."""
        start, found = len(_NAMES) + 2 * (DEPTH + 1), {}
        docs = self.column("docs")
        for name, ends in edges.items():
            bins = self.totals.values[:, start : start + len(ends) + 2]
            start += len(ends) + 2
            below = np.cumsum(bins[:, : len(ends)], axis=1)
            shares = [Ratio.of_sums(column, docs) for column in (*below.T, bins[:, -1])]
            found[name] = [one for one in shares if one is not None]
        return found

    def orders(self, edges: Mapping[str, Floats]) -> dict[str, Ratio]:
        """Return the mean correlation of the order shown with each of the most used features."""
        names, sessions = list(edges)[:ORDERED], self.column("ordinary")
        columns = self.totals.values[:, self.totals.values.shape[1] - len(names) :]
        found = {n: Ratio.of_sums(c, sessions) for n, c in zip(names, columns.T, strict=True)}
        return {name: one for name, one in found.items() if one is not None}


def band_name(low: int, high: int) -> str:
    """Return what a band of positions is called.

    >>> band_name(1, 1), band_name(6, 10), band_name(51, 51)
    ('1', '6-10', '51+')
    """
    if low > DEPTH:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"


def _session_columns(
    log: ClickLog, lists: RankingDataset, scores: Floats, units: QueryUnits
) -> list[Floats]:
    """Return sums over sessions by unit, in the order of _OF_SESSIONS."""
    lengths = np.diff(log.ranking_offsets)
    filled = lengths > 0
    first, last = np.ones(log.rankings, np.int64), np.ones(log.rankings, np.int64)
    first[filled] = log.ranking_positions[log.ranking_offsets[:-1][filled]]
    last[filled] = log.ranking_positions[log.ranking_offsets[1:][filled] - 1]
    sessions = np.bincount(log.session_ranking, minlength=log.rankings).astype(np.float64)
    randomised = log.ranking_design > 0
    order = _order_shown(log, lists, scores)
    ordinary = ~randomised & np.isfinite(order)
    shown = lengths[log.session_ranking]
    greedy = log.session_clicks >= np.maximum(_GREEDY_CLICKS, _GREEDY_SHARE * shown)
    clicks, keen = (
        np.bincount(log.session_ranking, chosen, log.rankings)
        for chosen in (log.session_clicks, greedy)
    )
    of_ranking = (
        sessions,
        sessions * randomised,
        sessions * (last - first + 1 > lengths),
        sessions * (first > 1),
        sessions * ordinary,
        sessions * np.where(ordinary, np.nan_to_num(order), 0.0),
        clicks,
        keen,
    )
    return [units.sums(log.ranking_query, column) for column in of_ranking]


def _order_shown(log: ClickLog, lists: RankingDataset, scores: Floats) -> Floats:
    r"""Return Spearman's correlation of each ranking with the model's order; NaN for one doc.

    $1 - 6 \sum_i (r_i - s_i)^2 / (n (n^2 - 1))$, ties of the model in the order shown.
    """
    given = scores[log.doc_rows(lists)][log.ranking_docs]
    ranking, shown = list_of_row(log.ranking_offsets), row_in_list(log.ranking_offsets)
    best = np.lexsort((shown, -given, ranking))
    ranked = np.empty(len(best), np.int64)
    ranked[best] = shown
    squares = np.bincount(ranking, (ranked - shown) ** 2.0, log.rankings)
    lengths = np.diff(log.ranking_offsets).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = 1 - 6 * squares / (lengths * (lengths**2 - 1))
    return np.where(lengths > 1, found, np.nan)


def _order_columns(
    log: ClickLog, lists: RankingDataset, names: Sequence[str], units: QueryUnits
) -> list[Floats]:
    """Return correlations of rank and feature within each ordinary ranking, summed by unit.

    A ranker is known by them, whatever its scores: another one follows other features. They do not
    depend on a feature's unit, and are 0 where it is the same for the whole list.
    """
    ranking, lengths = list_of_row(log.ranking_offsets), np.diff(log.ranking_offsets)
    rows = log.doc_rows(lists)[log.ranking_docs]
    sessions = np.bincount(log.session_ranking, minlength=log.rankings).astype(np.float64)
    sessions[(log.ranking_design > 0) | (lengths < 2)] = 0
    dx = row_in_list(log.ranking_offsets) - (lengths[ranking] - 1) / 2
    sxx = lengths * (lengths.astype(np.float64) ** 2 - 1) / 12
    index = {name: i for i, name in enumerate(lists.feature_names)}
    columns = []
    for name in names:
        values = np.nan_to_num(lists.features[rows, index[name]].astype(np.float64))
        mean = np.bincount(ranking, values, log.rankings) / np.maximum(lengths, 1)
        dv = values - mean[ranking]
        sxy, syy = (np.bincount(ranking, x * dv, log.rankings) for x in (dx, dv))
        told = syy > 1e-12 * np.maximum(lengths * mean**2, 1e-30)
        correlation = np.zeros(log.rankings)
        np.divide(sxy, np.sqrt(sxx * syy), out=correlation, where=told & (sxx > 0))
        columns.append(units.sums(log.ranking_query, sessions * correlation))
    return columns


def _slot_columns(log: ClickLog, units: QueryUnits) -> list[Floats]:
    """Return sums over shown docs by unit: those of _OF_SLOTS, then shown and clicked by position."""
    shown, clicked = log.slot_statistics()
    query = log.ranking_query[list_of_row(log.ranking_offsets)]
    logs = np.log(log.ranking_positions)
    columns = [units.sums(query, values) for values in (shown, clicked * logs, clicked * logs**2)]
    size = DEPTH + 1
    cell = units.unit[query] * size + np.minimum(log.ranking_positions, size) - 1
    for values in (shown, clicked):
        by_position = np.bincount(cell, values, len(units.keys) * size)
        columns += list(by_position.reshape(-1, size).T.astype(np.float64))
    return columns


def _feature_columns(
    log: ClickLog, lists: RankingDataset, edges: Mapping[str, Floats], units: QueryUnits
) -> list[Floats]:
    """Return impressions by unit and bin of each feature; the last bin is of missing values."""
    impressions = impressions_of(log, lists)
    rows = np.flatnonzero(impressions)
    owner = np.zeros(lists.docs, np.int64)
    slots = log.doc_rows(lists)[log.ranking_docs]
    owner[slots] = units.unit[log.ranking_query[list_of_row(log.ranking_offsets)]]
    index = {name: i for i, name in enumerate(lists.feature_names)}
    columns: list[Floats] = []
    for name, ends in edges.items():
        values = lists.features[rows, index[name]].astype(np.float64)
        bins = np.searchsorted(ends, values)
        bins[np.isnan(values)] = len(ends) + 1
        size = len(ends) + 2
        cells = np.bincount(
            owner[rows] * size + bins, impressions[rows], len(units.keys) * size
        ).reshape(-1, size)
        columns += list(cells.T.astype(np.float64))
    return columns


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
    known = np.isfinite(values) & (impressions > 0)
    order = np.argsort(values[known])
    ranked, weight = values[known][order], np.cumsum(impressions[known][order])
    if not len(ranked):
        return np.zeros(0)
    tenths: Longs = np.searchsorted(weight, weight[-1] * np.arange(1, 10) / 10 * (1 - 1e-12))
    return np.unique(ranked[tenths])
