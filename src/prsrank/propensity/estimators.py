"""The propensity estimators by name, and what they have in common."""

from typing import Protocol

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import Propensities
from prsrank.propensity.harvest import HarvestEstimator
from prsrank.propensity.known import KnownPropensity
from prsrank.propensity.randomised import RandomisedEstimator
from prsrank.propensity.regression_em import RegressionEM
from prsrank.propensity.swap import SwapEstimator


class Estimator(Protocol):
    """A way to find the propensity of each position. Immutable."""

    def estimate(
        self, log: ClickLog, *, dataset: RankingDataset | None = None, seed: int = 0
    ) -> Propensities:
        """Return the log's curve, with intervals and a verdict.

        Args:
            log: what was shown and clicked.
            dataset: features of the log's docs, for estimators that use them.
            seed: of the bootstrap replicates.

        Raises:
            InputError: if the log has no sessions or no clicks.
        """
        ...


ESTIMATORS: dict[str, Estimator] = {
    "known": KnownPropensity(),
    "randomised": RandomisedEstimator(),
    "swap": SwapEstimator(),
    "harvest": HarvestEstimator(),
    "harvest-chain": HarvestEstimator(form="adjacent-chain"),
    "regression-em": RegressionEM(),
}
"""The estimators with default settings; `dataclasses.replace` changes a setting."""


def estimator(name: str) -> Estimator:
    """Return the named estimator with default settings.

    Underscores serve for hyphens.

    >>> estimator("harvest").form
    'all-pairs'
    """
    spelled = name.replace("_", "-")
    if spelled not in ESTIMATORS:
        raise InputError(f"unknown propensity method '{name}'; there are: {', '.join(ESTIMATORS)}")
    return ESTIMATORS[spelled]
