"""The propensities of a fit: given, logged, or estimated by the best method that there is."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.audit.findings import Audit
from prsrank.errors import InputError
from prsrank.fit.parts import HALF, HELD_OUT, TRAIN, VALIDATION, LogParts
from prsrank.fit.plan import Plan
from prsrank.propensity.curve import PowerLaw, Propensities, parse_propensity
from prsrank.propensity.estimators import ESTIMATORS, estimator
from prsrank.propensity.known import KnownPropensity
from prsrank.propensity.sampled_clicks import DOCS_FOR_JUDGING
from prsrank.propensity.tempering import Tempering, temper_counts, tempered
from prsrank.propensity.verdict import in_words
from prsrank.types import Longs

if TYPE_CHECKING:
    from prsrank.fit.engine import EngineLog

FEWEST_CLICKS = 10


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

    def judge(self, log: "EngineLog", seed: int) -> "FitCurves":
        """Let the clicks of a log judge the curve, and change it where they clearly say so."""
        if self.curve is None:
            return self
        sampled = log.counted(DOCS_FOR_JUDGING)
        if not sampled.parts:
            return self
        lists, counted = sampled.on_curve(self.curve)
        found = replace(self, judged=temper_counts(counted, lists, seed=seed))
        if found.power == 1:
            return found
        verdict = f"{self.curve.verdict}; raised to the power {found.power:.2f}, as the clicks are"
        changed = replace(tempered(self.curve, found.power), verdict=verdict)
        return replace(found, curve=changed, judging=changed)


def find_propensities(plan: Plan, audit: Audit, log: "EngineLog", parts: LogParts) -> FitCurves:
    """Return the propensities of a fit, judged by the clicks that are not held out."""
    found = _found_propensities(plan, audit, log, parts)
    return found.judge(parts.learning, plan.seed) if plan.temper else found


def _found_propensities(plan: Plan, audit: Audit, log: "EngineLog", parts: LogParts) -> FitCurves:
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
    if plan.propensity != "auto" and not _is_method(plan.propensity):
        curve = given_curve(plan.propensity, depth)
        shown = log.pieces.total(lambda piece: Counter(np.unique(piece.ranking_positions).tolist()))
        curve.at(sorted(shown))  # names a position that it lacks
        return FitCurves(curve, curve, f"given: {plan.propensity}")
    methods = _methods(plan, audit)
    for method in methods:
        held_out = parts.halves is not None and estimator(method).only_randomised
        source = parts.held_out if held_out else parts.learning
        found = monotone_curve(method, source, plan)
        if found is not None:
            found = covering(found, depth)
            curves = _halved(found, parts, plan) if held_out else _whole(found, parts)
            return replace(curves, firm=_is_firm(method, found))
    raise InputError(f"{plan.log}: {_nothing(plan, audit, methods)}")


def _is_firm(method: str, curve: Propensities) -> bool:
    """Tell whether a curve comes from an experiment, or clearly from docs at several positions."""
    chosen = estimator(method)
    identified = curve.verdict.startswith("identified") and not chosen.uses_features
    return chosen.only_randomised or identified


def _is_method(text: str) -> bool:
    return text in ESTIMATORS and text != "known"


def _methods(plan: Plan, audit: Audit) -> Sequence[str]:
    """Return the methods to try: the one that is named, or those the audit trusts, best first."""
    if plan.propensity != "auto":
        return (plan.propensity,)
    return [
        one.method
        for status in ("identified", "weak")
        for one in audit.estimators
        if one.status == status
    ]


def _whole(curve: Propensities, parts: LogParts) -> FitCurves:
    sessions = sum(parts.extents[name].sessions for name in (TRAIN, VALIDATION))
    how = f"{curve.method}, from the {sessions:,} sessions that are not held out"
    return FitCurves(curve, curve, how)


def _halved(whole: Propensities, parts: LogParts, plan: Plan) -> FitCurves:
    sessions = parts.extents[HELD_OUT].sessions
    how = (
        f"{whole.method}, from the {sessions:,} randomised sessions, which are also the held-out "
        "part"
    )
    curves = [monotone_curve(whole.method, half, plan) for half in parts.halves or ()]
    if curves[0] is None or curves[1] is None:
        return FitCurves(whole, whole, f"{how}: too few for a curve from each half")
    # each half is judged by the curve of the other
    others = {
        "1": covering(curves[1], whole.positions),
        "2": covering(curves[0], whole.positions),
    }
    how = f"{how}; each half of it is judged with a curve of the other"
    return FitCurves(whole, replace(whole, contexts=others), how)


def covering(curve: Propensities, depth: int, *, fewest: int = FEWEST_CLICKS) -> Propensities:
    """Return a curve that knows every position up to `depth`.

    A position without an estimate above 0, or whose step of the curve (neighbours of equal
    propensity) rests on fewer than `fewest` clicks, gets the propensity of the nearest
    known one above it, no interval and no clicks; the verdict says so. A weight 1 / p from two
    clicks would be worth more than all others, and is as likely ten times too large.

    >>> p, clicks = [1, 0.5, np.nan, 0.01], [50, 25, 0, 2]
    >>> covering(Propensities(p, p, p, clicks, "weak: ...", "swap"), 5).propensity.tolist()
    [1.0, 0.5, 0.5, 0.5, 0.5]
    """
    known = np.zeros(depth, bool)
    size = min(depth, curve.positions)
    with np.errstate(invalid="ignore"):
        known[:size] = curve.propensity[:size] > 0
    known[:size] &= _clicks_of_steps(curve)[:size] >= fewest
    known[0] = True
    if known.all():
        return curve
    source = np.maximum.accumulate(np.where(known, np.arange(depth), 0))
    gaps = in_words(np.flatnonzero(~known) + 1)
    return replace(
        curve,
        propensity=curve.propensity[source],
        low=np.where(known, curve.low[source], np.nan),
        high=np.where(known, curve.high[source], np.nan),
        clicks=np.where(known, curve.clicks[source], 0),
        verdict=f"{curve.verdict}; positions {gaps}: taken as the position above",
    )


def _clicks_of_steps(curve: Propensities) -> Longs:
    """Return, for each position, the clicks of all positions on the same step of the curve."""
    step = np.cumsum(np.diff(curve.propensity, prepend=curve.propensity[:1]) != 0)
    totals = np.bincount(step, curve.clicks).astype(np.int64)
    return np.asarray(totals[step])


def given_curve(text: str, depth: int) -> Propensities:
    """Return the curve of a file, or of "power:ETA" down to a depth."""
    curve = parse_propensity(text)
    if isinstance(curve, PowerLaw):
        return replace(KnownPropensity(eta=curve.eta).at_depth(depth), verdict="given")
    return curve


def monotone_curve(method: str, log: "EngineLog", plan: Plan) -> Propensities | None:
    """Return a monotone curve, or None where the sessions do not identify one.

    A method that can use features does so only where the plan names it, it cannot do without,
    and the engine holds them.
    """
    if not log.extent().clicks:
        return None
    chosen: Any = replace(estimator(method), shape="monotone")  # type: ignore[type-var]
    curve: Propensities = chosen.estimate_pieces(log.pieces, seed=plan.seed)
    if chosen.uses_features and method == plan.propensity and _is_unknown(curve):
        held = log.in_memory()
        if held is not None:
            curve = chosen.estimate(held[0], dataset=held[1], seed=plan.seed)
    with np.errstate(invalid="ignore"):
        known = (curve.propensity[1:] > 0).any()
    return curve if known and not _is_unknown(curve) else None


def _is_unknown(curve: Propensities) -> bool:
    return curve.verdict.startswith("not identified")


def _nothing(plan: Plan, audit: Audit, methods: Sequence[str]) -> str:
    give = "give --propensity FILE or power:ETA (an assumption)"
    if plan.propensity == "auto":
        give += ", or regression-em (which assumes that the features explain relevance)"
    if methods:
        return (
            "the part that is not held out does not identify propensities by "
            f"{' or '.join(methods)}: {give}"
        )
    reasons = "; ".join(f"{one.method}: {one.reason}" for one in audit.estimators[:3])
    return f"identifies no propensities: {give}, or randomise a share of the sessions ({reasons})"
