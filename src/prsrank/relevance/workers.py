"""Workers that hold lists together: each has whole queries, and all know the sums over all."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from prsrank.types import SumOver


@dataclass(frozen=True)
class Workers:
    """All workers of a training; by default there is but one.

    Attributes:
        count: how many there are.
        sums: adds up numbers over all workers; all get the same bits.

    >>> Workers().network, Workers().sums([1.0, 2.0]).tolist()
    ({}, [1.0, 2.0])
    """

    count: int = 1
    sums: SumOver = np.asarray

    @property
    def network(self) -> dict[str, Any]:
        """LightGBM's options for trees that all workers grow together, over a network that is open."""
        return {} if self.count == 1 else {"num_machines": self.count, "tree_learner": "data"}


ALONE = Workers()
