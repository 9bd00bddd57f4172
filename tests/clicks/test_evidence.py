import numpy as np
import pytest

from prsrank.clicks.cascade import CascadeModel
from prsrank.clicks.evidence import ClickEvidence
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.trust import TrustBiasModel
from prsrank.errors import InputError


def click_evidence_definition(evidence: ClickEvidence, logit: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return log L, and what `gradient` returns, by their formulas in plain NumPy."""
    theta = (1 / (1 + np.exp(-logit)))[evidence.cell_docs]
    n, shown = evidence.clicked, evidence.shown
    p = np.clip(evidence.floor + evidence.gain * theta, 1e-12, 1 - 1e-12)
    slope = evidence.gain * theta * (1 - theta)
    given = p / (p + (1 - p) * evidence.below)  # given a click here or below
    turn = slope * evidence.below / (p + (1 - p) * evidence.below) ** 2  # its derivative
    height = n * np.log(given) + (shown - n) * np.log(1 - given)
    first = -(n - shown * given) * turn / (given * (1 - given))
    second = shown * turn**2 / (given * (1 - given))
    return evidence.sums(height), evidence.sums(first), evidence.sums(second)


def evidence_of(model: object, *, docs: int = 40, seed: int = 0) -> ClickEvidence:
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 4, docs)
    offsets = np.concatenate([[0], np.cumsum(cells)])
    positions = rng.integers(1, 12, offsets[-1])
    affine = model.affine(positions, 1.0 / positions)  # type: ignore[attr-defined]
    shown = rng.integers(1, 50, offsets[-1])
    clicked = rng.binomial(shown, 0.4 * (affine.gain + affine.floor))
    below = rng.uniform(0.05, 1, offsets[-1]) if model is BELOW else None
    return ClickEvidence.of(
        offsets, shown=shown, clicked=clicked, gain=affine.gain, floor=affine.floor, below=below
    )


BELOW = PositionBasedModel()
"""Stands for impressions that are counted only in sessions with a click at or below them."""
TRUST = TrustBiasModel(eps_relevant=[1.0, 0.95, 0.9], eps_irrelevant=[0.5, 0.3, 0.1])
MODELS = [PositionBasedModel(), TRUST, BELOW]


@pytest.mark.parametrize("model", MODELS)
def test_kernels_equal_the_definition(model: object) -> None:
    evidence = evidence_of(model)
    logit = np.random.default_rng(1).normal(size=evidence.docs) * 2
    height, slope, curvature = click_evidence_definition(evidence, logit)
    np.testing.assert_allclose(evidence.log_likelihood(1 / (1 + np.exp(-logit))), height, rtol=1e-9)
    for got, expected in zip(evidence.gradient(logit), (slope, curvature), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_gradient_is_the_finite_difference(model: object) -> None:
    evidence, step = evidence_of(model), 1e-5
    logit = np.random.default_rng(2).normal(size=evidence.docs)

    def height(at: np.ndarray) -> np.ndarray:
        return evidence.log_likelihood(1 / (1 + np.exp(-at)))

    expected = -(height(logit + step) - height(logit - step)) / (2 * step)
    np.testing.assert_allclose(evidence.gradient(logit)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_curvature_is_the_expected_square_of_the_slope(model: object) -> None:
    # Fisher's identity: the variance of the slope over clicks that the model itself draws
    evidence = evidence_of(model, docs=6)
    rng = np.random.default_rng(3)
    logit = rng.normal(size=evidence.docs)
    theta = 1 / (1 + np.exp(-logit))
    p = evidence.floor + evidence.gain * theta[evidence.cell_docs]
    p = p / (p + (1 - p) * evidence.below)
    slopes = []
    for _ in range(4000):
        drawn = rng.binomial(evidence.shown.astype(int), p)
        again = ClickEvidence.of(
            evidence.offsets,
            shown=evidence.shown,
            clicked=drawn,
            gain=evidence.gain,
            floor=evidence.floor,
            below=evidence.below,
        )
        slopes.append(again.gradient(logit)[0])
    variance = np.var(slopes, axis=0)
    np.testing.assert_allclose(variance, evidence.gradient(logit)[1], rtol=0.12, atol=1e-9)


def test_base_rate_is_the_theta_that_makes_as_many_clicks_as_there_are() -> None:
    rng = np.random.default_rng(5)
    shown, below = rng.integers(50, 90, 400), rng.uniform(0.1, 1, 400)
    given = 0.3 / (0.3 + 0.7 * below)
    evidence = ClickEvidence.of(
        np.arange(401),
        shown=shown,
        clicked=shown * given,
        gain=np.ones(400),
        floor=np.zeros(400),
        below=below,
    )
    assert evidence.base_rate() == pytest.approx(0.3, abs=1e-4)


def test_models_give_the_click_probabilities_of_the_simulator() -> None:
    positions = np.arange(1, 6)
    curve = 1.0 / positions
    relevance = np.array([1, 0, 1, 0, 1])
    position = PositionBasedModel(eta=1, mu=0.1)
    affine = PositionBasedModel().affine(positions, curve)
    theta = np.where(relevance > 0, 0.9, 0.1)
    np.testing.assert_allclose(
        affine.floor + affine.gain * theta, position.click_probabilities(relevance, positions)
    )
    trust, t = TrustBiasModel(eta=1, mu=0.1, trust=0.5), 0.5 / positions
    by_noise = TrustBiasModel(eps_relevant=0.9 + t * 0.1, eps_irrelevant=0.1 + t * 0.9)
    for model in (trust, by_noise):
        affine = model.affine(positions, curve)
        np.testing.assert_allclose(
            affine.floor + affine.gain * relevance, trust.click_probabilities(relevance, positions)
        )


def test_the_noise_of_the_last_position_goes_on() -> None:
    affine = TRUST.affine(np.array([3, 9]), np.array([0.5, 0.5]))
    np.testing.assert_allclose(affine.floor, [0.05, 0.05])
    np.testing.assert_allclose(affine.gain, [0.4, 0.4])


def test_dependent_clicks_have_no_likelihood_by_counts_of_positions() -> None:
    with pytest.raises(InputError, match="depend on the clicks above"):
        CascadeModel().affine(np.array([1]), np.array([1.0]))


def test_a_click_where_nothing_is_seen_is_refused() -> None:
    with pytest.raises(InputError, match="propensity is 0"):
        ClickEvidence.of([0, 1], shown=[2], clicked=[1], gain=[0.0], floor=[0.0])


def test_noise_the_wrong_way_round_is_refused() -> None:
    with pytest.raises(InputError, match="above"):
        TrustBiasModel(eps_relevant=[0.1], eps_irrelevant=[0.5]).affine(
            np.array([1]), np.array([1.0])
        )


def test_threads_change_nothing() -> None:
    evidence = evidence_of(MODELS[0], docs=30_000)
    logit = np.random.default_rng(1).normal(size=evidence.docs)
    one, two = evidence.gradient(logit, threads=1), evidence.gradient(logit, threads=2)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_without_docs_is_as_if_they_had_never_been_shown() -> None:
    evidence, logit = (
        evidence_of(TrustBiasModel(eps_relevant=[1.0], eps_irrelevant=[0.2])),
        np.linspace(-2, 2, 40),
    )
    left_out = np.arange(40) % 3 == 0
    _, first, second = click_evidence_definition(evidence, logit)
    found = evidence.without(left_out).gradient(logit)
    assert found[0] == pytest.approx(np.where(left_out, 0, first))
    assert found[1] == pytest.approx(np.where(left_out, 0, second))
    assert first[left_out].any()
