import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.propensity.curve import PowerLaw
from prsrank.rankers.base import load_ranker
from prsrank.rankers.lambdamart import ndcg_of
from prsrank.rankers.lightgbm_position import LightGBMPosition, expand_sessions


@pytest.fixture(scope="module")
def lists() -> RankingDataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 3)).astype(np.float32)
    labels = rng.random(1500) < 1 / (1 + np.exp(1 - 3 * x[:, 0]))
    return RankingDataset(x, np.arange(0, 1501, 10), labels=labels)


def test_groups_are_the_sessions_with_clicks(lists: RankingDataset) -> None:
    log = simulate_clicks(lists, -lists.features[:, 0], PositionBasedModel(), clicks=800, seed=1)
    shown = expand_sessions(log, lists)
    begins = np.concatenate([[0], np.cumsum(shown.lengths)])[:-1]
    assert shown.counts[begins].sum() == np.count_nonzero(log.session_clicks)
    assert (shown.clicked * shown.counts).sum() == len(log.clicks)
    at = np.bincount(shown.positions, shown.clicked * shown.counts, log.max_position)
    np.testing.assert_array_equal(at, log.position_counts()[1])


def test_it_learns_against_the_bias(lists: RankingDataset, tmp_path) -> None:  # type: ignore[no-untyped-def]
    # the logged ranker orders docs the wrong way round
    log = simulate_clicks(
        lists, -0.3 * lists.features[:, 0], PositionBasedModel(eta=1), clicks=6000, seed=1
    )
    ranker = LightGBMPosition(trees=60, truncation=10).fit(lists, log, validation=lists)
    blind = LightGBMPosition(trees=60, truncation=10, regularisation=1e9).fit(lists, log)
    quality = ndcg_of(lists)
    assert quality(ranker.score(lists.features)) > quality(blind.score(lists.features))
    ranker.save(tmp_path / "model")
    again = load_ranker(tmp_path / "model")
    assert np.array_equal(again.score(lists.features), ranker.score(lists.features))


def test_propensities_are_refused(lists: RankingDataset) -> None:
    log = simulate_clicks(lists, lists.features[:, 0], PositionBasedModel(), clicks=50)
    with pytest.raises(InputError, match="learns its propensities"):
        LightGBMPosition().pairs(log, lists, PowerLaw(1.0))
