"""The statistics of a window: the same, in however many pieces its log lies."""

from dataclasses import replace

import numpy as np
import pytest

from prsrank import InputError, load_dataset
from prsrank.fit.log import PiecedLog
from prsrank.logs.features import known_lists
from prsrank.monitor.monitoring import _plan_of, _watched
from prsrank.monitor.summary import summarise


@pytest.fixture(scope="module")
def lists():
    return load_dataset("synthetic:personal:200")


@pytest.fixture(scope="module")
def watched(run, lists):
    edges = {name: np.array([0.5, 2.0]) for name in lists.feature_names[10:14]}
    return replace(_watched(run, _plan_of(run)), edges=edges)


def test_pieces_give_what_the_whole_gives(watched, sessions, lists):
    log = sessions(900, 31)
    half = log.ranking_query[log.session_ranking] % 2 == 0
    cut = [log.select(half), log.select(~half)]
    whole, parts = (
        summarise(PiecedLog.of(logs, known_lists(log, lists)), watched, "w")
        for logs in ([log], cut)
    )
    assert parts.ratios.keys() == whole.ratios.keys()
    for name, one in whole.ratios.items():
        assert parts.ratios[name].value == pytest.approx(one.value), name
        assert parts.ratios[name].error == pytest.approx(one.error), name
    assert parts.gain.difference == pytest.approx(whole.gain.difference)
    assert parts.power == whole.power
    assert parts.curve.propensity == pytest.approx(whole.curve.propensity)
    assert (parts.shown, parts.clicked) == (whole.shown, whole.clicked)
    assert parts.effective_clicks == pytest.approx(whole.effective_clicks)


def test_the_curve_is_by_the_method_that_is_named(watched, sessions, lists):
    log = sessions(900, 32)
    found = summarise(
        PiecedLog.of([log], known_lists(log, lists)),
        replace(watched, method="harvest"),
        "w",
    )
    assert found.curve.method == "harvest"


def test_a_window_without_sessions_is_refused(watched, lists):
    with pytest.raises(InputError, match="has no sessions"):
        summarise(PiecedLog.of([], lists), watched, "w")
