"""A click log with propensities as counts over the docs of a data set: all that relevance needs."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from prsrank.clicks.likelihood import ClickEvidence, ClickLikelihood, PositionClicks
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.cells import Cells
from prsrank.propensity.cells_on_lists import count_on_lists, merge_cells, shift_positions
from prsrank.propensity.curve import PropensityCurve
from prsrank.types import Floats, Longs
from prsrank.weighting import check_propensities


@dataclass(frozen=True, eq=False)
class CountedClicks:
    """Counts per (doc, position, context), and the propensity of each.

    Attributes:
        cells: the counts; a cell's "position" is its key, (variant) x depth + position, where
            a variant is a context value or a logged propensity.
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
        if not hasattr(propensities, "at"):
            return cls._of_slots(log, dataset, propensities)
        curve = cast(PropensityCurve, propensities)
        depth = max(log.max_position, 1)
        if context is None:
            cells = count_on_lists(log, dataset)
            return cls._on_table(cells, depth, [_on_curve(curve, log, None)])
        if context not in log.contexts:
            known = ", ".join(log.contexts) or "none"
            raise InputError(f"context {context!r} is not in the log (it has: {known})")
        column = log.contexts[context]
        used = np.unique(column.codes).tolist()
        cells = merge_cells(
            [
                shift_positions(
                    count_on_lists(log.select(column.codes == code), dataset), i * depth
                )
                for i, code in enumerate(used)
            ]
        )
        table = [_on_curve(curve, log, column.values[code]) for code in used]
        return cls._on_table(cells, depth, table)

    @classmethod
    def _of_slots(
        cls, log: ClickLog, dataset: RankingDataset, propensities: npt.ArrayLike | None
    ) -> "CountedClicks":
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
        cells = count_on_lists(log, dataset, keys=code * depth + log.ranking_positions)
        return cls._on_table(cells, depth, [np.full(depth, level) for level in levels])

    @classmethod
    def _on_table(cls, cells: Cells, depth: int, table: list[Floats]) -> "CountedClicks":
        variant, position = np.divmod(cells.positions - 1, depth)
        propensity = np.asarray(table).reshape(len(table), depth)[variant, position]
        return cls(cells, position + 1, propensity)

    def evidence(
        self, model: ClickLikelihood | None = None, *, power: float = 1.0
    ) -> ClickEvidence:
        """Return the clicks as evidence about each doc, with propensities p^power."""
        affine = (model or PositionClicks()).affine(self.positions, self.propensity**power)
        cells = self.cells
        return ClickEvidence.of(
            cells.offsets,
            shown=cells.shown,
            clicked=cells.clicked,
            gain=affine.gain,
            floor=affine.floor,
        )


def _on_curve(curve: PropensityCurve, log: ClickLog, context: str | None) -> Floats:
    """Return the propensity of positions 1 to the last; 0 where nothing was shown."""
    shown = np.unique(log.ranking_positions)
    values = curve.at(shown) if context is None else curve.at(shown, context=context)
    out = np.zeros(max(log.max_position, 1))
    out[shown - 1] = check_propensities(values)
    return out
