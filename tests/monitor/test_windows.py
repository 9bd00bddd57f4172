"""Windows of a log."""

from dataclasses import replace

import numpy as np
import pytest

from prsrank import InputError, PositionBasedModel, simulate_clicks, synthetic_dataset
from prsrank.fit.log import PiecedLog
from prsrank.monitor.windows import cut, time_span

DAY = 86_400 * 10**6


def made(sessions, times=None, *, pieces=1):
    lists = synthetic_dataset("personal", 20, seed=1)
    users = PositionBasedModel(eta=1)
    log = simulate_clicks(lists, lists.features[:, 10], users, sessions=sessions)
    log = replace(log, session_times=times)
    if pieces == 1:
        return PiecedLog.of([log], lists)
    half = np.isin(log.ranking_query[log.session_ranking], np.arange(8))
    return PiecedLog.of([log.select(half), log.select(~half)], lists)


def windows(log, every):
    return {name: part.extent().sessions for name, part in cut(log, every, "log")}


@pytest.mark.parametrize("pieces", [1, 2])
def test_days_and_weeks_are_those_of_the_calendar(pieces):
    start = np.datetime64("2026-01-03T22:00", "us").astype(np.int64)  # a Saturday
    times = start + np.arange(40) * 3600 * 10**6
    log = made(40, times, pieces=pieces)
    assert windows(log, "day") == {"2026-01-03": 2, "2026-01-04": 24, "2026-01-05": 14}
    assert windows(log, "week") == {"week of 2025-12-29": 26, "week of 2026-01-05": 14}
    assert windows(log, None) == {"2026-01-03 to 2026-01-05": 40}
    assert time_span(log)[0] == "2026-01-03 22:00:00"


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_number_of_sessions_goes_by_time(pieces):
    rng = np.random.default_rng(1)
    times = rng.permutation(90) * DAY
    log = made(90, times, pieces=pieces)
    assert windows(log, 40) == {"log 1": 40, "log 2": 50}  # ten are too few for a window
    assert windows(log, "30") == {"log 1": 30, "log 2": 30, "log 3": 30}
    first = next(cut(log, 30, "log"))[1]
    assert max(piece.session_times.max() for piece in first.pieces) == 29 * DAY


def test_sessions_without_times_go_in_their_order():
    log = made(49)
    assert windows(log, 20) == {"log 1": 20, "log 2": 29}
    assert windows(log, 1000) == {"log 1": 49}
    assert windows(log, None) == {"log": 49}


@pytest.mark.parametrize("every", ["month", "0", "-3", "1.5", ""])
def test_other_lengths_are_refused(every):
    with pytest.raises(InputError, match="'day', a 'week' or a number of sessions"):
        windows(made(5), every)


def test_days_need_times():
    with pytest.raises(InputError, match="no timestamps"):
        windows(made(5), "day")
    with pytest.raises(InputError, match="no timestamps"):
        windows(made(50, pieces=2), 10)
