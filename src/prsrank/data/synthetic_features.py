"""From hidden variables to feature values: the columns of a shape, computed block by block."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from prsrank.data.synthetic_shapes import Column, Group
from prsrank.types import Longs, Reals

_PRESENCE = 0.6  # correlation of a group's presence with its latent


_KINDS: Mapping[str, Callable[[Reals], Reals]] = {
    "real": lambda x: x,
    "positive": lambda x: np.maximum(x, 0),
    "heavy": lambda x: np.exp(np.maximum(x, 0)) - 1,
    "count": lambda x: np.floor(np.exp(x)),
    "unit": lambda x: np.maximum(x, 0) / (1 + np.maximum(x, 0)),
    "flag": lambda x: (x > 0).astype(np.float32),
}


@dataclass(frozen=True, eq=False)
class FeatureMaker:
    """Columns as arrays, those of one kind side by side.

    Attributes:
        indices: index of each column among the features; other features are always 0.
        sources: the latents that each column measures, filled up with any (most x columns).
        loadings: their weights, 0 where filled up (most x columns).
        noise: weight of each column's own noise.
        shift: what is taken off to set the share of zeros.
        kinds: the columns of each kind.
        groups: group of each column.
        group_latents: latent with which each group's presence goes.
        group_quantiles: where a group begins to be present.
    """

    indices: Longs
    sources: Longs
    loadings: Reals
    noise: Reals
    shift: Reals
    kinds: Mapping[str, slice]
    groups: Longs
    group_latents: Longs
    group_quantiles: Reals

    @classmethod
    def of(cls, columns: Sequence[Column | None], groups: Sequence[Group]) -> "FeatureMaker":
        """Lay out columns, one per feature; None for a feature that is always 0."""
        used = [(index, column) for index, column in enumerate(columns) if column is not None]
        used.sort(key=lambda item: item[1].kind)
        ordered = [column for _, column in used]
        kinds = [column.kind for column in ordered]
        firsts = {kind: kinds.index(kind) for kind in kinds}
        scale = np.array([column.scale for column in ordered])
        fidelity = np.array([column.fidelity for column in ordered])
        quantiles = np.array([_quantile(column.zeros) for column in ordered])
        most = max(len(column.weights) for column in ordered)
        sources, loadings = np.zeros((2, most, len(ordered)))
        for number, column in enumerate(ordered):
            weights = np.array(list(column.weights.values()))
            sources[: len(weights), number] = list(column.weights)
            loadings[: len(weights), number] = weights / np.sqrt(weights @ weights)
        return cls(
            indices=np.array([index for index, _ in used]),
            sources=sources.astype(np.int64),
            loadings=(loadings * (scale * fidelity)).astype(np.float32),
            noise=(scale * np.sqrt(1 - fidelity**2)).astype(np.float32),
            shift=(scale * quantiles).astype(np.float32),
            kinds={k: slice(first, first + kinds.count(k)) for k, first in firsts.items()},
            groups=np.array([column.group for column in ordered]),
            group_latents=np.array([group.latent for group in groups]),
            group_quantiles=np.array([_quantile(g.absent) for g in groups], np.float32),
        )

    def values(self, latents: Reals, presence: Reals, noise: Reals) -> Reals:
        """Return the columns' values; `noise` is overwritten with them.

        Args:
            latents: docs x latents.
            presence: standard normal numbers, docs x groups.
            noise: standard normal numbers, docs x columns.
        """
        noise *= self.noise
        # Not a matrix product: its rounding varies between rows and machines.
        for source, loading in zip(self.sources, self.loadings, strict=True):
            noise += latents[:, source] * loading
        noise -= self.shift
        for kind, run in self.kinds.items():
            noise[:, run] = _KINDS[kind](noise[:, run])
        own = np.float32(np.sqrt(1 - _PRESENCE**2))
        level = np.float32(_PRESENCE) * latents[:, self.group_latents] + own * presence
        noise *= (level > self.group_quantiles).astype(np.float32)[:, self.groups]
        return noise


def scale_within_lists(values: Reals, offsets: Longs) -> None:
    """Scale each column to [0, 1] within each list, in place; to 0 where it is constant."""
    lengths = np.diff(offsets)
    lowest = np.minimum.reduceat(values, offsets[:-1])
    spread = np.maximum.reduceat(values, offsets[:-1]) - lowest
    values -= np.repeat(lowest, lengths, axis=0)
    values /= np.repeat(np.where(spread > 0, spread, 1), lengths, axis=0)


def _quantile(share: float) -> float:
    return NormalDist().inv_cdf(share) if share > 0 else -np.inf
