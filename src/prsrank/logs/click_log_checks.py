"""What a click log must be to be used: parts that fit together, contents that can teach."""

import warnings

import numpy as np

from prsrank.errors import DataWarning, InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.distinct import first_repeated_doc
from prsrank.logs.row_rules import MAX_POSITION
from prsrank.types import Floats, Longs


def check_contents(log: ClickLog) -> None:
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


def _check_propensities(log: ClickLog, propensities: Floats, clicked: Longs) -> None:
    for bad, problem in (
        (~(propensities >= 0) | np.isinf(propensities), "is not a number from 0 to 1"),
        ((propensities == 0) & (clicked > 0), "but the doc was clicked"),
    ):
        if bad.any():
            slot = int(bad.argmax())
            raise InputError(f"propensity {propensities[slot]} at {log.name_slot(slot)} {problem}")
    if (propensities > 1).any():
        slot = int(propensities.argmax())
        _warn(f"propensity {propensities[slot]} at {log.name_slot(slot)} is above 1")


def warn_of_weights(log: ClickLog, what: str) -> None:
    """Warn that `what` counts every click alike, if the log weighs its clicks."""
    if log.click_weights is not None:
        _warn(f"{what} counts every click alike: the weights of the log's clicks are left aside")


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=4)


def check_fit(log: ClickLog) -> None:
    """Raise an InputError if the parts of a log do not fit together."""
    _check_clicks(log)
    _check_rankings(log)


def _check_clicks(log: ClickLog) -> None:
    if log.session_clicks.min(initial=0) < 0:
        raise InputError("a session has a negative number of clicks")
    if log.click_weights is not None:
        bad = ~((log.click_weights > 0) & np.isfinite(log.click_weights))
        if bad.any():
            raise InputError(
                f"click {bad.argmax()} has weight {log.click_weights[bad.argmax()]}, not a number "
                "above 0"
            )
    bad = (log.session_ranking < 0) | (log.session_ranking >= log.rankings)
    if bad.any():
        raise InputError(
            f"session {bad.argmax()} names ranking {log.session_ranking[bad.argmax()]}, "
            f"but there are {log.rankings}"
        )
    session = np.repeat(np.arange(log.sessions), log.session_clicks)
    length = np.diff(log.ranking_offsets)[log.session_ranking[session]]
    bad = (log.clicks < 0) | (log.clicks >= length)
    if bad.any():
        click = int(bad.argmax())
        raise InputError(
            f"session {session[click]} clicks a doc not shown: index {log.clicks[click]} "
            f"of a ranking of {length[click]}"
        )
    falls = (session[1:] == session[:-1]) & (log.clicks[1:] <= log.clicks[:-1])
    if falls.any():
        raise InputError(f"the clicks of session {session[int(falls.argmax())]} do not rise")


def _check_rankings(log: ClickLog) -> None:
    ranking = np.repeat(np.arange(log.rankings), np.diff(log.ranking_offsets))
    falls = (ranking[1:] == ranking[:-1]) & (np.diff(log.ranking_positions) <= 0)
    if falls.any():
        raise InputError(f"the positions of ranking {ranking[int(falls.argmax())]} do not rise")
    if log.ranking_positions.min(initial=1) < 1:
        slot = int(log.ranking_positions.argmin())
        raise InputError(f"{log.name_slot(slot)}, but positions start at 1")
    if log.max_position > MAX_POSITION:
        slot = int(log.ranking_positions.argmax())
        raise InputError(f"{log.name_slot(slot)}, which is above {MAX_POSITION:,}")
    slot = first_repeated_doc(log.ranking_offsets, log.ranking_docs.astype(np.int64))
    if slot >= 0:
        raise InputError(f"a ranking shows the doc at {log.name_slot(slot)} twice")
