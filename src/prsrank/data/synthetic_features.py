"""From hidden variables to feature values: the columns of a shape, computed block by block."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import NormalDist

import numpy as np

from prsrank.data.synthetic_shapes import Column, Group
from prsrank.types import Longs, Reals

_PRESENCE = 0.6  # correlation of a group's presence with its latent


def _positive(x: Reals) -> None:
    np.maximum(x, 0, out=x)


def _heavy(x: Reals) -> None:
    np.maximum(x, 0, out=x)
    np.exp(x, out=x)
    x -= 1


def _count(x: Reals) -> None:
    np.exp(x, out=x)
    np.floor(x, out=x)


def _unit(x: Reals) -> None:
    np.maximum(x, 0, out=x)
    x /= 1 + x


def _flag(x: Reals) -> None:
    np.greater(x, 0, out=x, casting="unsafe")


_KINDS: Mapping[str, Callable[[Reals], None]] = {
    "real": lambda x: None,
    "positive": _positive,
    "heavy": _heavy,
    "count": _count,
    "unit": _unit,
    "flag": _flag,
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
        kinds: runs of columns of one kind.
        groups: group of each column.
        group_latents: latent with which each group's presence goes.
        group_quantiles: where a group begins to be present.
    """

    indices: Longs
    sources: Longs
    loadings: Reals
    noise: Reals
    shift: Reals
    kinds: tuple[tuple[str, slice], ...]
    groups: Longs
    group_latents: Longs
    group_quantiles: Reals

    @classmethod
    def of(cls, columns: Sequence[Column | None], groups: Sequence[Group]) -> "FeatureMaker":
        """Lay out columns, one per feature; None for a feature that is always 0."""
        used = [(column, index) for index, column in enumerate(columns) if column is not None]
        used.sort(key=lambda item: item[0].kind)
        ordered = [column for column, _ in used]
        scale = np.array([column.scale for column in ordered])
        fidelity = np.array([column.fidelity for column in ordered])
        quantiles = np.array([_quantile(column.zeros) for column in ordered])
        sources, loadings = _loadings(ordered)
        return cls(
            indices=np.array([index for _, index in used]),
            sources=sources,
            loadings=loadings,
            noise=(scale * np.sqrt(1 - fidelity**2)).astype(np.float32),
            shift=(scale * quantiles).astype(np.float32),
            kinds=_runs([column.kind for column in ordered]),
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
        for kind, run in self.kinds:
            _KINDS[kind](noise[:, run])
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


def _loadings(columns: Sequence[Column]) -> tuple[Longs, Reals]:
    most = max(len(column.weights) for column in columns)
    sources = np.zeros((most, len(columns)), np.int64)
    loadings = np.zeros((most, len(columns)))
    for number, column in enumerate(columns):
        count = len(column.weights)
        weights = np.array(list(column.weights.values()))
        sources[:count, number] = list(column.weights)
        loadings[:count, number] = weights / np.sqrt(weights @ weights)
        loadings[:count, number] *= column.scale * column.fidelity
    return sources, loadings.astype(np.float32)


def _runs(kinds: Sequence[str]) -> tuple[tuple[str, slice], ...]:
    runs = []
    for kind, members in groupby(range(len(kinds)), key=kinds.__getitem__):
        numbers = list(members)
        runs.append((kind, slice(numbers[0], numbers[-1] + 1)))
    return tuple(runs)
