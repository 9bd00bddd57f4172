"""Which docs were observed in the sessions of a simulated log."""

from dataclasses import dataclass

import numpy as np

from prsrank.clicks.models import Users
from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log import ClickLog
from prsrank.ragged import ragged_rows
from prsrank.types import Longs


@dataclass(frozen=True, eq=False)
class Observations:
    """One entry for each doc shown, session after session, in the order shown.

    Attributes:
        offsets: where each session's docs begin, and the end (sessions + 1).
        observed: whether the user examined the doc.
        clicked: whether the user clicked it; only if observed.
        relevant: whether the doc is relevant.
        positions: 1-based position at which it was shown.
    """

    offsets: Longs
    observed: np.ndarray[tuple[int], np.dtype[np.bool_]]
    clicked: np.ndarray[tuple[int], np.dtype[np.bool_]]
    relevant: np.ndarray[tuple[int], np.dtype[np.bool_]]
    positions: np.ndarray[tuple[int], np.dtype[np.int32]]


def simulate_observations(
    log: ClickLog, dataset: RankingDataset, model: Users, *, seed: int = 0
) -> Observations:
    r"""Draw which docs were observed, given the clicks of a simulated log.

    With p the examination probability of the position and c = p q that of a click, a clicked
    doc was observed, and a non-clicked one with P(observed | no click) = (p - c) / (1 - c).
    Clicks and observations together so have exactly the law of the model. Meant for small
    logs: the result has an entry for every doc shown in every session.

    Args:
        log: a log that `simulate_clicks` drew from this data set with this model.
        dataset: the data set.
        model: the position-based or the trust-bias model.
        seed: seed of the observations.

    >>> from prsrank.clicks.position_based import PositionBasedModel
    >>> from prsrank.clicks.simulate import simulate_clicks
    >>> data = RankingDataset(np.eye(3), np.array([0, 3]), labels=np.array([0, 0, 1]))
    >>> model = PositionBasedModel(eta=1, mu=0)
    >>> log = simulate_clicks(data, [0.1, 0.2, 0.9], model, sessions=2)
    >>> seen = simulate_observations(log, data, model)
    >>> seen.clicked.tolist(), seen.observed[[0, 3]].tolist()
    ([True, False, False, True, False, False], [True, True])
    """
    slots, offsets = ragged_rows(log.ranking_offsets, log.session_ranking)
    positions = log.ranking_positions[slots]
    relevant = dataset.relevance[log.doc_rows(dataset)[log.ranking_docs[slots]]].astype(np.int64)
    depth = log.max_position
    examined = model.examination(depth)[positions - 1]
    click = model.tables(depth).click[relevant, positions - 1]
    missed = np.maximum(1 - click, np.finfo(np.float64).tiny)
    observed = np.random.default_rng(seed).random(len(slots)) < (examined - click) / missed
    clicked = np.zeros(len(slots), bool)
    clicked[np.repeat(offsets[:-1], log.session_clicks) + log.clicks] = True
    return Observations(offsets, observed | clicked, clicked, relevant.astype(bool), positions)
