"""When a counterfactual estimate cannot be trusted: all rules in one function."""

from typing import Protocol

import numpy as np

from prsrank.evaluation.weight_diagnostics import WeightDiagnostics
from prsrank.pairs.log_on_lists import PropensitySource
from prsrank.propensity.curve import Propensities
from prsrank.propensity.verdict import WIDE, in_words
from prsrank.types import Longs, Marks

LARGEST_UNSURE_SHARE = 0.05


class CountedClicks(Protocol):
    """What the rules ask of held-out clicks: a click log, or sums over one."""

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        ...

    def position_counts(self) -> tuple[Longs, Longs]:
        """Return how many docs were shown, and clicked, at each position."""
        ...


def estimate_warnings(
    diagnostics: WeightDiagnostics,
    log: CountedClicks,
    propensities: PropensitySource,
    *,
    left_out: int = 0,
    trained_on: str | None = None,
) -> tuple[str, ...]:
    """Return why an estimate cannot be trusted, worst first; nothing if it can.

    | rule                                                        | limit                    |
    | ----------------------------------------------------------- | ------------------------ |
    | the model has learned from the log                          | at all                   |
    | sessions left out, because docs have no features            | at all                   |
    | the propensities are not identified                         | verdict of the curve     |
    | weight at positions without clicks behind the curve, or     | 5 %                      |
    | with a wide interval (half of it above half the propensity) |                          |
    | effective clicks; effective queries                         | below 100; below 30      |
    | weight of the heaviest click; of the heaviest 1 % of clicks | above 5 %; above 30 %    |
    | docs that could not be seen; lists not shown whole          | at all                   |

    The last three rows are those of `weight_diagnostics`.

    Args:
        diagnostics: of all clicks.
        log: the held-out sessions that count.
        propensities: where clicks were likely.
        left_out: number of sessions that do not count, for want of features.
        trained_on: name of a model that was trained on the same log.
    """
    found = []
    if trained_on is not None:
        found.append(
            f"{trained_on} was trained on this log: its estimate is not held out, and too good"
        )
    if left_out:
        share = left_out / (left_out + log.sessions)
        found.append(
            f"{left_out} sessions ({share:.1%}) show docs that the data set does not have: they "
            "are left out, and the estimate is of the others"
        )
    if isinstance(propensities, Propensities):
        found += _curve_warnings(propensities, log)
    return (*found, *diagnostics.warnings)


def _curve_warnings(curve: Propensities, log: CountedClicks) -> list[str]:
    if curve.verdict.unknown:
        return [f"the propensities are {curve.verdict}"]
    if curve.clicks.sum() == 0:  # given, not estimated
        return []
    clicks = log.position_counts()[1]
    clicked = np.flatnonzero(clicks)
    unsure = _unsure(curve)[clicked]
    weights = clicks[clicked] / curve.propensity[clicked]
    share = float(weights[unsure].sum() / weights.sum()) if len(weights) else 0.0
    if share <= LARGEST_UNSURE_SHARE:
        return []
    return [
        f"{share:.0%} of the weight is that of clicks at positions {in_words(clicked[unsure] + 1)}, "
        "where the propensity is extrapolated or has a wide interval"
    ]


def _unsure(curve: Propensities) -> Marks:
    with np.errstate(invalid="ignore"):
        narrow = (curve.high - curve.low) / 2 <= WIDE * curve.propensity
    unsure = (curve.clicks == 0) | ~narrow
    unsure[0] = False  # position 1 is 1 by convention
    return np.asarray(unsure)
