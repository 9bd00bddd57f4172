"""What counted pairs weigh: propensities of their keys, session constants, action weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.pairs.counted_kernels import PairWeights
from prsrank.pairs.fold import SessionConstant
from prsrank.pairs.log_on_lists import MOST_LEVELS, check_seen, weigh_levels
from prsrank.propensity.curve import PropensityCurve
from prsrank.types import Floats, Ints
from prsrank.weighting import Weighting


@dataclass(frozen=True)
class Keys:
    """The distinct keys that pairs have, and their propensities.

    Attributes:
        values: the keys, rising.
        propensities: one per key.
    """

    values: npt.NDArray
    propensities: Floats

    def codes(self, keys: npt.NDArray) -> tuple[npt.NDArray, Ints]:
        """Return small whole numbers for keys, and the index into `values` by such a number."""
        largest = self.values[-1] if len(self.values) else 0
        if self.values.dtype.kind in "iu" and largest < 1 << 20:
            levels = np.zeros(int(largest) + 1, np.int32)
            levels[self.values] = np.arange(len(self.values))
            return keys, levels
        return np.searchsorted(self.values, keys), np.arange(len(self.values), dtype=np.int32)


def find_keys(
    values: npt.NDArray,
    source: PropensityCurve | None,
    *,
    contexts: Sequence[str] | None = None,
) -> Keys:
    """Return distinct keys with their propensities.

    Args:
        values: the keys: positions; position x number of contexts + index of the context;
            or, where there is no curve, propensities.
        source: the curve, or None where the keys are propensities.
        contexts: the values of the context, if the curve is asked with one.

    Raises:
        InputError: if there are too many keys, or a propensity is below 0 or not finite.
    """
    values = np.unique(values)
    if len(values) > MOST_LEVELS:
        raise InputError(
            f"{len(values):,} distinct positions or propensities are more than {MOST_LEVELS:,}: "
            "PairSet.from_log takes any number"
        )
    propensities = values.astype(np.float64)
    if source is not None and contexts is None:
        propensities = np.asarray(source.at(values), np.float64)
    elif source is not None and contexts is not None:
        propensities = np.empty(len(values))
        for index, context in enumerate(contexts):
            here = values % len(contexts) == index
            propensities[here] = source.at(values[here] // len(contexts), context=context)
    positions = values if contexts is None else values // len(contexts)
    check_seen(propensities, positions, stacklevel=5)
    return Keys(values, propensities)


@dataclass(frozen=True)
class Kinds:
    """The kinds of winners: every number of clicks in the session with every action weight.

    Attributes:
        most_clicks: the largest number of clicks in a session; 0 if it does not matter.
        weights: the distinct action weights, rising; [1] if they do not matter.
    """

    most_clicks: int
    weights: Floats

    def codes(self, rows: int, clicks: npt.NDArray | None, weights: npt.NDArray | None) -> Ints:
        """Return the kind of each row; nothing if there is one kind."""
        codes = np.zeros(0 if clicks is None and weights is None else rows, np.int32)
        if clicks is not None:
            codes += clicks.astype(np.int32) * np.int32(len(self.weights))
        if weights is not None:
            codes += np.searchsorted(self.weights, weights).astype(np.int32)
        return codes


def pair_weights(
    dataset: RankingDataset,
    weighting: Weighting,
    constant: SessionConstant,
    keys: Keys,
    kinds: Kinds,
) -> PairWeights:
    """Weigh all pairs of keys, for `prsrank.pairs.counted_kernels.fold_pairs`."""
    propensities = keys.propensities if len(keys.values) else np.ones(1)
    relevance = dataset.relevance if weighting.needs_labels else np.zeros(0, np.uint8)
    table, clipped = weigh_levels(weighting, propensities)
    constants = constant.of_clicks(kinds.most_clicks)
    return PairWeights(
        table=table,
        clipped=clipped,
        relevance=relevance,
        only_irrelevant=weighting.against == "irrelevant",
        actions=np.tile(kinds.weights, kinds.most_clicks + 1),
        constants=np.repeat(constants, len(kinds.weights)),
        factors=constant.of_lists(dataset.list_lengths),
    )
