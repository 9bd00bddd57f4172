"""A click log with propensities as counts over the docs of a data set: all that relevance needs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from prsrank.clicks.evidence import ClickEvidence
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.data.dataset import RankingDataset, concatenate
from prsrank.data.ids import texts_of
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.features import lists_of_queries
from prsrank.propensity.cells import Cells, count_columns, keys_of_docs
from prsrank.propensity.cells import Columns as CellColumns
from prsrank.propensity.curve import Propensities, PropensityCurve
from prsrank.ragged import offsets_of
from prsrank.relevance.prior import sampled_queries
from prsrank.types import ClickModel, Floats, Longs
from prsrank.weighting import check_propensities

DOCS_FOR_JUDGING = 30_000
"""So many docs judge a curve to a few hundredths."""

Columns = tuple[Longs, Longs, Floats, Floats, Floats]
"""The doc of each cell, its position, propensity, impressions and clicks."""


@dataclass(frozen=True, eq=False)
class CountedClicks:
    """Counts per (doc, position, propensity).

    Attributes:
        cells: the counts; where contexts, or sessions, have propensities of their own, cells of
            one doc may have one position.
        propensity: p of each cell.
    """

    cells: Cells
    propensity: Floats

    @classmethod
    def of_log(
        cls,
        log: ClickLog,
        dataset: RankingDataset,
        propensities: PropensityCurve | npt.ArrayLike | None = None,
        *,
        context: str | None = None,
    ) -> "CountedClicks":
        """Count a log.

        Args:
            log: the clicks; its queries and docs must be in the data set.
            dataset: the lists.
            propensities: a curve, one value per slot of the log, or None for the log's own.
            context: a context column of the log, whose value the curve is asked with.
        """
        return cls.of_columns(dataset, [count_clicks(log, dataset, propensities, context=context)])

    @classmethod
    def of_columns(cls, dataset: RankingDataset, parts: list[Columns]) -> "CountedClicks":
        """Put counts together: of contexts, or of pieces of a log without a common query.

        Args:
            dataset: the lists.
            parts: the columns; they are taken out of the list one by one, as all of them twice
                would be most of what a large log takes.
        """
        docs, *columns = ([*column] for column in zip(*parts, strict=True))
        parts.clear()
        every = np.concatenate(docs)
        # stable: the cells of a doc stay in the order in which one log would have them
        order = np.argsort(every, kind="stable")
        positions, propensity, shown, clicked = (
            np.concatenate(columns.pop(0))[order] for _ in range(4)
        )
        offsets, depth = (
            offsets_of(np.bincount(every, minlength=dataset.docs)),
            positions.max(initial=1),
        )
        cells = Cells(offsets, shown, clicked, positions, *keys_of_docs(dataset), int(depth))
        return cls(cells, propensity)

    def evidence(self, model: ClickModel | None = None, *, power: float = 1.0) -> ClickEvidence:
        """Return the clicks as evidence about each doc, with propensities p^power."""
        affine = (model or PositionBasedModel()).affine(
            self.cells.positions, self.propensity**power
        )
        cells = self.cells
        return ClickEvidence.of(
            cells.offsets,
            shown=cells.shown,
            clicked=cells.clicked,
            gain=affine.gain,
            floor=affine.floor,
        )


def count_clicks(
    log: ClickLog,
    dataset: RankingDataset,
    propensities: PropensityCurve | npt.ArrayLike | None = None,
    *,
    context: str | None = None,
) -> Columns:
    """Return the columns of a log's cells; arguments as those of `CountedClicks.of_log`."""
    if not hasattr(propensities, "at"):
        return _with_propensities(log, dataset, propensities)
    curve = cast(PropensityCurve, propensities)
    parts = [
        (docs, positions, curve_at(curve, positions, value), *counts)
        for value, sessions in _contexts(log, context)
        for docs, positions, *counts in [count_columns(sessions, dataset)]
    ]
    return cast(Columns, tuple(np.concatenate(column) for column in zip(*parts, strict=True)))


def _contexts(log: ClickLog, context: str | None) -> Iterator[tuple[str | None, ClickLog]]:
    """Yield the values of a context with their sessions; None with all where none is asked for."""
    if context is None:
        yield None, log
        return
    if context not in log.contexts:
        names = ", ".join(log.contexts) or "none"
        raise InputError(f"context {context!r} is not in the log (it has: {names})")
    column = log.contexts[context]
    for code in np.unique(column.codes).tolist():
        yield column.values[code], log.select(column.codes == code)


def _with_propensities(
    log: ClickLog, dataset: RankingDataset, propensities: npt.ArrayLike | None
) -> Columns:
    values = log.ranking_propensities if propensities is None else propensities
    if values is None:
        raise InputError("relevance from clicks needs propensities; the log has none")
    given = check_propensities(values)
    if given.shape != log.ranking_positions.shape:
        raise InputError(
            f"propensities of shape {given.shape} for {len(log.ranking_positions)} shown docs"
        )
    levels, code = np.unique(given, return_inverse=True)
    depth = max(log.max_position, 1)
    docs, keys, shown, clicked = count_columns(log, dataset, code * depth + log.ranking_positions)
    level, position = np.divmod(keys - 1, depth)
    return docs, position + 1, levels[level], shown, clicked


def curve_at(curve: PropensityCurve, positions: Longs, context: str | None = None) -> Floats:
    """Return the propensity of each of many positions, of which few are distinct."""
    places, index = np.unique(positions, return_inverse=True)
    values = curve.at(places) if context is None else curve.at(places, context=context)
    return np.asarray(check_propensities(values)[index])


@dataclass(frozen=True, eq=False)
class SampledClicks:
    """Lists and counts of pieces of a log without a common query; those of pieces add up.

    Attributes:
        parts: lists, and the counts on their docs, of each piece.
    """

    parts: tuple[tuple[RankingDataset, CellColumns], ...]

    @classmethod
    def of(cls, log: ClickLog, lists: RankingDataset, share: float) -> "SampledClicks":
        """Count a share of the queries of a log, or of a piece of it."""
        chosen = sampled_queries(log.query_ids, share)
        if not chosen.any():
            return cls(())
        part = log.select(chosen[log.ranking_query][log.session_ranking])
        some = lists_of_queries(part.query_ids, lists)
        return cls(((some, count_columns(part, some)),))

    def __add__(self, other: "SampledClicks") -> "SampledClicks":
        """Return those of both."""
        return SampledClicks(self.parts + other.parts)

    def on_curve(self, curve: Propensities) -> tuple[RankingDataset, CountedClicks]:
        """Return all lists in the order of their ids, docs too, and their counts with a curve.

        The order is that of the ids because sums of floats depend on it: pieces come in any.
        Counts at positions that the curve does not know are left out.
        """
        lists = concatenate([replace(part, doc_ids=part.doc_names) for part, _ in self.parts])
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
        place_of_doc = np.argsort(by_doc)
        starts = offsets_of([part.docs for part, _ in self.parts])
        columns: list[Columns] = []
        for start, (_, (docs, at, shown, clicked)) in zip(starts, self.parts, strict=False):
            there = np.isin(at, np.flatnonzero(curve.propensity > 0) + 1)
            places, counts = place_of_doc[start + docs[there]], (shown[there], clicked[there])
            columns.append((places, at[there], curve.at(at[there]), *counts))
        return ordered, CountedClicks.of_columns(ordered, columns)
