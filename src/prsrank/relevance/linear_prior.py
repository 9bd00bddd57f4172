"""A prior that is linear in the features, for rankers that are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prsrank.clicks.evidence import ClickEvidence
from prsrank.data.dataset import RankingDataset
from prsrank.data.preprocess import FeatureScaling
from prsrank.errors import InputError
from prsrank.relevance.prior import CrossFit, Fit
from prsrank.types import Floats, Marks

_WIDEST_LOGIT = 12.0
_STEPS = 30
_HALVINGS = 20
_ROWS = 1 << 14


@dataclass(frozen=True, kw_only=True)
class LinearPrior:
    r"""f(x) = b + w x', x' the standardised features, w by penalised likelihood.

    Minimises $-\log L + \frac{\text{l2}}{2} |w|^2$ by Fisher scoring. All parts try the
    strengths from the greatest down, each from the last solution, and stop when the likelihood
    of the docs left out has fallen twice. They share the likeliest strength.

    Args:
        l2: the strengths to try, falling. A strength is the precision of the weights, in the
            units of the likelihood, and so means the same for any number of clicks.
    """

    l2: tuple[float, ...] = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)

    def __post_init__(self) -> None:
        if not self.l2 or min(self.l2) <= 0 or list(self.l2) != sorted(self.l2, reverse=True):
            raise InputError("l2 must be strengths above 0, falling")

    def on(self, dataset: RankingDataset, clicks: float, *, seed: int, threads: int | None) -> Fit:
        """Standardise the features; see `PriorModel`. Nothing in it is random."""
        scaling = FeatureScaling.fit(dataset.features, missing="impute")
        columns = np.ones((dataset.docs, scaling.columns + 1))
        columns[:, 1:] = scaling.transform(dataset.features)

        def fit(evidence: ClickEvidence, parts: Sequence[Marks]) -> CrossFit:
            logit, best_logit = np.zeros(len(columns)), np.zeros(len(columns))
            weights = np.zeros((len(parts), columns.shape[1]))
            rates = np.array([evidence.base_rate(~held) for held in parts])
            weights[:, 0] = np.log(rates / (1 - rates))
            best, worse = -np.inf, 0
            for l2 in self.l2:
                for part, held in enumerate(parts):
                    scores = _Scores(columns, evidence, ~held, threads)
                    weights[part] = scores.minimum(weights[part], l2)
                    logit[held] = scores.logits(weights[part])[held]
                height = float(scores.heights(logit).sum())
                if height > best:
                    best, best_logit = height, logit.copy()
                else:
                    worse += 1
                if worse == 2:
                    break
            return CrossFit(best_logit)

        return fit


LINEAR = LinearPrior()


class _Scores:
    """The penalised likelihood of some docs as a function of the weights."""

    def __init__(
        self, columns: Floats, evidence: ClickEvidence, used: Marks, threads: int | None
    ) -> None:
        self.columns, self.evidence, self.threads = columns, evidence, threads
        self.rows = np.flatnonzero(used & (np.diff(evidence.offsets) > 0))
        # gathered once: every step reads them all
        self.used = columns[self.rows]

    def logits(self, weights: Floats) -> Floats:
        return np.clip(self.columns @ weights, -_WIDEST_LOGIT, _WIDEST_LOGIT)

    def heights(self, logits: Floats) -> Floats:
        return self.evidence.log_likelihood(1 / (1 + np.exp(-logits)), threads=self.threads)

    def value(self, weights: Floats, l2: float) -> float:
        height = float(self.heights(self.logits(weights))[self.rows].sum())
        return float(l2 / 2 * (weights[1:] ** 2).sum() - height)

    def minimum(self, weights: Floats, l2: float) -> Floats:
        """Return the best weights, from others, by Fisher scoring."""
        penalty = np.full(len(weights), l2)
        penalty[0] = 1e-9  # the intercept is free
        value = self.value(weights, l2)
        for _ in range(_STEPS):
            slope, curvature = self.derivatives(weights)
            slope += penalty * weights
            move = -np.linalg.solve(curvature + np.diag(penalty), slope)
            # the gain that the step promises, in nats: below this the prior does not change
            if -float(slope @ move) < 1e-9 * max(abs(value), 1.0):
                break
            for halving in range(_HALVINGS):
                trial = weights + move * 0.5**halving
                reached = self.value(trial, l2)
                if reached < value:
                    break
            else:
                break
            weights, value = trial, reached
        return weights

    def derivatives(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return gradient and expected curvature of the loss by the weights."""
        by_doc, bend = self.evidence.gradient(self.logits(weights), threads=self.threads)
        slope = np.zeros(len(weights))
        curvature = np.zeros((len(weights), len(weights)))
        for start in range(0, len(self.rows), _ROWS):
            rows, x = self.rows[start : start + _ROWS], self.used[start : start + _ROWS]
            slope += by_doc[rows] @ x
            # a matrix times its own transpose: BLAS computes one half of it
            scaled = x * np.sqrt(bend[rows])[:, None]
            curvature += scaled.T @ scaled
        return slope, curvature
