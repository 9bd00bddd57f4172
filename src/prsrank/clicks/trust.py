"""The trust-bias click model: users judge docs near the top too kindly."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.walk import WalkTables, check_share
from prsrank.errors import InputError
from prsrank.types import Floats


@dataclass(frozen=True)
class TrustBiasModel(PositionBasedModel):
    r"""Clicks whose noise depends on the position.

    P(click at k) = p_k eps+_k for a relevant doc and p_k eps-_k for an irrelevant one, p_k as
    in `PositionBasedModel`. By default a user at position k trusts it blindly, and clicks,
    with probability t_k = trust / k, and else judges with noise mu:

        eps+_k = 1 - mu + t_k mu,    eps-_k = mu + t_k (1 - mu).

    Both fall with k; trust = 0 is the position-based model.

    Args:
        eta: severity of the position bias.
        mu: noise of the judgement, in [0, 0.5).
        trust: t_1, in [0, 1].
        curve: p_k for k = 1, 2, ... instead of (1/k)^eta.
        eps_relevant: eps+_k for k = 1, 2, ... instead of the default.
        eps_irrelevant: eps-_k for k = 1, 2, ... instead of the default.
        cutoff: show only the first `cutoff` docs.

    >>> model = TrustBiasModel(eta=1, mu=0.1, trust=0.5)
    >>> model.click_probabilities([1, 0, 1], [1, 2, 3]).round(4).tolist()
    [0.95, 0.1625, 0.3056]

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
            object.__setattr__(self, name, _checked_noise(name, getattr(self, name)))

    def tables(self, depth: int) -> WalkTables:
        """Return what a user does at positions 1 to `depth`."""
        trusting = self.trust / np.arange(1, depth + 1)
        noise = np.stack(
            [
                _noise(self.eps_irrelevant, self.mu + trusting * (1 - self.mu)),
                _noise(self.eps_relevant, 1 - self.mu + trusting * self.mu),
            ]
        )
        return WalkTables.independent(noise * self.examination(depth))


def _noise(given: Sequence[float] | None, default: Floats) -> Floats:
    if given is None:
        return default
    if len(given) < len(default):
        raise InputError(f"the noise covers {len(given)} positions, but {len(default)} are shown")
    return np.array(given[: len(default)], dtype=np.float64)


def _checked_noise(name: str, values: Sequence[float] | None) -> tuple[float, ...] | None:
    if values is None:
        return None
    for position, value in enumerate(values, start=1):
        check_share(f"{name} at position {position}", value)
    return tuple(float(value) for value in values)
