"""Functions that take a log take a frame of its events too, and find the same."""

import numpy as np
import polars as pl
import pytest

import prsrank
from prsrank.propensity.curve import PowerLaw


@pytest.fixture(scope="module")
def world():
    data = prsrank.synthetic_dataset("mq2007", 15, seed=4)
    model = prsrank.PositionBasedModel(eta=1.0)
    log = prsrank.simulate_clicks(
        data, data.features[:, 0], model, clicks=600, randomised=0.3, seed=4
    )
    log = prsrank.ClickLog.from_frame(log.to_frame())  # without docs that no session shows
    return data, log


TAKERS = {
    "hold_out": lambda log, data: prsrank.hold_out(log, share=0.3).training.clicks,
    "randomised": lambda log, data: prsrank.RandomisedEstimator().estimate(log).propensity,
    "regression_em": lambda log, data: prsrank.RegressionEM().estimate(log).propensity,
    "PairSet": lambda log, data: prsrank.PairSet.from_log(log, data, PowerLaw(1.0)).weights,
    "pairs": lambda log, data: prsrank.LinearRanker().pairs(log, data, PowerLaw(1.0)).weights,
    "posterior": lambda log, data: prsrank.posterior(log, data, PowerLaw(1.0)).theta,
    "evaluate_on_log": lambda log, data: np.array(
        prsrank.evaluate_on_log(log, data, PowerLaw(1.0), {"new": data.features[:, 1]})
        .to_frame()["value"]
        .to_numpy()
    ),
}


@pytest.mark.parametrize("name", TAKERS)
def test_a_frame_stands_for_its_log(world, name):
    data, log = world
    expected = TAKERS[name](log, data)
    assert len(expected)
    found = TAKERS[name](pl.DataFrame(log.to_frame()), data)
    assert np.array_equal(found, expected, equal_nan=True)
