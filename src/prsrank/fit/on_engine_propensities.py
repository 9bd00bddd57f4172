"""The propensities of a fit on an engine: given, logged, or estimated from counts of the log."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prsrank.errors import InputError
from prsrank.fit.plan import Plan
from prsrank.fit.propensities import FROM_RANDOMISED, FitCurves, covering, given_curve
from prsrank.logs.log_split import HELD_OUT, TRAIN, VALIDATION, EventParts

if TYPE_CHECKING:
    from prsrank.propensity.curve import Propensities
    from prsrank.spark.engine_protocol import Engine

METHODS = ("randomised", "swap", "harvest", "regression-em")
"""What is tried in turn where no propensities are given."""


def find_propensities(
    engine: "Engine", events: Any, parts: EventParts, plan: Plan, depth: int
) -> FitCurves:
    """Return the propensities that the plan names, or estimate them as the local fit does.

    Estimates come from the queries that are not held out; where the randomised sessions are
    held out, a method that needs them takes those, and each half of their queries is judged
    with a curve of the other half.

    Args:
        engine: where the log is.
        events: the whole log.
        parts: of it.
        plan: the settings given.
        depth: the last position of the log.

    Raises:
        InputError: if the log identifies nothing and nothing is given.
    """
    from prsrank.propensity.estimators import ESTIMATORS

    own = engine.has_propensities(events)
    if plan.propensity == "log" or (plan.propensity == "auto" and own):
        if not own:
            raise InputError(f"{plan.log}: the log has no propensities")
        return FitCurves(None, None, "those in the log")
    if plan.propensity != "auto" and plan.propensity not in set(ESTIMATORS) - {"known"}:
        curve = given_curve(plan.propensity, depth)
        curve.at(range(1, depth + 1))  # names a position that it lacks
        return FitCurves(curve, curve, f"given: {plan.propensity}")
    methods = METHODS if plan.propensity == "auto" else (plan.propensity,)
    for method in methods:
        held_out = parts.halves is not None and method in FROM_RANDOMISED
        source = parts.held_out if held_out else parts.learning
        found = _falling_curve(engine, source, method, plan.seed)
        if found is not None:
            found = covering(found, depth)
            return _halved(engine, found, parts, plan.seed) if held_out else _whole(found, parts)
    raise InputError(
        f"{plan.log}: the part that is not held out does not identify propensities by "
        f"{' or '.join(methods)}: give --propensity FILE or power:ETA"
    )


def _whole(curve: "Propensities", parts: EventParts) -> FitCurves:
    sessions = sum(parts.counts[name]["sessions"] for name in (TRAIN, VALIDATION))
    how = f"{curve.method}, from the {sessions:,} sessions that are not held out"
    return FitCurves(curve, curve, how)


def _halved(engine: "Engine", whole: "Propensities", parts: EventParts, seed: int) -> FitCurves:
    sessions = parts.counts[HELD_OUT]["sessions"]
    how = (
        f"{whole.method}, from the {sessions:,} randomised sessions, which are also the held-out "
        "part"
    )
    curves = [_falling_curve(engine, half, whole.method, seed) for half in parts.halves or ()]
    if curves[0] is None or curves[1] is None:
        return FitCurves(whole, whole, f"{how}: too few for a curve from each half")
    others = {
        "1": covering(curves[1], whole.positions),
        "2": covering(curves[0], whole.positions),
    }
    judging = replace(whole, contexts=others)
    how = f"{how}; each half of it is judged with a curve of the other"
    return FitCurves(whole, judging, how)


def _falling_curve(engine: "Engine", events: Any, method: str, seed: int) -> "Propensities | None":
    """Return a falling curve, or None where there are no events, or they identify none."""
    from prsrank.propensity.estimators import estimator

    if events is None:
        return None
    chosen: Any = estimator(method)
    curve = engine.propensities(events, replace(chosen, shape="monotone"), seed=seed)
    known = (curve.propensity[1:] > 0).any()
    return curve if known and not curve.verdict.startswith("not identified") else None
