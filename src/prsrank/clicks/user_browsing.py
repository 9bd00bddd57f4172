"""The user browsing model: what is close below a click is seen."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from prsrank.clicks.models import AffineClicks, Users, WalkTables, check_share
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.errors import InputError
from prsrank.types import Floats, Longs


@dataclass(frozen=True)
class UserBrowsingModel(PositionBasedModel):
    r"""Clicks of users whose look at a position depends on how far above it the last click was.

    Position k is examined with probability p_k, as in `PositionBasedModel`, if nothing above it
    was clicked, and else with

    $$\gamma_{jk} = \text{near} \cdot (k - j)^{-\text{fading}}$$

    j being the position of the last click. An examined doc is clicked with 1 - mu if relevant and
    mu if not.

    Args:
        eta: severity of the position bias before a click.
        mu: noise, in [0, 0.5).
        curve: p_k for k = 1, 2, ... instead of (1/k)^eta.
        cutoff: show only the first `cutoff` docs.
        near: P(examined) just below a click.
        fading: how fast that falls with the distance, at least 0.

    >>> model = UserBrowsingModel(mu=0, near=0.8)
    >>> model.click_probabilities([1, 1], [1, 2]).tolist()  # position 1 is clicked for certain
    [1.0, 0.8]

    References:
        Dupret, Piwowarski: A user browsing model to predict search engine click data from past
        observations. SIGIR 2008.
    """

    numbers: ClassVar[tuple[float, ...]] = (0.0, 1.0, 0.0)

    near: float = field(default=0.8, kw_only=True)
    fading: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("near", self.near)
        if not (np.isfinite(self.fading) and self.fading >= 0):
            raise InputError(f"fading must be finite and not negative, not {self.fading}")

    @classmethod
    def of_numbers(cls, numbers: Sequence[float], curve: Floats) -> Self:
        """Make a model: log of the curve's power, logit of `near`, log of `fading`."""
        power, near, fading = numbers
        powered = tuple(curve ** np.exp(power))
        return cls(mu=0, near=1 / (1 + np.exp(-near)), fading=np.exp(fading), curve=powered)

    def tables(self, depth: int) -> WalkTables:
        """Return what a user does at positions 1 to `depth`; the state is where the last click was."""
        places = np.arange(depth)
        distance = np.maximum(places + 1 - np.arange(1, depth + 1)[:, None], 1.0)
        examined = np.vstack([self.examination(depth), self.near * distance**-self.fading])
        attraction = np.array([[self.mu], [1 - self.mu]])
        start = np.zeros(depth + 1)
        start[0] = 1.0
        return WalkTables.of(
            attraction * examined[:, None], start=start, after_click=(places + 1)[None]
        )

    def affine(self, positions: Longs, propensity: Floats) -> AffineClicks:
        """Raise an InputError: counts do not have the clicks of a session together."""
        return Users.affine(self, positions, propensity)
