"""What features add to scores."""

import numpy as np
import pytest

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.base import make_ranker
from prsrank.report.explorer_contributions import contributions, most_used


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 5))
    features[rng.random(features.shape) < 0.1] = np.nan
    labels = np.nan_to_num(features[:, 0] + features[:, 1]) > 0.5
    return RankingDataset(features, np.arange(0, 301, 10), labels=labels)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("linear", {"missing": "impute"}), ("lambdamart", {"trees": 8, "min_docs": 5})],
)
def test_they_add_up_to_the_score_but_for_a_constant(data, name, settings):
    kind = make_ranker(name, None, {})[0]
    ranker, _, _ = make_ranker(name, None, kind.accepted(**settings))
    ranker.fit(data, PairSet.from_labels(data, **ranker.pair_options))
    found = contributions(ranker, data.features)
    assert found.shape == data.features.shape
    scores = ranker.score(data.features)
    assert np.ptp(scores) > 0.1
    assert np.ptp(scores - found.sum(axis=1)) < 1e-6 * np.ptp(scores)
    assert set(most_used(found, 2)) == {0, 1}


def test_a_ranker_that_cannot_be_laid_open_has_none():
    class Closed:
        def scorer(self):
            raise InputError("no export")

    assert contributions(Closed(), np.zeros((2, 3))) is None
