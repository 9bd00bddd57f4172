"""Users of several kinds, some of whom read further down than others."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from prsrank.clicks.models import AffineClicks, Users, WalkTables, check_share
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.errors import InputError
from prsrank.types import Floats, Longs


@dataclass(frozen=True)
class DepthMixtureModel(PositionBasedModel):
    r"""Clicks of users of a few kinds; each session is one of a kind.

    A user of kind m examines position k with probability $p_k^{a_m}$, p_k as in
    `PositionBasedModel`, and clicks then as there. Clicks are independent given the kind, but not
    in the log: a click far down is one of a user who reads on.

    Args:
        eta: severity of the position bias of a kind of power 1.
        mu: noise, in [0, 0.5).
        curve: p_k for k = 1, 2, ... instead of (1/k)^eta.
        cutoff: show only the first `cutoff` docs.
        powers: $a_m$ of each kind, at least 0.
        shares: how often each comes; they add up to 1.

    >>> model = DepthMixtureModel(mu=0, powers=(0, 2), shares=(0.5, 0.5))
    >>> model.click_probabilities([1, 1], [1, 2]).tolist()  # (1 + 1/4) / 2
    [1.0, 0.625]
    """

    numbers: ClassVar[tuple[float, ...]] = (-0.7, 0.7, 0.0)

    powers: Sequence[float] = field(default=(0.3, 3.0), kw_only=True)
    shares: Sequence[float] = field(default=(0.5, 0.5), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("powers", "shares"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        for share in self.shares:
            check_share("a share of the users", share)
        if len(self.powers) != len(self.shares) or not np.isclose(sum(self.shares), 1):
            raise InputError("each kind of users needs a power and a share, which add up to 1")
        if not all(np.isfinite(power) and power >= 0 for power in self.powers):
            raise InputError(f"powers must be finite and not negative, not {self.powers}")

    @classmethod
    def of_numbers(cls, numbers: Sequence[float], curve: Floats) -> Self:
        """Make two kinds: log powers, and the logit of the first one's share."""
        share = 1 / (1 + np.exp(-numbers[2]))
        return cls(
            mu=0, powers=tuple(np.exp(numbers[:2])), shares=(share, 1 - share), curve=tuple(curve)
        )

    def examination(self, depth: int) -> Floats:
        """Return P(examined) of positions 1 to `depth`, over all kinds."""
        return np.asarray(np.array(self.shares) @ self._of_kinds(depth))

    def _of_kinds(self, depth: int) -> Floats:
        return np.asarray(super().examination(depth) ** np.array(self.powers)[:, None])

    def tables(self, depth: int) -> WalkTables:
        """Return what a user does at positions 1 to `depth`; the state is the kind of user."""
        attraction = np.array([[self.mu], [1 - self.mu]])
        return WalkTables.of(attraction * self._of_kinds(depth)[:, None], start=self.shares)

    def affine(self, positions: Longs, propensity: Floats) -> AffineClicks:
        """Raise an InputError: counts do not have the clicks of a session together."""
        return Users.affine(self, positions, propensity)
