r"""Synthetic collections: lists of docs whose relevance is non-linear in the features.

Every doc has hidden variables z, some of them its query's. Features are noisy views of z (see
`prsrank.data.synthetic_shapes`); labels come from the utility

$$u = a\,f(z) + b\,s_q + e^{d_q / 3}\,\varepsilon,$$

f a fixed non-linear function per shape and seed, s_q and d_q the list's level and difficulty,
epsilon noise. A label is u cut at fixed thresholds, chosen once per shape and seed on a
sample of their own, so that no list depends on the others.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic_shapes import (
    MATCH_LATENTS,
    QUERY_LATENTS,
    SHAPES,
    Column,
    Group,
    Latent,
    Shape,
)
from prsrank.errors import InputError, nearest_name
from prsrank.ragged import offsets_of
from prsrank.types import Longs, Reals

_MIN_LISTS = 5  # one for each fold
_BLOCK_DOCS = 2_000  # small enough for the cache
_CALIBRATION_DOCS = 100_000
_BETWEEN_LISTS = 0.1  # share of a doc latent's variance
_SHARED_MATCH = 0.4  # share of the text matches' variance that they have in common
_PRESENCE = 0.6  # correlation of a group's presence with its latent
_WEIGHTS = np.array([0.8, 1.2, 0.6, 1.2, 0.6, 2.0, 0.8])  # of the terms of f
_LIST_DRAWS = len(Latent) + 2  # the list's part of each latent, its level, its difficulty
_DOC_DRAWS = len(Latent) - QUERY_LATENTS + 2  # a doc's own parts, its shared match, label noise


def synthetic_dataset(shape: str, lists: int, *, seed: int = 0) -> RankingDataset:
    """Make up a collection of the shape of a well-known one.

    List i is the same whatever `lists` is. Between machines and NumPy versions values may
    differ by rounding.

    Args:
        shape: "yahoo", "web10k", "mq2007" or "personal"; see `SHAPES`.
        lists: number of lists, at least five.
        seed: another seed gives other lists, and other weights in the relation of features
            to relevance.

    Raises:
        InputError: for an unknown shape, too few lists or a negative seed.

    >>> data = synthetic_dataset("mq2007", 20)
    >>> data.lists, data.features.shape[1], data.query_ids[:3].tolist()
    (20, 46, [1, 2, 3])
    """
    if shape not in SHAPES:
        raise InputError(f"no synthetic shape {shape!r}{nearest_name(shape, SHAPES)}")
    if lists < _MIN_LISTS:
        raise InputError(f"a synthetic collection has at least {_MIN_LISTS} lists, not {lists}")
    if seed < 0:
        raise InputError(f"the seed of a synthetic collection must be 0 or more, not {seed}")
    model = _model(shape, seed)
    offsets = offsets_of([_length(model.shape, _generator(model, i)) for i in range(lists)])
    features = np.zeros((offsets[-1], model.width), np.float32)
    labels = np.empty(offsets[-1], np.float32)
    start = 0
    for draws in _blocks(model, lists):
        stop = min(start + len(draws.docs), len(labels))
        labels[start:stop] = _labels(model, draws)[: stop - start]
        features[start:stop, list(model.columns)] = _features(model, draws)[: stop - start]
        start = stop
    return RankingDataset(
        features,
        offsets,
        query_ids=np.arange(1, lists + 1),
        labels=labels,
        feature_names=model.shape.names,
        relevant_from=model.shape.relevant_from,
    )


@dataclass(frozen=True, eq=False)
class _Model:
    """What all lists of a collection share.

    `thresholds` cut the utility into labels; for a shape with `mean_relevant` there is one,
    the distance from the list's best utility within which docs are relevant.
    """

    entropy: tuple[int, int]
    shape: Shape
    width: int
    columns: Mapping[int, Column]  # by index among the features, those of a kind side by side
    groups: Sequence[Group]
    weights: Reals
    centre: float  # mean and deviation of f
    spread: float
    thresholds: Reals


@dataclass(frozen=True, eq=False)
class _Draws:
    """The standard normal numbers behind a run of lists."""

    offsets: Longs
    lists: Reals  # lists x _LIST_DRAWS
    docs: Reals  # docs x (_DOC_DRAWS + groups)
    features: Reals  # docs x columns

    @cached_property
    def latents(self) -> Reals:
        """Docs x latents, each standard normal, matches and the docs of a list correlated."""
        shared = self.lists[:, : len(Latent)].repeat(np.diff(self.offsets), axis=0)
        own = self.docs[:, : len(Latent) - QUERY_LATENTS].copy()
        common = self.docs[:, len(Latent) - QUERY_LATENTS, None]
        matches = slice(MATCH_LATENTS[0] - QUERY_LATENTS, MATCH_LATENTS[-1] + 1 - QUERY_LATENTS)
        own[:, matches] = _mixed(common, own[:, matches], _SHARED_MATCH)
        shared[:, QUERY_LATENTS:] = _mixed(shared[:, QUERY_LATENTS:], own, _BETWEEN_LISTS)
        return shared


@lru_cache(maxsize=8)
def _model(name: str, seed: int) -> _Model:
    """Draw the columns, scale f to mean 0 and variance 1, and choose the thresholds."""
    shape, entropy = SHAPES[name], (seed, zlib.crc32(name.encode()))
    rng = np.random.default_rng([*entropy, 0])
    weights = (rng.uniform(0.85, 1.15, len(_WEIGHTS)) * _WEIGHTS).astype(np.float32)
    columns, groups = shape.columns(rng)
    present = ((index, column) for index, column in enumerate(columns) if column is not None)
    by_kind = dict(sorted(present, key=lambda item: item[1].kind))
    draws = _calibration_draws(shape, rng)
    raw = _relation(weights, draws.latents)
    centre, spread = float(raw.mean()), float(raw.std())
    model = _Model(
        entropy, shape, len(columns), by_kind, groups, weights, centre, spread, weights[:0]
    )
    utility = _utility(model, draws)
    if shape.mean_relevant is None:
        thresholds = np.quantile(utility, np.cumsum(shape.shares)[:-1])
    else:
        gaps = np.sort(_gaps(utility, draws.offsets))
        thresholds = gaps[[round(shape.mean_relevant * len(draws.lists)) - 1]]
    return replace(model, thresholds=thresholds.astype(np.float32))


def _calibration_draws(shape: Shape, rng: np.random.Generator) -> _Draws:
    if shape.mean_relevant is None:
        # The thresholds depend on single docs only: the more lists they come from the better.
        offsets = np.arange(_CALIBRATION_DOCS + 1)
    else:
        lists = round(_CALIBRATION_DOCS / shape.mean_length)
        offsets = offsets_of([_length(shape, rng) for _ in range(lists)])
    return _Draws(
        offsets,
        rng.standard_normal((len(offsets) - 1, _LIST_DRAWS), np.float32),
        rng.standard_normal((offsets[-1], _DOC_DRAWS), np.float32),
        np.empty((offsets[-1], 0), np.float32),
    )


def _generator(model: _Model, number: int) -> np.random.Generator:
    return np.random.default_rng([*model.entropy, 1, number])


def _length(shape: Shape, rng: np.random.Generator) -> int:
    probabilities, lengths = zip(*shape.lengths, strict=True)
    return round(float(np.interp(rng.random(), probabilities, lengths)))


def _blocks(model: _Model, lists: int) -> Iterator[_Draws]:
    """Draw lists in blocks; the last one whole too, so that a list's block is always the same.

    Rounding in vector instructions may depend on where a row lies.
    """
    size = max(1, round(_BLOCK_DOCS / model.shape.mean_length))
    widths = _DOC_DRAWS + len(model.groups), len(model.columns)
    for first in range(0, lists, size):
        generators = [_generator(model, number) for number in range(first, first + size)]
        offsets = offsets_of([_length(model.shape, rng) for rng in generators])
        of_lists = np.empty((size, _LIST_DRAWS), np.float32)
        docs, features = (np.empty((offsets[-1], width), np.float32) for width in widths)
        for number, rng in enumerate(generators):
            rows = slice(offsets[number], offsets[number + 1])
            for part in (of_lists[number], docs[rows], features[rows]):
                rng.standard_normal(dtype=np.float32, out=part)
        yield _Draws(offsets, of_lists, docs, features)


def _mixed(shared: Reals, other: Reals, share: float) -> Reals:
    return np.float32(share**0.5) * shared + np.float32((1 - share) ** 0.5) * other


def _relation(weights: Reals, latents: Reals) -> Reals:
    """Return f(z) before scaling.

    Monotone in the text matches, with a step in the title's; the intent decides whether
    anchors and URL or user behaviour count; a match counts for more in a good doc; medium
    lengths and depths are best; deep docs without authority are spam; authority and quality
    count for no more than the lesser of them.
    """
    z = dict(zip(Latent, latents.T, strict=True))
    navigational = 1 / (1 + np.exp(-3 * z[Latent.INTENT]))
    sought = z[Latent.ANCHOR] + z[Latent.URL]
    spam = (z[Latent.AUTHORITY] < -0.3) & (z[Latent.DEPTH] > 0.3)
    terms = (
        z[Latent.BODY] + 0.5 * z[Latent.TITLE],
        z[Latent.TITLE] > 0.5,
        navigational * sought + 1.5 * (1 - navigational) * z[Latent.BEHAVIOUR],
        z[Latent.BODY] * z[Latent.QUALITY],
        -np.square(z[Latent.LENGTH] - 0.2) - 0.5 * np.square(z[Latent.DEPTH]),
        -spam.astype(np.float32),
        np.minimum(z[Latent.AUTHORITY], z[Latent.QUALITY]),
    )
    return np.asarray(sum(w * term for w, term in zip(weights, terms, strict=True)))


def _utility(model: _Model, draws: _Draws) -> Reals:
    level, difficulty = draws.lists[:, -2:].repeat(np.diff(draws.offsets), axis=0).T
    scale = np.float32(model.shape.informative / model.spread)
    explained = scale * (_relation(model.weights, draws.latents) - np.float32(model.centre))
    noise = np.exp(difficulty / 3) * draws.docs[:, _DOC_DRAWS - 1]
    return np.asarray(explained + np.float32(model.shape.list_spread) * level + noise)


def _labels(model: _Model, draws: _Draws) -> npt.NDArray:
    utility = _utility(model, draws)
    if model.shape.mean_relevant is None:
        return np.asarray(np.searchsorted(model.thresholds, utility, side="right"))
    return _gaps(utility, draws.offsets) <= model.thresholds


def _gaps(utility: Reals, offsets: Longs) -> Reals:
    """Return how far each doc's utility is below the best of its list."""
    best = np.maximum.reduceat(utility, offsets[:-1])
    return np.asarray(best.repeat(np.diff(offsets)) - utility)


def _features(model: _Model, draws: _Draws) -> Reals:
    values = draws.features
    present = presence(model.groups, draws.latents, draws.docs[:, _DOC_DRAWS:])
    for number, column in enumerate(model.columns.values()):
        values[:, number] = column_values(column, draws.latents, values[:, number])
        values[:, number] *= present[column.group]
    if model.shape.normalised:
        scale_within_lists(values, draws.offsets)
    return values


def presence(groups: Sequence[Group], latents: Reals, noise: Reals) -> list[Reals]:
    """Return for each group 1 where a doc has it and 0 elsewhere; `noise` is docs x groups."""
    own, shared = np.float32(np.sqrt(1 - _PRESENCE**2)), np.float32(_PRESENCE)
    levels = (shared * latents[:, g.latent] + own * noise[:, i] for i, g in enumerate(groups))
    return [
        (level > np.float32(_quantile(group.absent))).astype(np.float32)
        for level, group in zip(levels, groups, strict=True)
    ]


def column_values(column: Column, latents: Reals, noise: Reals) -> Reals:
    """Return a feature of each doc; `noise` is its own, standard normal."""
    weights = np.array(list(column.weights.values()))
    loadings = weights / np.sqrt(weights @ weights) * (column.scale * column.fidelity)
    x = noise * np.float32(column.scale * np.sqrt(1 - column.fidelity**2))
    # not a matrix product: its rounding varies between rows and machines
    for latent, loading in zip(column.weights, loadings.astype(np.float32), strict=True):
        x += latents[:, latent] * loading
    return _KINDS[column.kind](x - np.float32(column.scale * _quantile(column.zeros)))


_KINDS: Mapping[str, Callable[[Reals], Reals]] = {
    "real": lambda x: x,
    "positive": lambda x: np.maximum(x, 0),
    "heavy": lambda x: np.exp(np.maximum(x, 0)) - 1,
    "count": lambda x: np.floor(np.exp(x)),
    "unit": lambda x: np.maximum(x, 0) / (1 + np.maximum(x, 0)),
    "flag": lambda x: (x > 0).astype(np.float32),
}


def scale_within_lists(values: Reals, offsets: Longs) -> None:
    """Scale each column to [0, 1] within each list, in place; to 0 where it is constant."""
    lengths = np.diff(offsets)
    lowest = np.minimum.reduceat(values, offsets[:-1])
    spread = np.maximum.reduceat(values, offsets[:-1]) - lowest
    values -= np.repeat(lowest, lengths, axis=0)
    values /= np.repeat(np.where(spread > 0, spread, 1), lengths, axis=0)


def _quantile(share: float) -> float:
    return NormalDist().inv_cdf(share) if share > 0 else -np.inf
