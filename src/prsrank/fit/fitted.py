"""What reports and summaries read of a fit, wherever it ran: see `FitResult` and `EngineFit`."""
# ruff: noqa: D102 -- the two classes say what each attribute is

from collections.abc import Mapping
from typing import Protocol

from prsrank.evaluation.log_evaluation import LogEvaluation
from prsrank.fit.plan import Plan
from prsrank.fit.tuning import Tuned
from prsrank.propensity.curve import Propensities


class FittedParts(Protocol):
    """The parts of the log."""

    @property
    def way(self) -> str: ...
    @property
    def dropped_sessions(self) -> int: ...
    def counts(self) -> dict[str, dict[str, int]]: ...


class FittedPropensities(Protocol):
    """The curves."""

    @property
    def curve(self) -> Propensities | None: ...
    @property
    def judging(self) -> Propensities | None: ...
    @property
    def how(self) -> str: ...


class Fitted(Protocol):
    """The whole result."""

    @property
    def plan(self) -> Plan: ...
    @property
    def parts(self) -> FittedParts: ...
    @property
    def left_out(self) -> int: ...
    @property
    def propensities(self) -> FittedPropensities: ...
    @property
    def tuned(self) -> Mapping[str, Tuned]: ...
    @property
    def evaluation(self) -> LogEvaluation: ...
    @property
    def baseline(self) -> str: ...
