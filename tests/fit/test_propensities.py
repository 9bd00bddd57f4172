"""Which curve a fit takes, from which sessions, and who judges it."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from prsrank.fit import propensities
from prsrank.fit.log import HELD_OUT, TRAIN, VALIDATION
from prsrank.fit.plan import Plan
from prsrank.fit.propensities import _monotone, find_propensities
from prsrank.logs.pieces import Extent
from prsrank.propensity import curve_of
from prsrank.propensity.curve import Propensities

PLAN = Plan("log.parquet", data="synthetic:mq2007:50", seed=3)


def curve(verdict="identified", p=(1, 0.5, 0.4)):
    return Propensities(p, p, p, [90] * len(p), verdict, "harvest")


def audit_of(**statuses):
    found = [SimpleNamespace(method=m.replace("_", "-"), status=s) for m, s in statuses.items()]
    return SimpleNamespace(estimators=found)


LEARNING = SimpleNamespace(extent=lambda: Extent(9, 9, 9, 2))


def parts_of(depth=6):
    extents = {name: Extent(9, 9, 9, 2) for name in (TRAIN, VALIDATION, HELD_OUT)}
    extents[HELD_OUT] = Extent(9, 9, 9, depth)
    return SimpleNamespace(extents=extents, halves=None, learning=LEARNING, held_out="held out")


LOG = SimpleNamespace(has_propensities=False)


@pytest.fixture
def asked(monkeypatch):
    """The methods and sessions that a curve is asked of; only the last one has an answer."""
    noted = []

    def noting(method, log, plan):
        noted.append((method, log))
        return curve() if method == "regression-em" else None

    monkeypatch.setattr(propensities, "_monotone", noting)
    return noted


def test_identified_methods_come_before_weak_ones_and_see_no_held_out_session(asked):
    audit = audit_of(swap="weak", harvest="identified", regression_em="weak", likelihood="none")
    found = find_propensities(replace(PLAN, temper=False), audit, LOG, parts_of())
    methods = ["harvest", "swap", "regression-em"]
    assert asked == [(method, LEARNING) for method in methods]
    assert found.judged is None


def test_the_curve_reaches_the_last_position_of_any_part(asked):
    audit = audit_of(regression_em="weak")
    found = find_propensities(replace(PLAN, temper=False), audit, LOG, parts_of(depth=6))
    assert found.curve.propensity.tolist() == [1, 0.5, 0.4, 0.4, 0.4, 0.4]
    assert found.judging is found.curve


@pytest.mark.parametrize("temper", [True, False])
def test_the_clicks_that_are_not_held_out_judge_a_curve_if_they_may(temper, monkeypatch):
    judges = []

    def judge(log, seed):
        judges.append((log, seed))
        return "judged"

    found = SimpleNamespace(judge=judge)
    monkeypatch.setattr(propensities, "_found_propensities", lambda *_: found)
    result = find_propensities(replace(PLAN, temper=temper), None, LOG, parts_of())
    assert judges == ([(LEARNING, 3)] if temper else [])
    assert result == ("judged" if temper else found)


@dataclass(frozen=True)
class Needing:
    """An estimator that identifies nothing without features."""

    shape: str | None = None
    uses_features = True

    def estimate_pieces(self, pieces, *, seed):
        return curve("not identified: one ranking", (1, np.nan, np.nan))

    def estimate(self, log, *, dataset, seed):
        assert (self.shape, log, dataset, seed) == ("monotone", "sessions", "lists", 3)
        return curve("weak: features")


@pytest.mark.parametrize(("named", "known"), [("regression-em", True), ("auto", False)])
def test_features_serve_a_curve_only_where_its_method_is_named(named, known, monkeypatch):
    monkeypatch.setattr(curve_of, "estimator", lambda _: Needing())
    log = SimpleNamespace(
        extent=lambda: Extent(9, 9, 9, 3),
        pieces=[],
        sessions=SimpleNamespace(in_memory=lambda: ("sessions", "lists")),
    )
    found = _monotone("regression-em", log, replace(PLAN, propensity=named))
    assert (found is not None) == known
