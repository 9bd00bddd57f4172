"""How rankers are trained on a log, and what the clicks of a piece of it say of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.counterfactual import CounterfactualMetric
from prsrank.evaluation.doc_sums import Regression
from prsrank.evaluation.log_sums import LogSums, sum_log
from prsrank.fit.plan import METRIC
from prsrank.logs.pieces import Sessions
from prsrank.pairs.posterior import Posterior
from prsrank.pairs.weighted_pairs import PairDiagnostics
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker
from prsrank.types import Floats


@dataclass(frozen=True)
class Weighed:
    """How rankers are trained, and by what they are judged on the way.

    Attributes:
        curve: the propensities; None takes the log's own.
        weighting: of the pairs.
        parameters: of the weighting.
        tau: clip of the weights of the clicks that judge.
        like: posterior of a part of the sessions; see `prsrank.pairs.posterior.posterior_pairs`.
    """

    curve: PropensityCurve | None
    weighting: str
    parameters: Mapping[str, float]
    tau: float = 0.0
    like: Posterior | None = None


@dataclass(frozen=True, eq=False)
class Trained:
    """What came of training rankers on the same pairs.

    Attributes:
        values: METRIC of each ranker, as the clicks of the validation part say; NaN without.
        diagnostics: of the pairs; None where nobody has seen them all.
    """

    values: tuple[float, ...]
    diagnostics: PairDiagnostics | None = None


def metric_of(piece: Sessions, how: Weighed) -> tuple[int, CounterfactualMetric | None]:
    """Return the sessions of a piece, and METRIC by its clicks; None where it has none."""
    log = piece.log
    if not len(log.clicks):
        return log.sessions, None
    metric = CounterfactualMetric(log, piece.lists, how.curve, metric=METRIC, tau=how.tau)
    return log.sessions, metric


@dataclass(eq=False)
class Judging:
    """Makes of a piece the sums by which rankers are judged."""

    rankers: Mapping[str, Ranker | None]
    curve: PropensityCurve | None
    context: str | None
    regression: Regression
    scored: tuple[RankingDataset, Mapping[str, Floats]] | None = None

    def __call__(self, piece: Sessions) -> LogSums:
        """Return the sums over the sessions of a piece."""
        log, lists = piece.log, piece.lists
        return sum_log(
            log,
            lists,
            self.curve,
            self._scores(lists),
            regression=self.regression.on(lists),
            context=self.context,
        )

    def _scores(self, lists: RankingDataset) -> Mapping[str, Floats]:
        """Return the scores of lists, which several pieces may share."""
        if self.scored is None or self.scored[0] is not lists:
            # equal scores count by the expectation over all orders
            scores = {
                name: np.zeros(lists.docs) if ranker is None else ranker.score(lists.features)
                for name, ranker in self.rankers.items()
            }
            self.scored = lists, scores
        return self.scored[1]
