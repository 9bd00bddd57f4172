"""Training one kind of ranker under several assumptions."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.assumptions import Assumption, slot_propensities
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import ranker_class
from prsrank.types import Floats


def trainer(
    log: ClickLog,
    lists: RankingDataset,
    scored: RankingDataset,
    curve: PropensityCurve | None,
    *,
    ranker: str = "lambdamart",
    settings: Mapping[str, Any] | None = None,
) -> Callable[[Assumption], Floats]:
    """Return what trains a ranker by prs under an assumption and scores `scored`.

    The weight of a pair takes for propensities the slopes that the assumption gives: how much
    more often a relevant doc is clicked there than an irrelevant one. Seed and settings are the
    same each time, so that only the assumption differs.

    Args:
        log: the sessions to learn from.
        lists: their lists.
        scored: lists to score.
        curve: the propensities, or None for those in the log.
        ranker: name of the ranker.
        settings: its parameters.
    """
    propensities = slot_propensities(log, curve)

    @cache
    def train(assumption: Assumption) -> Floats:
        model: Any = ranker_class(ranker)().set_params(**dict(settings or {}))
        slope, _ = assumption.clicks(propensities, log.ranking_positions)
        pairs = model.pairs(log, lists, slope, "prs", parameters={"gamma": assumption.gamma})
        return np.asarray(model.fit(lists, pairs).score(scored.features), np.float64)

    return train
