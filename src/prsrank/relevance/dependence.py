r"""Do clicks of one session depend on one another? A test that needs neither curve nor relevance.

If clicks are independent given the docs and their positions, as the position-based model and trust
bias have them, then whether a doc at its position is clicked has nothing to do with what was
clicked above it, whatever the curve and whatever its relevance. Per (doc, position), over its
sessions, with $y$ the click, $a$ whether there is a click above and x the log of the
distance to the nearest one,

$$T_1 = \sum y a - \frac{\sum a \sum y}{N}, \quad T_2 = \sum_{a = 1} y x - \frac{\sum_{a = 1} x
\sum_{a = 1} y}{\sum a}$$

both have expectation 0. A user who reads from the top has seen what is close below a click rather
than what is far below it, and nothing if the click was the last thing wanted.
"""

import numpy as np
from numba import njit

from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log import ClickLog
from prsrank.ragged import list_of_row
from prsrank.sorting import rows_by_group
from prsrank.types import Floats

# So many sessions of a ranking tell enough; the others cost time.
_SESSIONS_OF_RANKING = 64
_SUMS = 6


def dependence_of_clicks(log: ClickLog, lists: RankingDataset) -> Floats:
    """Return T_1 and T_2 of each list (2 x lists); those of pieces of a log add up."""
    starts, order = rows_by_group(log.session_ranking, log.rankings)
    slots = np.zeros((_SUMS, len(log.ranking_docs)))
    logs = np.log(np.arange(1, max(int(np.diff(log.ranking_offsets).max(initial=1)), 1) + 1))
    _sums_kernel(starts, order, log.click_offsets, log.clicks, log.ranking_offsets, logs, slots)
    # a doc may be at one position in several rankings
    docs = log.doc_rows(lists)[log.ranking_docs]
    key = docs * (log.max_position + 1) + log.ranking_positions
    cells, cell = np.unique(key, return_inverse=True)
    n, y, above, y_above, far, y_far = (np.bincount(cell, part, len(cells)) for part in slots)
    first = y_above - above * y / np.maximum(n, 1)
    second = y_far - far * y_above / np.maximum(above, 1)
    owner = list_of_row(lists.offsets)[cells // (log.max_position + 1)]
    return np.array([np.bincount(owner, t, lists.lists) for t in (first, second)])


def dependence_statistic(by_list: Floats) -> float:
    """Return how far both sums are from 0: chi-squared of 2 degrees where clicks are independent.

    Args:
        by_list: T_1 and T_2 of each list; lists are independent of one another.

    >>> dependence_statistic(np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]))
    4.0
    """
    total, spread = by_list.sum(axis=1), by_list @ by_list.T
    return float(total @ np.linalg.pinv(spread, hermitian=True) @ total)


@njit(cache=True, nogil=True)
def _sums_kernel(starts, order, click_offsets, clicks, offsets, logs, out):  # type: ignore[no-untyped-def]
    for ranking in range(len(starts) - 1):
        first, length = offsets[ranking], offsets[ranking + 1] - offsets[ranking]
        last = min(starts[ranking + 1], starts[ranking] + _SESSIONS_OF_RANKING)
        for at in range(starts[ranking], last):
            click, end = click_offsets[order[at]], click_offsets[order[at] + 1]
            above = -1
            for index in range(length):
                slot = first + index
                y = click < end and clicks[click] == index
                out[0, slot] += 1
                out[1, slot] += y
                if above >= 0:
                    far = logs[index - above - 1]
                    out[2, slot] += 1
                    out[3, slot] += y
                    out[4, slot] += far
                    out[5, slot] += y * far
                if y:
                    above = index
                    click += 1
