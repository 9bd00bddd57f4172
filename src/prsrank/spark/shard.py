"""A shard: whole lists with their pairs, as one worker of a training holds them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prsrank.data.dataset import RankingDataset
from prsrank.pairs.pair_set import PairSet
from prsrank.types import Floats

# From scores to the numerator and the denominator of a quality; those of all workers add up.
QualitySums = Callable[[Floats], Sequence[float]]


@dataclass(frozen=True, eq=False)
class Shard:
    """Lists with their pairs, and lists to judge the model by.

    Attributes:
        dataset: lists to learn from.
        pairs: their pairs.
        judged: lists to judge by; None if there are none.
        clicks: what the clicks on `judged` say of their scores.
    """

    dataset: RankingDataset
    pairs: PairSet
    judged: RankingDataset | None = None
    clicks: QualitySums | None = None
