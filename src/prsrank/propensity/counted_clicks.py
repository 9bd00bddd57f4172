"""A click log with propensities as counts over the docs of a data set: all that relevance needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from prsrank.clicks.evidence import ClickEvidence
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.cells import Cells
from prsrank.propensity.cells_on_lists import cells_of, count_columns
from prsrank.propensity.curve import PropensityCurve
from prsrank.types import ClickModel, Floats, Longs
from prsrank.weighting import check_propensities

Columns = tuple[Longs, Longs, Floats, Floats, Floats]
"""The doc of each cell, its position, propensity, impressions and clicks."""


@dataclass(frozen=True, eq=False)
class CountedClicks:
    """Counts per (doc, position, propensity).

    Attributes:
        cells: the counts; where contexts, or sessions, have propensities of their own, cells of
            one doc may have one position.
        positions: the position of each cell.
        propensity: p of each cell.
    """

    cells: Cells
    positions: Longs
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
        return cls(cells_of(dataset, every, positions, shown, clicked), positions, propensity)

    def evidence(self, model: ClickModel | None = None, *, power: float = 1.0) -> ClickEvidence:
        """Return the clicks as evidence about each doc, with propensities p^power."""
        affine = (model or PositionBasedModel()).affine(self.positions, self.propensity**power)
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
        known = ", ".join(log.contexts) or "none"
        raise InputError(f"context {context!r} is not in the log (it has: {known})")
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
    known, index = np.unique(positions, return_inverse=True)
    values = curve.at(known) if context is None else curve.at(known, context=context)
    return np.asarray(check_propensities(values)[index])
