"""The order in which scores show the docs of each list."""

import numpy as np
from numba import njit

from prsrank.clicks.stream import stream_key
from prsrank.sorting import sort_with_index
from prsrank.threads import for_each_piece
from prsrank.types import Floats, Ints, Longs


def ranked_docs(
    scores: Floats, offsets: Longs, *, seed: int = 0, threads: int | None = None
) -> Ints:
    """Return the docs of each list by falling score; ties by a random number of each row.

    >>> ranked_docs(np.array([0.1, 0.3, 0.2, 0.5]), np.array([0, 3, 4])).tolist()
    [1, 2, 0, 3]
    """
    rng = np.random.default_rng(int(stream_key(seed, 1)))
    # as floats, that the one sort which is compiled for the scores serves them too
    ties = rng.integers(0, 1 << 63, len(scores)).astype(np.float64)
    order = np.empty(len(scores), np.int32)
    for_each_piece(
        lambda first, last: _rank_kernel(first, last, offsets, scores, ties, order),
        offsets,
        threads=threads,
    )
    return order


@njit(cache=True, nogil=True)
def _rank_kernel(
    first: int,
    last: int,
    offsets: Longs,
    scores: Floats,
    ties: Floats,
    order: Ints,
) -> None:
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        part = -scores[start:stop]
        ordered, ranks = sort_with_index(part)
        for i in range(1, len(ranks)):
            if ordered[i] == ordered[i - 1]:
                _, shuffled = sort_with_index(ties[start:stop])
                _, order_of_shuffled = sort_with_index(part[shuffled])
                ranks = shuffled[order_of_shuffled]
                break
        for i in range(len(ranks)):
            order[start + i] = start + ranks[i]
