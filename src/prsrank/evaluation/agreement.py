"""How alike two rankings of the same lists are."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from prsrank.types import Floats

# Up to so many docs all pairs take less time than SciPy's function takes to begin.
_SHORT = 100


def kendall_tau(one: npt.ArrayLike, other: npt.ArrayLike, offsets: npt.ArrayLike) -> Floats:
    r"""Return Kendall's tau-b of the scores of each list.

    $\tau_b = (C - D) / \sqrt{T_1 T_2}$: C and D pairs in the same and in the opposite order, T
    the pairs that each ranker tells apart. NaN for a list that one of them leaves all tied.

    >>> kendall_tau([3, 2, 1, 5, 4], [3, 1, 2, 5, 4], [0, 3, 5]).round(3).tolist()
    [0.333, 1.0]
    """
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return np.array([_tau(a[i:j], b[i:j]) for i, j in pairwise(np.asarray(offsets).tolist())])


def rank_change(
    one: npt.ArrayLike, other: npt.ArrayLike, offsets: npt.ArrayLike, *, k: int = 10
) -> Floats:
    """Return by how many ranks the first ranker's top k docs move on average, for each list.

    A tied doc has the mean of the ranks it may have.

    >>> rank_change([3, 2, 1], [1, 2, 3], [0, 3], k=1).tolist()
    [2.0]
    """
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    moved = []
    for i, j in pairwise(np.asarray(offsets).tolist()):
        before, after = _ranks(a[i:j]), _ranks(b[i:j])
        # where more than k docs tie at the top they are all the top
        top = before <= max(k, before.min(initial=np.inf))
        moved.append(np.abs(before - after)[top].mean() if i < j else np.nan)
    return np.array(moved)


def mean_known(values: Floats) -> float:
    """Return the mean over lists that have a value; NaN if none has."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _tau(a: Floats, b: Floats) -> float:
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    if len(a) > _SHORT:
        from scipy.stats import kendalltau

        return float(kendalltau(a, b).statistic)
    one, other = _signs(a), _signs(b)
    return float((one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum()))


def _signs(scores: Floats) -> Floats:
    """Return 1 or -1 for each pair of docs that the scores tell apart, else 0."""
    above = scores[:, None] > scores
    return above.astype(np.float64) - above.T


def _ranks(scores: Floats) -> Floats:
    from scipy.stats import rankdata

    return np.asarray(rankdata(-scores), np.float64)
