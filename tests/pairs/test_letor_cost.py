"""LETOR files with costs."""

import numpy as np
import pytest

from prsrank.data.dataset import RankingDataset
from prsrank.data.letor import read_letor
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.letor_cost import pairs_of_costs
from prsrank.pairs.pair_set import PairSet


@pytest.mark.parametrize(("against", "weighting"), [("others", "ips_all"), ("non-clicked", "ips")])
@pytest.mark.parametrize("tau", [0.0, 0.3])
def test_costs_are_ips_of_the_log_behind_them(tmp_path, against, weighting, tau):
    rng = np.random.default_rng(0)
    rows, text = [], ""
    for query in range(30):
        for place in range(1, int(rng.integers(2, 9))):
            click = rng.random() < 0.3
            rows.append((query, query, place, place, click, 1 / place))
            cost = f" cost:{place}" if click else ""
            text += f"{int(click)} qid:{query}{cost} 1:{rng.random():.3f} #docid = {place}\n"
    names = ("query_id", "session_id", "doc_id", "position", "click", "propensity")
    frame = {
        name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    file = tmp_path / "train.dat"
    file.write_text(text)
    data = read_letor(file)
    found = pairs_of_costs(data, against=against, tau=tau)
    expected = PairSet.from_log(
        ClickLog.from_frame(frame), data, None, weighting, parameters={"tau": tau}
    )
    np.testing.assert_array_equal(found.winner_row, expected.winner_row)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-6)
    np.testing.assert_allclose(found.totals, expected.totals, rtol=1e-6)


def test_wrong_costs_are_named():
    data = RankingDataset(np.eye(2), np.array([0, 2]), np.array([7]), labels=np.array([1, 0]))
    with pytest.raises(InputError, match="no costs"):
        pairs_of_costs(data)
    for cost in (np.nan, 0, -1, np.inf):
        bad = RankingDataset(
            np.eye(2), data.offsets, data.query_ids, data.labels, costs=np.array([cost, 1])
        )
        with pytest.raises(InputError, match="doc 0 of query 7 was clicked, but its cost is"):
            pairs_of_costs(bad)
    good = RankingDataset(
        np.eye(2), data.offsets, data.query_ids, data.labels, costs=np.array([2, np.nan])
    )
    with pytest.raises(InputError, match="against"):
        pairs_of_costs(good, against="all")
    with pytest.raises(InputError, match="tau"):
        pairs_of_costs(good, tau=-1)
