"""The families of interchangeable parts, one Protocol each.

Conventions everywhere: a *rank* or *position* is 1-based, an *index* 0-based. Ragged data
is one flat array and `offsets`: list q is the slice offsets[q]:offsets[q + 1].
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Reals = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Marks = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
IdArray = npt.NDArray[np.int64] | npt.NDArray[np.str_]
"""Ids of queries, docs or sessions: all integers or all strings."""


class Metric(Protocol):
    """A measure of ranking quality, one value per list.

    Args:
        labels: label or relevance of each doc, flat.
        scores: score of each doc, flat; a higher score ranks higher. Docs of equal score
            count by the expectation over all orders of them.
        offsets: where each list begins, and the end (lists + 1).

    Returns:
        One value per list; NaN for a list on which the metric has no meaning (for most: a
        list without a relevant doc). `average` skips and counts those.
    """

    def __call__(
        self, labels: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike
    ) -> Floats:
        """Return one value per list."""
        ...
