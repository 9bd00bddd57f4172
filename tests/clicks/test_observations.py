"""Observations, and their law given the clicks."""

import numpy as np
import pytest

from prsrank.clicks.cascade import CascadeModel
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks, simulate_observations
from prsrank.clicks.trust import TrustBiasModel
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError

DATA = RankingDataset(np.eye(7), [0, 4, 7], labels=[1, 0, 1, 0, 0, 1, 0])
SCORES = [4, 3, 2, 1, 3, 2, 1]


@pytest.mark.parametrize(
    "model", [PositionBasedModel(eta=0.7, mu=0.2), PositionBasedModel(mu=0), TrustBiasModel()]
)
@pytest.mark.parametrize("randomised", [0, 0.5])
def test_joint_law_of_clicks_and_observations(model, randomised):
    log = simulate_clicks(DATA, SCORES, model, sessions=40_000, randomised=randomised)
    seen = simulate_observations(log, DATA, model, seed=1)
    assert seen.observed[seen.clicked].all()
    assert seen.clicked.sum() == len(log.clicks)
    for position in range(1, 5):
        for relevant in (False, True):
            here = (seen.positions == position) & (seen.relevant == relevant)
            if not here.any():
                continue
            count, examined = here.sum(), model.examination(4)[position - 1]
            click = model.click_probabilities([relevant], [position])[0]
            for cases, chance in (
                (seen.observed, examined),
                (seen.clicked, click),
                (seen.observed & ~seen.clicked, examined - click),
            ):
                spread = np.sqrt(count * chance * (1 - chance))
                assert abs((cases & here).sum() - count * chance) <= 4.5 * spread + 1e-6


def test_observations_of_one_session_are_independent():
    model = PositionBasedModel(eta=0.5, mu=0.1)
    data = DATA.select([0])
    log = simulate_clicks(data, SCORES[:4], model, sessions=30_000)
    observed = simulate_observations(log, data, model).observed.reshape(-1, 4)
    correlation = np.corrcoef(observed[:, 1:].T) - np.eye(3)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(30_000)


def test_shapes_follow_the_sessions():
    log = simulate_clicks(DATA, SCORES, PositionBasedModel(cutoff=3), sessions=10)
    seen = simulate_observations(log, DATA, PositionBasedModel(cutoff=3))
    assert np.diff(seen.offsets).tolist() == [3] * 10
    assert seen.positions.tolist() == [1, 2, 3] * 10
    sessions = np.split(seen.clicked, seen.offsets[1:-1])
    assert [s.sum() for s in sessions] == log.session_clicks.tolist()


def test_a_model_without_examination():
    log = simulate_clicks(DATA, SCORES, CascadeModel(), sessions=10)
    with pytest.raises(InputError, match="CascadeModel"):
        simulate_observations(log, DATA, CascadeModel())
