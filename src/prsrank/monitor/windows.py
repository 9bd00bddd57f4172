"""A log cut into windows by day, week or number of sessions, and the sums over queries of each.

Statistics of a window are made of the sums: one pass over its sessions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.log_sums import QueryUnits
from prsrank.fit.log import PiecedLog
from prsrank.logs.click_log import ClickLog
from prsrank.logs.pieces import LocalPieces
from prsrank.monitor.ratios import Ratio
from prsrank.propensity.bootstrap import UnitSums
from prsrank.ragged import list_of_row, row_in_list
from prsrank.types import Floats, Longs

_DAY = 24 * 3600 * 10**6
# 1970 began on a Thursday: weeks begin on the Monday before
_DAYS_TO_MONDAY = 3


def check_every(every: str | int | None) -> None:
    """Raise an InputError for a length of windows that means nothing."""
    if every in (None, "day", "week"):
        return
    if not str(every).isdecimal() or int(every or 0) < 1:
        raise InputError(f"windows are a 'day', a 'week' or a number of sessions, not '{every}'")


def cut(log: PiecedLog, every: str | int | None, name: str) -> Iterator[tuple[str, PiecedLog]]:
    """Yield the windows of a log with their names, the earliest first.

    Args:
        log: the sessions.
        every: "day", "week" (from Monday, both by UTC), a number of sessions, or None: one window.
        name: of the log, for windows without times.

    Raises:
        InputError: if the log has no times to cut it by.
    """
    check_every(every)
    if every is None:
        first, last = (end[:10] for end in time_span(log))
        yield f"{first} to {last}" if first != last else first or name, log
        return
    by_time = every in ("day", "week")
    codes = partial(_days, every=every) if by_time else _by_count(log, int(every))
    numbers = np.unique(np.concatenate([codes(piece) for piece in logs_of(log)]))
    for number in numbers.tolist():
        title = _date(number, every) if by_time else f"{name} {number + 1}"
        yield title, log.where(lambda piece, code=number: codes(piece) == code)  # type: ignore[misc]


def logs_of(log: PiecedLog) -> LocalPieces[ClickLog]:
    """Return the pieces of a log, which this process goes through."""
    assert isinstance(log.pieces, LocalPieces)  # noqa: S101 - windows are of the local engine
    return log.pieces


def time_span(log: PiecedLog) -> tuple[str, str]:
    """Return the times of the first and the last session as text; empty where there are none."""
    times = [p.session_times for p in logs_of(log) if p.session_times is not None and p.sessions]
    if not times:
        return "", ""
    return _text(min(t.min() for t in times)), _text(max(t.max() for t in times))


def _text(microseconds: int) -> str:
    return str(np.datetime64(int(microseconds) // 10**6, "s")).replace("T", " ")


def _days(piece: ClickLog, every: str | int) -> Longs:
    """Return the number of each session's day, or week, since 1970."""
    if piece.session_times is None:
        raise InputError("the log has no timestamps to make windows of: give a number")
    days = np.asarray(piece.session_times // _DAY)
    return days if every == "day" else (days + _DAYS_TO_MONDAY) // 7


def _date(number: int, every: str | int) -> str:
    """Return the name of a window by its first day.

    >>> _date(0, "day"), _date(1, "week")
    ('1970-01-01', 'week of 1970-01-05')
    """
    if every == "day":
        return str(np.datetime64(number, "D"))
    return f"week of {np.datetime64(number * 7 - _DAYS_TO_MONDAY, 'D')}"


def _by_count(log: PiecedLog, size: int) -> Callable[[ClickLog], Longs]:
    """Return windows of so many sessions, by time where there is one, else in the order given.

    What is left over, if less than half a window, belongs to the last one.
    """
    extents = [(piece.sessions, piece.session_times) for piece in logs_of(log)]
    total = sum(sessions for sessions, _ in extents)
    last = max((total + size // 2) // size - 1, 0)
    times = [at for _, at in extents if at is not None]
    if len(times) < len(extents):
        if len(extents) > 1:
            raise InputError("the log has no timestamps, and does not fit the memory given")
        return lambda piece: np.minimum(np.arange(piece.sessions) // size, last)
    starts = np.sort(np.concatenate(times))[size : size * last + 1 : size]
    # sessions of one time stay together
    return lambda piece: np.searchsorted(starts, np.asarray(piece.session_times), side="right")


DEPTH = 50
"""The last position that is counted by itself; those below it are one more."""

ORDERED = 20
"""Of so many features, those that the model uses most, the order shown is compared with each."""

# a reader may click three docs of five; who clicks half of a long list is none
_GREEDY_CLICKS, _GREEDY_SHARE = 3, 0.5


@dataclass(frozen=True, eq=False)
class WindowSums:
    """Sums by unit of a window, or of a piece of one; those of pieces add up with `+`.

    Names are counts of sessions, docs and clicks; "shown" and "clicked", at positions 1, 2, ...,
    DEPTH, and below; "feature NAME", impressions in each bin of a feature, the last of them of
    missing values; "order" and "order NAME", correlations of the order shown with the model's and
    with the features used most, over sessions.

    Attributes:
        columns: which columns of the sums have a name.
        features: the features, those used most first.
        units: all columns, by unit.
    """

    columns: dict[str, slice]
    features: tuple[str, ...]
    units: UnitSums

    @classmethod
    def of(
        cls, log: ClickLog, lists: RankingDataset, scores: Floats, edges: Mapping[str, Floats]
    ) -> "WindowSums":
        """Add up a log.

        Args:
            log: the sessions.
            lists: their lists.
            scores: of the model, for each doc of the lists.
            edges: upper ends of the bins of each feature, those used most first.
        """
        units, rows = QueryUnits.of(log), log.doc_rows(lists)
        blocks: dict[str, Floats] = {}

        def add(
            name: str, query: npt.NDArray, values: npt.NDArray, cell: Any = 0, size: int = 1
        ) -> None:
            """Add up values by the unit of their query and by their cell."""
            codes = units.unit[query] * size + cell
            sums = np.bincount(codes, values, len(units.keys) * size).astype(np.float64)
            blocks[name] = sums.reshape(-1, size)

        def values_of(name: str) -> Floats:
            column = lists.features[rows, lists.feature_names.index(name)]
            return np.asarray(column, np.float64)

        shown, clicked = log.slot_statistics()
        query, depths = log.ranking_query[list_of_row(log.ranking_offsets)], log.ranking_positions
        for name, column in _of_rankings(log).items():
            add(name, log.ranking_query, column)
        add("docs", query, shown)
        add("depth", query, clicked * np.log(depths))
        add("depth_squared", query, clicked * np.log(depths) ** 2)
        position = np.minimum(depths, DEPTH + 1) - 1
        add("shown", query, shown, position, DEPTH + 1)
        add("clicked", query, clicked, position, DEPTH + 1)
        doc_query = list_of_row(log.doc_offsets)
        impressions = np.bincount(log.ranking_docs, shown, len(rows))
        for name, ends in edges.items():
            column = values_of(name)
            cell = np.where(np.isnan(column), len(ends) + 1, np.searchsorted(ends, column))
            add(f"feature {name}", doc_query, impressions, cell, len(ends) + 2)
        ordered = list(edges)[:ORDERED]
        by_features = (np.nan_to_num(values_of(name))[log.ranking_docs] for name in ordered)
        orders = _correlations(log, chain([_ranks_by(log, scores[rows])], by_features))
        for name, column in zip(["order", *(f"order {n}" for n in ordered)], orders, strict=True):
            add(name, log.ranking_query, column)
        ends_of = np.cumsum([block.shape[1] for block in blocks.values()]).tolist()
        columns = map(slice, [0, *ends_of[:-1]], ends_of)
        sums = UnitSums(units.keys, np.arange(ends_of[-1]), np.hstack(list(blocks.values())))
        return cls(dict(zip(blocks, columns, strict=True)), tuple(edges), sums)

    def __add__(self, other: "WindowSums") -> "WindowSums":
        """Return the sums of both; no query is in both."""
        return replace(self, units=self.units + other.units)

    def block(self, name: str) -> Floats:
        """Return the columns of a name (units x columns)."""
        return self.units.values[:, self.columns[name]]

    def column(self, name: str) -> Floats:
        """Return a named sum of each unit."""
        return self.block(name)[:, 0]

    def ratio(self, name: str, by: str) -> Ratio | None:
        """Return the ratio of two named sums."""
        return Ratio.of_sums(self.column(name), self.column(by))

    def feature_shares(self) -> dict[str, list[Ratio]]:
        """Return the share of impressions up to each edge of each feature; missing ones last."""
        docs, shares = self.column("docs"), {}
        for name in self.features:
            bins = self.block(f"feature {name}")
            below = np.cumsum(bins[:, :-2], axis=1)
            ratios = [Ratio.of_sums(column, docs) for column in (*below.T, bins[:, -1])]
            shares[name] = [ratio for ratio in ratios if ratio is not None]
        return shares

    def feature_orders(self) -> dict[str, Ratio]:
        """Return the mean correlation of the order shown with each of the most used features."""
        orders = {name: self.ratio(f"order {name}", "ordinary") for name in self.features[:ORDERED]}
        return {name: order for name, order in orders.items() if order is not None}


def _ordinary(log: ClickLog) -> Floats:
    """Return the sessions of each ranking of two docs and more that was not randomised."""
    sessions = np.bincount(log.session_ranking, minlength=log.rankings).astype(np.float64)
    sessions[(log.ranking_design > 0) | (np.diff(log.ranking_offsets) < 2)] = 0
    return sessions


def _of_rankings(log: ClickLog) -> dict[str, npt.NDArray]:
    """Return sums over the sessions of each ranking."""
    lengths = np.diff(log.ranking_offsets)
    filled = lengths > 0
    first, last = np.ones((2, log.rankings), np.int64)
    first[filled] = log.ranking_positions[log.ranking_offsets[:-1][filled]]
    last[filled] = log.ranking_positions[log.ranking_offsets[1:][filled] - 1]
    sessions = np.bincount(log.session_ranking, minlength=log.rankings).astype(np.float64)
    shown = lengths[log.session_ranking]
    greedy = log.session_clicks >= np.maximum(_GREEDY_CLICKS, _GREEDY_SHARE * shown)
    return {
        "sessions": sessions,
        "randomised": sessions * (log.ranking_design > 0),
        "gaps": sessions * (last - first + 1 > lengths),
        "late": sessions * (first > 1),
        "ordinary": _ordinary(log),
        "clicks": np.bincount(log.session_ranking, log.session_clicks, log.rankings),
        "greedy": np.bincount(log.session_ranking, greedy, log.rankings),
    }


def _ranks_by(log: ClickLog, scores: Floats) -> Floats:
    """Return the rank of each slot's doc by the model, ties in the order shown."""
    ranking, shown = list_of_row(log.ranking_offsets), row_in_list(log.ranking_offsets)
    best = np.lexsort((shown, -scores[log.ranking_docs], ranking))
    ranks = np.empty(len(best))
    ranks[best] = shown
    return ranks


def _correlations(log: ClickLog, columns: Iterable[Floats]) -> Iterator[Floats]:
    """Yield correlations of rank and a column within each ordinary ranking, over its sessions.

    A ranker is known by those with features, whatever its scores: another one follows other
    features. They do not depend on a feature's unit, and are 0 where it is the same for the whole
    list. That with the model's ranks is Spearman's, of both orders.

    Args:
        log: the sessions.
        columns: values of each slot.
    """
    ranking, lengths = list_of_row(log.ranking_offsets), np.diff(log.ranking_offsets)
    sessions = _ordinary(log)
    dx = row_in_list(log.ranking_offsets) - (lengths[ranking] - 1) / 2
    sxx = lengths * (lengths.astype(np.float64) ** 2 - 1) / 12
    for values in columns:
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
