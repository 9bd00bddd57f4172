"""A prior of boosted trees, grown by LightGBM on the likelihood of the clicks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from prsrank.clicks.evidence import ClickEvidence
from prsrank.data.dataset import RankingDataset, binned
from prsrank.errors import InputError
from prsrank.relevance.prior import Fit, Prior, marked_parts, sampled_queries
from prsrank.threads import import_lightgbm, tree_threads
from prsrank.types import Floats, Longs, Marks, Reals

MOST_DOCS, MOST_CLICKS = 200_000, 200_000
"""Trees learn from whole queries with about so many docs and clicks: more tell little new."""

_BLOCK = 1 << 16
# Beyond this a logit changes no probability that matters, and its curvature vanishes.
_WIDEST_LOGIT = 12.0


@dataclass(frozen=True, kw_only=True)
class TreePrior:
    r"""f(x) a sum of trees; growth stops by the likelihood of the part left out.

    All parts share one binned matrix; of large logs that of some queries, chosen by a hash of
    their ids. Docs of the part left out, and docs that were never shown, pull with gradient 0.
    LightGBM keeps their scores as trees grow, so their likelihood after each tree costs no
    prediction.

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

    def on(self, dataset: RankingDataset, clicks: float, *, seed: int, threads: int | None) -> Fit:
        """Choose the docs to learn from; LightGBM bins them once. See `PriorModel`."""
        lightgbm = import_lightgbm()
        share = max(MOST_DOCS / max(dataset.docs, 1.0), MOST_CLICKS / max(clicks, 1.0))
        used = np.ones(dataset.docs, np.bool_)
        if share < 1:
            used = np.repeat(sampled_queries(dataset.query_ids, share), dataset.list_lengths)
        options = self._options(seed, threads, dataset.features.size)
        data = binned(dataset, seed)
        data = data if used.all() else data.subset(np.flatnonzero(used))

        def fit(evidence: ClickEvidence, parts: Sequence[Marks]) -> Prior:
            some = evidence if used.all() else evidence.of_docs(used)
            logit, grown = np.zeros(dataset.docs), list[_Trees]()
            for held in parts:
                booster = lightgbm.Booster(dict(options), data)
                growth = _Growth(some, held[used], threads)
                self._grow(booster, growth)
                grown.append(_Trees(booster, growth.start, growth.best_trees))
                logit[held & used] = growth.best_logits
                others = np.flatnonzero(held & ~used)
                logit[others] = grown[-1].logits(dataset.features, others)
            return Prior(
                logit,
                evidence.log_likelihood(1 / (1 + np.exp(-logit)), threads=threads),
                {"trees": [trees.count for trees in grown]},
                partial(_predict, grown, seed),
                not used.all(),
            )

        return fit

    def _grow(self, booster: Any, growth: "_Growth") -> None:
        """Grow trees until the part left out is no likelier."""
        # the first call sees no tree yet, so that the last one sees them all
        for _ in range(self.trees + 1):
            no_split = booster.update(fobj=growth)
            if no_split or growth.trees - growth.best_trees >= self.patience:
                break

    def _options(self, seed: int, threads: int | None, values: int) -> dict[str, Any]:
        return {
            "objective": "none",
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": self.least_clicks,
            "lambda_l2": 1.0,
            "feature_fraction": self.feature_share,
            "num_threads": tree_threads(values, threads),
            "seed": seed,
            "deterministic": True,
            "force_col_wise": True,  # row by row would read the features that a tree leaves out
            "feature_pre_filter": False,
            "verbosity": -1,
        }


TREES = TreePrior()


@dataclass(frozen=True)
class _Trees:
    """The trees of a part: as many as were best, and where their sum starts."""

    booster: Any
    start: float
    count: int

    def logits(self, features: Reals, rows: Longs) -> Floats:
        """Return the logits of docs that no tree has learned from."""
        sums = np.zeros(len(rows))
        for block in range(0, len(rows) if self.count else 0, _BLOCK):
            some = features[rows[block : block + _BLOCK]]
            sums[block : block + _BLOCK] = self.booster.predict(
                some, raw_score=True, num_iteration=self.count
            )
        return _bounded(self.start + sums)


def _predict(parts: Sequence[_Trees], seed: int, lists: RankingDataset) -> Floats:
    logit = np.zeros(lists.docs)
    for trees, held in zip(parts, marked_parts(lists, len(parts), seed=seed), strict=True):
        rows = np.flatnonzero(held)
        logit[rows] = trees.logits(lists.features, rows)
    return logit


def _bounded(logits: Floats) -> Floats:
    return np.clip(logits, -_WIDEST_LOGIT, _WIDEST_LOGIT)


class _Growth:
    """LightGBM's objective; it is handed the scores, and so watches the part left out."""

    def __init__(self, evidence: ClickEvidence, held: Marks, threads: int | None) -> None:
        rate = evidence.base_rate(~held)
        self.held, self.threads = np.flatnonzero(held), threads
        self.aside, self.taught = evidence.of_docs(held), evidence.without(held)
        self.start = float(np.log(rate / (1 - rate)))
        self.trees, self.best_trees = -1, 0
        self.best = -np.inf
        self.best_logits = np.full(len(self.held), self.start)

    def __call__(self, scores: Floats, _: Any) -> tuple[Reals, Reals]:
        logits = _bounded(self.start + scores)
        aside = logits[self.held]
        likely = self.aside.log_likelihood(1 / (1 + np.exp(-aside)), threads=self.threads)
        height = float(likely.sum())
        self.trees += 1
        if height > self.best:
            self.best, self.best_trees, self.best_logits = height, self.trees, aside
        pull, curvature = self.taught.gradient(logits, threads=self.threads)
        return pull.astype(np.float32), curvature.astype(np.float32)
