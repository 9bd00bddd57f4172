"""A prior of boosted trees, grown by LightGBM on the likelihood of the clicks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from prsrank.clicks.evidence import ClickEvidence
from prsrank.data.dataset import RankingDataset, binned
from prsrank.errors import InputError
from prsrank.relevance.prior import CrossFit, Fit, sampled_queries
from prsrank.threads import import_lightgbm, tree_threads
from prsrank.types import Floats, Longs, Marks, Reals

MOST_DOCS, MOST_CLICKS = 200_000, 200_000
"""Trees learn from whole queries with about so many docs and clicks: more tell little new."""

_BLOCK = 1 << 16
# Beyond this a logit changes no probability that matters, and its curvature vanishes.
_WIDEST_LOGIT = 12.0


@dataclass(frozen=True, kw_only=True)
class TreePrior:
    r"""f(x) a sum of trees, as many in each part as make the docs left out likeliest in all.

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

        def fit(evidence: ClickEvidence, parts: Sequence[Marks]) -> CrossFit:
            some = evidence if used.all() else evidence.of_docs(used)
            boosters = [lightgbm.Booster(dict(options), data) for _ in parts]
            growths = [
                _Growth(booster, some, held[used], threads)
                for booster, held in zip(boosters, parts, strict=True)
            ]
            self._grow(growths)
            trees = [_Trees(each.booster, each.start, each.best_trees) for each in growths]
            predict = partial(_predict, trees)
            logit = predict(dataset, [held & ~used for held in parts])
            for growth, held in zip(growths, parts, strict=True):
                logit[held & used] = growth.best_logits
            return CrossFit(logit, predict, not used.all())

        return fit

    def _grow(self, growths: Sequence["_Growth"]) -> None:
        """Grow a tree of every part at a time, until the docs left out are no likelier in all."""
        best, best_step = -np.inf, 0
        # the first step sees no tree yet, so that the last one sees them all
        for step in range(self.trees + 1):
            ended = [growth.booster.update(fobj=growth) for growth in growths]
            height = sum(growth.height for growth in growths)
            if height > best:
                best, best_step = height, step
                for growth in growths:
                    growth.best_trees, growth.best_logits = growth.trees, growth.logits
            if all(ended) or step - best_step >= self.patience:
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


class _Trees(NamedTuple):
    """The trees of a part: as many as were best, and where their sum starts."""

    booster: Any
    start: float
    size: int

    def logits(self, features: Reals, rows: Longs) -> Floats:
        """Return the logits of docs that no tree has learned from."""
        sums = np.zeros(len(rows))
        for block in range(0, len(rows) if self.size else 0, _BLOCK):
            some = features[rows[block : block + _BLOCK]]
            sums[block : block + _BLOCK] = self.booster.predict(
                some, raw_score=True, num_iteration=self.size
            )
        return _bounded(self.start + sums)


def _predict(parts: Sequence[_Trees], lists: RankingDataset, held: Sequence[Marks]) -> Floats:
    logit = np.zeros(lists.docs)
    for trees, docs in zip(parts, held, strict=True):
        rows = np.flatnonzero(docs)
        logit[rows] = trees.logits(lists.features, rows)
    return logit


def _bounded(logits: Floats) -> Floats:
    return np.clip(logits, -_WIDEST_LOGIT, _WIDEST_LOGIT)


class _Growth:
    """LightGBM's objective; it is handed the scores, and so watches the docs left out."""

    def __init__(
        self, booster: Any, evidence: ClickEvidence, held: Marks, threads: int | None
    ) -> None:
        rate = evidence.base_rate(~held)
        self.booster, self.held, self.threads = booster, np.flatnonzero(held), threads
        self.aside, self.taught = evidence.of_docs(held), evidence.without(held)
        self.start = float(np.log(rate / (1 - rate)))
        self.trees = self.best_trees = 0
        self.height = -np.inf
        self.logits = self.best_logits = np.full(len(self.held), self.start)

    def __call__(self, scores: Floats, _: Any) -> tuple[Reals, Reals]:
        logits = _bounded(self.start + scores)
        # a step adds no tree where no leaf can be split
        self.trees, self.logits = self.booster.num_trees(), logits[self.held]
        chance = 1 / (1 + np.exp(-self.logits))
        self.height = float(self.aside.log_likelihood(chance, threads=self.threads).sum())
        pull, curvature = self.taught.gradient(logits, threads=self.threads)
        return pull.astype(np.float32), curvature.astype(np.float32)
