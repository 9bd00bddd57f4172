"""The position-based click model: a click needs an observation, which depends on the position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from prsrank.clicks.models import AffineClicks, Users, WalkTables, check_share
from prsrank.errors import InputError
from prsrank.types import Floats, Longs


@dataclass(frozen=True)
class PositionBasedModel(Users):
    r"""Clicks of users who examine each position k with its own probability p_k.

    P(click at k) = p_k q, with p_k = (1/k)^eta or curve[k - 1], and q = 1 - mu for a relevant
    doc, mu for an irrelevant one. Clicks of one session are independent.

    Args:
        eta: severity of the position bias; 0 is none.
        mu: noise, in [0, 0.5).
        curve: p_k for k = 1, 2, ... instead of (1/k)^eta.
        cutoff: show only the first `cutoff` docs.

    >>> model = PositionBasedModel(eta=1, mu=0.1)
    >>> model.click_probabilities([1, 0, 1], [1, 2, 3]).round(3).tolist()
    [0.9, 0.05, 0.3]

    References:
        Joachims, Swaminathan, Schnabel: Unbiased learning-to-rank with biased feedback.
        WSDM 2017.
    """

    numbers: ClassVar[tuple[float, ...]] = (0.0,)

    eta: float = 1.0
    mu: float = 0.1
    curve: Sequence[float] | None = None
    cutoff: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "curve", _checked_curve(self.eta, self.curve))

    @classmethod
    def of_numbers(cls, numbers: Sequence[float], curve: Floats) -> Self:
        """Make a model whose clicks are certain for relevant docs: the log of the curve's power."""
        return cls(mu=0, curve=tuple(curve ** np.exp(numbers[0])))

    def examination(self, depth: int) -> Floats:
        """Return p_k for k = 1 to `depth`.

        >>> PositionBasedModel(eta=2).examination(4).tolist()
        [1.0, 0.25, 0.1111111111111111, 0.0625]
        """
        if self.curve is None:
            return np.asarray(np.arange(1, depth + 1, dtype=np.float64) ** -self.eta)
        if len(self.curve) < depth:
            raise InputError(
                f"the curve covers {len(self.curve)} positions, but {depth} are shown; "
                f"give a longer one or cutoff={len(self.curve)}"
            )
        return np.array(self.curve[:depth], dtype=np.float64)

    def tables(self, depth: int) -> WalkTables:
        """Return what a user does at positions 1 to `depth`."""
        attraction = np.array([[self.mu], [1 - self.mu]])
        return WalkTables.of(attraction * self.examination(depth))

    def affine(self, positions: Longs, propensity: Floats) -> AffineClicks:
        r"""Return $P(click) = p_k \theta$, theta being the probability of a click once examined.

        A propensity above 1, which an estimate can be, counts as 1.

        >>> PositionBasedModel().affine(np.array([1, 2]), np.array([1.0, 0.5])).gain.tolist()
        [1.0, 0.5]
        """
        p = np.minimum(propensity, 1.0)
        return AffineClicks(p, np.zeros(len(p)))


def _checked_curve(eta: float, curve: Sequence[float] | None) -> tuple[float, ...] | None:
    """Return the curve as a tuple; InputError for a bad eta or a bad probability."""
    if not (np.isfinite(eta) and eta >= 0):
        raise InputError(f"eta must be finite and not negative, not {eta}")
    if curve is None:
        return None
    values = tuple(float(p) for p in curve)
    if not values:
        raise InputError("the curve is empty")
    for position, p in enumerate(values, start=1):
        check_share(f"the curve at position {position}", p)
    return values
