"""The verdict by counts agrees with what the estimators say of the same log."""

import numpy as np
import pytest

from prsrank.logs.events import from_frame
from prsrank.propensity.estimators import ESTIMATORS
from prsrank.propensity.identification import linked_positions


def uniform(rng):
    return "uniform" if rng.random() < 0.3 else ""


def top_four(rng):
    return "top-k:4" if rng.random() < 0.3 else ""


def pivot(rng):
    return f"swap:1:{rng.integers(2, 9)}"


def distant(rng):
    return "swap:5:6"


def no_first_clicks(events):
    return np.where(events["position"] == 1, 0, events["click"])


LOGS = {
    "two rankers": {"rankers": 2},
    "one ranker": {"rankers": 1},
    "shuffled": {"rankers": 1, "design": uniform},
    "top four": {"rankers": 1, "design": top_four},
    "pivot swaps": {"rankers": 1, "design": pivot},
    "swaps not linked to 1": {"rankers": 1, "design": distant},
    "few sessions": {"rankers": 2, "sessions": 20},
    "two queries": {"rankers": 2, "queries": 2},
    "long lists": {"rankers": 2, "sessions": 400, "length": 60},
    "few shuffled": {"rankers": 1, "sessions": 40, "design": uniform},
}


@pytest.mark.filterwarnings("ignore::prsrank.errors.DataWarning")
@pytest.mark.parametrize("first_clicks", [True, False])
@pytest.mark.parametrize("name", LOGS)
def test_agrees_with_the_estimators(name, first_clicks, simulate, audited):
    events = simulate(**{"sessions": 1500, **LOGS[name]})
    if not first_clicks:
        events["click"] = no_first_clicks(events)
    found = audited(events)
    log = from_frame(events)
    assert [one.method for one in found.estimators] == [
        n for n in ESTIMATORS if n not in ("known", "likelihood")
    ]
    for one in found.estimators:
        curve = ESTIMATORS[one.method].estimate(log)
        assert one.status == curve.verdict.split(":")[0]
        if one.status == "weak" and name != "long lists":  # not all links there are looked at
            assert curve.verdict == f"weak: {one.reason}"
        if one.status != "not identified" and name != "long lists":
            unknown = [k + 1 for k in range(curve.positions) if np.isnan(curve.propensity[k])]
            assert _unlinked(one) == unknown


def _unlinked(one):
    """Return the positions that a reason calls unlinked."""
    for part in one.reason.split("; "):
        where, _, why = part.partition(": ")
        if "position 1" in why:
            return _numbers(where.removeprefix("positions "))
    return []


def _numbers(text):
    numbers = []
    for part in text.split(", "):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def test_plenty_of_clicks_are_identified(simulate, audited):
    status = {
        one.method: one.status
        for one in audited(simulate(sessions=6000, design=uniform)).estimators
    }
    assert status["randomised"] == status["harvest"] == status["regression-em"] == "identified"
    assert status["swap"] == "not identified"


def test_best_estimator(simulate, audited):
    assert audited(simulate(design=uniform, sessions=6000)).best_estimator == "randomised"
    assert audited(simulate(design=pivot, sessions=6000)).best_estimator == "swap"
    assert audited(simulate(rankers=2)).best_estimator == "harvest"
    assert audited(simulate(rankers=1)).best_estimator is None


def test_features_tell_relevance_from_position(simulate, audited):
    events = simulate(rankers=1)
    assert "no-propensities" in {f.code for f in audited(events).findings}
    events["x"] = events["doc_id"] % 5
    found = audited(events, features=["x"])
    assert found.best_estimator == "regression-em"
    assert "no-propensities" not in {f.code for f in found.findings}


def test_linked_positions():
    assert linked_positions([]) == {1}
    assert linked_positions([(2, 3), (3, 1), (4, 5)]) == {1, 2, 3}
