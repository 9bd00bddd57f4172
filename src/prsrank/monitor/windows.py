"""A log cut into windows: by day, by week, or so many sessions each."""

from collections.abc import Callable, Iterator

import numpy as np

from prsrank.errors import InputError
from prsrank.fit.local import LocalLog
from prsrank.logs.click_log import ClickLog
from prsrank.types import Longs

_DAY = 24 * 3600 * 10**6
# 1970 began on a Thursday: weeks begin on the Monday before
_DAYS_TO_MONDAY = 3

Codes = Callable[[ClickLog], Longs]


def check_every(every: str | int | None) -> None:
    """Raise an InputError for a length of windows that means nothing."""
    if every in (None, "day", "week"):
        return
    if not str(every).isdecimal() or int(every or 0) < 1:
        raise InputError(f"windows are a 'day', a 'week' or a number of sessions, not '{every}'")


def cut(log: LocalLog, every: str | int | None, name: str) -> Iterator[tuple[str, LocalLog]]:
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
        yield _whole(log, name), log
        return
    by_time = every in ("day", "week")
    codes = _by_day(7 if every == "week" else 1) if by_time else _by_count(log, int(every))
    known = np.unique(np.concatenate([codes(piece) for piece in log.pieces]))
    for code in known.tolist():
        title = _date(code, every) if by_time else f"{name} {code + 1}"
        yield title, _window(log, codes, code)


def time_span(log: LocalLog) -> tuple[str, str]:
    """Return the times of the first and the last session as text; empty where there are none."""
    ends = [
        (int(piece.session_times.min()), int(piece.session_times.max()))
        for piece in log.pieces
        if piece.session_times is not None and piece.sessions
    ]
    if not ends:
        return "", ""
    first, last = min(low for low, _ in ends), max(high for _, high in ends)
    return _text(first), _text(last)


def _text(microseconds: int) -> str:
    return str(np.datetime64(microseconds // 10**6, "s")).replace("T", " ")


def _whole(log: LocalLog, name: str) -> str:
    """Return the days of a log that is one window, else its name."""
    first, last = (end[:10] for end in time_span(log))
    return f"{first} to {last}" if first != last else first or name


def _window(log: LocalLog, codes: Codes, code: int) -> LocalLog:
    return log.where(lambda piece: codes(piece) == code)


def _date(code: int, every: str | int) -> str:
    """Return the name of a window by its first day.

    >>> _date(0, "day"), _date(1, "week")
    ('1970-01-01', 'week of 1970-01-05')
    """
    if every == "day":
        return str(np.datetime64(code, "D"))
    return f"week of {np.datetime64(code * 7 - _DAYS_TO_MONDAY, 'D')}"


def _by_day(days: int) -> Codes:
    shift = _DAYS_TO_MONDAY if days == 7 else 0

    def codes(piece: ClickLog) -> Longs:
        if piece.session_times is None:
            raise InputError("the log has no timestamps to make windows of: give a number")
        return np.asarray((piece.session_times // _DAY + shift) // days)

    return codes


def _by_count(log: LocalLog, size: int) -> Codes:
    """Return windows of so many sessions, by time where there is one, else in the order given.

    What is left over, if less than half a window, belongs to the last one.
    """
    extents = [(piece.sessions, piece.session_times) for piece in log.pieces]
    total = sum(sessions for sessions, _ in extents)
    last = max((total + size // 2) // size - 1, 0)
    times = [known for _, known in extents if known is not None]
    if len(times) < len(extents):
        if len(extents) > 1:
            raise InputError("the log has no timestamps, and does not fit the memory given")
        return lambda piece: np.minimum(np.arange(piece.sessions) // size, last)
    starts = np.sort(np.concatenate(times))[size : size * last + 1 : size]

    def codes(piece: ClickLog) -> Longs:
        # sessions of one time stay together
        return np.asarray(np.searchsorted(starts, np.asarray(piece.session_times), side="right"))

    return codes
