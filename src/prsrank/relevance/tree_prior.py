"""A prior of boosted trees, grown by LightGBM on the likelihood of the clicks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prsrank.clicks.likelihood import ClickEvidence
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.relevance.prior import Prior
from prsrank.relevance.workers import Workers
from prsrank.threads import import_lightgbm, thread_count
from prsrank.types import Floats, Marks, Reals, SumOver

# Below so many feature values LightGBM's threads cost more than they save.
_VALUES_FOR_THREADS = 1_000_000
# Beyond this a logit changes no probability that matters, and its curvature vanishes.
_WIDEST_LOGIT = 12.0


@dataclass(frozen=True, kw_only=True)
class TreePrior:
    r"""f(x) a sum of trees; growth stops by the likelihood of the part left out.

    All parts share one binned matrix: docs of the part left out, and docs that were never
    shown, pull with gradient 0. LightGBM keeps their scores as trees grow, so their likelihood
    after each tree costs no prediction. Several workers add up their histograms by LightGBM's
    sockets, and the likelihood of the part left out by sums.

    Args:
        trees: the most trees of a part.
        learning_rate: of each tree.
        leaves: the most leaves of a tree.
        least_clicks: the least expected curvature of a leaf. It counts about the clicks that
            a leaf's value rests on, whatever the number of sessions.
        feature_share: share of the features, drawn anew for each tree.
        patience: stop after so many trees without a greater likelihood.
    """

    trees: int = 300
    learning_rate: float = 0.1
    leaves: int = 8
    least_clicks: float = 5.0
    feature_share: float = 0.5
    patience: int = 20

    def __post_init__(self) -> None:
        if min(self.trees, self.patience) < 1 or self.leaves < 2 or not self.learning_rate > 0:
            raise InputError("trees and patience must be at least 1, leaves 2, learning_rate > 0")

    def cross_fit(
        self,
        dataset: RankingDataset,
        evidence: ClickEvidence,
        parts: Sequence[Marks],
        *,
        seed: int,
        threads: int | None,
        workers: Workers,
    ) -> Prior:
        """Return the prior of each doc; see `PriorModel`."""
        lightgbm = import_lightgbm()
        options = self._options(seed, threads, dataset.features.size) | workers.network
        data = lightgbm.Dataset(dataset.features, params=options, free_raw_data=False)
        logit, trees, first = np.zeros(dataset.docs), [], None
        for held in parts:
            booster = lightgbm.Booster(options, data)
            # the first one opened the network, before the bins were found, and holds it for all
            first = first or booster
            options.pop("machines", None)
            growth = _Growth(evidence, held, threads, workers.sums)
            self._grow(booster, growth)
            logit[held] = growth.best_logits
            trees.append(growth.best_trees)
        if workers.network and first is not None:
            first.free_network()
        height = evidence.log_likelihood(1 / (1 + np.exp(-logit)))
        return Prior(logit, height, {"trees": trees})

    def _grow(self, booster: Any, growth: "_Growth") -> None:
        # the first call sees no tree yet, so that the last one sees them all
        for _ in range(self.trees + 1):
            no_split = booster.update(fobj=growth)
            if no_split or growth.trees - growth.best_trees >= self.patience:
                break

    def _options(self, seed: int, threads: int | None, values: int) -> dict[str, Any]:
        few = threads is None and values < _VALUES_FOR_THREADS
        return {
            "objective": "none",
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": self.least_clicks,
            "lambda_l2": 1.0,
            "feature_fraction": self.feature_share,
            "num_threads": 1 if few else thread_count(threads),
            "seed": seed,
            "deterministic": True,
            "force_col_wise": True,  # row by row would read the features that a tree leaves out
            "feature_pre_filter": False,
            "verbosity": -1,
        }


class _Growth:
    """LightGBM's objective; it is handed the scores, and so watches the part left out."""

    def __init__(
        self, evidence: ClickEvidence, held: Marks, threads: int | None, sums: SumOver
    ) -> None:
        rate = evidence.base_rate(~held, sums=sums)
        self.evidence, self.held, self.threads, self.sums = evidence, held, threads, sums
        self.start = float(np.log(rate / (1 - rate)))
        self.trees, self.best_trees = -1, 0
        self.best = -np.inf
        self.best_logits = np.full(int(held.sum()), self.start)

    def __call__(self, scores: Floats, _: Any) -> tuple[Reals, Reals]:
        logits = np.clip(self.start + scores, -_WIDEST_LOGIT, _WIDEST_LOGIT)
        theta = 1 / (1 + np.exp(-logits))
        # all workers stop at the same tree: they decide by the same number
        height = float(self.sums(self.evidence.log_likelihood(theta)[self.held].sum()))
        self.trees += 1
        if height > self.best:
            self.best, self.best_trees = height, self.trees
            self.best_logits = logits[self.held]
        gradient, curvature = self.evidence.gradient(logits, threads=self.threads)
        gradient[self.held] = curvature[self.held] = 0.0
        return gradient.astype(np.float32), curvature.astype(np.float32)
