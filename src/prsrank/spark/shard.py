"""A shard: whole lists with their pairs, as one worker of a training holds them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.relevance.workers import Workers
from prsrank.types import Floats

# From scores to the numerator and the denominator of a quality; those of all workers add up.
QualitySums = Callable[[Floats], Sequence[float]]


@dataclass(frozen=True, eq=False)
class Shard:
    """Lists with their pairs, and lists to judge the model by.

    Attributes:
        dataset: lists to learn from.
        pairs: their pairs, a PairSet or OuterPairs; None before `pairs_by` has made them.
        judged: lists to judge by; None if there are none.
        clicks: what the clicks on `judged` say of their scores.
        pairs_by: makes pairs that follow from the lists of all workers, together with them.
    """

    dataset: RankingDataset
    pairs: Any
    judged: RankingDataset | None = None
    clicks: QualitySums | None = None
    pairs_by: Callable[[Workers], Any] | None = None

    def ready(self, workers: Workers) -> "Shard":
        """Return the shard with its pairs; all workers call it at once.

        Raises:
            InputError: on all workers, if a worker has no list.
        """
        if workers.sums(float(self.dataset.docs == 0)) > 0:
            raise InputError("a worker has no list to learn from: use fewer workers")
        if self.pairs_by is None:
            return self
        return replace(self, pairs=self.pairs_by(workers), pairs_by=None)
