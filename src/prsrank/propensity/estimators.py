"""The propensity estimators by name."""

from prsrank.families import Family
from prsrank.types import Estimator

__all__ = ["ESTIMATORS", "Estimator", "estimator"]

ESTIMATORS: Family[Estimator] = Family(
    "propensity method",
    {
        "known": "prsrank.propensity.curve_of:KNOWN",
        "randomised": "prsrank.propensity.randomised:RANDOMISED",
        "swap": "prsrank.propensity.randomised:SWAP",
        "harvest": "prsrank.propensity.harvest:HARVEST",
        "harvest-chain": "prsrank.propensity.harvest:HARVEST_CHAIN",
        "regression-em": "prsrank.propensity.regression_em:REGRESSION_EM",
        "likelihood": "prsrank.propensity.likelihood:LIKELIHOOD",
    },
)
"""The estimators with default settings, those to prefer first; `dataclasses.replace` changes one."""


def estimator(name: str) -> Estimator:
    """Return the named estimator with default settings.

    >>> estimator("harvest").form
    'all-pairs'
    """
    return ESTIMATORS.find(name)
