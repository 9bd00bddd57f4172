"""Click models: their formulas, by enumeration of everything a user can do."""

from itertools import product

import numpy as np
import pytest

from prsrank.clicks.cascade import CascadeModel
from prsrank.clicks.models import CLICK_MODELS, click_model
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.trust import TrustBiasModel
from prsrank.errors import InputError

RELEVANCE = np.array([1, 0, 1, 0, 1])
POSITIONS = np.arange(1, 6)


@pytest.mark.parametrize("eta", [0, 0.5, 2])
@pytest.mark.parametrize("mu", [0, 0.3])
def test_position_based_formula(eta, mu):
    expected = (1 / POSITIONS) ** eta * np.where(RELEVANCE, 1 - mu, mu)
    model = PositionBasedModel(eta=eta, mu=mu)
    np.testing.assert_allclose(model.click_probabilities(RELEVANCE, POSITIONS), expected)


def test_position_based_curve_and_gaps():
    model = PositionBasedModel(mu=0.1, curve=np.array([0.9, 0.5, 0.7, 0.2]))
    assert model.click_probabilities([1, 0], [2, 4]) == pytest.approx([0.45, 0.02])
    assert model == PositionBasedModel(mu=0.1, curve=[0.9, 0.5, 0.7, 0.2])
    with pytest.raises(InputError, match="covers 4 positions, but 5 are shown"):
        model.click_probabilities([1], [5])


@pytest.mark.parametrize(
    "model",
    [
        CascadeModel(),
        CascadeModel(mu=0.3, satisfaction=(0.2, 0.6), gamma=0.7),
        CascadeModel(mu=0, satisfaction=(1, 1), gamma=1),
        CascadeModel(satisfaction=(0, 0), gamma=0),
    ],
)
def test_cascade_marginals_by_enumeration(model, cascade_pattern_probability):
    patterns = np.array(list(product([0, 1], repeat=5)))
    chances = np.array([cascade_pattern_probability(model, RELEVANCE, p) for p in patterns])
    assert chances.sum() == pytest.approx(1)
    expected = chances @ patterns
    np.testing.assert_allclose(
        model.click_probabilities(RELEVANCE, POSITIONS), expected, atol=1e-15
    )


def test_trust_formula_and_its_limit():
    model = TrustBiasModel(eta=0.5, mu=0.2, trust=0.6)
    trusting = 0.6 / POSITIONS
    noise = np.where(RELEVANCE, 0.8 + trusting * 0.2, 0.2 + trusting * 0.8)
    got = model.click_probabilities(RELEVANCE, POSITIONS)
    np.testing.assert_allclose(got, POSITIONS**-0.5 * noise)
    plain = PositionBasedModel(eta=0.5, mu=0.2).click_probabilities(RELEVANCE, POSITIONS)
    none = TrustBiasModel(eta=0.5, mu=0.2, trust=0)
    np.testing.assert_allclose(none.click_probabilities(RELEVANCE, POSITIONS), plain)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("position-based", {"eta": -1}),
        ("position-based", {"eta": np.inf}),
        ("position-based", {"eta": np.nan}),
        ("position-based", {"mu": 0.5}),
        ("position-based", {"mu": -0.1}),
        ("position-based", {"mu": np.nan}),
        ("position-based", {"curve": [1, 1.5]}),
        ("position-based", {"curve": []}),
        ("position-based", {"cutoff": 0}),
        ("position-based", {"no_such": 1}),
        ("cascade", {"gamma": 1.1}),
        ("cascade", {"satisfaction": (0.1, -1)}),
        ("cascade", {"eta": 1}),
        ("cascade", {"satisfaction": (0.1,)}),
        ("trust", {"trust": 2}),
        ("trust", {"eps_relevant": [1.2]}),
        ("trust", {"eps_irrelevant": []}),
        ("nobody", {}),
    ],
)
def test_bad_parameters(name, parameters):
    with pytest.raises(InputError):
        click_model(name, **parameters)


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_every_model(name):
    model = click_model(name, mu=0.2, cutoff=3)
    assert model.cutoff == 3
    assert hash(model) == hash(click_model(name, mu=0.2, cutoff=3))
    relevant = model.click_probabilities([1], [1])
    assert relevant > model.click_probabilities([0], [1])
    assert len(model.click_probabilities([], [])) == 0
    for relevance, positions in (([2], [1]), ([1], [0]), ([1, 1], [2, 1]), ([1], [1, 2])):
        with pytest.raises(InputError):
            model.click_probabilities(relevance, positions)
