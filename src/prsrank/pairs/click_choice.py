"""Which click model a log shows: position-based, or users who read from the top."""

from dataclasses import dataclass

import numpy as np

from prsrank.clicks.cascade import Cascade, CascadeCounts, clicks_below
from prsrank.data.dataset import RankingDataset
from prsrank.propensity.cells import ENOUGH_QUERIES
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.ragged import list_of_row
from prsrank.relevance.dependence import dependence_statistic
from prsrank.relevance.prior import Prior
from prsrank.types import Floats

# Independent clicks exceed it once in a thousand logs (chi-squared of 2 degrees).
DEPENDENT = 13.8
# Clicks that depend on one another are a cascade's unless it is so much the worse at them.
WORSE = -3.0
# A log without the sessions that have no click shows dependence of its own making.
LEAST_WITHOUT_CLICK = 0.01


@dataclass(frozen=True)
class ClickChoice:
    """What was found about the clicks of a log.

    Attributes:
        cascade: whether they are taken for a cascade's.
        dependence: how far clicks of a session are from independent; see
            `prsrank.relevance.dependence`.
        advantage: how much likelier the cascade makes clicks at or above the last one than the
            position-based model does, in standard errors; NaN where nobody asked.
        go_on: probability of reading on after a skip; NaN where no cascade was fitted.
    """

    cascade: bool
    dependence: float
    advantage: float = float("nan")
    go_on: float = float("nan")

    @property
    def sentence(self) -> str:
        """The finding in plain words."""
        if self.cascade:
            return (
                "clicks of a session depend on one another as those of users who read from the "
                f"top, and on with probability {self.go_on:.2f}: docs at or above the last click "
                "count as seen, and the curve is not used"
            )
        if self.dependence > DEPENDENT:
            why = "too few lists, or sessions without a click, tell how"
            if not np.isnan(self.advantage):
                why = "not as those of users who read from the top"
            return (
                f"clicks of a session depend on one another, but {why}: "
                "the position-based model is kept"
            )
        return "clicks of a session look independent: the position-based model is kept"


def clicks_may_be_a_cascade(by_list: Floats, sessions: float, with_click: float) -> ClickChoice:
    """Test independence; `cascade` of the answer says whether a cascade is worth fitting.

    Args:
        by_list: what `prsrank.relevance.dependence.dependence_of_clicks` found.
        sessions: how many there are.
        with_click: how many of them have a click.
    """
    dependence = dependence_statistic(by_list)
    enough = by_list.any(axis=0).sum() >= ENOUGH_QUERIES
    enough &= sessions - with_click >= LEAST_WITHOUT_CLICK * sessions
    return ClickChoice(bool(enough and dependence > DEPENDENT), dependence)


def compared(
    choice: ClickChoice,
    cascade: Cascade,
    counts: CascadeCounts,
    lists: RankingDataset,
    position_based: tuple[Prior, Floats],
) -> ClickChoice:
    """Let both models predict the clicks at or above the last one, each by its cross-fitted prior.

    Args:
        choice: what the test of independence found.
        cascade: the fitted cascade.
        counts: the log.
        lists: the data set.
        position_based: the prior of the position-based model, and the propensity of each slot.
    """
    prior, p = position_based
    below = clicks_below(counts.lengths, p * prior.q[counts.docs], 1.0)
    other = counts.evidence(lists.docs, p, below).log_likelihood(prior.q)
    gain = np.bincount(
        list_of_row(lists.offsets), cascade.prior.log_likelihood - other, lists.lists
    )
    total = gain.sum()
    advantage = total / max(np.sqrt(max((gain**2).sum() - total**2 / len(gain), 0.0)), 1e-12)
    return ClickChoice(bool(advantage > WORSE), choice.dependence, float(advantage), cascade.go_on)


def slot_propensities(
    counts: CascadeCounts, counted: CountedClicks, *, power: float = 1.0
) -> Floats:
    """Return the mean propensity of each slot's doc at its position, at most 1.

    Contexts may give several to a doc at one position; slots nobody saw get 1.
    """
    cells = counted.cells
    several = int(max(cells.positions.max(initial=0), counts.positions.max(initial=0))) + 1
    keys, cell = np.unique(cells.cell_docs * several + cells.positions, return_inverse=True)
    p = np.minimum(counted.propensity**power, 1.0)
    mean = np.bincount(cell, p * cells.shown) / np.bincount(cell, cells.shown)
    wanted = counts.docs * several + counts.positions
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, mean[index], 1.0)
