r"""Positions linked by comparisons: a network whose potentials are log p.

A comparison of positions k and k' with precision g pulls log p_k - log p_k' towards its own
value; the weighted least squares solve L x = b with the network's Laplacian L and b the sums
of precision times value at each position, position 1 held at 0.
"""

import numpy as np

from prsrank.threads import one_blas_thread
from prsrank.types import Floats, Marks


def linked_to_first(conductance: Floats) -> Marks:
    """Return which positions comparisons link to position 1, at once or through others.

    >>> linked_to_first(np.array([[0, 2.0, 0], [0, 0, 0], [0, 0, 0]])).tolist()
    [True, True, False]
    """
    from scipy.sparse.csgraph import connected_components

    _, part = connected_components(conductance > 0, directed=False)
    return np.asarray(part == part[0])


@one_blas_thread()
def solve_grounded(conductance: Floats, flows: Floats, linked: Marks) -> Floats:
    """Return the potentials for each row of flows, that of position 1 being 0.

    Args:
        conductance: precision of the comparison of k and k', in one or both triangles
            (positions x positions).
        flows: what flows in at each position (rows x positions).
        linked: which positions are linked to the first; the others become NaN.
    """
    result = np.full(flows.shape, np.nan)
    result[:, 0] = 0.0
    both = conductance + conductance.T
    laplacian = np.diag(both.sum(axis=1)) - both
    free = np.flatnonzero(linked)[1:]
    if free.size:
        result[:, free] = np.linalg.solve(laplacian[np.ix_(free, free)], flows[:, free].T).T
    return result
