"""The trust-bias click model: users judge docs near the top too kindly."""

from dataclasses import dataclass, field

import numpy as np

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.walk import WalkTables, check_share


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

    >>> model = TrustBiasModel(eta=1, mu=0.1, trust=0.5)
    >>> model.click_probabilities([1, 0, 1], [1, 2, 3]).round(4).tolist()
    [0.95, 0.1625, 0.3056]

    References:
        Agarwal, Wang, Li, Bendersky, Najork: Addressing trust bias for unbiased
        learning-to-rank. WWW 2019.
    """

    trust: float = field(default=0.5, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("trust", self.trust)

    def tables(self, depth: int) -> WalkTables:
        """Return what a user does at positions 1 to `depth`."""
        trusting = self.trust / np.arange(1, depth + 1)
        noise = np.stack([self.mu + trusting * (1 - self.mu), 1 - self.mu + trusting * self.mu])
        return WalkTables.independent(noise * self.examination(depth))
