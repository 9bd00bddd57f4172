"""Unbiased rankers from biased click logs, by Propensity Ratio Scoring.

The pipeline: data set, click log, propensities, weighted pairs, ranker, metrics.
Names are imported when first used, so that `import prsrank` is fast.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from prsrank.data.dataset import RankingDataset as RankingDataset
    from prsrank.data.dataset import concatenate as concatenate
    from prsrank.errors import DataWarning as DataWarning
    from prsrank.errors import InputError as InputError

_HOME = {
    "DataWarning": "prsrank.errors",
    "InputError": "prsrank.errors",
    "RankingDataset": "prsrank.data.dataset",
    "concatenate": "prsrank.data.dataset",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'prsrank' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
