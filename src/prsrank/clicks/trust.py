"""The trust-bias click model: users judge docs near the top too kindly."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from prsrank.clicks.models import AffineClicks, WalkTables, check_share
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.errors import InputError
from prsrank.types import Floats, Longs


@dataclass(frozen=True)
class TrustBiasModel(PositionBasedModel):
    r"""Clicks whose noise depends on the position.

    P(click at k) = p_k eps+_k for a relevant doc and p_k eps-_k for an irrelevant one, p_k as
    in `PositionBasedModel`. A user at position k trusts it blindly, and clicks,
    with probability t_k = trust / k, and else judges with noise mu:

        eps+_k = 1 - mu + t_k mu,    eps-_k = mu + t_k (1 - mu).

    Both fall with k; trust = 0 is the position-based model.

    Args:
        eta: severity of the position bias.
        mu: noise of the judgement, in [0, 0.5).
        trust: t_1, in [0, 1].
        curve: p_k for k = 1, 2, ... instead of (1/k)^eta.
        cutoff: show only the first `cutoff` docs.
        eps_relevant: eps+_k for k = 1, 2, ... instead of what mu and trust say; the last one
            goes on for ever.
        eps_irrelevant: eps-_k, likewise; below eps+_k.

    >>> model = TrustBiasModel(eta=1, mu=0.1, trust=0.5)
    >>> model.click_probabilities([1, 0, 1], [1, 2, 3]).round(4).tolist()
    [0.95, 0.1625, 0.3056]
    >>> model = TrustBiasModel(eps_relevant=[1.0, 0.9], eps_irrelevant=[0.5, 0.1])
    >>> [part.round(3).tolist() for part in model.affine(np.array([1, 3]), np.array([1.0, 0.5]))]
    [[0.5, 0.4], [0.5, 0.05]]

    References:
        Agarwal, Wang, Li, Bendersky, Najork: Addressing trust bias for unbiased
        learning-to-rank. WWW 2019.
    """

    trust: float = field(default=0.5, kw_only=True)
    eps_relevant: Sequence[float] | None = field(default=None, kw_only=True)
    eps_irrelevant: Sequence[float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("trust", self.trust)
        for name in ("eps_relevant", "eps_irrelevant"):
            values = getattr(self, name)
            if values is None:
                continue
            for position, value in enumerate(values, start=1):
                check_share(f"{name} at position {position}", value)
            if not len(values):
                raise InputError(f"{name} is empty")
            object.__setattr__(self, name, tuple(float(value) for value in values))

    def noise(self, positions: Longs) -> Floats:
        """Return eps- and eps+ of positions (2 x positions)."""
        trusting = self.trust / positions
        noise = [self.mu + trusting * (1 - self.mu), 1 - self.mu + trusting * self.mu]
        for row, values in enumerate((self.eps_irrelevant, self.eps_relevant)):
            if values is not None:
                noise[row] = np.array(values)[np.minimum(positions, len(values)) - 1]
        return np.stack(noise)

    def tables(self, depth: int) -> WalkTables:
        """Return what a user does at positions 1 to `depth`."""
        noise = self.noise(np.arange(1, depth + 1))
        return WalkTables.of(noise * self.examination(depth))

    def affine(self, positions: Longs, propensity: Floats) -> AffineClicks:
        """Return p (eps+ - eps-) and p eps-, theta being the probability of relevance."""
        p, (lower, upper) = np.minimum(propensity, 1.0), self.noise(positions)
        if np.any(upper <= lower):
            raise InputError("eps_relevant must be above eps_irrelevant at every position")
        return AffineClicks(p * (upper - lower), p * lower)
