"""What fetched events must be before a kernel indexes with them.

The row rules run inside the engine, which may answer them from what a file says of itself: the
statistics of a Parquet column, which need not be true. These look at the values themselves.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.logs.row_rules import MAX_POSITION
from prsrank.types import Marks

if TYPE_CHECKING:
    from prsrank.logs.click_log import ClickLog

_WHY = "which the file's own statistics deny: it is damaged"


def check_fetched(events: Mapping[str, npt.NDArray]) -> None:
    """Raise an InputError for events that the row rules would have refused.

    Args:
        events: columns as they were fetched; a masked array where values are missing.

    >>> check_fetched({"position": np.array([1, 2_000_000], np.int32)})
    Traceback (most recent call last):
    prsrank.errors.InputError: position 2000000 in row 2 of those read, which the file's own statistics deny: it is damaged
    """
    for name, values in events.items():
        if np.ma.is_masked(values):
            row = int(np.ma.getmaskarray(values).argmax())
            raise InputError(f"{name} is missing (null) in row {row + 1} of those read, {_WHY}")
    positions = np.asarray(events["position"])
    # two passes without a temporary array, which comparisons would make
    if positions.min(initial=1) < 1 or positions.max(initial=1) > MAX_POSITION:
        _refuse("position", positions, (positions < 1) | (positions > MAX_POSITION))
    if "propensity" in events:
        values = np.asarray(events["propensity"])
        _refuse("propensity", values, ~(values >= 0) | np.isinf(values))
    if "weight" in events:
        values, clicked = np.asarray(events["weight"]), np.asarray(events["click"], bool)
        _refuse("weight", values, clicked & ~((values > 0) & np.isfinite(values)))


def check_indices(log: "ClickLog") -> None:
    """Raise an InputError for a log whose docs or positions would lead a kernel out of bounds."""
    positions, docs = log.ranking_positions, log.ranking_docs
    if positions.min(initial=1) < 1:
        raise InputError(f"the log has a position of {positions.min()}: positions start at 1")
    if docs.min(initial=0) < 0 or docs.max(initial=-1) >= log.doc_offsets[-1]:
        raise InputError("a ranking of the log shows a doc that its table of docs does not have")


def _refuse(name: str, values: npt.NDArray, bad: Marks) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise InputError(f"{name} {values[row]} in row {row + 1} of those read, {_WHY}")
