"""A click log laid over the lists of a data set: what was shown where, and how it weighs."""

import warnings
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import GAPS_FILLED, DataWarning, InputError
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PropensityCurve
from prsrank.ragged import list_of_row, offsets_of, ragged_rows, row_in_list
from prsrank.sorting import rows_by_group
from prsrank.types import Bytes, Floats, Ints, Longs
from prsrank.weighting import Weighting, check_propensities

# Up to this many distinct propensities all pairs of them are weighed once, in one table.
MOST_LEVELS = 1024


PropensitySource = PropensityCurve | npt.ArrayLike | None


class ShownLists(NamedTuple):
    """Showings (a ranking, in one context) over lists. Kernels take it as it is.

    Attributes:
        slot_offsets: where each showing's slots begin, and the end (showings + 1).
        slot_rows: row in its list of the doc in each slot (slots).
        slot_clicked: 1 for slots with a click in any session (slots).
        list_offsets: where each list's showings begin in `by_list` (lists + 1).
        by_list: showings, grouped by list, in the order of the log.
        session_offsets: where each showing's sessions begin in `sessions` (showings + 1).
        sessions: sessions with clicks, grouped by showing, in the order of the log.
        click_offsets: where each session's clicks begin (sessions of the log + 1).
        clicks: 0-based slot of each click.
        click_weights: how much each click counts; empty where each counts 1.
    """

    slot_offsets: Longs
    slot_rows: Ints
    slot_clicked: Bytes
    list_offsets: Longs
    by_list: Longs
    session_offsets: Longs
    sessions: Longs
    click_offsets: Longs
    clicks: Ints
    click_weights: Floats


class WeightRows(NamedTuple):
    """Weights of all pairs of slots: that of slots (i, j) is table[starts[i] + columns[j]].

    Attributes:
        starts: one per slot (0 for slots never clicked, where rows are not shared).
        columns: one per slot.
        table: weights.
        clipped: 1 where a clip changed the weight.
    """

    starts: Longs
    columns: Longs
    table: Floats
    clipped: Bytes


class LogOnLists:
    """A click log, its propensities and a data set, checked against one another.

    Attributes:
        shown: what was shown and clicked.
        levels: the distinct propensities.
        codes: index into `levels` of each slot.
        propensities: propensity of each slot.
        relevance: true relevance of the doc in each slot; zeros if not needed.
        list_of_slot: list of each slot.
    """

    def __init__(
        self,
        log: ClickLog,
        dataset: RankingDataset,
        propensities: PropensitySource,
        weighting: Weighting,
        context: str | None,
    ) -> None:
        contexts = _context_values(log, context)
        rows = log.doc_rows(dataset)[log.ranking_docs]
        list_of_query, _ = log.find_docs(dataset)
        lists = np.repeat(list_of_query[log.ranking_query], np.diff(log.ranking_offsets))
        copies = len(contexts)
        self.list_of_slot = np.tile(lists, copies)
        self.levels, self.codes = _levels(log, propensities, contexts, weighting)
        self.propensities = self.levels[self.codes]
        self.relevance = (
            np.tile(dataset.relevance[rows], copies)
            if weighting.needs_labels
            else np.zeros(len(self.propensities), np.uint8)
        )
        session_showing = log.session_ranking.astype(np.int64)
        if context is not None:
            session_showing += log.contexts[context].codes * np.int64(log.rankings)
        in_list = np.tile(rows - dataset.offsets[lists], copies).astype(np.int32)
        self.shown = self._shown(log, in_list, session_showing, lists=dataset.lists, copies=copies)
        self._check_clicks(log)

    def _shown(
        self, log: ClickLog, slot_rows: Ints, session_showing: Longs, *, lists: int, copies: int
    ) -> ShownLists:
        """Return the showings: each ranking, `copies` times."""
        lengths = np.tile(np.diff(log.ranking_offsets), copies)
        slot_offsets = offsets_of(lengths)
        showing_list = np.zeros(len(lengths), np.int64)
        showing_list[lengths > 0] = self.list_of_slot[slot_offsets[:-1][lengths > 0]]
        slot_clicked = np.zeros(slot_offsets[-1], np.uint8)
        slot_clicked[np.repeat(slot_offsets[session_showing], log.session_clicks) + log.clicks] = 1
        # sessions without clicks have no pairs
        with_clicks = np.where(log.session_clicks > 0, session_showing, -1)
        starts, sessions = rows_by_group(with_clicks, len(showing_list))
        return ShownLists(
            slot_offsets=slot_offsets,
            slot_rows=slot_rows,
            slot_clicked=slot_clicked,
            list_offsets=offsets_of(np.bincount(showing_list, minlength=lists)),
            by_list=np.argsort(showing_list, kind="stable"),
            session_offsets=starts,
            sessions=sessions,
            click_offsets=log.click_offsets,
            clicks=log.clicks,
            click_weights=np.zeros(0) if log.click_weights is None else log.click_weights,
        )

    def _check_clicks(self, log: ClickLog) -> None:
        bad = (self.shown.slot_clicked > 0) & (self.propensities == 0)
        if bad.any():
            slot = int(bad.argmax()) % len(log.ranking_docs)
            doc = log.ranking_docs[slot]
            query = int(np.searchsorted(log.doc_offsets, doc, side="right")) - 1
            raise InputError(
                f"query {log.query_ids[query]}, doc {log.doc_ids[doc]}: clicked at position "
                f"{log.ranking_positions[slot]}, whose propensity is 0 {GAPS_FILLED}"
            )

    def shared_rows(self, weighting: Weighting) -> WeightRows | None:
        """Return one table for all slots, or None if there are too many distinct propensities."""
        if len(self.levels) > MOST_LEVELS:
            return None
        clicked, other, relevance = self.levels[:, None], self.levels[None, :], None
        columns = self.codes.astype(np.int64)
        if weighting.takes_relevance:  # irrelevant losers, and then relevant ones
            other, relevance = np.tile(other, 2), np.repeat([0, 1], len(self.levels))[None, :]
            columns += len(self.levels) * self.relevance.astype(np.int64)
        table, clipped = _weigh(weighting, clicked, other, relevance)
        starts = self.codes.astype(np.int64) * table.shape[1]
        return WeightRows(starts, columns, table.ravel(), clipped.ravel())

    def own_rows(self, weighting: Weighting, first: int, last: int) -> WeightRows:
        """Return a row of weights per clicked slot of the lists first to last - 1."""
        shown = self.shown
        showings = shown.by_list[shown.list_offsets[first] : shown.list_offsets[last]]
        slots, offsets = ragged_rows(shown.slot_offsets, showings)
        clicked = shown.slot_clicked[slots] > 0
        winners = slots[clicked]
        others, row_starts = ragged_rows(
            shown.slot_offsets, showings[list_of_row(offsets)][clicked]
        )
        table, clipped = _weigh(
            weighting,
            np.repeat(self.propensities[winners], np.diff(row_starts)),
            self.propensities[others],
            self.relevance[others],
        )
        starts = np.zeros(len(self.propensities), np.int64)
        starts[winners] = row_starts[:-1]
        return WeightRows(starts, row_in_list(shown.slot_offsets), table, clipped)

    def row_sizes(self, lists: int) -> Longs:
        """Return the size of each list's own rows, summed up from 0 (lists + 1)."""
        shown = self.shown
        lengths = np.diff(shown.slot_offsets)
        sizes = shown.slot_clicked * np.repeat(lengths, lengths)
        per_list = np.bincount(self.list_of_slot, weights=sizes, minlength=lists)
        return offsets_of(per_list)


def _weigh(
    weighting: Weighting,
    p_clicked: Floats,
    p_other: Floats,
    relevance: npt.NDArray | None,
) -> tuple[Floats, Bytes]:
    # rows of propensity 0 belong to docs that were not clicked and are never read
    p_clicked = np.where(p_clicked > 0, p_clicked, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # given once, for the log
        weights = np.array(weighting(p_clicked, p_other, relevance=relevance))
        clipped = weighting.clipped(p_clicked, p_other, relevance=relevance)
    if weighting.needs_propensities:
        weights *= p_other > 0
    return weights, (clipped & (weights > 0)).astype(np.uint8)


def _context_values(log: ClickLog, context: str | None) -> tuple[str | None, ...]:
    if context is None:
        return (None,)
    if context not in log.contexts:
        names = ", ".join(log.contexts) or "none"
        raise InputError(f"context {context!r} is not in the log (it has: {names})")
    return log.contexts[context].values


def _levels(
    log: ClickLog,
    source: PropensitySource,
    contexts: tuple[str | None, ...],
    weighting: Weighting,
) -> tuple[Floats, Longs]:
    """Return the distinct propensities, and the index of that of each slot."""
    slots = len(log.ranking_positions)
    if not weighting.needs_propensities:
        return np.ones(1), np.zeros(slots * len(contexts), np.int64)
    if hasattr(source, "at"):
        curve = cast(PropensityCurve, source)
        positions, position_of_slot = _positions_shown(log)
        asked: list[dict[str, Any]] = [
            {} if name is None else {"context": name} for name in contexts
        ]
        values = np.concatenate([curve.at(positions, **options) for options in asked], dtype=float)
        check_propensities(values, np.tile(positions, len(contexts)), stacklevel=6)
        levels, codes = np.unique(values, return_inverse=True)
        shifts = np.arange(len(contexts))[:, None] * len(positions)
        return levels, codes[(position_of_slot + shifts).ravel()]
    values = _given_propensities(log, source, weighting)
    check_propensities(values, log.ranking_positions, stacklevel=6)
    levels, codes = np.unique(values, return_inverse=True)
    return levels, np.tile(codes, len(contexts))


def _positions_shown(log: ClickLog) -> tuple[Longs, Longs]:
    """Return the positions at which any doc was shown, and the index of each slot's."""
    shown = np.zeros(log.max_position + 1, bool)
    shown[log.ranking_positions] = True
    return np.flatnonzero(shown), (np.cumsum(shown) - 1)[log.ranking_positions]


def _given_propensities(log: ClickLog, source: PropensitySource, weighting: Weighting) -> Floats:
    slots = len(log.ranking_positions)
    if source is None:
        if log.ranking_propensities is None:
            raise InputError(f"weighting {weighting.name} needs propensities; the log has none")
        return log.ranking_propensities
    values = np.asarray(source, np.float64)
    if values.shape != (slots,):
        raise InputError(f"propensities of shape {values.shape} for {slots} shown docs")
    return values
