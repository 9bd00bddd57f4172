"""The propensities of a fit: given, logged, or estimated by the best method that there is."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prsrank.audit.findings import Audit
from prsrank.errors import InputError
from prsrank.fit.log import HALF, LogParts, PiecedLog
from prsrank.fit.plan import Plan
from prsrank.propensity.counted_clicks import DOCS_FOR_JUDGING
from prsrank.propensity.curve import Propensities, covering
from prsrank.propensity.curve_of import estimating_methods, given_curve, monotone_curve
from prsrank.propensity.estimators import estimator
from prsrank.propensity.identification import trusted_methods
from prsrank.propensity.tempering import Tempering, temper_sampled, tempered
from prsrank.propensity.verdict import Status, Verdict

_GIVE = "give --propensity FILE or power:ETA (an assumption)"


@dataclass(frozen=True, eq=False)
class FitCurves:
    """The curves of a fit.

    Attributes:
        curve: for training and validation; None: the propensities in the log.
        judging: for the held-out part; the same, or one for each half of it.
        how: where they come from, in a sentence.
        firm: whether they rest on better evidence than features, and are never changed.
        judged: what the clicks say of the curve as it was found; None where nobody asked.
    """

    curve: Propensities | None
    judging: Propensities | None
    how: str
    firm: bool = False
    judged: Tempering | None = None

    @property
    def context(self) -> str | None:
        """The context with the halves of the held-out part that have curves of their own."""
        return HALF if self.judging is not None and self.judging.contexts else None

    @property
    def power(self) -> float:
        """The power that the curve was raised to because of the clicks; 1 if it was not."""
        return 1.0 if self.judged is None or self.firm else self.judged.followed

    @property
    def check(self) -> str:
        """What the clicks say of the curve, and what came of it."""
        if self.judged is None:
            return ""
        said = self.judged.sentence
        if self.firm and self.judged.followed != 1:
            return f"{said}; it is left as it is, for it does not rest on features"
        return said if self.power == 1 else f"{said}; its power {self.power:.2f} is used"

    @property
    def warning(self) -> str:
        """The check, if the clicks contradict a curve that is used all the same."""
        contradicted = self.judged is not None and self.judged.contradicts
        return self.check if contradicted and self.power == 1 else ""

    def judge(self, log: PiecedLog, seed: int) -> "FitCurves":
        """Let the clicks of a log judge the curve, and change it where they clearly say so."""
        if self.curve is None:
            return self
        tempering = temper_sampled(self.curve, log.counted(DOCS_FOR_JUDGING), seed=seed)
        curves = replace(self, judged=tempering)
        if tempering is not None and (left := tempering.left(self.curve)).verdict.unknown:
            raise InputError(f"{left.method}: {left.verdict}: {_GIVE}")
        if tempering is None or curves.power == 1:
            return curves
        verdict = f"{self.curve.verdict}; raised to the power {curves.power:.2f}, as the clicks are"
        changed = tempered(self.curve, curves.power, tempering.error)
        changed = replace(changed, verdict=Verdict(verdict))
        return replace(curves, curve=changed, judging=changed)


def find_propensities(plan: Plan, audit: Audit, log: PiecedLog, parts: LogParts) -> FitCurves:
    """Return the propensities of a fit, judged by the clicks that are not held out."""
    curves = _found_propensities(plan, audit, log, parts)
    return curves.judge(parts.learning, plan.seed) if plan.temper else curves


def _found_propensities(plan: Plan, audit: Audit, log: PiecedLog, parts: LogParts) -> FitCurves:
    """Return the propensities that the plan names, or estimate them.

    Estimates come from the sessions that are not held out. Where the randomised sessions are
    the held-out part, they are also what identifies the propensities. Then each half of their
    queries is judged with a curve of the other half, and the training curve is that of both:
    what a ranker can know of a held-out click is one number per position. Regression EM uses
    no features, unless the plan names it: docs/propensities.md says how far off it may be.

    Raises:
        InputError: if the log identifies nothing and nothing is given.
    """
    if plan.propensity == "log" or (plan.propensity == "auto" and log.has_propensities):
        if not log.has_propensities:
            raise InputError(f"{plan.log}: the log has no propensities")
        return FitCurves(None, None, "those in the log")
    depth = max(extent.depth for extent in parts.extents.values())
    named = plan.propensity != "auto"
    if named and plan.propensity.replace("_", "-") not in estimating_methods():
        curve = given_curve(plan.propensity, depth)
        shown = log.pieces.total(lambda piece: Counter(np.unique(piece.ranking_positions).tolist()))
        curve.at(sorted(shown))  # names a position that it lacks
        return FitCurves(curve, curve, f"given: {plan.propensity}")
    tried = [plan.propensity] if named else trusted_methods(audit.estimators)
    for method in tried:
        held_out = parts.halves is not None and estimator(method).only_randomised
        source = parts.held_out if held_out else parts.learning
        estimate = _monotone(method, source, plan)
        if estimate is not None:
            curve = covering(estimate, depth)
            if held_out:
                curves = _halved(curve, parts, plan)
            else:
                sessions = parts.learning.extent().sessions
                how = f"{curve.method}, from the {sessions:,} sessions that are not held out"
                curves = FitCurves(curve, curve, how)
            return replace(curves, firm=_is_firm(method, curve))
    raise InputError(f"{plan.log}: {_nothing(plan, audit, tried)}")


def _is_firm(method: str, curve: Propensities) -> bool:
    """Tell whether a curve comes from an experiment, or clearly from docs at several positions."""
    chosen = estimator(method)
    identified = curve.verdict.status == Status.IDENTIFIED and not chosen.uses_features
    return chosen.only_randomised or identified


def _halved(whole: Propensities, parts: LogParts, plan: Plan) -> FitCurves:
    sessions = parts.held_out.extent().sessions
    how = (
        f"{whole.method}, from the {sessions:,} randomised sessions, which are also the held-out "
        "part"
    )
    curves = [_monotone(whole.method, half, plan) for half in parts.halves or ()]
    if curves[0] is None or curves[1] is None:
        return FitCurves(whole, whole, f"{how}: too few for a curve from each half")
    # each half is judged by the curve of the other
    others = {
        "1": covering(curves[1], whole.positions),
        "2": covering(curves[0], whole.positions),
    }
    how = f"{how}; each half of it is judged with a curve of the other"
    return FitCurves(whole, replace(whole, contexts=others), how)


def _monotone(method: str, log: PiecedLog, plan: Plan) -> Propensities | None:
    """Return a monotone curve; features are used only where the plan names the method."""
    if not log.extent().clicks:
        return None
    featured = log.sessions.in_memory if method == plan.propensity else None
    return monotone_curve(method, log.pieces, seed=plan.seed, featured=featured)


def _nothing(plan: Plan, audit: Audit, methods: Sequence[str]) -> str:
    give = _GIVE
    if plan.propensity == "auto":
        give += ", or regression-em (which assumes that the features explain relevance)"
    if methods:
        return (
            "the part that is not held out does not identify propensities by "
            f"{' or '.join(methods)}: {give}"
        )
    reasons = "; ".join(
        f"{estimator.method}: {estimator.reason}" for estimator in audit.estimators[:3]
    )
    return f"identifies no propensities: {give}, or randomise a share of the sessions ({reasons})"
