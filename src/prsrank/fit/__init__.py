"""From a click log to a ranker: audit, split, propensities, training, evaluation, report."""

from prsrank.fit.steps import FitResult, fit_log, repeat_fit

__all__ = ["FitResult", "fit_log", "repeat_fit"]
