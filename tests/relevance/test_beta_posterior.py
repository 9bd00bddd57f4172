from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln
from scipy.stats import beta as beta_distribution

from prsrank.clicks.evidence import ClickEvidence
from prsrank.errors import InputError
from prsrank.relevance.beta_posterior import beta_posterior, most_likely_strength


def evidence_of(seed: int, docs: int = 60, most: float = 4.0) -> ClickEvidence:
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 4, docs)
    offsets = np.concatenate([[0], np.cumsum(cells)])
    size = offsets[-1]
    gain = rng.choice([1.0, 0.5, 0.1, 0.01], size)
    floor = np.where(rng.random(size) < 0.3, rng.uniform(0, 0.3, size) * (1 - gain), 0.0)
    shown = np.floor(10 ** rng.uniform(0, most, size)).astype(int)
    theta = np.repeat(rng.choice([0.001, 0.1, 0.5, 0.9, 0.999], docs), cells)
    below = np.where(rng.random(size) < 0.4, rng.uniform(0.01, 1, size), 1.0)
    p = floor + gain * theta
    clicked = rng.binomial(shown, p / (p + (1 - p) * below))
    return ClickEvidence.of(
        offsets, shown=shown, clicked=clicked, gain=gain, floor=floor, below=below
    )


def by_quadrature(evidence: ClickEvidence, doc: int, q: float, a: float) -> tuple[float, ...]:
    """Mean, P(theta < low), log marginal: by scipy, in z = logit(theta)."""
    cells = slice(evidence.offsets[doc], evidence.offsets[doc + 1])
    n, shown = evidence.clicked[cells], evidence.shown[cells]
    gain, floor, below = (x[cells] for x in (evidence.gain, evidence.floor, evidence.below))

    def height(z: float) -> float:
        theta, rest = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(z))
        value = -a * q * np.logaddexp(0, -z) - a * (1 - q) * np.logaddexp(0, z)
        p, no_click = floor + gain * theta, 1 - floor - gain + gain * rest
        value += (n * np.log(p)).sum() + ((shown - n) * np.log(no_click * below)).sum()
        return float(value - (shown * np.log(p + no_click * below)).sum())

    grid = np.linspace(-60, 60, 24_001)
    top_at = grid[np.argmax([height(z) for z in grid])]
    top = height(top_at)
    near = np.clip(top_at + np.array([-5, -1, -0.2, 0, 0.2, 1, 5]), -60, 60)
    # tails fall as slowly as exp(-a min(q, 1 - q) |z|)
    points = sorted({-400.0, -60.0, 60.0, 400.0, *near})

    def total(f) -> float:  # type: ignore[no-untyped-def]
        return sum(
            quad(lambda z: f(z) * np.exp(height(z) - top), lo, hi, epsabs=1e-13, limit=400)[0]
            for lo, hi in pairwise(points)
        )

    mass = total(lambda z: 1.0)
    mean = total(lambda z: 1 / (1 + np.exp(-z))) / mass
    return mean, np.log(mass) + top - betaln(a * q, a * (1 - q))


@pytest.mark.parametrize("strength", [0.6, 3.0, 60.0])
def test_mean_and_marginal_are_those_of_quadrature(strength: float) -> None:
    evidence = evidence_of(1)
    q = np.random.default_rng(2).choice([0.3, 0.5, 0.8], evidence.docs)
    found = beta_posterior(evidence, q, strength=strength)
    heights = beta_posterior(evidence, q, strength=strength).log_marginal
    for doc in range(0, evidence.docs, 4):
        mean, height = by_quadrature(evidence, doc, q[doc], strength)
        assert found.mean[doc] == pytest.approx(mean, abs=1e-6)
        assert heights[doc] == pytest.approx(height, abs=1e-3)


@pytest.mark.parametrize("strength", [0.05, 0.7, 5.0, 200.0])
@pytest.mark.parametrize("q", [1e-4, 0.02, 0.5, 0.97])
def test_certain_looks_give_the_beta_distribution(q: float, strength: float) -> None:
    # at propensity 1 the posterior is Beta(a q + n, a (1 - q) + N - n), tails and all
    n, shown = np.array([0, 0, 1, 7, 0, 3000]), np.array([0, 1, 1, 9, 5000, 5000])
    evidence = ClickEvidence.of(
        np.arange(7), shown=shown, clicked=n, gain=np.ones(6), floor=np.zeros(6)
    )
    found = beta_posterior(evidence, np.full(6, q), strength=strength)
    exact = beta_distribution(strength * q + n, strength * (1 - q) + shown - n)
    np.testing.assert_allclose(found.mean, exact.mean(), atol=1e-6)
    np.testing.assert_allclose(found.low, exact.ppf(0.025), atol=1e-4)
    np.testing.assert_allclose(found.high, exact.ppf(0.975), atol=1e-4)
    marginal = betaln(strength * q + n, strength * (1 - q) + shown - n)
    marginal -= betaln(strength * q, strength * (1 - q))
    np.testing.assert_allclose(
        beta_posterior(evidence, np.full(6, q), strength=strength).log_marginal, marginal, atol=5e-3
    )


def test_strength_and_coverage_where_the_model_is_right() -> None:
    rng = np.random.default_rng(4)
    docs, strength = 6000, 3.0
    q = rng.uniform(0.05, 0.7, docs)
    theta = rng.beta(strength * q, strength * (1 - q))
    shown, gain = rng.integers(1, 60, docs), 1.0 / rng.integers(1, 20, docs)
    evidence = ClickEvidence.of(
        np.arange(docs + 1),
        shown=shown,
        clicked=rng.binomial(shown, gain * theta),
        gain=gain,
        floor=np.zeros(docs),
    )
    assert most_likely_strength(evidence, q) == pytest.approx(strength, rel=0.15)
    found = beta_posterior(evidence, q)
    inside = (found.low <= theta) & (theta <= found.high)
    assert inside.mean() == pytest.approx(0.95, abs=0.012)
    assert ((found.mean - theta) ** 2).mean() < ((q - theta) ** 2).mean()


def test_many_clicks_overrule_the_prior_and_none_leave_it() -> None:
    evidence = ClickEvidence.of(
        [0, 1, 1], shown=[1_000_000], clicked=[70_000], gain=[0.1], floor=[0.0]
    )
    found = beta_posterior(evidence, [0.05, 0.05], strength=10.0)
    np.testing.assert_allclose(found.mean, [0.7, 0.05], atol=1e-3)
    assert found.high[0] - found.low[0] < 0.02


def test_threads_change_nothing() -> None:
    evidence = evidence_of(5, docs=3000, most=3.0)
    q = np.random.default_rng(5).uniform(0.01, 0.9, evidence.docs)
    one, two = (beta_posterior(evidence, q, threads=t) for t in (1, 2))
    assert one.strength == two.strength
    assert np.array_equal(one.mean, two.mean)
    assert np.array_equal(one.low, two.low)


def test_a_prior_of_0_or_1_is_refused() -> None:
    evidence = ClickEvidence.of([0, 0], shown=[], clicked=[], gain=[], floor=[])
    with pytest.raises(InputError, match="between 0 and 1"):
        beta_posterior(evidence, [1.0], strength=1.0)
