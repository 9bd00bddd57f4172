r"""How deep clicks lie, query by query: what tells how fast they fall down the list.

The mean log position of clicks is $V = \sum_q x_q / \sum_q d_q$, with the log positions x and the
clicks d of each query. Where most clicks of a query lie is the query's own, so two logs that
share queries move together: the variance of the difference of their means is

$$\sum_q \Big(\frac{x_q - V d_q}{\sum d} - \frac{x'_q - V' d'_q}{\sum d'}\Big)^2,$$

where a query that one of them lacks counts 0 there. It is right whether they share all queries
or none, and for two windows added up, whose queries may be the same.
"""

from dataclasses import dataclass

import numpy as np

from prsrank.logs.units import UnitSums
from prsrank.monitor.ratios import normal_chance
from prsrank.propensity.bootstrap import degrees_of_freedom
from prsrank.types import Floats, Longs


@dataclass(frozen=True)
class Depths:
    """Sums over clicks by query; those of two windows add up with `+`.

    Attributes:
        keys: of the queries that have clicks, or of groups of queries by their hash.
        clicks: number of clicks.
        depth: sum of the log positions of clicks.
    """

    keys: list[int]
    clicks: list[float]
    depth: list[float]

    @classmethod
    def of(cls, keys: Longs, clicks: Floats, depth: Floats) -> "Depths":
        """Keep the queries that have clicks."""
        there = clicks > 0
        return cls(keys[there].tolist(), clicks[there].tolist(), depth[there].tolist())

    def __add__(self, other: "Depths") -> "Depths":
        """Return the sums of two windows, one after the other.

        >>> Depths([5], [2.0], [0.5]) + Depths([5, 6], [1.0, 1.0], [0.0, 0.7])
        Depths(keys=[5, 6], clicks=[3.0, 1.0], depth=[0.5, 0.7])
        """
        both = self._sums() + other._sums()
        return Depths.of(both.keys, both.values[:, 0], both.values[:, 1])

    @property
    def mean(self) -> float:
        """The mean log position of clicks."""
        return sum(self.depth) / sum(self.clicks)

    def chance(self, before: "Depths") -> float:
        """Return the probability of such a difference of the means if nothing has changed.

        >>> one = Depths([1, 2, 3], [9.0, 9.0, 9.0], [3.0, 9.0, 15.0])
        >>> round(one.chance(Depths([1, 2, 3], [9.0, 9.0, 9.0], [3.0, 9.0, 15.0])), 3)
        1.0
        """
        both = self._influence() + before._influence(-1.0)
        error = float((both.values**2).sum()) ** 0.5
        freedom = float(degrees_of_freedom(both.values)[0])
        return normal_chance(self.mean - before.mean, (error, freedom))

    def _sums(self) -> UnitSums:
        return UnitSums.of(np.array(self.keys, np.int64), np.c_[self.clicks, self.depth])

    def _influence(self, sign: float = 1.0) -> UnitSums:
        """Return what each query adds to the error of the mean."""
        clicks, depth = np.array(self.clicks), np.array(self.depth)
        units = len(clicks)
        residual = (depth - self.mean * clicks) / clicks.sum()
        residual *= sign * (units / max(units - 1, 1)) ** 0.5
        return UnitSums.of(np.array(self.keys, np.int64), residual[:, None])
