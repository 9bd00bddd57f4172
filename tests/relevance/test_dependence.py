import math
from collections import defaultdict

import numpy as np
import pytest

from prsrank.clicks.cascade import CascadeModel
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.clicks.trust import TrustBiasModel
from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log import ClickLog
from prsrank.relevance import dependence
from prsrank.relevance.dependence import dependence_of_clicks, dependence_statistic


@pytest.fixture(scope="module")
def lists() -> RankingDataset:
    rng = np.random.default_rng(0)
    labels = rng.random(1200) < 0.3
    return RankingDataset(np.zeros((1200, 1)), np.arange(0, 1201, 12), labels=labels)


def log_of(lists: RankingDataset, model: object, clicks: int, seed: int = 0) -> ClickLog:
    rng = np.random.default_rng(seed)
    scores = [lists.relevance + rng.normal(size=lists.docs) for _ in range(2)]
    return simulate_clicks(lists, scores, model, clicks=clicks, seed=seed)  # type: ignore[arg-type]


def by_definition(log: ClickLog, lists: RankingDataset) -> np.ndarray:
    cells = defaultdict(list)
    rows, offsets = log.doc_rows(lists)[log.ranking_docs], log.ranking_offsets
    for session in range(log.sessions):
        ranking = log.session_ranking[session]
        own = log.clicks[log.click_offsets[session] : log.click_offsets[session + 1]].tolist()
        for index in range(offsets[ranking + 1] - offsets[ranking]):
            above = [click for click in own if click < index]
            slot = offsets[ranking] + index
            x = math.log(index - above[-1]) if above else None
            cells[rows[slot], log.ranking_positions[slot]].append((index in own, x))
    found = np.zeros((2, lists.lists))
    for (row, _), seen in cells.items():
        y = np.array([click for click, _ in seen], float)
        a = np.array([x is not None for _, x in seen], float)
        x = np.array([0.0 if far is None else far for _, far in seen])
        owner = np.searchsorted(lists.offsets, row, side="right") - 1
        found[0, owner] += (y * a).sum() - a.sum() * y.sum() / len(y)
        if a.any():
            found[1, owner] += (a * y * x).sum() - (a * x).sum() * (a * y).sum() / a.sum()
    return found


def test_sums_are_those_of_the_definition(lists: RankingDataset) -> None:
    log = log_of(lists, CascadeModel(), 700)
    np.testing.assert_allclose(
        dependence_of_clicks(log, lists), by_definition(log, lists), atol=1e-9
    )


@pytest.mark.parametrize("model", [PositionBasedModel(eta=1), TrustBiasModel(eta=1)])
def test_independent_clicks_give_chi_squared(lists: RankingDataset, model: object) -> None:
    found = [
        dependence_statistic(dependence_of_clicks(log_of(lists, model, 1500, seed), lists))
        for seed in range(60)
    ]
    assert np.mean(found) == pytest.approx(2, abs=0.8)  # its expectation; its spread is 2 too
    assert max(found) < 13.8


@pytest.mark.parametrize(
    "model",
    [CascadeModel(), CascadeModel(satisfaction=(1, 1), gamma=1), CascadeModel(satisfaction=(0, 0))],
)
def test_users_who_read_from_the_top_are_found(lists: RankingDataset, model: object) -> None:
    by_list = dependence_of_clicks(log_of(lists, model, 1500), lists)
    assert dependence_statistic(by_list) > 13.8


def test_some_sessions_of_a_ranking_are_enough(lists: RankingDataset) -> None:
    log = log_of(lists, CascadeModel(), 60_000)
    assert np.bincount(log.session_ranking).min() > dependence._SESSIONS_OF_RANKING
    first = [np.flatnonzero(log.session_ranking == r)[:64] for r in range(log.rankings)]
    few = log.select(np.sort(np.concatenate(first)))
    np.testing.assert_allclose(dependence_of_clicks(log, lists), dependence_of_clicks(few, lists))
