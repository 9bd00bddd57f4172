"""Unbiased rankers from biased click logs, by Propensity Ratio Scoring.

The pipeline: data set, click log, propensities, weighted pairs, ranker, metrics.
Names are imported when first used, so that `import prsrank` is fast; `__init__.pyi` says where
each is.
"""

import importlib
import re
from pathlib import Path

__version__ = "0.1.0"

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOME = {
    name: home for home, name in re.findall(r"^from (\S+) import (\w+) as", _STUB, re.MULTILINE)
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'prsrank' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
