"""Rankers of each method, tuned on held-out clicks, and which of them is shipped.

Each has the same number of trials; the choice rests on clicks that none of them learned from.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prsrank.audit.findings import Audit
from prsrank.evaluation.results import Difference
from prsrank.fit.judging import Weighed
from prsrank.fit.log import LogParts, PiecedLog
from prsrank.fit.plan import METRIC, Plan
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.posterior import Posterior
from prsrank.pairs.weighted_pairs import PairDiagnostics
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker, ranker_class
from prsrank.rankers.search import Search, Trial, best_of, drawn
from prsrank.weighting import find_weighting

VALIDATION_TAU = 0.05

RIVAL = "lightgbm_position"
"""A ranker that takes the log itself, in one piece, each session's list apart."""

MOST_EXPANDED = 300_000
"""So many docs shown in sessions with a click may be expanded for it."""

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Candidate:
    """Settings of a ranker, and parameters of its weighting, to try."""

    settings: Mapping[str, Any]
    parameters: Mapping[str, float]

    def __str__(self) -> str:
        values = {**self.settings, **self.parameters}
        return ", ".join(f"{name} {value}" for name, value in values.items())


@dataclass(frozen=True)
class Method:
    """A way to learn from clicks.

    Attributes:
        name: of the weighting, or of a ranker that learns its propensities itself.
        ranker: a name of RANKERS.
        weighting: of the pairs.
    """

    name: str
    ranker: str
    weighting: str


@dataclass(frozen=True, eq=False)
class Tuned:
    """The best ranker of a method.

    Attributes:
        method: how it was trained.
        search: all that was tried, and the best: METRIC on the validation part, and the ranker.
        diagnostics: of the weights that the best was trained with, where they are known.
    """

    method: Method
    search: Search[Candidate, Ranker]
    diagnostics: PairDiagnostics | None = None

    @property
    def chosen(self) -> Trial[Candidate, Ranker]:
        """The best of the trials."""
        return self.search.best

    @property
    def ranker(self) -> Ranker:
        """The best ranker."""
        return self.search.best.result


def candidates(ranker: str, weighting: str, trials: int) -> list[Candidate]:
    """Return what to try, of the settings of the ranker with each of those of the weighting.

    Every weighting has the same number of trials, as many as the ranker alone has settings at
    most: the likeliest settings and others drawn at random, in the same way for all.

    >>> len(candidates("lambdamart", "ips", 30)), len(candidates("lambdamart", "prs", 30))
    (24, 24)
    """
    kind = ranker_class(ranker)
    clips = (*find_weighting(weighting).search_grid, *kind.weighting_grid.get(weighting, ()))
    product = [Candidate(settings, clip) for settings in kind.search_grid for clip in clips]
    return drawn(product, min(trials, len(kind.search_grid)))


def methods(plan: Plan, audit: Audit, log: PiecedLog, tell: Tell) -> list[Method]:
    """Return the methods to try, the one that is preferred first.

    LightGBM's own answer to position bias is among them where a log can be expanded for it. Where
    actions have weights it is not, for it counts every click alike, and prs comes first: the
    posterior of a doc is of clicks, and takes little of what a few of them are worth.
    """
    weighted = [Method(name, plan.ranker, name) for name in plan.weightings]
    if plan.weighting != "auto":
        return weighted
    if any(finding.code == "clicks-weighted" for finding in audit.findings):
        return [*weighted[1:], weighted[0]]
    if plan.ranker != "lambdamart":
        return weighted
    piece = log.sessions.only
    if piece is None:
        tell(f"{RIVAL} is not tried: the log is not in one piece")
    elif _docs_in_clicked(piece.log) > MOST_EXPANDED:
        tell(f"{RIVAL} is not tried: more than {MOST_EXPANDED:,} docs were shown")
    else:
        return [*weighted, Method(RIVAL, RIVAL, "naive")]
    return weighted


def _docs_in_clicked(log: ClickLog) -> int:
    """Return how many docs sessions with a click show."""
    clicked = log.session_ranking[log.session_clicks > 0]
    return int(np.diff(log.ranking_offsets)[clicked].sum())


def tune(
    method: Method, parts: LogParts, curve: PropensityCurve | None, plan: Plan, tell: Tell
) -> Tuned:
    """Train a ranker with each of the candidates; keep the best on the validation part.

    Candidates that differ in the ranker's settings alone are trained on the same pairs.

    Args:
        method: the ranker, and the weighting of the pairs.
        parts: sessions to learn from, and to choose by.
        curve: the propensities; None for those in the log.
        plan: number of trials, most trees, seed.
        tell: is told what is going on.
    """
    tried = candidates(method.ranker, method.weighting, plan.trials)
    kind = ranker_class(method.ranker)
    fixed = kind.accepted(trees=plan.trees, seed=plan.seed)
    results: dict[int, tuple[float, Ranker]] = {}
    diagnostics: dict[int, PairDiagnostics | None] = {}
    for clip in {id(candidate.parameters): candidate.parameters for candidate in tried}.values():
        same = [candidate for candidate in tried if candidate.parameters is clip]
        tell(f"training {method.name}, {len(results) + len(same)} of {len(tried)}")
        how = Weighed(curve, method.weighting, clip, VALIDATION_TAU)
        rankers = [kind().set_params(**candidate.settings, **fixed) for candidate in same]
        trained = parts.train.train(rankers, how, validation=parts.validation)
        numbers = [id(candidate) for candidate in same]
        results |= zip(numbers, zip(trained.values, rankers, strict=True), strict=True)
        diagnostics |= dict.fromkeys(numbers, trained.diagnostics)
    search = best_of(tried, lambda candidate: results[id(candidate)])
    return Tuned(method, search, diagnostics[id(search.best.candidate)])


def refit(
    tuned: Tuned, log: PiecedLog, curve: PropensityCurve | None, like: Posterior | None = None
) -> Ranker:
    """Train the chosen ranker again on all sessions: same settings, as many trees.

    Args:
        tuned: the ranker.
        log: all sessions.
        curve: the propensities; None for those in the log.
        like: the posterior of the training part, if one was made.
    """
    ranker = tuned.ranker.unfitted()
    parameters = tuned.chosen.candidate.parameters
    how = Weighed(curve, tuned.method.weighting, parameters, like=like)
    log.train([ranker], how)
    return ranker


LEVEL = 0.05
"""How likely chance alone may be to make another method look so much better."""


@dataclass(frozen=True)
class Choice:
    """The method that is shipped.

    Attributes:
        name: of the method.
        why: in a sentence.
        differences: METRIC of each other method less that of the preferred one on the
            validation part; empty where the method was named.
    """

    name: str
    why: str
    differences: tuple[Difference, ...] = ()

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts."""
        return {
            "name": self.name,
            "why": self.why,
            "validation": {
                difference.ranker: {
                    "less": difference.against,
                    "difference": difference.difference,
                    "low": difference.low,
                    "high": difference.high,
                    "p_value": difference.p_value,
                }
                for difference in self.differences
            },
        }


def choose(
    parts: LogParts, curve: PropensityCurve | None, tuned: Mapping[str, Tuned], plan: Plan
) -> Choice:
    """Return the method to ship: the one that is named, else by `better_shown`."""
    preferred, *others = tuned
    if not others or plan.weighting != "auto":
        return Choice(preferred, "it was asked for")
    evaluated = parts.validation.evaluate(
        curve, {name: method.ranker for name, method in tuned.items()},
        against=[preferred], seed=plan.seed,
    )  # fmt: skip
    kind = evaluated.evaluation.narrowest
    differences = [
        evaluated.evaluation.difference(name, METRIC, against=preferred, estimator=kind)
        for name in others
    ]
    return better_shown(preferred, differences)


def better_shown(preferred: str, differences: Sequence[Difference]) -> Choice:
    """Return the preferred method, unless others are shown to be better: then the best of those.

    Each comparison is paired over queries, at LEVEL over the number of others (Bonferroni), so
    that chance alone replaces the preferred method in at most 5 % of logs.

    >>> far = Difference("all", "dcg@10", "clipped", "ips", "posterior", 0.2, 0.1, 0.3, 0.001, 0.1)
    >>> better_shown("posterior", [far]).name
    'ips'
    """
    shown = [
        difference
        for difference in differences
        if difference.difference > 0 and difference.p_value <= LEVEL / len(differences)
    ]
    kept = tuple(differences)
    if shown:
        best = max(shown, key=lambda difference: difference.difference)
        return Choice(
            best.ranker,
            f"clicks that neither learned from show it above {preferred}: {METRIC} "
            f"{best.difference:+.4f}, {best.low:+.4f} to {best.high:+.4f}",
            kept,
        )
    return Choice(
        preferred,
        f"it is the first choice, and clicks that none learned from show none of "
        f"{', '.join(difference.ranker for difference in differences)} above it",
        kept,
    )
