"""Click models: a user walks down the slots of a ranking. The one form of all, and their table.

A model is one file and one line in the table. Its class holds how users click, from which sessions
are simulated, and what clicks say of a doc, which is its likelihood.
"""

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.families import Family
from prsrank.types import ClickModel, Floats, Longs

CLICK_MODELS: Family[type[ClickModel]] = Family(
    "click model",
    {
        "position-based": "prsrank.clicks.position_based:PositionBasedModel",
        "cascade": "prsrank.clicks.cascade:CascadeModel",
        "trust": "prsrank.clicks.trust:TrustBiasModel",
        "depth-mixture": "prsrank.clicks.depth_mixture:DepthMixtureModel",
        "dependent": "prsrank.clicks.cascade:DependentClickModel",
        "user-browsing": "prsrank.clicks.user_browsing:UserBrowsingModel",
    },
)


@dataclass(frozen=True, eq=False)
class WalkTables:
    """What a user does at each position, by relevance (row 0: irrelevant, row 1: relevant).

    A user in a state s who reaches position k clicks there with probability click[s, r, k - 1].
    The walk then ends with probability stop_after_click[s, r, k - 1] or
    stop_after_skip[s, r, k - 1], and else goes on to position k + 1. A walk that never ends, of
    users in one state, makes the clicks independent. States are what else a click may depend on:
    the kind of user, drawn once a session, or where the last click was.

    Attributes:
        click: P(click | position reached) (states x 2 x positions).
        stop_after_click: P(walk ends | clicked) (states x 2 x positions).
        stop_after_skip: P(walk ends | reached, not clicked) (states x 2 x positions).
        start: P(the walk begins in a state) (states).
        after_click: the state that a click in a state and at a position leads to
            (states x positions).
    """

    click: Floats
    stop_after_click: Floats
    stop_after_skip: Floats
    start: Floats
    after_click: Longs

    @classmethod
    def of(
        cls,
        click: Floats,
        *,
        stop_after_click: npt.ArrayLike = 0.0,
        stop_after_skip: npt.ArrayLike = 0.0,
        start: npt.ArrayLike = (1.0,),
        after_click: npt.ArrayLike | None = None,
    ) -> "WalkTables":
        """Spread what is the same for several states, kinds of docs or positions over all of them.

        By default there is one state, a click leads to no other, and no walk ends.
        """
        shape = (states := np.size(start), 2, click.shape[-1])
        clicking, satisfied, tired = (
            np.array(np.broadcast_to(table, shape), np.float64)
            for table in (click, stop_after_click, stop_after_skip)
        )
        after = np.arange(states)[:, None] if after_click is None else after_click
        leading = np.array(np.broadcast_to(after, (states, shape[2])), np.int64)
        return cls(clicking, satisfied, tired, np.array(start, np.float64), leading)


def marginal_clicks(
    tables: WalkTables, relevance: npt.ArrayLike, positions: npt.ArrayLike
) -> Floats:
    r"""Return the probability of a click at each slot of a ranking.

    From the probabilities that a user reaches a slot in each state, those of a click there
    and of reaching the next slot follow.

    Args:
        tables: the model's tables, at least as many positions as the last of `positions`.
        relevance: 0 or 1 for each slot, in the order shown.
        positions: 1-based position of each slot, rising.
    """
    rows, columns = np.asarray(relevance), np.asarray(positions, dtype=np.int64) - 1
    if rows.ndim != 1 or not np.isin(rows, (0, 1)).all():
        raise InputError("relevance must be a flat array of 0 and 1")
    if columns.shape != rows.shape:
        raise InputError(f"{rows.size} relevances for {columns.size} positions")
    if columns.size and (columns[0] < 0 or np.any(np.diff(columns) <= 0)):
        raise InputError("positions must start at 1 or later and rise")
    reach, chances = tables.start, np.zeros(len(rows))
    # slots between the positions given do not count: nothing was shown there
    for slot, at in enumerate(zip(rows.astype(np.int64), columns, strict=True)):
        clicked = reach * tables.click[:, *at]
        skipped = reach - clicked
        chances[slot] = clicked.sum()
        going_on = clicked * (1 - tables.stop_after_click[:, *at])
        reach = skipped * (1 - tables.stop_after_skip[:, *at])
        reach += np.bincount(tables.after_click[:, at[1]], going_on, len(reach))
    return chances


def check_share(name: str, value: float, *, below: float | None = None) -> None:
    """Raise an InputError unless 0 <= value <= 1 (or value < `below`)."""
    if not 0 <= value <= 1 or (below is not None and value >= below):
        limits = "[0, 1]" if below is None else f"[0, {below:g})"
        raise InputError(f"{name} must be in {limits}, not {value}")


class AffineClicks(NamedTuple):
    """P(click) = floor + gain theta, one entry per position asked for."""

    gain: Floats
    floor: Floats


class Users:
    """What click models share: noise mu, a cutoff, and the clicks that follow from the tables."""

    mu: float
    cutoff: int | None

    def __post_init__(self) -> None:
        check_share("mu", self.mu, below=0.5)
        if self.cutoff is not None and self.cutoff < 1:
            raise InputError(f"cutoff must be at least 1, not {self.cutoff}")

    @abstractmethod
    def tables(self, depth: int) -> WalkTables:
        """Return what a user does at positions 1 to `depth`."""

    def examination(self, depth: int) -> Floats:
        """Return P(examined) of positions 1 to `depth`, where it depends on the position alone."""
        raise InputError(f"{type(self).__name__} has no examination of single positions")

    def click_probabilities(self, relevance: npt.ArrayLike, positions: npt.ArrayLike) -> Floats:
        """Return P(click) of each slot of a ranking; see `ClickModel`."""
        depth = int(np.max(np.asarray(positions, dtype=np.int64), initial=0))
        return marginal_clicks(self.tables(depth), relevance, positions)

    def affine(self, positions: Longs, propensity: Floats) -> AffineClicks:
        """Return gain and floor at positions whose propensities are given; see `ClickModel`."""
        raise InputError(f"clicks of {type(self).__name__} depend on the clicks above them")


def click_model(name: str, **parameters: Any) -> Any:
    """Make the named click model.

    >>> click_model("cascade", mu=0.2).gamma
    0.9
    """
    kind = CLICK_MODELS.find(name)
    parameter_names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for parameter in parameters:
        if parameter not in parameter_names:
            raise InputError(
                f"click model {name} has no parameter {parameter} (it has: {', '.join(parameter_names)})"
            )
    return kind(**parameters)
