"""What counterfactual metrics count: the value of a clicked doc's new rank."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from prsrank.errors import InputError, nearest_name
from prsrank.types import Floats, Longs


@dataclass(frozen=True)
class RankValue:
    """What a counterfactual metric counts.

    Attributes:
        value: the value of each rank.
        higher_is_better: whether a ranker should have a higher estimate.
        takes_cutoff: whether the name may end in "@k".
        per_doc_shown: whether values are divided by the number of docs shown.
        self_normalised: whether the estimate is always divided by the sum of weights.
        cutoff: ranks below this one count 0; None for all.
    """

    value: Callable[[Floats], Floats]
    higher_is_better: bool
    takes_cutoff: bool = False
    per_doc_shown: bool = False
    self_normalised: bool = False
    cutoff: int | None = None

    def of_ranks(self, ranks: int) -> Floats:
        """Return the value of ranks 1 to `ranks`."""
        values = self.value(np.arange(1.0, ranks + 1))
        values[self.cutoff or ranks :] = 0.0
        return values

    def divisors(self, lengths: Longs) -> Longs:
        """Return by what the values of docs shown among so many are divided."""
        return lengths if self.per_doc_shown else np.ones_like(lengths)


COUNTERFACTUAL_METRICS: Mapping[str, RankValue] = MappingProxyType(
    {
        "dcg": RankValue(lambda r: 1 / np.log2(1 + r), True, takes_cutoff=True),
        "wmrr": RankValue(lambda r: 1 / r, True, self_normalised=True),
        "arp": RankValue(lambda r: r - 1, False, per_doc_shown=True),
        "arp_mean_rank": RankValue(lambda r: r, False, self_normalised=True),
    }
)


def find_rank_value(metric: str) -> RankValue:
    """Return the entry of `COUNTERFACTUAL_METRICS` that a name means, such as "dcg@10".

    >>> find_rank_value("dcg@2").of_ranks(3).round(3).tolist()
    [1.0, 0.631, 0.0]
    """
    base, at, cutoff = metric.partition("@")
    if base not in COUNTERFACTUAL_METRICS:
        hint = nearest_name(base, COUNTERFACTUAL_METRICS)
        raise InputError(f"clicks give no estimate of '{metric}'{hint}")
    found = COUNTERFACTUAL_METRICS[base]
    if not at:
        return found
    if not found.takes_cutoff:
        raise InputError(f"metric '{metric}': {base} takes no cut-off; write '{base}'")
    if not (cutoff.isdecimal() and int(cutoff) > 0):
        raise InputError(f"metric '{metric}': the cut-off must be a whole number above 0")
    return replace(found, cutoff=int(cutoff))
