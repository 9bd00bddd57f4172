"""What the arrays of a log must be: values that can be used, parts that fit, clicks that can teach.

The row rules (`prsrank.logs.row_rules`) run inside the engine, which may answer them from what a
file says of itself: the statistics of a Parquet column, which need not be true. These look at the
values themselves, before a kernel indexes with them.
"""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prsrank.errors import DataWarning, InputError
from prsrank.logs.distinct import first_repeated_doc
from prsrank.logs.row_rules import DENIED, MAX_POSITION
from prsrank.ragged import list_of_row
from prsrank.types import Floats, Longs, Marks
from prsrank.weighting import bad_propensities

if TYPE_CHECKING:
    from prsrank.logs.click_log import ClickLog


def bad_weights(values: npt.NDArray) -> Marks:
    """Mark the weights of clicks that cannot be used."""
    return np.asarray(~((values > 0) & np.isfinite(values)))


def check_fetched(events: Mapping[str, npt.NDArray]) -> None:
    """Raise an InputError for events that the row rules would have refused.

    Args:
        events: columns as they were fetched; a masked array where values are missing.

    >>> check_fetched({"position": np.array([1, 2_000_000], np.int32)})
    Traceback (most recent call last):
    prsrank.errors.InputError: position 2000000 in row 2 of those read, which the file's own statistics deny: it is damaged
    """
    for name, values in events.items():
        missing = np.ma.getmaskarray(values) if np.ma.is_masked(values) else np.zeros(0, bool)
        _refuse(f"{name} is missing (null)", missing)
    positions = np.asarray(events["position"])
    # two passes without a temporary array, which comparisons would make
    if positions.min(initial=1) < 1 or positions.max(initial=1) > MAX_POSITION:
        _refuse("position {}", (positions < 1) | (positions > MAX_POSITION), positions)
    if "propensity" in events:
        values = np.asarray(events["propensity"])
        _refuse("propensity {}", bad_propensities(values), values)
    if "weight" in events:
        values, clicked = np.asarray(events["weight"]), np.asarray(events["click"], bool)
        _refuse("weight {}", clicked & bad_weights(values), values)


def _refuse(problem: str, bad: Marks, values: npt.NDArray | None = None) -> None:
    for row in _first(bad):
        problem = problem if values is None else problem.format(values[row])
        raise InputError(f"{problem} in row {row + 1} of those read, {DENIED}")


def check_indices(log: "ClickLog") -> None:
    """Raise an InputError for a log whose docs or positions would lead a kernel out of bounds."""
    positions, docs = log.ranking_positions, log.ranking_docs
    if positions.min(initial=1) < 1:
        raise InputError(f"the log has a position of {positions.min()}: positions start at 1")
    if docs.min(initial=0) < 0 or docs.max(initial=-1) >= log.doc_offsets[-1]:
        raise InputError("a ranking of the log shows a doc that its table of docs does not have")


def check_contents(log: "ClickLog") -> None:
    """Refuse or warn of a log from which nothing can be learnt.

    Raises:
        InputError: if there are no sessions, no non-clicks, a design has no known name, a
            propensity is negative or NaN, or a doc was clicked where its propensity is 0.
    """
    if log.sessions == 0:
        raise InputError("the log is empty: it has no sessions")
    shown, clicked = log.slot_statistics()
    if np.array_equal(shown, clicked):
        raise InputError(
            f"every one of the {shown.sum()} rows is a click: the docs that were shown and "
            "not clicked must be kept in the log"
        )
    for design in log.designs:
        check_design(design)
    if not len(log.clicks):
        _warn(f"the log has no clicks in {log.sessions} sessions")
    if log.ranking_positions.min() == log.max_position:
        _warn(f"the log shows docs at one position only ({log.max_position})")
    if log.ranking_propensities is not None:
        _check_propensities(log, log.ranking_propensities, clicked)


def check_design(design: str) -> None:
    """Raise an InputError if a design is none of those that `ClickLog.designs` names."""
    kind, *numbers = design.split(":")
    sizes = {"": 0, "uniform": 0, "top-k": 1, "swap": 2}
    whole = all(n.isdecimal() and n.isascii() and int(n) >= 1 for n in numbers)
    if sizes.get(kind) != len(numbers) or not whole:
        raise InputError(
            f"randomised is {design!r}, but a design is 'uniform', 'top-k:K', 'swap:A:B' or ''"
        )


def _check_propensities(log: "ClickLog", propensities: Floats, clicked: Longs) -> None:
    for bad, problem in (
        (bad_propensities(propensities), "is not a number from 0 to 1"),
        ((propensities == 0) & (clicked > 0), "but the doc was clicked"),
    ):
        for slot in _first(bad):
            raise InputError(f"propensity {propensities[slot]} at {log.name_slot(slot)} {problem}")
    if (propensities > 1).any():
        slot = int(propensities.argmax())
        _warn(f"propensity {propensities[slot]} at {log.name_slot(slot)} is above 1")


def warn_of_weights(log: "ClickLog", subject: str) -> None:
    """Warn that `subject` counts every click alike, if the log weighs its clicks."""
    if log.click_weights is not None:
        _warn(f"{subject} counts every click alike: the weights of the log's clicks are left aside")


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=4)


def check_fit(log: "ClickLog") -> None:
    """Raise an InputError if the parts of a log do not fit together."""
    if log.session_clicks.min(initial=0) < 0:
        raise InputError("a session has a negative number of clicks")
    ranking, clicks, positions = log.session_ranking, log.clicks, log.ranking_positions
    if log.click_weights is not None:
        for i in _first(bad_weights(log.click_weights)):
            raise InputError(f"click {i} has weight {log.click_weights[i]}, not a number above 0")
    for i in _first((ranking < 0) | (ranking >= log.rankings)):
        words = f"session {i} names ranking {ranking[i]}"
        raise InputError(f"{words}, but there are {log.rankings}")
    session = np.repeat(np.arange(log.sessions), log.session_clicks)
    length = np.diff(log.ranking_offsets)[ranking[session]]
    for i in _first((clicks < 0) | (clicks >= length)):
        words = f"session {session[i]} clicks a doc not shown"
        raise InputError(f"{words}: index {clicks[i]} of a ranking of {length[i]}")
    _check_rising(clicks, session, "clicks of session")
    _check_rising(positions, list_of_row(log.ranking_offsets), "positions of ranking")
    for i in _first(positions < 1):
        raise InputError(f"{log.name_slot(i)}, but positions start at 1")
    for i in _first(positions > MAX_POSITION):
        raise InputError(f"{log.name_slot(i)}, which is above {MAX_POSITION:,}")


def check_docs(log: "ClickLog") -> None:
    """Raise an InputError if a session shows a doc twice."""
    slot = first_repeated_doc(log.ranking_offsets, log.ranking_docs)
    if slot < 0:
        return
    ranking = int(np.searchsorted(log.ranking_offsets, slot, side="right")) - 1
    session = int(np.argmax(log.session_ranking == ranking))
    session_id = session if log.session_ids is None else log.session_ids[session]
    raise InputError(
        f"doc {log.doc_ids[log.ranking_docs[slot]]} twice in session {session_id} of query "
        f"{log.query_ids[log.ranking_query[ranking]]}; duplicates = 'first' keeps the first of each"
    )


def _first(bad: Marks) -> list[int]:
    """Return the index of the first entry that is bad, if there is one."""
    return [int(bad.argmax())] if bad.any() else []


def _check_rising(values: npt.NDArray, owner: Longs, subject: str) -> None:
    for i in _first((owner[1:] == owner[:-1]) & (values[1:] <= values[:-1])):
        raise InputError(f"the {subject} {owner[i]} do not rise")
