"""A log cut into windows: by day, by week, or so many sessions each."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from prsrank.errors import InputError
from prsrank.fit.log import PiecedLog
from prsrank.logs.click_log import ClickLog
from prsrank.logs.pieces import LocalPieces
from prsrank.types import Longs

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
