"""Clicks in LETOR files with costs, as Propensity SVM-Rank reads them.

A list is one session; a doc with a label above 0 was clicked, and its `cost:` is 1 / p of the
position at which it was shown. Positions are not in the file, nor the propensities of docs that
were not clicked: of the weightings, it has what IPS needs and no more.
"""

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.pairs.fold import PairDraft, SessionConstant
from prsrank.pairs.fold_kernels import CLIPPED, LARGEST, PAIRS, SQUARES, SUM
from prsrank.pairs.pair_set import PairSet, finished_pairs
from prsrank.ragged import list_of_row, ragged_rows
from prsrank.types import Floats


def pairs_of_costs(
    dataset: RankingDataset, *, against: str = "others", tau: float = 0.0
) -> PairSet:
    r"""Make pairs of a data set with costs: $W_{ij} = \min(cost_i, 1 / \tau)$ for clicked i.

    Args:
        dataset: what `read_letor` read, with labels and costs.
        against: "others": every other doc of the list, as Propensity SVM-Rank does;
            "non-clicked": those that were not clicked.
        tau: the least propensity of a click; 0 is no clip.

    Raises:
        InputError: if there are no costs, or a clicked doc has none or one that is not above 0.

    >>> data = RankingDataset(np.eye(3), np.array([0, 3]), labels=np.array([0, 1, 0]),
    ...     costs=np.array([np.nan, 4, np.nan]))
    >>> pairs_of_costs(data).weights.tolist(), pairs_of_costs(data, tau=0.5).weights.tolist()
    ([4.0, 0.0, 4.0], [2.0, 0.0, 2.0])
    """
    if against not in ("others", "non-clicked"):
        raise InputError(f"pairs are against 'non-clicked' or 'others', not {against!r}")
    if not 0 <= tau < np.inf:
        raise InputError(f"tau must be finite and at least 0, not {tau}")
    costs = _checked_costs(dataset)
    clicked = ~np.isnan(costs)
    draft = PairDraft.of(dataset.offsets, clicked)
    free = costs[clicked]
    given = np.minimum(free, 1 / tau) if tau > 0 else free
    lists = list_of_row(draft.winner_offsets)
    lengths = dataset.list_lengths[lists]
    losers, starts = ragged_rows(dataset.offsets, lists)
    counted = ~clicked[losers] if against == "non-clicked" else np.ones(len(losers), bool)
    counted[starts[:-1] + draft.winner_row] = False
    draft.weights[:] = np.repeat(given, lengths) * counted
    _add_totals(draft, np.repeat(lists, lengths), np.repeat(given < free, lengths))
    return finished_pairs(draft, dataset.query_ids, SessionConstant())


def _checked_costs(dataset: RankingDataset) -> Floats:
    """Return the cost of each clicked doc; NaN for the others."""
    if dataset.costs is None or dataset.labels is None:
        raise InputError("the data set has no costs (cost:VALUE after qid:ID on clicked lines)")
    clicked = dataset.labels > 0
    costs = np.where(clicked, dataset.costs, np.nan).astype(np.float64)
    bad = clicked & ~((costs > 0) & np.isfinite(costs))
    if bad.any():
        row = int(bad.argmax())
        query = dataset.query_ids[np.searchsorted(dataset.offsets, row, side="right") - 1]
        raise InputError(
            f"doc {dataset.doc_names[row]} of query {query} was clicked, but its cost is "
            f"{dataset.costs[row]}: it must be above 0"
        )
    return costs


def _add_totals(draft: PairDraft, lists: npt.NDArray, clipped: npt.NDArray) -> None:
    weights, count = draft.weights, len(draft.totals)
    there = weights > 0
    draft.totals[:, PAIRS] = np.bincount(lists, there, count)
    draft.totals[:, SUM] = np.bincount(lists, weights, count)
    draft.totals[:, SQUARES] = np.bincount(lists, weights**2, count)
    np.maximum.at(draft.totals[:, LARGEST], lists, weights)
    draft.totals[:, CLIPPED] = np.bincount(lists, there & clipped, count)
