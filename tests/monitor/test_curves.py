"""Curves of windows beside one another."""

import numpy as np
import pytest

from prsrank import Propensities
from prsrank.monitor.ratios import Curve, power_between


def curve(eta, *, width=0.1, positions=10, clicks=100):
    p = np.arange(1, positions + 1.0) ** -eta
    low, high = p * np.exp(-width), p * np.exp(width)
    low[0] = high[0] = 1
    counts = np.full(positions, clicks)
    return Curve.of(Propensities(p, low, high, counts, "identified", "harvest"), positions)


@pytest.mark.parametrize("eta", [0.5, 1.0, 1.5])
def test_the_power_of_a_power_law_is_the_ratio_of_exponents(eta):
    found = power_between(curve(eta), curve(1.0))
    assert found.value == pytest.approx(eta)


def test_the_error_is_that_of_one_position_weighted():
    found = power_between(curve(1.0, width=0.196, positions=2), curve(1.0, width=0.0, positions=2))
    # one position alone: log p = -log 2 with a deviation of 0.1
    assert found.error == pytest.approx(0.1 / np.log(2))


def test_positions_that_few_clicks_carry_do_not_count():
    thin = Curve("harvest", [1.0, 0.5, 1e-6], [1.0, 0.4, 1e-7], [1.0, 0.6, 1e-5], [90, 40, 1])
    assert power_between(thin, curve(1.0)).value == pytest.approx(1.0)


def test_curves_without_a_common_position_have_no_power():
    unknown = Curve("harvest", [1.0, None], [1.0, None], [1.0, None], [9, 0])
    assert power_between(unknown, curve(1.0)) is None
    assert power_between(curve(1.0), unknown) is None
    assert power_between(curve(1.0), curve(0.0)) is None  # a flat one has no powers


def test_what_is_not_known_is_kept_as_none():
    p = [1.0, np.nan, 0.2]
    kept = Curve.of(Propensities(p, p, p, [3, 0, 1], "weak: ...", "file"), 2)
    assert (kept.method, kept.propensity, kept.clicks) == ("", [1.0, None], [3, 0])
