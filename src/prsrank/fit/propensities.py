"""The propensities of a fit: given, logged, or estimated by the best method that there is."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prsrank.audit.findings import Audit
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.fit.log_parts import LogParts
from prsrank.fit.plan import RANDOMISED, Plan
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.held_out import split_by_group
from prsrank.logs.log_split import HALF
from prsrank.propensity.curve import PowerLaw, Propensities, parse_propensity
from prsrank.propensity.estimators import ESTIMATORS, estimator
from prsrank.propensity.known import KnownPropensity
from prsrank.propensity.verdict import in_words
from prsrank.types import Longs

FEWEST_CLICKS = 10
FROM_RANDOMISED = ("randomised", "swap")
"""Methods that take the randomised sessions, and no others."""


@dataclass(frozen=True, eq=False)
class FitCurves:
    """The curves of a fit.

    Attributes:
        curve: for training and validation; None: the propensities in the log.
        judging: for the held-out part; the same, or one for each half of it.
        how: where they come from, in a sentence.
    """

    curve: Propensities | None
    judging: Propensities | None
    how: str

    @property
    def context(self) -> str | None:
        """The column with the halves of the held-out part that have curves of their own."""
        return HALF if self.judging is not None and self.judging.contexts else None


@dataclass(frozen=True, eq=False)
class FitPropensities(FitCurves):
    """The curves of a fit, and the sessions that they judge.

    Attributes:
        held_out: the held-out part, with a column of the halves where there are.
    """

    held_out: ClickLog


def find_propensities(
    plan: Plan, audit: Audit, log: ClickLog, parts: LogParts, lists: RankingDataset
) -> FitPropensities:
    """Return the propensities that the plan names, or estimate them.

    Estimates come from the sessions that are not held out. Where the randomised sessions are
    the held-out part, they are also what identifies the propensities. Then each half of their
    queries is judged with a curve of the other half, and the training curve is that of both:
    what a ranker can know of a held-out click is one number per position. Regression EM uses
    the features only where the plan names it: docs/propensities.md says how far off it may be.

    Raises:
        InputError: if the log identifies nothing and nothing is given.
    """
    depth = log.max_position
    if plan.propensity == "log" or (plan.propensity == "auto" and _has_own(log)):
        if not _has_own(log):
            raise InputError(f"{plan.log}: the log has no propensities")
        return FitPropensities(None, None, "those in the log", parts.held_out)
    if plan.propensity == "auto":
        methods = [
            one.method
            for status in ("identified", "weak")
            for one in audit.estimators
            if one.status == status
        ]
    elif plan.propensity in ESTIMATORS and plan.propensity != "known":
        methods = [plan.propensity]
    else:
        curve = given_curve(plan.propensity, depth)
        curve.at(np.unique(log.ranking_positions))  # names a position that it lacks
        return FitPropensities(curve, curve, f"given: {plan.propensity}", parts.held_out)
    sources = {method: _sessions(method, parts) for method in methods}
    named = plan.propensity != "auto"
    found = _first_identified(sources.items(), lists if named else None, depth, plan.seed)
    if found is None:
        raise InputError(f"{plan.log}: {_nothing(audit, methods, named)}")
    source = sources[found.method]
    if source is not parts.held_out:
        how = f"{found.method}, from the {source.sessions:,} sessions that are not held out"
        return FitPropensities(found, found, how, parts.held_out)
    return _cross_fitted(found, parts.held_out, plan)


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


def _has_own(log: ClickLog) -> bool:
    return log.ranking_propensities is not None


def given_curve(text: str, depth: int) -> Propensities:
    """Return the curve of a file, or of "power:ETA" down to a depth."""
    curve = parse_propensity(text)
    if isinstance(curve, PowerLaw):
        return replace(KnownPropensity(eta=curve.eta).at_depth(depth), verdict="given")
    return curve


def _sessions(method: str, parts: LogParts) -> ClickLog:
    held_out = parts.way == RANDOMISED and method in FROM_RANDOMISED
    return parts.held_out if held_out else parts.learning


def _first_identified(
    sources: Iterable[tuple[str, ClickLog]], lists: RankingDataset | None, depth: int, seed: int
) -> Propensities | None:
    for method, log in sources:
        curve = falling_curve(method, log, lists, seed)
        if curve is not None:
            return covering(curve, depth)
    return None


def falling_curve(
    method: str, log: ClickLog, lists: RankingDataset | None, seed: int
) -> Propensities | None:
    """Return a falling curve, or None where the sessions do not identify one.

    With lists, regression EM takes relevance from their features if it cannot do without.
    """
    if not len(log.clicks):
        return None
    chosen: Any = replace(estimator(method), shape="monotone")  # type: ignore[type-var]
    curve: Propensities = chosen.estimate(log, seed=seed)
    if lists is not None and _is_unknown(curve) and method == "regression-em":
        curve = chosen.estimate(log, dataset=lists, seed=seed)
    with np.errstate(invalid="ignore"):
        known = (curve.propensity[1:] > 0).any()
    return curve if known and not _is_unknown(curve) else None


def _is_unknown(curve: Propensities) -> bool:
    return curve.verdict.startswith("not identified")


def _cross_fitted(whole: Propensities, held_out: ClickLog, plan: Plan) -> FitPropensities:
    count = f"{held_out.sessions:,} randomised sessions, which are also the held-out part"
    halves = split_by_group(held_out, 0.5, seed=plan.seed, group_of=plan.group_of)
    curves = [falling_curve(whole.method, half, None, plan.seed) for half in halves]
    if curves[0] is None or curves[1] is None:
        how = f"{whole.method}, from the {count}: too few for a curve from each half"
        return FitPropensities(whole, whole, how, held_out)
    second = ~np.isin(held_out.query_ids, halves[0].query_ids)
    codes = second[held_out.ranking_query][held_out.session_ranking].astype(np.int32)
    marked = replace(held_out, contexts={**held_out.contexts, HALF: Context(("1", "2"), codes)})
    others = {
        name: covering(curve, whole.positions)
        for name, curve in zip(("1", "2"), reversed(curves), strict=True)
        if curve is not None
    }
    how = f"{whole.method}, from the {count}; each half of it is judged with a curve of the other"
    return FitPropensities(whole, replace(whole, contexts=others), how, marked)


def _nothing(audit: Audit, methods: list[str], named: bool) -> str:
    give = "give --propensity FILE or power:ETA (an assumption)"
    if not named:
        give += ", or regression-em (which assumes that the features explain relevance)"
    if methods:
        return (
            "the part that is not held out does not identify propensities by "
            f"{' or '.join(methods)}: {give}"
        )
    reasons = "; ".join(f"{one.method}: {one.reason}" for one in audit.estimators[:3])
    return f"identifies no propensities: {give}, or randomise a share of the sessions ({reasons})"
