"""Rankers of each weighting, tuned on held-out clicks with the same number of trials each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsrank.data.dataset import RankingDataset
from prsrank.rankers.base import Ranker, ranker_class

if TYPE_CHECKING:
    from prsrank.evaluation.counterfactual import CounterfactualMetric
    from prsrank.logs.click_log import ClickLog
    from prsrank.pairs.pair_set import PairDiagnostics
    from prsrank.propensity.curve import PropensityCurve

WEIGHTINGS = ("prs", "ips", "naive")
METRIC = "dcg@10"
VALIDATION_TAU = 0.05

_TAUS = (0.0, 0.05, 0.2)

GRIDS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "lambdamart": [
        {"leaves": leaves, "min_docs_in_leaf": docs, "learning_rate": rate}
        for rate in (0.1, 0.05)
        for leaves in (7, 31, 15)
        for docs in (20, 100)
    ],
    "linear": [
        {"l2": l2, "missing": "impute"}
        for l2 in (1e-2, 1e-1, 1e-3, 1.0, 1e-4, 3e-2, 3e-1, 3e-3, 3.0, 3e-4, 10.0, 1e-5)
    ],
}
"""Settings to try, by ranker, the likeliest first."""

Tell = Callable[[str], object]


@dataclass(frozen=True, eq=False)
class Trial:
    """Settings that were tried, and the estimate on the validation part."""

    settings: Mapping[str, Any]
    weighting_parameters: Mapping[str, float]
    value: float
    trees: int | None


@dataclass(frozen=True, eq=False)
class Tuned:
    """The best ranker of a weighting.

    Attributes:
        weighting: "prs", "ips" or "naive".
        ranker: the ranker.
        trials: all that were tried.
        chosen: the best of them.
        diagnostics: of the weights that it was trained with; None where they are elsewhere.
    """

    weighting: str
    ranker: Ranker
    trials: tuple[Trial, ...]
    chosen: Trial
    diagnostics: "PairDiagnostics | None" = None


def candidates(
    ranker: str, weighting: str, trials: int
) -> list[tuple[Mapping[str, Any], dict[str, float]]]:
    """Return what to try: settings of the ranker, and for ips its clip tau too.

    Every weighting has the same number of trials: ips, which has a clip to tune, tries fewer
    settings of the ranker.

    >>> len(candidates("lambdamart", "ips", 12)), len(candidates("lambdamart", "prs", 12))
    (12, 12)
    """
    parameters: list[dict[str, float]] = [{}]
    if weighting == "ips":
        parameters = [{"tau": tau} for tau in _TAUS]
    return [(one, more) for one in GRIDS[ranker] for more in parameters][:trials]


def tune(
    weighting: str,
    train: "ClickLog",
    lists: RankingDataset,
    curve: "PropensityCurve | None",
    validation: tuple[RankingDataset, "CounterfactualMetric"],
    *,
    ranker: str,
    trials: int,
    trees: int,
    seed: int,
    tell: Tell,
) -> Tuned:
    """Train a ranker with each of the candidates; keep the best on the validation part.

    Args:
        weighting: of the pairs.
        train: the sessions to learn from.
        lists: their lists.
        curve: the propensities; None for those in the log.
        validation: lists, and an estimate from clicks on them.
        ranker: "lambdamart", which stops early on the estimate too, or "linear".
        trials: number of candidates.
        trees: the most trees of lambdamart.
        seed: of the ranker.
        tell: is told what is going on.
    """
    fixed = {"trees": trees, "seed": seed} if ranker == "lambdamart" else {}
    folded: dict[float | None, Any] = {}
    found: list[tuple[Trial, Ranker, Any]] = []
    tried = candidates(ranker, weighting, trials)
    for number, (settings, parameters) in enumerate(tried, 1):
        tell(f"training {weighting}, {number} of {len(tried)}")
        model: Any = ranker_class(ranker)()
        model.set_params(**settings, **fixed)
        tau = parameters.get("tau")
        if tau not in folded:
            folded[tau] = model.pairs(train, lists, curve, weighting, parameters=parameters)
        options = {"validation": validation} if ranker == "lambdamart" else {}
        model.fit(lists, folded[tau], **options)
        value = validation[1](model.score(validation[0].features))
        grown = model.booster_.num_trees() if ranker == "lambdamart" else None
        found.append((Trial(settings, parameters, value, grown), model, folded[tau]))
    chosen, model, pairs = max(found, key=lambda one: one[0].value)
    return Tuned(weighting, model, tuple(one[0] for one in found), chosen, pairs.diagnostics())
