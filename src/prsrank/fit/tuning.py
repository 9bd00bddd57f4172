"""Rankers of each weighting, tuned on held-out clicks with the same number of trials each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from prsrank.fit.engine import Weighed
from prsrank.fit.parts import LogParts
from prsrank.fit.plan import Plan
from prsrank.pairs.pair_set import PairDiagnostics
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker, ranker_class
from prsrank.rankers.search import Search, Trial, best_of
from prsrank.weighting import find_weighting

VALIDATION_TAU = 0.05

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Candidate:
    """Settings of a ranker, and parameters of its weighting, to try."""

    settings: Mapping[str, Any]
    parameters: Mapping[str, float]

    def __str__(self) -> str:
        values = {**self.settings, **self.parameters}
        return ", ".join(f"{name} {value}" for name, value in values.items())


@dataclass(frozen=True, eq=False)
class Tuned:
    """The best ranker of a weighting.

    Attributes:
        weighting: of the pairs.
        search: all that was tried, and the best: METRIC on the validation part, and the ranker.
        diagnostics: of the weights that the best was trained with, where they are known.
    """

    weighting: str
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
    """Return what to try: settings of the ranker, with each of those of the weighting.

    Every weighting has the same number of trials: ips, which has a clip to tune, tries fewer
    settings of the ranker.

    >>> len(candidates("lambdamart", "ips", 12)), len(candidates("lambdamart", "prs", 12))
    (12, 12)
    """
    grid, clips = ranker_class(ranker).search_grid, find_weighting(weighting).search_grid
    return [Candidate(settings, clip) for settings in grid for clip in clips][:trials]


def tune(
    weighting: str, parts: LogParts, curve: PropensityCurve | None, plan: Plan, tell: Tell
) -> Tuned:
    """Train a ranker with each of the candidates; keep the best on the validation part.

    Candidates that differ in the ranker's settings alone are trained on the same pairs.

    Args:
        weighting: of the pairs.
        parts: sessions to learn from, and to choose by.
        curve: the propensities; None for those in the log.
        plan: ranker, number of trials, most trees, seed.
        tell: is told what is going on.
    """
    tried = candidates(plan.ranker, weighting, plan.trials)
    kind = ranker_class(plan.ranker)
    fixed = kind.accepted(trees=plan.trees, seed=plan.seed)
    rankers = [kind().set_params(**one.settings, **fixed) for one in tried]
    values: dict[int, float] = {}
    weights: dict[int, PairDiagnostics | None] = {}
    for clip in {id(one.parameters): one.parameters for one in tried}.values():
        same = [n for n, one in enumerate(tried) if one.parameters is clip]
        tell(f"training {weighting}, {len(values) + len(same)} of {len(tried)}")
        how = Weighed(curve, weighting, clip, VALIDATION_TAU)
        found = parts.train.train([rankers[n] for n in same], how, validation=parts.validation)
        values |= dict(zip(same, found.values, strict=True))
        weights |= dict.fromkeys(same, found.diagnostics)
    numbers = {id(one): n for n, one in enumerate(tried)}
    search = best_of(tried, lambda one: (values[numbers[id(one)]], rankers[numbers[id(one)]]))
    return Tuned(weighting, search, weights[numbers[id(search.best.candidate)]])
