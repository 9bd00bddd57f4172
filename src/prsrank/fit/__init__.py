"""From a click log to a ranker: audit, split, propensities, training, evaluation, report."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prsrank.fit.steps import FitResult, fit_log, repeat_fit

__all__ = ["FitResult", "fit_log", "repeat_fit"]


def __getattr__(name: str) -> Any:
    """Import the steps when they are first asked for: plans and manifests need none of them."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module("prsrank.fit.steps"), name)
